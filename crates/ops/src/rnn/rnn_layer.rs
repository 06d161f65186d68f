//! The layer's op and its backward.

use super::{Steps, as_rows, batch_first, mode_of, steps};
use crate::named::{rnn_layer, rnn_layer_backward};
use crate::prelude::*;

/// What the arguments of either op say.
pub struct Shape {
    pub mode: RnnMode,
    pub hidden: i64,
    pub out: i64,
    pub batch: i64,
}

/// Where either op has the inputs of the layer: gates_x, h_0, c_0, w_hh, b_hh, w_hr.
pub type Operands = [In; 6];

pub const FORWARD_OPERANDS: Operands =
    [rnn_layer::GATES_X, rnn_layer::H_0, rnn_layer::C_0, rnn_layer::W_HH, rnn_layer::B_HH, rnn_layer::W_HR];
pub const BACKWARD_OPERANDS: Operands = [
    rnn_layer_backward::GATES_X,
    rnn_layer_backward::H_0,
    rnn_layer_backward::C_0,
    rnn_layer_backward::W_HH,
    rnn_layer_backward::B_HH,
    rnn_layer_backward::W_HR,
];

pub fn shape(c: &Call<'_>, [_, h_0, _, w_hh, ..]: Operands) -> Result<Shape> {
    let mode = mode_of(c.str(rnn_layer::MODE)?)?;
    let (h_0, w) = (c.t(h_0)?, c.t(w_hh)?);
    Ok(Shape { mode, hidden: w.sizes()[0] / mode.n_gates() as i64, out: h_0.sizes()[1], batch: h_0.sizes()[0] })
}

fn check(c: &Call<'_>) -> Result<()> {
    let (x, h_0, w, mode, packed) = (
        c.t(rnn_layer::GATES_X)?,
        c.t(rnn_layer::H_0)?,
        c.t(rnn_layer::W_HH)?,
        mode_of(c.str(rnn_layer::MODE)?)?,
        c.ints(rnn_layer::BATCH_SIZES)?,
    );
    let gates = mode.n_gates() as i64;
    let bad =
        |what: String| Err(Error::runtime(format!("rnn_layer({}): {what}", c.str(rnn_layer::MODE).unwrap_or(""))));
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return Err(Error::not_implemented(format!(
            "\"rnn_layer\" not implemented for '{}'",
            x.dtype().scalar_type_name()
        )));
    }
    if let Some(t) = c.ins.iter().flatten().find(|t| t.dtype() != x.dtype()) {
        return bad(format!("expected all tensors of one dtype, but got {} and {}", x.dtype(), t.dtype()));
    }
    let n_dims = if packed.is_empty() { 3 } else { 2 };
    if x.ndim() != n_dims || h_0.ndim() != 2 || w.ndim() != 2 {
        return bad(format!("gates {:?}, h_0 {:?} and w_hh {:?} do not fit", x.sizes(), h_0.sizes(), w.sizes()));
    }
    let s = shape(c, FORWARD_OPERANDS)?;
    let (rows, t) = (if packed.is_empty() { x.sizes()[1] } else { packed[0] }, x.sizes()[0]);
    if t == 0 {
        return bad("Expected sequence length to be larger than 0 in RNN".into());
    }
    if rows != s.batch || x.sizes()[n_dims - 1] != gates * s.hidden || w.sizes() != [gates * s.hidden, s.out] {
        return bad(format!("gates {:?}, h_0 {:?} and w_hh {:?} do not fit", x.sizes(), h_0.sizes(), w.sizes()));
    }
    if !packed.is_empty()
        && (packed.iter().sum::<i64>() != t || packed.windows(2).any(|w| w[1] > w[0]) || packed.contains(&0))
    {
        return bad(format!("batch sizes {packed:?} do not make the {t} rows"));
    }
    let lstm = mode == RnnMode::Lstm;
    if lstm != c.opt(rnn_layer::C_0).is_some()
        || c.opt(rnn_layer::C_0).is_some_and(|t| t.sizes() != [s.batch, s.hidden])
    {
        return bad(format!("expected c_0 of {:?} for LSTM and none otherwise", [s.batch, s.hidden]));
    }
    if c.opt(rnn_layer::B_HH).is_some_and(|t| t.sizes() != [gates * s.hidden]) {
        return bad("b_hh needs a number a gate and unit".into());
    }
    match c.opt(rnn_layer::W_HR) {
        Some(p) if !lstm || p.sizes() != [s.out, s.hidden] => bad(format!("a projection {:?} does not fit", p.sizes())),
        None if s.out != s.hidden => bad(format!("h_0 of width {} for {} units", s.out, s.hidden)),
        _ => Ok(()),
    }
}

