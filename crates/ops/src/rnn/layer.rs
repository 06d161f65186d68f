//! The layer's op and its backward.

use super::{Steps, as_rows, batch_first, mode_of, steps};
use crate::prelude::*;

/// What the arguments of either op say; inputs are counted from `gates_x` on.
pub struct Shape {
    pub mode: RnnMode,
    pub hidden: i64,
    pub out: i64,
    pub batch: i64,
}

pub fn shape(c: &Call<'_>, at: usize) -> Result<Shape> {
    let mode = mode_of(c.str(1)?)?;
    let (h_0, w) = (c.t(at + 1)?, c.t(at + 3)?);
    Ok(Shape { mode, hidden: w.sizes()[0] / mode.n_gates() as i64, out: h_0.sizes()[1], batch: h_0.sizes()[0] })
}

fn check(c: &Call<'_>) -> Result<()> {
    let (x, h_0, w, mode, packed) = (c.t(0)?, c.t(1)?, c.t(3)?, mode_of(c.str(1)?)?, c.ints(0)?);
    let gates = mode.n_gates() as i64;
    let bad = |what: String| Err(Error::runtime(format!("rnn_layer({}): {what}", c.str(1).unwrap_or(""))));
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
    let s = shape(c, 0)?;
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
    if lstm != c.opt(2).is_some() || c.opt(2).is_some_and(|t| t.sizes() != [s.batch, s.hidden]) {
        return bad(format!("expected c_0 of {:?} for LSTM and none otherwise", [s.batch, s.hidden]));
    }
    if c.opt(4).is_some_and(|t| t.sizes() != [gates * s.hidden]) {
        return bad("b_hh needs a number a gate and unit".into());
    }
    match c.opt(5) {
        Some(p) if !lstm || p.sizes() != [s.out, s.hidden] => bad(format!("a projection {:?} does not fit", p.sizes())),
        None if s.out != s.hidden => bad(format!("h_0 of width {} for {} units", s.out, s.hidden)),
        _ => Ok(()),
    }
}

/// A tensor [t, b, width] in the order of memory of `like`, or packed rows.
fn push_seq(outs: &mut Outs, like: &Tensor, width: i64) -> Result<()> {
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
    l.param(mode_of(c.str(1)?)? as u64).param(c.bool(2));
    c.ints(0)?.iter().for_each(|n| {
        l.param(*n);
    });
    Ok(())
}

/// Splits of the batch: dimension 1 of sequences, 0 of states.
fn rows(c: &Call<'_>, seqs: &[usize], states: &[usize], outs: &[Option<u8>], rows: &mut Vec<Row>) -> Result<()> {
    if !c.ints(0)?.is_empty() {
        return Ok(());
    }
    let ins = (0..c.ins.len()).filter(|i| c.ins[*i].is_some()).map(|i| match i {
        i if seqs.contains(&i) => Sbp::S(1),
        i if states.contains(&i) => Sbp::S(0),
        _ => Sbp::B,
    });
    let outs = outs.iter().map(|d| d.map_or(Sbp::B, Sbp::S)).collect();
    rows.push(Row { ins: ins.collect(), outs });
    Ok(())
}

fn cost(c: &Call<'_>, outs: &[Meta], at: usize) -> Cost {
    let mut cost = Cost::bytes_only(c, outs);
    if let (Ok(s), Ok(x)) = (shape(c, at), c.t(at)) {
        let rows = x.sizes()[..x.ndim() - 1].iter().product::<i64>() as f64;
        let projection = if c.opt(at + 5).is_some() { s.out * s.hidden } else { 0 };
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
        let (x, s) = (c.t(0)?, shape(c, 0)?);
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
            let lstm = mode_of(c.str(1)?)? == RnnMode::Lstm;
            (0..6).for_each(|i| {
                l.opt_input(i, c.opt(i).is_some());
            });
            for (i, on) in [true, true, lstm, true, lstm].into_iter().enumerate() {
                if on { l.output(i) } else { l.no_output() };
            }
            push_params(c, l)
        },
    },
    compose: Some(steps::forward),
    grad: Grad::Rule {
        save: &[
            Save::In(0, 0b111111),
            Save::In(1, 0b111111),
            Save::In(2, 0b111111),
            Save::In(3, 0b111111),
            Save::In(4, 0b111111),
            Save::In(5, 0b111111),
            Save::Out(0, 0b111111),
            Save::Out(3, 0b111111),
            Save::Out(4, 0b111111),
        ],
        fix: Fix::None,
        f: grad,
    },
    differentiable: 0b111,
    sbp: SbpRule::of(Rows::Custom(|c, out| {
        let lstm = c.opt(2).is_some();
        rows(c, &[0], &[1, 2], &[Some(1), Some(0), lstm.then_some(0), Some(1), lstm.then_some(1)], out)
    })),
    cost: |c, outs| cost(c, outs, 0),
    samples,
    ..OpDef::BASE
};

