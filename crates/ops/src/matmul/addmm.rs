//! `addmm`: `beta * input + alpha * (mat1 @ mat2)`.

use super::*;
use crate::named::addmm as at;

/// Sizes of the product, after every check that metas allow.
fn sizes(c: &Call<'_>, rank: usize) -> Result<(Dims, Dims)> {
    let (x, a, b) = (c.t(at::INPUT)?, c.t(at::MAT1)?, c.t(at::MAT2)?);
    if a.ndim() != rank || b.ndim() != rank {
        return Err(Error::runtime(format!(
            "{}(): mat1 and mat2 must be {rank}-D tensors, got {:?} and {:?}",
            c.name(),
            a.sizes(),
            b.sizes()
        )));
    }
    if x.dtype() != a.dtype() {
        return Err(Error::runtime(format!(
            "{}(): Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}",
            c.name(),
            x.dtype(),
            a.dtype(),
            b.dtype()
        )));
    }
    let (out, batch) = product_sizes(c.name(), a, b)?;
    let batches_agree = rank == 2 || a.sizes()[0] == b.sizes()[0];
    if !batches_agree || broadcast_shapes(x.sizes(), &out).is_ok_and(|s| s != out) || x.ndim() > out.len() {
        return Err(Error::runtime(format!(
            "{}(): The expanded size of the input {:?} must match the product {:?} of {:?} and {:?}",
            c.name(),
            x.sizes(),
            out.as_slice(),
            a.sizes(),
            b.sizes()
        )));
    }
    broadcast_shapes(x.sizes(), &out).map_err(|e| e.context(format_args!("{}(): ", c.name())))?;
    Ok((out, batch))
}

/// A factor. Those of integers are integers; one is left out.
pub(super) fn factor(arg: Arg<'_>, dtype: DType) -> Option<Scalar> {
    let s = arg.scalar()?;
    let s = if dtype.is_differentiable() { s } else { Scalar::Int(s.to_i64()) };
    (!s.is_one()).then_some(s)
}

pub(super) fn times(t: &Tensor, factor: Option<Scalar>) -> Result<Tensor> {
    match factor {
        Some(s) => t.mul(s),
        None => Ok(t.clone()),
    }
}

pub(super) fn infer(c: &Call<'_>, rank: usize, outs: &mut Outs) -> Result<()> {
    let (s, _) = sizes(c, rank)?;
    let dtype = c.t(at::INPUT)?.dtype();
    scalar_range::check_factor(c, dtype, c.arg(at::BETA).scalar())?;
    scalar_range::check_factor(c, dtype, c.arg(at::ALPHA).scalar())?;
    outs.push(c.t(at::INPUT)?.dtype(), c.t(at::INPUT)?.device(), &s)
}

pub(super) fn lower(c: &Call<'_>, rank: usize, outs: &Outs, l: &mut Lowered) -> Result<()> {
    let (x, a, b) = (c.t(at::INPUT)?, c.t(at::MAT1)?, c.t(at::MAT2)?);
    if !x.dtype().is_float() || factor(c.arg(at::BETA), x.dtype()).is_some() || a.sizes().ends_with(&[0]) {
        return Err(Error::not_implemented(format!("{}: other factors of the input run the composition", c.name())));
    }
    let (s, batch) = sizes(c, rank)?;
    lower_product(l, a, b, &outs[at::RESULT], &batch)?;
    for o in l.ins.iter_mut().flatten() {
        // The product's operands stand one later among the inputs than those of matmul.
        if let Slot::In(i) = &mut o.slot {
            *i += 1;
        }
    }
    l.input_expanded(at::INPUT, x, &s);
    l.ins.push(None);
    let alpha = factor(c.arg(at::ALPHA), x.dtype()).map_or(1.0, Scalar::to_f64);
    l.with(MatmulParams { activation: Activation::None, alpha });
    Ok(())
}

pub(super) fn compose(c: &Call<'_>, rank: usize) -> Result<Tensor> {
    let (s, _) = sizes(c, rank)?;
    let (x, a, b) = (c.t(at::INPUT)?, c.t(at::MAT1)?, c.t(at::MAT2)?);
    let dtype = x.dtype();
    let wide = |t: &Tensor| match dtype.compute() {
        d if d != dtype && dtype.is_float() => t.to_copy_with(Some(d), None),
        _ => Ok(t.clone()),
    };
    let out = times(&wide(a)?.matmul(&wide(b)?)?, factor(c.arg(at::ALPHA), dtype))?;
    let out = match factor(c.arg(at::BETA), dtype) {
        // A term without weight is not read: it may hold anything.
        Some(beta) if beta.parts() == (0.0, 0.0) => out,
        beta => out.add(&times(&wide(x)?.expand(&s)?, beta)?)?,
    };
    if out.dtype() == dtype { Ok(out) } else { out.to_copy_with(Some(dtype), None) }
}

pub(super) const AFFINE: OpDef = OpDef {
    faces: Faces::ALL,
    grad: Grad::Rule {
        save: &[Save::of(at::MAT1, &[at::MAT2]), Save::of(at::MAT2, &[at::MAT1])],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (g, dtype) = (c.g()?, c.out_meta(at::RESULT).dtype);
            let dual = |arg: Arg<'_>| factor(arg, dtype).map(Scalar::conj);
            let alpha = dual(c.arg(at::ALPHA));
            out.set(at::INPUT, || times(g, dual(c.arg(at::BETA))))?;
            out.set(at::MAT1, || times(&g.matmul(&conj(c.x(at::MAT2)?)?.transpose(-2, -1)?)?, alpha))?;
            out.set(at::MAT2, || times(&conj(c.x(at::MAT1)?)?.transpose(-2, -1)?.matmul(g)?, alpha))
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    cost: |c, outs| product_cost(c, at::MAT1, outs),
    amp: Amp::LOWER,
    ..OpDef::BASE
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
    doc: "`beta * input + alpha * (mat1 @ mat2)`.

Example::

    >>> oneflow.addmm(oneflow.zeros(1), oneflow.ones(1, 2), oneflow.ones(2, 1))
    tensor([[2.]])",
    infer: |c, outs| infer(c, 2, outs),
    kernel: Kernel::Prim { prim: &MATMUL, lower: |c, outs, l| lower(c, 2, outs, l) },
    compose: Some(|c, outs| {
        outs.give(compose(c, 2)?);
        Ok(())
    }),
    samples: || {
        let s = || Sample::new(vec![SampleArg::f32(&[8]), SampleArg::f32(&[4, 6]), SampleArg::f32(&[6, 8])]);
        vec![s(), s().kw("alpha", SampleArg::Float(0.5)), s().kw("beta", SampleArg::Float(2.0))]
    },
    traits: Traits::EXACT_OUT,
    ..AFFINE
};
