"""What reads ONNX models: a parsed model (`model.py`) becomes a module (`module.py`) that runs its nodes
(`execution.py`) by the handlers of their ops, which stand in one file for each family and are found through
`registry.py`.

Nothing here parses bytes: the compiled half of the package does.
"""
