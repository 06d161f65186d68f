//! The layers of a recurrent network one by one: the meaning of `rnn_stack` and of its backward.

use super::rnn_stack::{Parts, Stack};
use super::{Steps, as_rows, batch_first};
use crate::named::{rnn_layer, rnn_layer_backward, rnn_stack, rnn_stack_backward};
use crate::nn::{narrow, wide};
use crate::prelude::*;

/// One direction of one layer: what it read, and what it gave.
struct Direction {
    parts: Parts,
    x: Tensor,
    gates_x: Tensor,
    h_0: Tensor,
    c_0: Option<Tensor>,
    outs: [Tensor; 5],
}

/// Operands in the dtype that layers compute in.
struct Network<'a> {
    stack: Stack<'a>,
    weights: Tensor,
    /// By layer and direction.
    directions: Vec<Direction>,
    y: Tensor,
}

impl Network<'_> {
    fn matrix(&self, ([rows, columns], start): ([i64; 2], i64)) -> Result<Tensor> {
        matrix(&self.weights, ([rows, columns], start))
    }

    /// What the recurrent product adds. It is GRU's own; in the other kinds both biases are added to the input's part.
    fn bias(&self, parts: &Parts) -> Result<Option<Tensor>> {
        if !self.stack.bias || self.stack.mode != RnnMode::Gru {
            return Ok(None);
        }
        self.weights.narrow(0, parts.b_hh, parts.w_hh.0[0]).map(Some)
    }

    fn projection(&self, parts: &Parts) -> Result<Option<Tensor>> {
        parts.w_hr.map(|at| self.matrix(at)).transpose()
    }
}

fn matrix(weights: &Tensor, ([rows, columns], start): ([i64; 2], i64)) -> Result<Tensor> {
    weights.narrow(0, start, rows * columns)?.reshape(&[rows, columns])
}

/// Runs all layers. `at`: input, h_0, c_0 and weights of the op.
fn run<'a>(c: &Call<'a>, [input, h_0, c_0, weights]: [In; 4]) -> Result<Network<'a>> {
    let stack = Stack::new(c, [input, h_0])?;
    let (h_0, c_0) = (wide(c.t(h_0)?)?, c.opt(c_0).map(wide).transpose()?);
    let y = wide(c.t(input)?)?;
    let mut network = Network { stack, weights: wide(c.t(weights)?)?, directions: Vec::new(), y };
    let n = network.stack.directions;
    for (k, parts) in (0..).zip(network.stack.parts().0) {
        let s = &network.stack;
        // The layer below, or the input.
        if k > 0 && k % n == 0 {
            network.y = joined(&network.directions[(k - n) as usize..])?;
        }
        let (gates, x) = (parts.w_ih.0[0], network.y.clone());
        let bias = |at: i64| network.weights.narrow(0, at, gates);
        let bias = match (s.bias, s.mode) {
            (false, _) => None,
            (true, RnnMode::Gru) => Some(bias(parts.b_ih)?),
            (true, _) => Some(bias(parts.b_ih)?.add(&bias(parts.b_hh)?)?),
        };
        let gates_x = x.linear(&network.matrix(parts.w_ih)?, bias.as_ref())?;
        let (h_0, c_0) = (h_0.select(0, k)?, c_0.as_ref().map(|t| t.select(0, k)).transpose()?);
        let outs = gates_x.rnn_layer(
            &h_0,
            c_0.as_ref(),
            &network.matrix(parts.w_hh)?,
            network.bias(&parts)?.as_ref(),
            network.projection(&parts)?.as_ref(),
            s.packed,
            s.text,
            k % n == 1,
        )?;
        network.directions.push(Direction { parts, x, gates_x, h_0, c_0, outs });
    }
    let last = network.directions.len() - n as usize;
    network.y = joined(&network.directions[last..])?;
    Ok(network)
}

/// The directions' outputs side by side.
fn joined(directions: &[Direction]) -> Result<Tensor> {
    match directions {
        [one] => Ok(one.outs[rnn_layer::OUTPUT.index()].clone()),
        all => f::cat(all.iter().map(|d| &d.outs[rnn_layer::OUTPUT.index()]), -1),
    }
}

pub fn forward(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let network = run(c, [rnn_stack::INPUT, rnn_stack::H_0, rnn_stack::C_0, rnn_stack::WEIGHTS])?;
    let x = c.t(rnn_stack::INPUT)?;
    let dtype = x.dtype();
    let states = |at: Out| {
        let all: Vec<_> = network.directions.iter().map(|d| d.outs[at.index()].clone()).collect();
        narrow(f::stack(&all, 0)?, dtype)
    };
    outs.give(laid_as(x, narrow(network.y.clone(), dtype)?)?);
    outs.give(states(rnn_layer::H_N)?);
    outs.give(match network.stack.mode {
        RnnMode::Lstm => states(rnn_layer::C_N)?,
        _ => x.new_empty(&[0])?,
    });
    // Nothing is kept: the backward runs the layers again.
    outs.give(x.new_zeros(&[c.int(rnn_stack::RESERVE)?])?.to_copy_with(Some(DType::U8), None)?);
    Ok(())
}