/// A tensor [t, b, width] in the order of memory of `like`, or packed rows.
pub fn push_seq(outs: &mut Outs, like: &Tensor, width: i64) -> Result<()> {
    let mut sizes = Dims::from_slice(like.sizes());
    let last = sizes.len() - 1;
    sizes[last] = width;
    if !batch_first(like) {
        return outs.push(like.dtype(), like.device(), &sizes);
    }
    let (t, b) = (sizes[0], sizes[1]);
    debug_assert!(b > 0);
    outs.push_strided(like.dtype(), like.device(), sizes, Dims::from_slice(&[width, t * width, 1]))
}

fn push_params(c: &Call<'_>, l: &mut Lowered) -> Result<()> {
    l.with(RnnParams {
        mode: mode_of(c.str(rnn_layer::MODE)?)?,
        reverse: c.bool(rnn_layer::REVERSE),
        packed: c.ints(rnn_layer::BATCH_SIZES)?.iter().copied().collect(),
    });
    Ok(())
}

/// Splits of the batch: dimension 1 of sequences, 0 of states.
fn rows(c: &Call<'_>, seqs: &[In], states: &[In], outs: &[Option<u8>], rows: &mut Vec<Row>) -> Result<()> {
    if !c.ints(rnn_layer::BATCH_SIZES)?.is_empty() {
        return Ok(());
    }
    let ins = (0..c.ins.len()).filter(|i| c.ins[*i].is_some()).map(|i| match i {
        i if seqs.iter().any(|at| at.index() == i) => Sbp::S(1),
        i if states.iter().any(|at| at.index() == i) => Sbp::S(0),
        _ => Sbp::B,
    });
    let outs = outs.iter().map(|d| d.map_or(Sbp::B, Sbp::S)).collect();
    rows.push(Row { ins: ins.collect(), outs });
    Ok(())
}

fn cost(c: &Call<'_>, outs: &[Meta], operands: Operands) -> Cost {
    let mut cost = Cost::bytes_only(c, outs);
    if let (Ok(s), Ok(x)) = (shape(c, operands), c.t(operands[0])) {
        let rows = x.sizes()[..x.ndim() - 1].iter().product::<i64>() as f64;
        let projection = if c.opt(operands[5]).is_some() { s.out * s.hidden } else { 0 };
        cost.flops = 2.0 * rows * (s.mode.n_gates() as i64 * s.hidden * s.out + projection) as f64;
        cost.products = true;
    }
    cost
}

