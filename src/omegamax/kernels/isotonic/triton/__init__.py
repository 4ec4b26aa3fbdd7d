"""Triton kernel of isotonic regression, and the function that launches it."""
