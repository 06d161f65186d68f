//! Affine maps, with the bias (and in the fused form an activation) in the product's epilogue.

use super::*;
use crate::named::{fused_linear, fused_linear_add, fused_linear_keep, linear};

/// Output sizes of `x @ weight.T`.
fn sizes(c: &Call<'_>) -> Result<Dims> {
    let (x, w) = (c.t(linear::INPUT)?, c.t(linear::WEIGHT)?);
    let bad = || {
        Error::runtime(format!(
            "linear(): mat1 and mat2 shapes cannot be multiplied (input {:?}, weight {:?} transposed)",
            x.sizes(),
            w.sizes()
        ))
    };
    if w.ndim() > 2 || w.ndim() == 0 || x.ndim() == 0 || x.sizes()[x.ndim() - 1] != w.sizes()[w.ndim() - 1] {
        return Err(bad());
    }
    if x.dtype() != w.dtype() {
        return Err(Error::runtime(format!(
            "linear(): mat1 and mat2 must have the same dtype, but got {} and {}",
            x.dtype().scalar_type_name(),
            w.dtype().scalar_type_name()
        )));
    }
    let mut out = Dims::from_slice(&x.sizes()[..x.ndim() - 1]);
    if w.ndim() == 2 {
        out.push(w.sizes()[0]);
    }
    if let Some(b) = c.opt(linear::BIAS) {
        let fits = b.ndim() == 0 || b.sizes() == &out[out.len() - b.ndim().min(out.len())..] || b.sizes() == [1];
        if !fits {
            return Err(Error::runtime(format!(
                "linear(): bias {:?} does not match the output {:?}",
                b.sizes(),
                out.as_slice()
            )));
        }
    }
    Ok(out)
}

fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let s = sizes(c)?;
    outs.push(c.t(linear::INPUT)?.dtype(), c.t(linear::INPUT)?.device(), &s)
}

/// What the four ops give: the product, and what it was before its activation where that is kept.
const RESULTS: [Out; 2] = [fused_linear_keep::OUTPUT, fused_linear_keep::BEFORE];

/// Rows of `x` against the transposed weight; leading dims of a contiguous `x` are rows.
fn lower(c: &Call<'_>, outs: &Outs, l: &mut Lowered, act: Activation) -> Result<()> {
    let (x, w) = (c.t(linear::INPUT)?, c.t(linear::WEIGHT)?);
    if w.ndim() != 2
        || (x.ndim() > 2 && !x.is_contiguous())
        || c.opt(linear::BIAS).is_some_and(|b| b.dtype() != x.dtype())
    {
        return Err(Error::not_implemented("linear: layouts without rows run the composition"));
    }
    let (n, k) = (w.sizes()[0], w.sizes()[1]);
    let rows: i64 = x.sizes()[..x.ndim() - 1].iter().product();
    let (rs, cs) = match x.ndim() {
        2 => (x.strides()[0], x.strides()[1]),
        _ => (k, *x.strides().last().unwrap_or(&1)),
    };
    l.input_as(linear::INPUT, Dims::from_slice(&[rows, k]), Dims::from_slice(&[rs, cs]), x.offset());
    l.input_as(
        linear::WEIGHT,
        Dims::from_slice(&[k, n]),
        Dims::from_slice(&[w.strides()[1], w.strides()[0]]),
        w.offset(),
    );
    match c.opt(linear::BIAS) {
        None => l.ins.push(None),
        Some(b) => {
            let s = if b.numel() == 1 { 0 } else { b.strides()[0] };
            l.input_as(linear::BIAS, Dims::from_slice(&[rows, n]), Dims::from_slice(&[0, s]), b.offset());
        }
    }
    l.ins.push(None);
    for (at, out) in RESULTS.into_iter().zip(outs.tensors()) {
        l.output_as(at, Dims::from_slice(&[rows, n]), Dims::from_slice(&[n, 1]), out.offset());
    }
    l.with(MatmulParams { activation: act, alpha: 1.0 });
    Ok(())
}

fn compose(c: &Call<'_>) -> Result<Tensor> {
    let (x, w) = (c.t(linear::INPUT)?, c.t(linear::WEIGHT)?);
    let out = x.matmul(&w.t()?)?;
    match c.opt(linear::BIAS) {
        Some(b) => out.add(b),
        None => Ok(out),
    }
}

