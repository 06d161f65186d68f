//! All layers and directions of a recurrent network in one op, for a vendor's library that runs them together, and its backward.
//!
//! Weights come as one vector: the matrices of every layer and direction (w_ih, w_hh, and w_hr of a projection), behind them
//! all biases (b_ih, b_hh). There is no dropout between these layers: callers that drop elements call it once a layer.

use super::{mode_of, stack_layers};
use crate::named::{rnn_stack, rnn_stack_backward};
use crate::prelude::*;

/// What the arguments of either op say.
pub struct Stack<'a> {
    pub text: &'static str,
    pub mode: RnnMode,
    pub hidden: i64,
    /// Width of h: `hidden`, unless it is projected.
    pub out: i64,
    pub layers: i64,
    pub directions: i64,
    pub bias: bool,
    batch_first: bool,
    allow_tf32: bool,
    pub packed: &'a [i64],
    pub input: i64,
    pub batch: i64,
}

/// One layer and direction's part of the weights: sizes and where they begin. The biases' begin is 0 where there are none.
pub struct Parts {
    pub w_ih: ([i64; 2], i64),
    pub w_hh: ([i64; 2], i64),
    pub w_hr: Option<([i64; 2], i64)>,
    pub b_ih: i64,
    pub b_hh: i64,
}

