"""The commands of ``omegamax mil``, one file for each."""
