//! oneflow-ops.
