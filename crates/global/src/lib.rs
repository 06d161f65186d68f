//! oneflow-global.
