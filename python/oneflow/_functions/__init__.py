"""Public functions of the package that are written in Python, a file for each family."""
