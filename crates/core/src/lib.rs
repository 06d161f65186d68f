//! oneflow-core.
