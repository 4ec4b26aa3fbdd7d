"""The commands of ``omegamax lm``, one file for each."""
