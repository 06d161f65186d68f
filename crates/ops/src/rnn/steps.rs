//! A recurrent layer by other ops, step by step: the meaning of the layer's op and of its backward.

use super::rnn_layer::{BACKWARD_OPERANDS, FORWARD_OPERANDS, Operands, shape};
use super::{Steps, mode_of};
use crate::named::{rnn_layer, rnn_layer_backward};
use crate::prelude::*;

/// One step: what went in, and what its backward needs.
struct Step {
    h_before: Tensor,
    c_before: Option<Tensor>,
    /// After their activation; GRU's with h's part of the new gate last.
    gates: Vec<Tensor>,
    cell: Option<Tensor>,
    /// What a projection reads.
    m: Tensor,
    y: Tensor,
}

struct Sequence {
    /// By step.
    steps: Vec<Step>,
    h: Tensor,
    c: Option<Tensor>,
}

/// The first `n` rows replaced.
fn replace_rows(state: &Tensor, first: Tensor) -> Result<Tensor> {
    let (n, all) = (first.sizes()[0], state.sizes()[0]);
    if n == all { Ok(first) } else { f::cat([&first, &state.narrow(0, n, all - n)?], 0) }
}

/// Runs the layer.
fn run(c: &Call<'_>, operands: Operands) -> Result<Sequence> {
    let [gates_x, h_0, c_0, w_hh, b_hh, w_hr] = operands;
    let (x, w, bias, projection) = (c.t(gates_x)?, c.t(w_hh)?, c.opt(b_hh), c.opt(w_hr));
    let (s, mode) = (shape(c, operands)?, mode_of(c.str(rnn_layer::MODE)?)?);
    let order = Steps { packed: c.ints(rnn_layer::BATCH_SIZES)?, reverse: c.bool(rnn_layer::REVERSE) };
    let n = order.count(x);
    let (mut h, mut cell) = (c.t(h_0)?.clone(), c.opt(c_0).cloned());
    let mut steps: Vec<(usize, Step)> = Vec::with_capacity(n);
    for i in 0..n {
        let step = order.order(i, n);
        let rows = order.rows(step, s.batch);
        let h_before = h.narrow(0, 0, rows)?;
        let of_h = h_before.linear(w, bias)?;
        let of_x = order.get(x, step)?;
        let part = |t: &Tensor, g: i64| t.narrow(1, g * s.hidden, s.hidden);
        let sum = |g: i64| part(&of_x, g)?.add(&part(&of_h, g)?);
        let mut now = None;
        let c_before = cell.as_ref().map(|c| c.narrow(0, 0, rows)).transpose()?;
        let (gates, m) = match mode {
            RnnMode::Tanh => {
                let y = sum(0)?.tanh()?;
                (vec![y.clone()], y)
            }
            RnnMode::Relu => {
                let y = sum(0)?.relu()?;
                (vec![y.clone()], y)
            }
            RnnMode::Lstm => {
                let gates = vec![sum(0)?.sigmoid()?, sum(1)?.sigmoid()?, sum(2)?.tanh()?, sum(3)?.sigmoid()?];
                let before = c_before.as_ref().ok_or_else(|| Error::runtime("rnn_layer: LSTM needs c_0"))?;
                let state = gates[1].mul(before)?.add(&gates[0].mul(&gates[2])?)?;
                let m = gates[3].mul(&state.tanh()?)?;
                now = Some(state);
                (gates, m)
            }
            RnnMode::Gru => {
                let (reset, update, of_new) = (sum(0)?.sigmoid()?, sum(1)?.sigmoid()?, part(&of_h, 2)?);
                let new = part(&of_x, 2)?.add(&reset.mul(&of_new)?)?.tanh()?;
                let y = new.add(&update.mul(&h_before.sub(&new)?)?)?;
                (vec![reset, update, new, of_new], y)
            }
        };
        let y = match projection {
            Some(p) => m.linear(p, None)?,
            None => m.clone(),
        };
        h = replace_rows(&h, y.clone())?;
        if let (Some(state), Some(c)) = (&now, &cell) {
            cell = Some(replace_rows(c, state.clone())?);
        }
        steps.push((step, Step { h_before, c_before, gates, cell: now, m, y }));
    }
    steps.sort_by_key(|(step, _)| *step);
    Ok(Sequence { steps: steps.into_iter().map(|(_, s)| s).collect(), h, c: cell })
}

pub fn forward(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let seq = run(c, FORWARD_OPERANDS)?;
    let join = Steps { packed: c.ints(rnn_layer::BATCH_SIZES)?, reverse: false };
    let empty = || c.t(rnn_layer::GATES_X)?.new_empty(&[0]);
    let ys: Vec<_> = seq.steps.iter().map(|s| s.y.clone()).collect();
    let gates = seq.steps.iter().map(|s| f::cat(&s.gates, 1)).collect::<Result<Vec<_>>>()?;
    let cells: Vec<_> = seq.steps.iter().filter_map(|s| s.cell.clone()).collect();
    outs.give(join.join(&ys)?);
    outs.give(seq.h);
    outs.give(match seq.c {
        Some(c) => c,
        None => empty()?,
    });
    outs.give(join.join(&gates)?);
    outs.give(if cells.is_empty() { empty()? } else { join.join(&cells)? });
    Ok(())
}

