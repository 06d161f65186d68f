//! oneflow-runtime.
