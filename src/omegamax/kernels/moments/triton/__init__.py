"""Moments of points under weights on a GPU."""
