//! A compiled program behind HTTP, without Python.
//!
//! - `batch`: rows of many requests through one run of the program.
//! - `failure`: what a request that failed is told.
//! - `generate`: text from a program that predicts the next byte.
//! - `http`: requests and answers; starts and stops the rest.
//! - `tables`: inputs that are rows of embedding tables, looked up by ids.
//! - `value`: JSON to tensors and back.

mod batch;
mod failure;
mod generate;
mod http;
mod tables;
mod value;

pub use batch::{Batcher, Limits};
pub use http::Service;
pub use tables::{Follower, Tables};
