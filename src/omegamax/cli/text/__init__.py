"""The commands of ``omegamax text``, one file for each."""
