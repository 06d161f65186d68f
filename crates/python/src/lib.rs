//! oneflow-python.
