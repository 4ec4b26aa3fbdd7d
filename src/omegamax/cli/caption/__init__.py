"""The commands of ``omegamax caption``, one file for each."""