fn samples() -> Vec<Sample> {
    let t = SampleArg::f32;
    let ints = |v: &[i64]| SampleArg::Ints(v.to_vec());
    let call = |mode, x: &[i64], packed: &[i64], b, h, out: i64, bias: bool, reverse| {
        let (gates, lstm) = (mode_of(mode).map_or(1, |m| m.n_gates() as i64), mode == "LSTM");
        let opt = |on: bool, s: &[i64]| if on { t(s) } else { SampleArg::None };
        Sample::new(vec![
            t(x),
            t(&[b, out]),
            opt(lstm, &[b, h]),
            t(&[gates * h, out]),
            opt(bias, &[gates * h]),
            opt(h != out, &[out, h]),
            ints(packed),
            SampleArg::Str(mode),
            SampleArg::Bool(reverse),
        ])
    };
    vec![
        call("LSTM", &[3, 4, 12], &[], 4, 3, 3, false, false),
        call("LSTM", &[3, 4, 12], &[], 4, 3, 2, true, true),
        call("LSTM", &[6, 12], &[3, 2, 1], 3, 3, 3, true, true),
        call("GRU", &[3, 4, 9], &[], 4, 3, 3, true, false),
        call("GRU", &[6, 9], &[3, 2, 1], 3, 3, 3, false, false),
        call("RNN_TANH", &[3, 4, 3], &[], 4, 3, 3, true, true),
        call("RNN_RELU", &[2, 4, 3], &[], 4, 3, 3, false, false),
    ]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "rnn_layer(Tensor gates_x, Tensor h_0, Tensor? c_0, Tensor w_hh, Tensor? b_hh, Tensor? w_hr, int[] batch_sizes, str mode, bool reverse) -> (Tensor output, Tensor h_n, Tensor c_n, Tensor gates, Tensor cells)",
    ),
    doc: "One direction of a recurrent layer over a sequence, given the input's part of its gates [t, b, gates * hidden], biases in it.

`batch_sizes` are the rows of each step of a packed sequence [n, gates * hidden], empty otherwise. Also gives the gates and cells that
the backward needs.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        check(c)?;
        let (x, s) = (c.t(rnn_layer::GATES_X)?, shape(c, FORWARD_OPERANDS)?);
        let lstm = s.mode == RnnMode::Lstm;
        push_seq(outs, x, s.out)?;
        outs.push(x.dtype(), x.device(), &[s.batch, s.out])?;
        let cell = [s.batch, s.hidden];
        outs.push(x.dtype(), x.device(), if lstm { &cell[..] } else { &[0] })?;
        push_seq(outs, x, s.mode.n_kept() as i64 * s.hidden)?;
        if lstm { push_seq(outs, x, s.hidden) } else { outs.push(x.dtype(), x.device(), &[0]) }
    },
    kernel: Kernel::Prim {
        prim: &RNN,
        lower: |c, _, l| {
            let lstm = mode_of(c.str(rnn_layer::MODE)?)? == RnnMode::Lstm;
            FORWARD_OPERANDS.into_iter().for_each(|at| {
                l.opt_input(at, c.opt(at).is_some());
            });
            for (at, on) in [
                (rnn_layer::OUTPUT, true),
                (rnn_layer::H_N, true),
                (rnn_layer::C_N, lstm),
                (rnn_layer::GATES, true),
                (rnn_layer::CELLS, lstm),
            ] {
                if on { l.output(at) } else { l.no_output() };
            }
            push_params(c, l)
        },
    },
    compose: Some(steps::forward),
    grad: Grad::Rule {
        save: &[
            Save::of(rnn_layer::GATES_X, &[rnn_layer::GATES_X, rnn_layer::H_0, rnn_layer::C_0, rnn_layer::W_HH, rnn_layer::B_HH, rnn_layer::W_HR]),
            Save::of(rnn_layer::H_0, &[rnn_layer::GATES_X, rnn_layer::H_0, rnn_layer::C_0, rnn_layer::W_HH, rnn_layer::B_HH, rnn_layer::W_HR]),
            Save::of(rnn_layer::C_0, &[rnn_layer::GATES_X, rnn_layer::H_0, rnn_layer::C_0, rnn_layer::W_HH, rnn_layer::B_HH, rnn_layer::W_HR]),
            Save::of(rnn_layer::W_HH, &[rnn_layer::GATES_X, rnn_layer::H_0, rnn_layer::C_0, rnn_layer::W_HH, rnn_layer::B_HH, rnn_layer::W_HR]),
            Save::of(rnn_layer::B_HH, &[rnn_layer::GATES_X, rnn_layer::H_0, rnn_layer::C_0, rnn_layer::W_HH, rnn_layer::B_HH, rnn_layer::W_HR]),
            Save::of(rnn_layer::W_HR, &[rnn_layer::GATES_X, rnn_layer::H_0, rnn_layer::C_0, rnn_layer::W_HH, rnn_layer::B_HH, rnn_layer::W_HR]),
            Save::out(rnn_layer::OUTPUT, &[rnn_layer::GATES_X, rnn_layer::H_0, rnn_layer::C_0, rnn_layer::W_HH, rnn_layer::B_HH, rnn_layer::W_HR]),
            Save::out(rnn_layer::GATES, &[rnn_layer::GATES_X, rnn_layer::H_0, rnn_layer::C_0, rnn_layer::W_HH, rnn_layer::B_HH, rnn_layer::W_HR]),
            Save::out(rnn_layer::CELLS, &[rnn_layer::GATES_X, rnn_layer::H_0, rnn_layer::C_0, rnn_layer::W_HH, rnn_layer::B_HH, rnn_layer::W_HR]),
        ],
        fix: Fix::None,
        f: grad,
    },
    differentiable: OutMask::of(&[rnn_layer::OUTPUT, rnn_layer::H_N, rnn_layer::C_N]),
    sbp: SbpRule::of(Rows::Custom(|c, out| {
        let lstm = c.opt(rnn_layer::C_0).is_some();
        rows(c, &[rnn_layer::GATES_X], &[rnn_layer::H_0, rnn_layer::C_0], &[Some(1), Some(0), lstm.then_some(0), Some(1), lstm.then_some(1)], out)
    })),
    cost: |c, outs| cost(c, outs, FORWARD_OPERANDS),
    samples,
    ..OpDef::BASE
};