/// A sequence in the order of the input's dimensions, as `infer` has it: both directions joined have lost it.
fn laid_as(input: &Tensor, y: Tensor) -> Result<Tensor> {
    match batch_first(input) && !batch_first(&y) {
        true => y.transpose(0, 1)?.contiguous()?.transpose(0, 1),
        false => Ok(y),
    }
}

/// Gradients by those of the layers, from the last to the first.
pub fn backward(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    use rnn_stack_backward as at;
    let network = run(c, [at::INPUT, at::H_0, at::C_0, at::WEIGHTS])?;
    let (s, dtype) = (&network.stack, c.t(at::INPUT)?.dtype());
    let opt = |input: In| c.opt(input).map(wide).transpose();
    let (mut grad_y, grad_h_n, grad_c_n) = (opt(at::GRAD_OUTPUT)?, opt(at::GRAD_H_N)?, opt(at::GRAD_C_N)?);
    let n = s.directions as usize;
    // By layer and direction: gradients of h_0, c_0, the matrices and the biases.
    let mut found = Vec::new();
    for (k, d) in network.directions.iter().enumerate().rev() {
        let of = |t: &Option<Tensor>| t.as_ref().map(|t| t.select(0, k as i64)).transpose();
        let direction = (k % n) as i64;
        let grad = grad_y.as_ref().map(|g| g.narrow(-1, direction * s.out, s.out)).transpose()?;
        let [y, _, _, gates, cells] = &d.outs;
        let (w_ih, w_hh) = (network.matrix(d.parts.w_ih)?, network.matrix(d.parts.w_hh)?);
        let grads = f::rnn_layer_backward(
            grad.as_ref(),
            of(&grad_h_n)?.as_ref(),
            of(&grad_c_n)?.as_ref(),
            &d.gates_x,
            &d.h_0,
            d.c_0.as_ref(),
            &w_hh,
            network.bias(&d.parts)?.as_ref(),
            network.projection(&d.parts)?.as_ref(),
            y,
            gates,
            cells,
            s.packed,
            s.text,
            direction == 1,
        )?;
        let grad = |at: Out| &grads[at.index()];
        let of_x = grad(rnn_layer_backward::GRAD_GATES_X);
        let of_h = if s.mode == RnnMode::Gru { grad(rnn_layer_backward::GRAD_GATES_H) } else { of_x };
        let order = Steps { packed: s.packed, reverse: direction == 1 };
        let product = |a: &Tensor, b: &Tensor| a.transpose(0, 1)?.matmul(b);
        let rows = |t: &Tensor| t.reshape(&[-1, *t.sizes().last().unwrap_or(&1)]);
        let mut matrices =
            vec![product(&rows(of_x)?, &rows(&d.x)?)?, product(&as_rows(of_h)?, &as_rows(&order.before(y, &d.h_0)?)?)?];
        if d.parts.w_hr.is_some() {
            let [h, m] = [rnn_layer_backward::GRAD_H, rnn_layer_backward::PROJECTED].map(|at| as_rows(grad(at)));
            matrices.push(product(&h?, &m?)?);
        }
        let biases = if s.bias { vec![rows(of_x)?.sum(&[0], false)?, rows(of_h)?.sum(&[0], false)?] } else { vec![] };
        let grad_h = grad(rnn_layer_backward::GRAD_H_0).clone();
        let grad_c = grad(rnn_layer_backward::GRAD_C_0).clone();
        let to_x = of_x.matmul(&w_ih)?;
        found.push((grad_h, grad_c, matrices, biases, to_x));
        if direction == 0 {
            let (_, _, _, _, first) = &found[found.len() - 1];
            grad_y = Some(match n {
                1 => first.clone(),
                _ => first.add(&found[found.len() - 2].4)?,
            });
        }
    }
    found.reverse();
    outs.give(match grad_y {
        Some(g) => laid_as(c.t(at::INPUT)?, narrow(g, dtype)?)?,
        None => return Err(Error::runtime("rnn_stack: a network without layers")),
    });
    let states = |all: Vec<&Tensor>| narrow(f::stack(all, 0)?, dtype);
    outs.give(states(found.iter().map(|d| &d.0).collect())?);
    outs.give(match s.mode {
        RnnMode::Lstm => states(found.iter().map(|d| &d.1).collect())?,
        _ => c.t(at::INPUT)?.new_empty(&[0])?,
    });
    let matrices = found.iter().flat_map(|d| &d.2);
    let all: Vec<Tensor> =
        matrices.chain(found.iter().flat_map(|d| &d.3)).map(|t| t.reshape(&[-1])).collect::<Result<_>>()?;
    outs.give(narrow(f::cat(&all, 0)?, dtype)?);
    Ok(())
}
