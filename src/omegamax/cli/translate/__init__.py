"""The commands of ``omegamax translate``, one file for each."""
