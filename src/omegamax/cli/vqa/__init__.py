"""The commands of ``omegamax vqa``, one file for each."""