/// `grad * y * (1 - y)`.
fn through_sigmoid(grad: &Tensor, y: &Tensor) -> Result<Tensor> {
    grad.mul(&y.sub(&y.mul(y)?)?)
}

/// `grad * (1 - y^2)`.
fn through_tanh(grad: &Tensor, y: &Tensor) -> Result<Tensor> {
    grad.sub(&grad.mul(&y.mul(y)?)?)
}

/// The states of the forward again, by ops: their gradients are part of a second derivative.
pub fn backward(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let seq = run(c, BACKWARD_OPERANDS)?;
    let (x, w, projection, s) = (
        c.t(rnn_layer_backward::GATES_X)?,
        c.t(rnn_layer_backward::W_HH)?,
        c.opt(rnn_layer_backward::W_HR),
        shape(c, BACKWARD_OPERANDS)?,
    );
    let order =
        Steps { packed: c.ints(rnn_layer_backward::BATCH_SIZES)?, reverse: c.bool(rnn_layer_backward::REVERSE) };
    let n = seq.steps.len();
    let zeros = |t: &Tensor| t.new_zeros(t.sizes());
    let mut dh = match c.opt(rnn_layer_backward::GRAD_H_N) {
        Some(g) => g.clone(),
        None => zeros(c.t(rnn_layer_backward::H_0)?)?,
    };
    let mut dc = match (c.opt(rnn_layer_backward::GRAD_C_N), c.opt(rnn_layer_backward::C_0)) {
        (Some(g), _) => Some(g.clone()),
        (None, Some(c_0)) => Some(zeros(c_0)?),
        _ => None,
    };
    let (mut of_x, mut of_h, mut of_y) = (vec![None; n], vec![None; n], vec![None; n]);
    for i in (0..n).rev() {
        let at = order.order(i, n);
        let step = &seq.steps[at];
        let rows = order.rows(at, s.batch);
        let mut d = dh.narrow(0, 0, rows)?;
        if let Some(g) = c.opt(rnn_layer_backward::GRAD_OUTPUT) {
            d = d.add(&order.get(g, at)?)?;
        }
        of_y[at] = Some(d.clone());
        if let Some(p) = projection {
            d = d.matmul(p)?;
        }
        let mut kept = None;
        let (gates_x, gates_h) = match s.mode {
            RnnMode::Tanh => {
                let g = through_tanh(&d, &step.gates[0])?;
                (g.clone(), g)
            }
            RnnMode::Relu => {
                let g = d.mul(&step.gates[0].gt(0.0)?)?;
                (g.clone(), g)
            }
            RnnMode::Lstm => {
                let missing = || Error::runtime("rnn_layer: LSTM needs c_0");
                let (Some(cell), Some(before), Some(all)) = (&step.cell, &step.c_before, &dc) else {
                    return Err(missing());
                };
                let [input, forget, new, output] = &step.gates[..] else { return Err(missing()) };
                let t = cell.tanh()?;
                let now = all.narrow(0, 0, rows)?.add(&through_tanh(&d.mul(output)?, &t)?)?;
                let parts = [
                    through_sigmoid(&now.mul(new)?, input)?,
                    through_sigmoid(&now.mul(before)?, forget)?,
                    through_tanh(&now.mul(input)?, new)?,
                    through_sigmoid(&d.mul(&t)?, output)?,
                ];
                dc = Some(replace_rows(all, now.mul(forget)?)?);
                let g = f::cat(&parts, 1)?;
                (g.clone(), g)
            }
            RnnMode::Gru => {
                let [reset, update, new, of_new] = &step.gates[..] else {
                    return Err(Error::runtime("rnn_layer: GRU keeps four numbers a unit"));
                };
                let d_new = through_tanh(&d.sub(&d.mul(update)?)?, new)?;
                let d_update = through_sigmoid(&d.mul(&step.h_before.sub(new)?)?, update)?;
                let d_reset = through_sigmoid(&d_new.mul(of_new)?, reset)?;
                kept = Some(d.mul(update)?);
                (f::cat([&d_reset, &d_update, &d_new], 1)?, f::cat([&d_reset, &d_update, &d_new.mul(reset)?], 1)?)
            }
        };
        let before = gates_h.matmul(w)?;
        let before = match kept {
            Some(k) => before.add(&k)?,
            None => before,
        };
        dh = replace_rows(&dh, before)?;
        of_x[at] = Some(gates_x);
        of_h[at] = Some(gates_h);
    }
    let join = |steps: Vec<Option<Tensor>>| order.join(&steps.into_iter().flatten().collect::<Vec<_>>());
    let empty = || x.new_empty(&[0]);
    outs.give(join(of_x)?);
    outs.give(if s.mode == RnnMode::Gru { join(of_h)? } else { empty()? });
    outs.give(dh);
    outs.give(match dc {
        Some(dc) => dc,
        None => empty()?,
    });
    if projection.is_some() {
        outs.give(join(of_y)?);
        outs.give(order.join(&seq.steps.iter().map(|s| s.m.clone()).collect::<Vec<_>>())?);
    } else {
        outs.give(empty()?);
        outs.give(empty()?);
    }
    Ok(())
}