fn grad(c: &GradCall<'_>, out: &mut Grads) -> Result<()> {
    let g = |i: usize| c.outs_grad.get(i).and_then(Option::as_ref);
    let mode = mode_of(c.arg(1).str().unwrap_or(""))?;
    let lstm = mode == RnnMode::Lstm;
    let (h_0, y, gates, cells) = (c.x(1)?, c.y(0)?, c.y(3)?, c.y(4)?);
    let ins = [
        g(0),
        g(1),
        g(2).filter(|_| lstm),
        Some(c.x(0)?),
        Some(h_0),
        c.opt_x(2),
        Some(c.x(3)?),
        c.opt_x(4),
        c.opt_x(5),
        Some(y),
        Some(gates),
        Some(cells),
    ];
    let mut grads = Outs::new();
    oneflow_core::dispatch(&Call::new(&BACKWARD, &ins, c.args), &mut grads)?;
    let packed = c.arg(0).ints().unwrap_or(&[]);
    let steps = Steps { packed, reverse: c.arg(2).bool() };
    let of_gates = if mode == RnnMode::Gru { &grads[1] } else { &grads[0] };
    out.set(0, || Ok(grads[0].clone()))?;
    out.set(1, || Ok(grads[2].clone()))?;
    out.set(2, || Ok(grads[3].clone()))?;
    out.set(3, || as_rows(of_gates)?.transpose(0, 1)?.matmul(&as_rows(&steps.before(y, h_0)?)?))?;
    out.set(4, || as_rows(of_gates)?.sum(&[0], false))?;
    out.set(5, || as_rows(&grads[4])?.transpose(0, 1)?.matmul(&as_rows(&grads[5])?))
}

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "rnn_layer_backward(Tensor? grad_output, Tensor? grad_h_n, Tensor? grad_c_n, Tensor gates_x, Tensor h_0, Tensor? c_0, Tensor w_hh, Tensor? b_hh, Tensor? w_hr, Tensor output, Tensor gates, Tensor cells, int[] batch_sizes, str mode, bool reverse) -> (Tensor grad_gates_x, Tensor grad_gates_h, Tensor grad_h_0, Tensor grad_c_0, Tensor grad_h, Tensor projected)",
    ),
    doc: "Gradients of a recurrent layer. `grad_gates_h` is that of h's part of GRU's gates, `grad_h` what reaches every h where it is projected, `projected` what was; empty otherwise.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, s) = (c.t(3)?, shape(c, 3)?);
        let empty = |outs: &mut Outs| outs.push(x.dtype(), x.device(), &[0]);
        let width = s.mode.n_gates() as i64 * s.hidden;
        push_seq(outs, x, width)?;
        if s.mode == RnnMode::Gru {
            push_seq(outs, x, width)?
        } else {
            empty(outs)?
        };
        outs.push(x.dtype(), x.device(), &[s.batch, s.out])?;
        if c.opt(5).is_some() {
            outs.push(x.dtype(), x.device(), &[s.batch, s.hidden])?
        } else {
            empty(outs)?
        };
        for width in [s.out, s.hidden] {
            if c.opt(8).is_some() {
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
            let mode = mode_of(c.str(1)?)?;
            let (lstm, projected) = (mode == RnnMode::Lstm, c.opt(8).is_some());
            for i in [0, 1, 2, 4, 5, 6, 8, 9, 10] {
                l.opt_input(i, c.opt(i).is_some());
            }
            l.opt_input(11, lstm);
            for (i, on) in [true, mode == RnnMode::Gru, true, lstm, projected, projected].into_iter().enumerate() {
                if on {
                    l.output(i)
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
        let (gru, lstm) = (mode_of(c.str(1)?)? == RnnMode::Gru, c.opt(5).is_some());
        let seqs: &[usize] = if lstm { &[0, 3, 9, 10, 11] } else { &[0, 3, 9, 10] };
        let outs = [Some(1), gru.then_some(1), Some(0), lstm.then_some(0), c.opt(8).map(|_| 1), c.opt(8).map(|_| 1)];
        rows(c, seqs, &[1, 2, 4, 5], &outs, out)
    })),
    cost: |c, outs| cost(c, outs, 3),
    ..OpDef::BASE
};