/// Gradients of x, weight and bias from the gradient before the activation.
fn grads(c: &GradCall<'_>, g: &Tensor, out: &mut Grads) -> Result<()> {
    let wm = c.in_meta(linear::WEIGHT)?;
    if wm.sizes.len() == 1 {
        out.set(linear::INPUT, || g.unsqueeze(-1)?.mul(&conj(c.x(linear::WEIGHT)?)?))?;
        out.set(linear::WEIGHT, || g.unsqueeze(-1)?.mul(&conj(c.x(linear::INPUT)?)?))?;
        return out.set(linear::BIAS, || Ok(g.clone()));
    }
    out.set(linear::INPUT, || g.matmul(&conj(c.x(linear::WEIGHT)?)?))?;
    if out.needs(linear::WEIGHT)
        && let Some(sum) = c.leaf_grad(linear::WEIGHT)
        && linear_accumulate::is_one_launch(&sum, g, c.x(linear::INPUT)?)
    {
        let together = out.needs(linear::BIAS) && linear_backward_parameters::is_one_launch(g);
        let bias = if together { Some(g.new_empty(&wm.sizes[..1])?) } else { None };
        sum._linear_accumulate_(bias.as_ref(), g, c.x(linear::INPUT)?)?;
        return out.set(linear::BIAS, || Ok(bias.unwrap_or_else(|| g.clone())));
    }
    if out.needs(linear::WEIGHT) && out.needs(linear::BIAS) && linear_backward_parameters::is_one_launch(g) {
        let [weight, bias] = g.linear_backward_parameters(c.x(linear::INPUT)?)?;
        out.set(linear::WEIGHT, || Ok(weight))?;
        return out.set(linear::BIAS, || Ok(bias));
    }
    out.set(linear::WEIGHT, || {
        let x = conj(c.x(linear::INPUT)?)?;
        if x.ndim() > 2 {
            return g.linear_backward_weight(&x, None);
        }
        as_rows(g)?.transpose(0, 1)?.matmul(&as_rows(&x)?)
    })?;
    out.set(linear::BIAS, || Ok(g.clone()))
}

fn samples() -> Vec<Sample> {
    let t = |x: &[i64], w: &[i64], b: Option<&[i64]>| {
        let bias = b.map_or(SampleArg::None, SampleArg::f32);
        Sample::new(vec![SampleArg::f32(x), SampleArg::f32(w), bias])
    };
    vec![
        t(&[4, 6], &[8, 6], Some(&[8])),
        t(&[2, 4, 6], &[8, 6], Some(&[8])),
        t(&[2, 4, 6], &[8, 6], None),
        t(&[6], &[8, 6], Some(&[8])),
        t(&[0, 6], &[8, 6], Some(&[8])),
    ]
}

fn linear_rows(c: &Call<'_>, with_bias: bool, rows: &mut Vec<Row>) -> Result<()> {
    let x = c.t(linear::INPUT)?;
    let last = x.ndim() - 1;
    let mut row = |x: Sbp, w: Sbp, b: Sbp, out: Sbp| {
        let mut ins: SmallVec<[Sbp; 4]> = SmallVec::from_slice(&[x, w]);
        if with_bias {
            ins.push(b);
        }
        rows.push(Row { ins, outs: SmallVec::from_slice(&[out]) });
    };
    let (b, p) = (Sbp::B, Sbp::P_SUM);
    for i in 0..last {
        row(Sbp::S(i as u8), b, b, Sbp::S(i as u8));
    }
    if c.t(linear::WEIGHT)?.ndim() == 2 {
        row(b, Sbp::S(0), Sbp::S(0), Sbp::S(last as u8));
        row(Sbp::S(last as u8), Sbp::S(1), p, p);
    }
    if !with_bias {
        row(p, b, b, p);
        row(b, p, b, p);
    }
    Ok(())
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"),
    doc: "`input @ weight.T + bias`.

Example::

    >>> oneflow.nn.functional.linear(oneflow.ones(1, 2), oneflow.ones(3, 2)).shape
    oneflow.Size([1, 3])",
    faces: Faces::NN.or(Faces::OUT),
    infer,
    kernel: Kernel::Prim { prim: &MATMUL, lower: |c, outs, l| lower(c, outs, l, Activation::None) },
    compose: Some(|c, outs| {
        infer(c, &mut Outs::new())?;
        outs.give(compose(c)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(linear::WEIGHT, &[linear::INPUT]), Save::of(linear::INPUT, &[linear::WEIGHT])],
        fix: Fix::Broadcast,
        f: |c, out| grads(c, c.g()?, out),
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| linear_rows(c, c.opt(linear::BIAS).is_some(), rows))),
    cost,
    amp: Amp::LOWER,
    samples,
    batch: Batching::Leading,
    ..OpDef::BASE
};

/// The activation that an op's argument names.
pub fn activation_named(op: &str, name: &str) -> Result<Activation> {
    match name {
        "gelu" => Ok(Activation::Gelu),
        "gelu_tanh" => Ok(Activation::GeluTanh),
        "relu" => Ok(Activation::Relu),
        "silu" => Ok(Activation::Silu),
        "hardswish" => Ok(Activation::Hardswish),
        "relu6" => Ok(Activation::Relu6),
        other => Err(Error::value(format!("{op}(): unknown activation {other:?}"))),
    }
}