impl<'a> Stack<'a> {
    /// `at`: where an op has input and h_0. The other arguments of both ops agree.
    pub fn new(c: &Call<'a>, [input, h_0]: [In; 2]) -> Result<Stack<'a>> {
        let text = c.str(rnn_stack::MODE)?;
        let (x, h_0) = (c.t(input)?, c.t(h_0)?);
        Ok(Stack {
            text,
            mode: mode_of(text)?,
            hidden: c.int(rnn_stack::HIDDEN)?,
            out: h_0.sizes().last().copied().unwrap_or(0),
            layers: c.int(rnn_stack::NUM_LAYERS)?,
            directions: 1 + c.bool(rnn_stack::BIDIRECTIONAL) as i64,
            bias: c.bool(rnn_stack::BIAS),
            batch_first: c.bool(rnn_stack::BATCH_FIRST),
            allow_tf32: c.bool(rnn_stack::ALLOW_TF32),
            packed: c.ints(rnn_stack::BATCH_SIZES)?,
            input: x.sizes().last().copied().unwrap_or(0),
            batch: h_0.sizes().get(1).copied().unwrap_or(0),
        })
    }

    fn gates(&self) -> i64 {
        self.mode.n_gates() as i64 * self.hidden
    }

    /// Where the weights of every layer and direction are, and how many numbers there are.
    pub fn parts(&self) -> (Vec<Parts>, i64) {
        let (gates, mut n) = (self.gates(), 0);
        let mut take = |sizes: [i64; 2]| {
            n += sizes[0] * sizes[1];
            (sizes, n - sizes[0] * sizes[1])
        };
        let mut all = Vec::new();
        for k in 0..self.layers * self.directions {
            let width = if k < self.directions { self.input } else { self.out * self.directions };
            let (w_ih, w_hh) = (take([gates, width]), take([gates, self.out]));
            let w_hr = (self.out != self.hidden).then(|| take([self.out, self.hidden]));
            all.push(Parts { w_ih, w_hh, w_hr, b_ih: 0, b_hh: 0 });
        }
        if self.bias {
            for parts in &mut all {
                parts.b_ih = take([gates, 1]).1;
                parts.b_hh = take([gates, 1]).1;
            }
        }
        (all, n)
    }

    fn check(&self, c: &Call<'_>) -> Result<()> {
        let (x, h_0, weights) = (c.t(rnn_stack::INPUT)?, c.t(rnn_stack::H_0)?, c.t(rnn_stack::WEIGHTS)?);
        let bad = |what: String| Err(Error::runtime(format!("rnn_stack({}): {what}", self.text)));
        if !x.dtype().is_float() || x.dtype().is_limited() {
            return Err(Error::not_implemented(format!(
                "\"rnn_stack\" not implemented for '{}'",
                x.dtype().scalar_type_name()
            )));
        }
        if let Some(t) = c.ins.iter().flatten().find(|t| t.dtype() != x.dtype()) {
            return bad(format!("expected all tensors of one dtype, but got {} and {}", x.dtype(), t.dtype()));
        }
        let n_dims = if self.packed.is_empty() { 3 } else { 2 };
        if x.ndim() != n_dims || x.sizes()[0] == 0 {
            return bad(format!("expected an input of {n_dims} dimensions and at least one step, got {:?}", x.sizes()));
        }
        let rows = self.packed.first().copied().unwrap_or(x.sizes()[n_dims - 2]);
        let steps = !self.packed.is_empty();
        if steps
            && (self.packed.iter().sum::<i64>() != x.sizes()[0]
                || self.packed.windows(2).any(|w| w[1] > w[0])
                || self.packed.contains(&0))
        {
            return bad(format!("batch sizes {:?} do not make the {} rows", self.packed, x.sizes()[0]));
        }
        let n = self.layers * self.directions;
        if self.layers < 1 || self.hidden < 1 || h_0.ndim() != 3 || h_0.sizes() != [n, rows, self.out] {
            return bad(format!("h_0 {:?} does not fit {n} layers and directions of {rows} rows", h_0.sizes()));
        }
        let (lstm, c_0) = (self.mode == RnnMode::Lstm, c.opt(rnn_stack::C_0));
        if lstm != c_0.is_some() || c_0.is_some_and(|t| t.sizes() != [n, rows, self.hidden]) {
            return bad(format!("expected c_0 of {:?} for LSTM and none otherwise", [n, rows, self.hidden]));
        }
        if self.out != self.hidden && !lstm {
            return bad(format!("h_0 of width {} for {} units", self.out, self.hidden));
        }
        let expected = self.parts().1;
        if weights.sizes() != [expected] {
            return bad(format!("expected weights of {:?}, got {:?}", [expected], weights.sizes()));
        }
        Ok(())
    }

    fn params(&self, l: &mut Lowered) {
        l.with(RnnStackParams {
            mode: self.mode,
            hidden: self.hidden,
            layers: self.layers,
            bidirectional: self.directions == 2,
            bias: self.bias,
            batch_first: self.batch_first,
            allow_tf32: self.allow_tf32,
            packed: self.packed.iter().copied().collect(),
        });
    }

    fn cost(&self, c: &Call<'_>, outs: &[Meta], x: &Tensor) -> Cost {
        let mut cost = Cost::bytes_only(c, outs);
        let rows = x.sizes()[..x.ndim() - 1].iter().product::<i64>() as f64;
        let matrices = self.parts().0.into_iter().map(|p| {
            let size = |([a, b], _): ([i64; 2], i64)| a * b;
            size(p.w_ih) + size(p.w_hh) + p.w_hr.map_or(0, size)
        });
        cost.flops = 2.0 * rows * matrices.sum::<i64>() as f64;
        cost.products = true;
        cost
    }
}

const FORWARD: [In; 2] = [rnn_stack::INPUT, rnn_stack::H_0];
const BACKWARD_AT: [In; 2] = [rnn_stack_backward::INPUT, rnn_stack_backward::H_0];

fn samples() -> Vec<Sample> {
    let t = SampleArg::f32;
    let call = |mode, x: &[i64], packed: &[i64], b: i64, [hidden, out, layers, directions]: [i64; 4], bias: bool| {
        let (n, lstm) = (layers * directions, mode == "LSTM");
        let stack = Stack {
            text: mode,
            mode: mode_of(mode).unwrap_or(RnnMode::Tanh),
            hidden,
            out,
            layers,
            directions,
            bias,
            batch_first: false,
            allow_tf32: false,
            packed: &[],
            input: x[x.len() - 1],
            batch: b,
        };
        Sample::new(vec![
            t(x),
            t(&[n, b, out]),
            if lstm { t(&[n, b, hidden]) } else { SampleArg::None },
            t(&[stack.parts().1]),
            SampleArg::Ints(packed.to_vec()),
            SampleArg::Str(mode),
            SampleArg::Int(hidden),
            SampleArg::Int(layers),
            SampleArg::Bool(bias),
            SampleArg::Bool(directions == 2),
            SampleArg::Bool(false),
            SampleArg::Bool(false),
            SampleArg::Int(0),
        ])
    };
    vec![
        call("LSTM", &[3, 4, 2], &[], 4, [3, 3, 1, 1], true),
        call("LSTM", &[2, 4, 3], &[], 4, [3, 2, 2, 2], true),
        call("LSTM", &[6, 2], &[3, 2, 1], 3, [2, 2, 2, 1], false),
        call("GRU", &[3, 4, 2], &[], 4, [2, 2, 1, 2], true),
        call("RNN_TANH", &[3, 4, 2], &[], 4, [2, 2, 2, 1], true),
        call("RNN_RELU", &[2, 4, 2], &[], 4, [3, 3, 1, 1], false),
    ]
}

/// A tensor of steps in the order of memory of `like`.
fn push_seq(outs: &mut Outs, like: &Tensor, width: i64) -> Result<()> {
    super::rnn_layer::push_seq(outs, like, width)
}

const ALL: &[In] = &[rnn_stack::INPUT, rnn_stack::H_0, rnn_stack::C_0, rnn_stack::WEIGHTS];

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "rnn_stack(Tensor input, Tensor h_0, Tensor? c_0, Tensor weights, int[] batch_sizes, str mode, int hidden, int num_layers, bool bias, bool bidirectional, bool batch_first, bool allow_tf32, int reserve) -> (Tensor output, Tensor h_n, Tensor c_n, Tensor reserved)",
    ),
    doc: "All layers and directions of a recurrent network over a sequence [t, b, input], without dropout between them.

