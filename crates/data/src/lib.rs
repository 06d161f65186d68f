//! oneflow-data.
