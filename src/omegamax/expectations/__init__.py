"""Expectations of basis functions under densities: one dispatcher, one file for each rule."""

from omegamax.expectations import _fourier as _fourier
from omegamax.expectations import _gaussian_rbf as _gaussian_rbf
from omegamax.expectations import _laplace as _laplace
from omegamax.expectations import _location_scale as _location_scale
from omegamax.expectations import _paraboloid as _paraboloid
from omegamax.expectations import _polynomial as _polynomial
from omegamax.expectations import _product as _product
from omegamax.expectations import _rectangles as _rectangles
from omegamax.expectations._dispatch import expect as expect
from omegamax.expectations._product import product_nodes as product_nodes
