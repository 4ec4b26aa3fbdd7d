"""Expectations of Gaussian functions on a GPU."""
