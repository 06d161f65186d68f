//! The optimizers: how a gradient changes a row. One pass over weights and state; the formulas are PyTorch's, in its order.
//!
//! A rule touches rows that have a gradient, and no others: momenta of other rows do not decay meanwhile.

use oneflow_base::{Error, Result};

/// An optimizer and its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    Sgd {
        momentum: f32,
        dampening: f32,
        nesterov: bool,
        weight_decay: f32,
        maximize: bool,
    },
    /// `decoupled`: AdamW. `bias_correction`: divides by one minus the powers of the betas.
    Adam {
        betas: [f64; 2],
        eps: f32,
        weight_decay: f32,
        decoupled: bool,
        bias_correction: bool,
        maximize: bool,
    },
    Adagrad {
        eps: f32,
        weight_decay: f32,
        initial: f32,
        maximize: bool,
    },
    /// One accumulator a row: the mean of the squared gradient.
    RowWiseAdagrad {
        eps: f32,
        weight_decay: f32,
        initial: f32,
    },
    /// "Follow the regularized leader" (McMahan et al., 2013).
    Ftrl {
        lr_power: f32,
        lambda1: f32,
        lambda2: f32,
        beta: f32,
        weight_decay: f32,
        initial: f32,
    },
}

/// What changes from step to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub lr: f64,
    /// Number of the step, from one on.
    pub step: u64,
    /// Gradients are multiplied by this first.
    pub scale: f32,
}

impl Rule {
    pub fn name(&self) -> &'static str {
        match self {
            Rule::Sgd { .. } => "SGD",
            Rule::Adam { decoupled: false, .. } => "Adam",
            Rule::Adam { decoupled: true, .. } => "AdamW",
            Rule::Adagrad { .. } => "Adagrad",
            Rule::RowWiseAdagrad { .. } => "row-wise Adagrad",
            Rule::Ftrl { .. } => "FTRL",
        }
    }

    /// Numbers of state that a row of `dim` weights needs.
    pub fn state_width(&self, dim: usize) -> usize {
        match self {
            Rule::Sgd { momentum, .. } if *momentum == 0.0 => 0,
            Rule::Sgd { .. } | Rule::Adagrad { .. } => dim,
            Rule::RowWiseAdagrad { .. } => 1,
            Rule::Adam { .. } | Rule::Ftrl { .. } => 2 * dim,
        }
    }

    pub fn check(&self, dim: usize, state_width: usize) -> Result<()> {
        let needed = self.state_width(dim);
        if needed > state_width {
            return Err(Error::value(format!(
                "embedding: {} needs {needed} numbers of state for {dim} weights, the rows have room for {state_width}: \
                 store_options want a size_factor of at least {}",
                self.name(),
                1 + needed.div_ceil(dim)
            )));
        }
        Ok(())
    }

    /// The state of a row before its first update.
    fn start(&self, state: &mut [f32]) {
        match *self {
            Rule::Adagrad { initial, .. } | Rule::RowWiseAdagrad { initial, .. } => state.fill(initial),
            Rule::Ftrl { initial, .. } => {
                let n = state.len() / 2;
                state[..n].fill(initial);
                state[n..].fill(0.0);
            }
            Rule::Sgd { .. } | Rule::Adam { .. } => state.fill(0.0),
        }
    }

    /// Updates the weights `w` and their state by the gradient `g`. `is_first`: the row was never updated.
    pub fn apply(&self, w: &mut [f32], state: &mut [f32], g: &[f32], is_first: bool, at: &Step) {
        let state = &mut state[..self.state_width(w.len())];
        if is_first {
            self.start(state);
        }
        let lr = at.lr as f32;
        match *self {
            Rule::Sgd { momentum, dampening, nesterov, weight_decay, maximize } => {
                let sign = if maximize { -1.0 } else { 1.0 };
                if momentum == 0.0 {
                    for (w, g) in w.iter_mut().zip(g) {
                        *w -= lr * (sign * g + weight_decay * *w);
                    }
                    return;
                }
                let keep = if is_first { 1.0 } else { 1.0 - dampening };
                for ((w, g), m) in w.iter_mut().zip(g).zip(state) {
                    let g = sign * g + weight_decay * *w;
                    *m = momentum * *m + keep * g;
                    *w -= lr * if nesterov { g + momentum * *m } else { *m };
                }
            }
            Rule::Adam { betas, eps, weight_decay, decoupled, bias_correction, maximize } => {
                let (m, v) = state.split_at_mut(w.len());
                let correct = |beta: f64| if bias_correction { 1.0 - beta.powf(at.step as f64) } else { 1.0 };
                let step_size = (at.lr / correct(betas[0])) as f32;
                let root = correct(betas[1]).sqrt() as f32;
                let b2 = betas[1] as f32;
                let [c1, c2] = betas.map(|b| (1.0 - b) as f32);
                let (decay, l2) =
                    if decoupled { ((1.0 - at.lr * weight_decay as f64) as f32, 0.0) } else { (1.0, weight_decay) };
                let sign = if maximize { -1.0 } else { 1.0 };
                for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
                    let g = sign * g + l2 * *w;
                    *m += c1 * (g - *m);
                    *v = b2 * *v + c2 * g * g;
                    *w = *w * decay - step_size * *m / (v.sqrt() / root + eps);
                }
            }
            Rule::Adagrad { eps, weight_decay, maximize, .. } => {
                let sign = if maximize { -1.0 } else { 1.0 };
                for ((w, g), sum) in w.iter_mut().zip(g).zip(state) {
                    let g = sign * g + weight_decay * *w;
                    *sum += g * g;
                    *w -= lr * g / (sum.sqrt() + eps);
                }
            }
            Rule::RowWiseAdagrad { eps, weight_decay, .. } => {
                let square = |(w, g): (&f32, &f32)| (g + weight_decay * w) * (g + weight_decay * w);
                state[0] += w.iter().zip(g).map(square).sum::<f32>() / w.len() as f32;
                let rate = lr / (state[0].sqrt() + eps);
                for (w, g) in w.iter_mut().zip(g) {
                    *w -= rate * (g + weight_decay * *w);
                }
            }
            Rule::Ftrl { lr_power, lambda1, lambda2, beta, weight_decay, .. } => {
                let (n, z) = state.split_at_mut(w.len());
                for (((w, g), n), z) in w.iter_mut().zip(g).zip(n).zip(z) {
                    let sum = *n + g * g;
                    let (before, root) = (n.powf(lr_power), sum.powf(lr_power));
                    *z += g - (root - before) / lr * *w;
                    *n = sum;
                    let target = (lambda1.copysign(*z) - *z) / ((beta + root) / lr + lambda2);
                    // As OneFlow does for rows, decay does not enter the gradient.
                    *w = if z.abs() < lambda1 { 0.0 } else { target - lr * weight_decay * *w };
                }
            }
        }
    }
}