`weights` are those of all layers and directions in one vector, matrices first. `batch_sizes` are the rows of each step of a packed
sequence [n, input], empty otherwise; `batch_first` says that the rows of a sequence lie side by side in memory. `reserve` is the number of bytes that the
device's library keeps for the backward, zero without one; it may round float32 operands of products where `allow_tf32` says so.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let s = Stack::new(c, FORWARD)?;
        s.check(c)?;
        let x = c.t(rnn_stack::INPUT)?;
        let n = s.layers * s.directions;
        push_seq(outs, x, s.directions * s.out)?;
        outs.push(x.dtype(), x.device(), &[n, s.batch, s.out])?;
        let cells = [n, s.batch, s.hidden];
        outs.push(x.dtype(), x.device(), if s.mode == RnnMode::Lstm { &cells[..] } else { &[0] })?;
        outs.push(DType::U8, x.device(), &[c.int(rnn_stack::RESERVE)?])
    },
    kernel: Kernel::Prim {
        prim: &RNN_STACK,
        lower: |c, _, l| {
            let s = Stack::new(c, FORWARD)?;
            l.input(rnn_stack::INPUT)
                .input(rnn_stack::H_0)
                .opt_input(rnn_stack::C_0, c.opt(rnn_stack::C_0).is_some())
                .input(rnn_stack::WEIGHTS)
                .output(rnn_stack::OUTPUT)
                .output(rnn_stack::H_N);
            if s.mode == RnnMode::Lstm { l.output(rnn_stack::C_N) } else { l.no_output() };
            if c.int(rnn_stack::RESERVE)? > 0 { l.output(rnn_stack::RESERVED) } else { l.no_output() };
            s.params(l);
            Ok(())
        },
    },
    compose: Some(stack_layers::forward),
    grad: Grad::Rule {
        save: &[
            Save::of(rnn_stack::INPUT, ALL),
            Save::of(rnn_stack::H_0, ALL),
            Save::of(rnn_stack::C_0, ALL),
            Save::of(rnn_stack::WEIGHTS, ALL),
            Save::out(rnn_stack::OUTPUT, ALL),
            Save::out(rnn_stack::RESERVED, ALL),
        ],
        fix: Fix::None,
        f: |c, out| {
            let lstm = c.opt_x(rnn_stack::C_0).is_some();
            let ins = [
                c.g_of(rnn_stack::OUTPUT),
                c.g_of(rnn_stack::H_N),
                c.g_of(rnn_stack::C_N).filter(|_| lstm),
                Some(c.x(rnn_stack::INPUT)?),
                Some(c.x(rnn_stack::H_0)?),
                c.opt_x(rnn_stack::C_0),
                Some(c.x(rnn_stack::WEIGHTS)?),
                Some(c.y(rnn_stack::OUTPUT)?),
                Some(c.y(rnn_stack::RESERVED)?),
            ];
            let mut grads = Outs::new();
            oneflow_core::dispatch(&Call::new(&BACKWARD, &ins, &c.args[..c.args.len() - 1]), &mut grads)?;
            out.set(rnn_stack::INPUT, || Ok(grads[rnn_stack_backward::GRAD_INPUT].clone()))?;
            out.set(rnn_stack::H_0, || Ok(grads[rnn_stack_backward::GRAD_H_0].clone()))?;
            out.set(rnn_stack::C_0, || Ok(grads[rnn_stack_backward::GRAD_C_0].clone()))?;
            out.set(rnn_stack::WEIGHTS, || Ok(grads[rnn_stack_backward::GRAD_WEIGHTS].clone()))
        },
    },
    differentiable: OutMask::of(&[rnn_stack::OUTPUT, rnn_stack::H_N, rnn_stack::C_N]),
    sbp: SbpRule::of(Rows::Compose),
    amp: Amp::LOWER,
    cost: |c, outs| match (Stack::new(c, FORWARD), c.t(rnn_stack::INPUT)) {
        (Ok(s), Ok(x)) => s.cost(c, outs, x),
        _ => Cost::bytes_only(c, outs),
    },
    samples,
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "rnn_stack_backward(Tensor? grad_output, Tensor? grad_h_n, Tensor? grad_c_n, Tensor input, Tensor h_0, Tensor? c_0, Tensor weights, Tensor output, Tensor reserved, int[] batch_sizes, str mode, int hidden, int num_layers, bool bias, bool bidirectional, bool batch_first, bool allow_tf32) -> (Tensor grad_input, Tensor grad_h_0, Tensor grad_c_0, Tensor grad_weights)",
    ),
    doc: "Gradients of the layers of a recurrent network; that of c_0 is empty but for LSTM.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        use rnn_stack_backward as at;
        let x = c.t(at::INPUT)?;
        push_seq(outs, x, *x.sizes().last().unwrap_or(&0))?;
        outs.push(x.dtype(), x.device(), c.t(at::H_0)?.sizes())?;
        outs.push(x.dtype(), x.device(), c.opt(at::C_0).map_or(&[0], |t| t.sizes()))?;
        outs.push(x.dtype(), x.device(), c.t(at::WEIGHTS)?.sizes())
    },
    kernel: Kernel::Prim {
        prim: &RNN_STACK_BACKWARD,
        lower: |c, _, l| {
            use rnn_stack_backward as at;
            for input in [at::GRAD_OUTPUT, at::GRAD_H_N, at::GRAD_C_N, at::INPUT, at::H_0, at::C_0] {
                l.opt_input(input, c.opt(input).is_some());
            }
            l.input(at::WEIGHTS).input(at::OUTPUT).input(at::RESERVED).output(at::GRAD_INPUT).output(at::GRAD_H_0);
            if c.opt(at::C_0).is_some() {
                l.output(at::GRAD_C_0)
            } else {
                l.no_output()
            };
            l.output(at::GRAD_WEIGHTS);
            Stack::new(c, BACKWARD_AT)?.params(l);
            Ok(())
        },
    },
    compose: Some(stack_layers::backward),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    cost: |c, outs| match (Stack::new(c, BACKWARD_AT), c.t(rnn_stack_backward::INPUT)) {
        (Ok(s), Ok(x)) => {
            let cost = s.cost(c, outs, x);
            Cost { flops: 2.0 * cost.flops, ..cost }
        }
        _ => Cost::bytes_only(c, outs),
    },
    ..OpDef::BASE
};
