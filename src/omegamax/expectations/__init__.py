"""Expectations of basis functions under densities: one dispatcher, one file for each rule."""

from omegamax.expectations import _gaussian_rbf as _gaussian_rbf
from omegamax.expectations._dispatch import expect as expect
