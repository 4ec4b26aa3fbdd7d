"""Entmax losses of rows of scores."""
