"""Maps of rows onto the simplex (softmax, sparsemax, entmax, normmax) and their vector-Jacobian products."""
