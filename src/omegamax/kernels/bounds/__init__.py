"""Maps of rows onto a simplex with bounds (k-subsets, boxes, capped softmax) and their vector-Jacobian products."""
