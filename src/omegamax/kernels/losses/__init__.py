"""Entmax losses of rows, which store a threshold for each row and no probabilities."""

OPS = {"triton": ("entmax_loss", "entmax_loss_vjp")}
