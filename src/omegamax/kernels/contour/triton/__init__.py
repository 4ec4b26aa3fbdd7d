"""The contour integral on a GPU."""
