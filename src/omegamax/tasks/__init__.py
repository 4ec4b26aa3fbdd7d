"""Data, a model and its numbers, put together: what the commands run. Needs ``pip install omegamax[train]``."""
