//! The optimizers: how a gradient changes a row. One pass over weights and state; the formulas are PyTorch's, in its order.
//!
//! A rule touches rows that have a gradient, and no others: momenta of other rows do not decay meanwhile.

use crate::lines::prefetch_at;
use crate::rows::LINE;
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::{Isa, Simd, WithSimd, dispatch, isa};
use std::ops::Range;

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

    /// Updates the weights `w` and their state by the gradient `g`. `last` is the step of the row's last update, or 0. `next` is
    /// where the numbers of a row are that is updated soon, or null: its lines are asked for one after the other meanwhile,
    /// since all at once wait for each other.
    #[inline]
    pub fn apply(&self, w: &mut [f32], state: &mut [f32], g: &[f32], last: u32, next: *const f32) {
        dispatch(self.isa, Update { of: self, w, state, g, last, next });
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

/// Numbers that are updated between two looks ahead.
const PIECE: usize = 4 * LINE;

struct Update<'a> {
    of: &'a RuleAtStep,
    w: &'a mut [f32],
    state: &'a mut [f32],
    g: &'a [f32],
    last: u32,
    next: *const f32,
}

impl WithSimd for Update<'_> {
    type Output = ();

    // Each number of a row is computed alone and in one order, so all instruction sets give the same bits.
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Update { of, w, state, g, last, next } = self;
        let (dim, n_state) = (w.len(), of.rule.state_width(w.len()));
        let (g, state) = (&g[..dim], &mut state[..n_state]);
        if last == 0 {
            of.rule.start(state);
        }
        if let Rule::RowWiseAdagrad { eps, weight_decay, .. } = of.rule {
            of.update_by_mean(w, &mut state[0], g, eps, weight_decay, next);
            return;
        }
        let (first, second) = state.split_at_mut(n_state.min(dim));
        if dim <= PIECE {
            ask(next, dim + n_state);
            of.update(w, first, second, g, last);
            return;
        }
        for start in (0..dim).step_by(PIECE) {
            let piece = start..dim.min(start + PIECE);
            for part in (0..dim + n_state).step_by(dim) {
                ask(next.wrapping_add(part + start), piece.len());
            }
            let (first, second) = (of_part(first, &piece), of_part(second, &piece));
            of.update(&mut w[piece.clone()], first, second, &g[piece], last);
        }
        prefetch_at(next.wrapping_add(dim + n_state - 1));
    }
}

/// Asks for `n` numbers.
#[inline(always)]
fn ask(numbers: *const f32, n: usize) {
    for line in 0..n.div_ceil(LINE) {
        prefetch_at(numbers.wrapping_add(line * LINE));
    }
}

/// The numbers of a part of the state, or none if the rule has no such part.
#[inline(always)]
fn of_part<'a>(part: &'a mut [f32], piece: &Range<usize>) -> &'a mut [f32] {
    part.get_mut(piece.clone()).unwrap_or_default()
}

impl RuleAtStep {
    /// Row-wise Adagrad, of a whole row.
    #[inline(always)]
    fn update_by_mean(&self, w: &mut [f32], state: &mut f32, g: &[f32], eps: f32, weight_decay: f32, next: *const f32) {
        // Partial sums in a fixed order, which a vector register adds at once.
        let mut sums = [0.0f32; 8];
        for (i, (w, g)) in w.chunks(PIECE).zip(g.chunks(PIECE)).enumerate() {
            ask(next.wrapping_add(i * PIECE), w.len());
            for (w, g) in w.chunks(8).zip(g.chunks(8)) {
                for ((sum, w), g) in sums.iter_mut().zip(w).zip(g) {
                    let g = g + weight_decay * w;
                    *sum += g * g;
                }
            }
        }
        prefetch_at(next.wrapping_add(w.len()));
        *state += sums.iter().sum::<f32>() / w.len() as f32;
        let rate = self.step.lr as f32 / (state.sqrt() + eps);
        for (w, g) in w.iter_mut().zip(g) {
            *w -= rate * (g + weight_decay * *w);
        }
    }

