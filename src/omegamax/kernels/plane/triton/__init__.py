"""Expectations over the plane under weights on a GPU."""
