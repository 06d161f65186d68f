"""What writes ONNX models: a module is traced to its logical graph (`_trace/logical.py`), at several sizes where some
are to stay open, and each node becomes nodes of ONNX by the rule of its op (`rules/`), through `builder.py`.
"""
