"""Expectation-maximisation on a GPU."""
