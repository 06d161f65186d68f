//! One direction of one recurrent layer: the whole sequence in one op, and its backward. And all layers in one (`rnn_stack`), for
//! libraries that run them so.
//!
//! A layer: the input's part of the gates is a product outside, and so are the gradients of the weights; layers, directions and
//! dropout between layers are composed above. Float32 and float64 only: halves are cast by the callers.

pub mod rnn_layer;
pub mod rnn_stack;
mod stack_layers;
mod steps;

use crate::prelude::*;

pub fn mode_of(text: &str) -> Result<RnnMode> {
    match text {
        "RNN_TANH" => Ok(RnnMode::Tanh),
        "RNN_RELU" => Ok(RnnMode::Relu),
        "LSTM" => Ok(RnnMode::Lstm),
        "GRU" => Ok(RnnMode::Gru),
        other => Err(Error::value(format!("Unrecognized RNN mode: {other}"))),
    }
}

/// Tensors [t, b, width], or packed: the rows of one step after the other.
#[derive(Clone, Copy)]
pub struct Steps<'a> {
    /// Rows of each step where they differ; empty otherwise.
    pub packed: &'a [i64],
    pub reverse: bool,
}

impl Steps<'_> {
    pub fn count(&self, seq: &Tensor) -> usize {
        if self.packed.is_empty() { seq.sizes()[0] as usize } else { self.packed.len() }
    }
    /// Rows of a step of a batch of `batch`.
    pub fn rows(&self, step: usize, batch: i64) -> i64 {
        self.packed.get(step).copied().unwrap_or(batch)
    }
    /// The rows of a step, [rows, width].
    pub fn get(&self, seq: &Tensor, step: usize) -> Result<Tensor> {
        if self.packed.is_empty() {
            return seq.select(0, step as i64);
        }
        let start = self.packed[..step].iter().sum();
        seq.narrow(0, start, self.packed[step])
    }
    /// The sequence of these steps.
    pub fn join(&self, steps: &[Tensor]) -> Result<Tensor> {
        if self.packed.is_empty() { f::stack(steps, 0) } else { f::cat(steps, 0) }
    }
    /// The step computed `i`-th of `n`.
    pub fn order(&self, i: usize, n: usize) -> usize {
        if self.reverse { n - 1 - i } else { i }
    }

    /// What h was before every step: the h after the step before it, or the first.
    pub fn before(&self, y: &Tensor, h_0: &Tensor) -> Result<Tensor> {
        let n = self.count(y);
        if self.packed.is_empty() {
            // In the order of memory, so that the rows of the result are a matrix without a copy.
            let (y, dim) = if batch_first(y) { (y.transpose(0, 1)?, 1) } else { (y.clone(), 0) };
            let first = h_0.unsqueeze(dim)?;
            let others = y.narrow(dim, self.reverse as i64, n as i64 - 1)?;
            let parts = if self.reverse { [&others, &first] } else { [&first, &others] };
            let all = f::cat(parts, dim)?;
            return if dim == 1 { all.transpose(0, 1) } else { Ok(all) };
        }
        let mut parts = Vec::new();
        for step in 0..n {
            let rows = self.packed[step];
            let other = if self.reverse { Some(step + 1).filter(|s| *s < n) } else { step.checked_sub(1) };
            let known = match other {
                Some(o) => {
                    let h = self.get(y, o)?;
                    let known = rows.min(h.sizes()[0]);
                    parts.push(h.narrow(0, 0, known)?);
                    known
                }
                None => 0,
            };
            if known < rows {
                parts.push(h_0.narrow(0, known, rows - known)?);
            }
        }
        f::cat(&parts, 0)
    }
}

/// Whether the steps of a batch item lie nearer to each other than the items of a step.
pub fn batch_first(seq: &Tensor) -> bool {
    seq.ndim() == 3 && seq.sizes()[0] > 1 && seq.sizes()[1] > 1 && seq.strides()[0] < seq.strides()[1]
}

/// A sequence as a matrix of rows, in the order of its memory.
pub fn as_rows(seq: &Tensor) -> Result<Tensor> {
    let width = *seq.sizes().last().unwrap_or(&1);
    let seq = if batch_first(seq) { seq.transpose(0, 1)? } else { seq.clone() };
    let rows = seq.sizes()[..seq.ndim() - 1].iter().product();
    seq.reshape(&[rows, width])
}
