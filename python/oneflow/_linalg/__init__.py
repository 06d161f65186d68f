"""Linear algebra written in Python: decompositions, products and roots of matrices."""
