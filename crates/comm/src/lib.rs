//! oneflow-comm.
