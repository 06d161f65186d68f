//! oneflow-graph.