fn activation(c: &Call<'_>) -> Result<Activation> {
    activation_named("fused_linear", c.str(fused_linear::ACTIVATION)?)
}

pub fn activate(x: &Tensor, activation: Activation) -> Result<Tensor> {
    match activation {
        Activation::Gelu => x.gelu(),
        Activation::GeluTanh => x.gelu_with("tanh"),
        Activation::Relu => x.relu(),
        Activation::Silu => x.silu(),
        Activation::Hardswish => x.hardswish(),
        Activation::Relu6 => x.hardtanh(0, 6),
        Activation::None => Ok(x.clone()),
    }
}

/// What the compiler puts in place of linear followed by an activation, where nobody needs the value in between.
pub static FUSED: OpDef = OpDef {
    sig: Sig::parse("fused_linear(Tensor input, Tensor weight, Tensor? bias, str activation) -> Tensor"),
    doc: "`activation(input @ weight.T + bias)` with the activation in the product's epilogue.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        activation(c)?;
        let dtype = c.t(fused_linear::INPUT)?.dtype();
        if !dtype.is_float() {
            return Err(Error::not_implemented(format!(
                "\"fused_linear\" not implemented for '{}'",
                dtype.scalar_type_name()
            )));
        }
        infer(c, outs)
    },
    kernel: Kernel::Prim { prim: &MATMUL, lower: |c, outs, l| lower(c, outs, l, activation(c)?) },
    compose: Some(|c, outs| {
        let before = c.t(fused_linear::INPUT)?.linear(c.t(fused_linear::WEIGHT)?, c.opt(fused_linear::BIAS))?;
        outs.give(activate(&before, activation(c)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        linear_rows(c, c.opt(fused_linear::BIAS).is_some(), rows)?;
        // An activation is not linear: no partial sums through it.
        rows.retain(|r| !r.outs[0].is_partial());
        Ok(())
    })),
    cost,
    amp: Amp::LOWER,
    samples: || {
        samples()
            .into_iter()
            .map(|mut s| {
                s.args.push(SampleArg::Str("gelu"));
                s
            })
            .collect()
    },
    ..OpDef::BASE
};

/// What the compiler puts in place of linear followed by an activation, where backward needs the value in between.
pub static FUSED_KEEP: OpDef = OpDef {
    sig: Sig::parse(
        "fused_linear_keep(Tensor input, Tensor weight, Tensor? bias, str activation) -> (Tensor output, Tensor before)",
    ),
    doc: "`activation(input @ weight.T + bias)` and what the activation was given, both from the product's epilogue.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        (FUSED.infer)(c, outs)?;
        infer(c, outs)
    },
    kernel: Kernel::Prim { prim: &MATMUL, lower: |c, outs, l| lower(c, outs, l, activation(c)?) },
    compose: Some(|c, outs| {
        let before =
            c.t(fused_linear_keep::INPUT)?.linear(c.t(fused_linear_keep::WEIGHT)?, c.opt(fused_linear_keep::BIAS))?;
        outs.give(activate(&before, activation(c)?)?);
        outs.give(before);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    cost,
    amp: Amp::LOWER,
    samples: FUSED.samples,
    ..OpDef::BASE
};

/// What the compiler puts in place of linear followed by an addition, where nobody needs the product alone.
pub static FUSED_ADD: OpDef = OpDef {
    sig: Sig::parse("fused_linear_add(Tensor input, Tensor weight, Tensor? bias, Tensor residual) -> Tensor"),
    doc: "`input @ weight.T + bias + residual`, all in the product's epilogue; the residual has the result's sizes.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        infer(c, outs)?;
        check_residual(c, c.t(fused_linear_add::RESIDUAL)?, &outs[fused_linear_add::RESULT])
    },
    kernel: Kernel::Prim {
        prim: &MATMUL,
        lower: |c, outs, l| {
            lower(c, outs, l, Activation::None)?;
            l.ins.pop();
            lower_residual(l, fused_linear_add::RESIDUAL, c.t(fused_linear_add::RESIDUAL)?)
        },
    },
    compose: Some(|c, outs| {
        outs.give(
            c.t(fused_linear_add::INPUT)?
                .linear(c.t(fused_linear_add::WEIGHT)?, c.opt(fused_linear_add::BIAS))?
                .add(c.t(fused_linear_add::RESIDUAL)?)?,
        );
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    cost,
    amp: Amp::LOWER,
    samples: || {
        let t = |x: &[i64], w: &[i64], r: &[i64]| {
            Sample::new(vec![SampleArg::f32(x), SampleArg::f32(w), SampleArg::f32(&w[..1]), SampleArg::f32(r)])
        };
        vec![t(&[4, 6], &[8, 6], &[4, 8]), t(&[2, 4, 6], &[8, 6], &[2, 4, 8])]
    },
    ..OpDef::BASE
};