fn grad(c: &GradCall<'_>, out: &mut Grads) -> Result<()> {
    let mode = mode_of(c.arg(rnn_layer::MODE).str().unwrap_or(""))?;
    let lstm = mode == RnnMode::Lstm;
    let (h_0, y, gates, cells) =
        (c.x(rnn_layer::H_0)?, c.y(rnn_layer::OUTPUT)?, c.y(rnn_layer::GATES)?, c.y(rnn_layer::CELLS)?);
    let ins = [
        c.g_of(rnn_layer::OUTPUT),
        c.g_of(rnn_layer::H_N),
        c.g_of(rnn_layer::C_N).filter(|_| lstm),
        Some(c.x(rnn_layer::GATES_X)?),
        Some(h_0),
        c.opt_x(rnn_layer::C_0),
        Some(c.x(rnn_layer::W_HH)?),
        c.opt_x(rnn_layer::B_HH),
        c.opt_x(rnn_layer::W_HR),
        Some(y),
        Some(gates),
        Some(cells),
    ];
    let mut grads = Outs::new();
    oneflow_core::dispatch(&Call::new(&BACKWARD, &ins, c.args), &mut grads)?;
    let packed = c.arg(rnn_layer::BATCH_SIZES).ints().unwrap_or(&[]);
    let steps = Steps { packed, reverse: c.arg(rnn_layer::REVERSE).bool() };
    let of_gates = if mode == RnnMode::Gru {
        &grads[rnn_layer_backward::GRAD_GATES_H]
    } else {
        &grads[rnn_layer_backward::GRAD_GATES_X]
    };
    out.set(rnn_layer::GATES_X, || Ok(grads[rnn_layer_backward::GRAD_GATES_X].clone()))?;
    out.set(rnn_layer::H_0, || Ok(grads[rnn_layer_backward::GRAD_H_0].clone()))?;
    out.set(rnn_layer::C_0, || Ok(grads[rnn_layer_backward::GRAD_C_0].clone()))?;
    out.set(rnn_layer::W_HH, || as_rows(of_gates)?.transpose(0, 1)?.matmul(&as_rows(&steps.before(y, h_0)?)?))?;
    out.set(rnn_layer::B_HH, || as_rows(of_gates)?.sum(&[0], false))?;
    out.set(rnn_layer::W_HR, || {
        as_rows(&grads[rnn_layer_backward::GRAD_H])?
            .transpose(0, 1)?
            .matmul(&as_rows(&grads[rnn_layer_backward::PROJECTED])?)
    })
}

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "rnn_layer_backward(Tensor? grad_output, Tensor? grad_h_n, Tensor? grad_c_n, Tensor gates_x, Tensor h_0, Tensor? c_0, Tensor w_hh, Tensor? b_hh, Tensor? w_hr, Tensor output, Tensor gates, Tensor cells, int[] batch_sizes, str mode, bool reverse) -> (Tensor grad_gates_x, Tensor grad_gates_h, Tensor grad_h_0, Tensor grad_c_0, Tensor grad_h, Tensor projected)",
    ),
    doc: "Gradients of a recurrent layer. `grad_gates_h` is that of h's part of GRU's gates, `grad_h` what reaches every h where it is projected, `projected` what was; empty otherwise.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, s) = (c.t(rnn_layer_backward::GATES_X)?, shape(c, BACKWARD_OPERANDS)?);
        let empty = |outs: &mut Outs| outs.push(x.dtype(), x.device(), &[0]);
        let width = s.mode.n_gates() as i64 * s.hidden;
        push_seq(outs, x, width)?;
        if s.mode == RnnMode::Gru {
            push_seq(outs, x, width)?
        } else {
            empty(outs)?
        };
        outs.push(x.dtype(), x.device(), &[s.batch, s.out])?;
        if c.opt(rnn_layer_backward::C_0).is_some() {
            outs.push(x.dtype(), x.device(), &[s.batch, s.hidden])?
        } else {
            empty(outs)?
        };
        for width in [s.out, s.hidden] {
            if c.opt(rnn_layer_backward::W_HR).is_some() {
                push_seq(outs, x, width)?;
            } else {
                empty(outs)?;
            }
        }
        Ok(())
    },
    kernel: Kernel::Prim {
        prim: &RNN_BACKWARD,
        lower: |c, _, l| {
            let mode = mode_of(c.str(rnn_layer_backward::MODE)?)?;
            let (lstm, projected) = (mode == RnnMode::Lstm, c.opt(rnn_layer_backward::W_HR).is_some());
            use rnn_layer_backward as at;
            let incoming = [at::GRAD_OUTPUT, at::GRAD_H_N, at::GRAD_C_N];
            for at in incoming.into_iter().chain([at::H_0, at::C_0, at::W_HH, at::W_HR, at::OUTPUT, at::GATES]) {
                l.opt_input(at, c.opt(at).is_some());
            }
            l.opt_input(rnn_layer_backward::CELLS, lstm);
            for (at, on) in [
                (at::GRAD_GATES_X, true),
                (at::GRAD_GATES_H, mode == RnnMode::Gru),
                (at::GRAD_H_0, true),
                (at::GRAD_C_0, lstm),
                (at::GRAD_H, projected),
                (at::PROJECTED, projected),
            ] {
                if on {
                    l.output(at)
                } else {
                    l.no_output()
                };
            }
            push_params(c, l)
        },
    },
    compose: Some(steps::backward),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, out| {
        let (gru, lstm) =
            (mode_of(c.str(rnn_layer_backward::MODE)?)? == RnnMode::Gru, c.opt(rnn_layer_backward::C_0).is_some());
        use rnn_layer_backward as at;
        let all = [at::GRAD_OUTPUT, at::GATES_X, at::OUTPUT, at::GATES, at::CELLS];
        let seqs = if lstm { &all[..] } else { &all[..4] };
        let outs = [
            Some(1),
            gru.then_some(1),
            Some(0),
            lstm.then_some(0),
            c.opt(rnn_layer_backward::W_HR).map(|_| 1),
            c.opt(rnn_layer_backward::W_HR).map(|_| 1),
        ];
        rows(c, seqs, &[at::GRAD_H_N, at::GRAD_C_N, at::H_0, at::C_0], &outs, out)
    })),
    cost: |c, outs| cost(c, outs, BACKWARD_OPERANDS),
    ..OpDef::BASE
};
