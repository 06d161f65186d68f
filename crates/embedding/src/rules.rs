//! The optimizers: how a gradient changes a row. One pass over weights and state; the formulas are PyTorch's, in its order.
//!
//! A rule touches rows that have a gradient, and no others: momenta of other rows do not decay meanwhile.

use oneflow_base::{Error, Result};
use oneflow_kernels_prim::{Isa, Simd, WithSimd, dispatch, isa};

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
    /// Adam over all rows, approximately: a row that was not updated for some steps first makes them up at once. Its momenta
    /// decay by as many powers of the betas, and its weights move by the sum of the decayed first momenta over the root of the
    /// second momentum as it was.
    SmartDecayAdam {
        betas: [f64; 2],
        eps: f32,
        weight_decay: f32,
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
            Rule::SmartDecayAdam { .. } => "smart-decay Adam",
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
            Rule::Adam { .. } | Rule::SmartDecayAdam { .. } | Rule::Ftrl { .. } => 2 * dim,
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
            Rule::Sgd { .. } | Rule::Adam { .. } | Rule::SmartDecayAdam { .. } => state.fill(0.0),
        }
    }

    /// The rule at a step, for any number of rows: what all rows share is computed once.
    pub fn at(self, step: Step) -> RuleAtStep {
        let (mut size, mut root) = (step.lr, 1.0);
        if let Rule::Adam { betas, bias_correction: true, .. }
        | Rule::SmartDecayAdam { betas, bias_correction: true, .. } = self
        {
            let correct = |beta: f64| 1.0 - beta.powf(step.step as f64);
            (size, root) = (step.lr / correct(betas[0]), correct(betas[1]).sqrt());
        }
        RuleAtStep { rule: self, step, size: size as f32, inverse_root: (1.0 / root) as f32, isa: isa() }
    }
}

/// A rule with the numbers of a step.
pub struct RuleAtStep {
    rule: Rule,
    step: Step,
    /// Adam's learning rate, and one over the root of its second momentum's correction.
    size: f32,
    inverse_root: f32,
    isa: Isa,
}

impl RuleAtStep {
    /// Adds gradients in their order, each times its factor and `scale`.
    #[inline]
    pub fn add_up<'a>(&self, grads: impl Iterator<Item = (&'a [f32], f32)>, sum: &mut [f32]) {
        dispatch(self.isa, AddUp { grads, scale: self.step.scale, sum });
    }

    /// Updates the weights `w` and their state by the gradient `g`. `last` is the step of the row's last update, or 0.
    #[inline]
    pub fn apply(&self, w: &mut [f32], state: &mut [f32], g: &[f32], last: u32) {
        dispatch(self.isa, Update { of: self, w, state, g, last });
    }
}

struct AddUp<'a, I> {
    grads: I,
    scale: f32,
    sum: &'a mut [f32],
}

impl<'a, I: Iterator<Item = (&'a [f32], f32)>> WithSimd for AddUp<'_, I> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let AddUp { grads, scale, sum } = self;
        sum.fill(0.0);
        for (grad, factor) in grads {
            let factor = factor * scale;
            for (s, g) in sum.iter_mut().zip(grad) {
                *s += g * factor;
            }
        }
    }
}

struct Update<'a> {
    of: &'a RuleAtStep,
    w: &'a mut [f32],
    state: &'a mut [f32],
    g: &'a [f32],
    last: u32,
}

impl WithSimd for Update<'_> {
    type Output = ();

    // Each number of a row is computed alone and in one order, so all instruction sets give the same bits.
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Update { of: RuleAtStep { rule, step: at, size, inverse_root, .. }, w, state, g, last } = self;
        let g = &g[..w.len()];
        let is_first = last == 0;
        let state = &mut state[..rule.state_width(w.len())];
        if is_first {
            rule.start(state);
        }
        let lr = at.lr as f32;
        match *rule {
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
            Rule::Adam { betas, eps, weight_decay, decoupled, maximize, .. } => {
                let (m, v) = state.split_at_mut(w.len());
                let b2 = betas[1] as f32;
                let [c1, c2] = betas.map(|b| (1.0 - b) as f32);
                let (decay, l2) =
                    if decoupled { ((1.0 - at.lr * weight_decay as f64) as f32, 0.0) } else { (1.0, weight_decay) };
                let sign = if maximize { -1.0 } else { 1.0 };
                for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
                    let g = sign * g + l2 * *w;
                    *m += c1 * (g - *m);
                    *v = b2 * *v + c2 * g * g;
                    *w = *w * decay - size * *m / (v.sqrt() * inverse_root + eps);
                }
            }
            Rule::SmartDecayAdam { betas, eps, weight_decay, maximize, .. } => {
                let (m, v) = state.split_at_mut(w.len());
                let n_missed = if is_first { 0 } else { at.step.saturating_sub(last as u64 + 1) };
                let [p1, p2] = betas.map(|b| b.powf(n_missed as f64));
                // The sum of the powers of beta1 from the first to the last missed step.
                let moved = if n_missed == 0 { 0.0 } else { (betas[0] * (1.0 - p1) / (1.0 - betas[0])) as f32 };
                let [p1, p2] = [p1 as f32, p2 as f32];
                let b2 = betas[1] as f32;
                let [c1, c2] = betas.map(|b| (1.0 - b) as f32);
                let sign = if maximize { -1.0 } else { 1.0 };
                for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
                    *w -= size * moved * *m / (v.sqrt() * inverse_root + eps);
                    (*m, *v) = (*m * p1, *v * p2);
                    let g = sign * g + weight_decay * *w;
                    *m += c1 * (g - *m);
                    *v = b2 * *v + c2 * g * g;
                    *w -= size * *m / (v.sqrt() * inverse_root + eps);
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
                // Partial sums in a fixed order, which a vector register adds at once.
                let mut sums = [0.0f32; 8];
                for (w, g) in w.chunks(8).zip(g.chunks(8)) {
                    for ((sum, w), g) in sums.iter_mut().zip(w).zip(g) {
                        let g = g + weight_decay * w;
                        *sum += g * g;
                    }
                }
                state[0] += sums.iter().sum::<f32>() / w.len() as f32;
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