    /// Updates some numbers of a row, with those of the state's first and second part.
    #[inline(always)]
    fn update(&self, w: &mut [f32], first: &mut [f32], second: &mut [f32], g: &[f32], last: u32) {
        let RuleAtStep { rule, step: at, size, inverse_root, .. } = self;
        let is_first = last == 0;
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
                for ((w, g), m) in w.iter_mut().zip(g).zip(first) {
                    let g = sign * g + weight_decay * *w;
                    *m = momentum * *m + keep * g;
                    *w -= lr * if nesterov { g + momentum * *m } else { *m };
                }
            }
            Rule::Adam { betas, eps, weight_decay, decoupled, maximize, .. } => {
                let b2 = betas[1] as f32;
                let [c1, c2] = betas.map(|b| (1.0 - b) as f32);
                let (decay, l2) =
                    if decoupled { ((1.0 - at.lr * weight_decay as f64) as f32, 0.0) } else { (1.0, weight_decay) };
                let sign = if maximize { -1.0 } else { 1.0 };
                for (((w, g), m), v) in w.iter_mut().zip(g).zip(first).zip(second) {
                    let g = sign * g + l2 * *w;
                    *m += c1 * (g - *m);
                    *v = b2 * *v + c2 * g * g;
                    *w = *w * decay - size * *m / (v.sqrt() * inverse_root + eps);
                }
            }
            Rule::SmartDecayAdam { betas, eps, weight_decay, maximize, .. } => {
                let n_missed = if is_first { 0 } else { at.step.saturating_sub(last as u64 + 1) };
                let [p1, p2] = betas.map(|b| b.powf(n_missed as f64));
                // The sum of the powers of beta1 from the first to the last missed step.
                let moved = if n_missed == 0 { 0.0 } else { (betas[0] * (1.0 - p1) / (1.0 - betas[0])) as f32 };
                let [p1, p2] = [p1 as f32, p2 as f32];
                let b2 = betas[1] as f32;
                let [c1, c2] = betas.map(|b| (1.0 - b) as f32);
                let sign = if maximize { -1.0 } else { 1.0 };
                for (((w, g), m), v) in w.iter_mut().zip(g).zip(first).zip(second) {
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
                for ((w, g), sum) in w.iter_mut().zip(g).zip(first) {
                    let g = sign * g + weight_decay * *w;
                    *sum += g * g;
                    *w -= lr * g / (sum.sqrt() + eps);
                }
            }
            // By itself: it needs the whole row.
            Rule::RowWiseAdagrad { .. } => {}
            Rule::Ftrl { lr_power, lambda1, lambda2, beta, weight_decay, .. } => {
                for (((w, g), n), z) in w.iter_mut().zip(g).zip(first).zip(second) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Three updates of a row of `dim` weights: its weights and state.
    fn updated(rule: Rule, w: &[f32], grads: [&[f32]; 3]) -> (Vec<f32>, Vec<f32>) {
        let (mut w, mut state) = (w.to_vec(), vec![f32::NAN; rule.state_width(w.len())]);
        let mut last = 0;
        for (step, g) in [1, 2, 5].into_iter().zip(grads) {
            rule.at(Step { lr: 0.1, step, scale: 1.0 }).apply(&mut w, &mut state, g, last, std::ptr::null());
            last = step as u32;
        }
        (w, state)
    }

    #[test]
    fn each_number_of_a_long_row_is_updated_as_a_row_of_its_own() {
        let sgd = |momentum| Rule::Sgd { momentum, dampening: 0.1, nesterov: false, weight_decay: 0.1, maximize: true };
        let (betas, eps, weight_decay, bias_correction, maximize) = ([0.8, 0.9], 1e-3, 0.1, true, false);
        let adam = |decoupled| Rule::Adam { betas, eps, weight_decay, decoupled, bias_correction, maximize };
        let ftrl =
            Rule::Ftrl { lr_power: 0.5, lambda1: 0.01, lambda2: 0.1, beta: 0.5, weight_decay: 0.1, initial: 0.2 };
        for rule in [
            sgd(0.0),
            sgd(0.9),
            adam(false),
            adam(true),
            Rule::SmartDecayAdam { betas, eps, weight_decay, bias_correction, maximize },
            Rule::Adagrad { eps, weight_decay, initial: 0.5, maximize },
            ftrl,
        ] {
            for dim in [1usize, 16, 63, 64, 65, 130, 200] {
                let number = |i: usize| ((i * 37 + 11) % 29) as f32 / 7.0 - 2.0;
                let numbers = |from: usize| (from..from + dim).map(number).collect::<Vec<f32>>();
                let (w, g) = (numbers(3), [numbers(100), numbers(201), numbers(302)]);
                let (found, state) = updated(rule, &w, [&g[0], &g[1], &g[2]]);
                for i in 0..dim {
                    let one = |all: &[f32]| [all[i]];
                    let alone = updated(rule, &one(&w), [&one(&g[0]), &one(&g[1]), &one(&g[2])]);
                    assert_eq!(found[i].to_bits(), alone.0[0].to_bits(), "{} {dim} {i}", rule.name());
                    let parts = state.chunks(dim).map(|part| part[i].to_bits());
                    assert!(parts.eq(alone.1.iter().map(|s| s.to_bits())), "{} {dim} {i}", rule.name());
                }
            }
        }
    }

    #[test]
    fn row_wise_adagrad_divides_by_the_root_of_the_mean_square() {
        for dim in [1usize, 7, 64, 65, 200] {
            let (w, g): (Vec<f32>, Vec<f32>) = (0..dim).map(|i| (i as f32 / 9.0, (i % 5) as f32 - 1.5)).unzip();
            let rule = Rule::RowWiseAdagrad { eps: 1e-3, weight_decay: 0.0, initial: 0.25 };
            let (found, state) = updated(rule, &w, [&g, &g, &g]);
            let square = g.iter().map(|g| (*g as f64).powi(2)).sum::<f64>() / dim as f64;
            let rate: f64 = (1..=3).map(|n| 0.1 / ((0.25 + n as f64 * square).sqrt() + 1e-3)).sum();
            assert!((state[0] as f64 - 0.25 - 3.0 * square).abs() < 1e-4, "{dim}");
            for i in 0..dim {
                assert!((found[i] as f64 - w[i] as f64 + rate * g[i] as f64).abs() < 1e-5, "{dim} {i}");
            }
        }
    }
}
