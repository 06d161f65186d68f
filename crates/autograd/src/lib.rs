//! oneflow-autograd.
