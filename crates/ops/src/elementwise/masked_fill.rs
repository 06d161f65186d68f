//! `masked_fill`: `input` with `value` (a number or a 0-dim tensor) where `mask` is true.

use crate::index::overlapped::write_changed_of;
use crate::named::masked_fill;
use crate::prelude::*;

static FILL: Expr = expr!(num "masked_fill", |x, m, v| L::select(m.is_true(), v, x))
    .complex(complex!(|x, m, v| Cx::select(m.is_true(), v, x)));

static FILL_SCALAR: Expr = expr!(num "masked_fill_scalar", |x, m; p| L::select(m.is_true(), p[0], x))
    .complex(complex!(|x, m; p| Cx::select(m.is_true(), p[0], x)));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("masked_fill(Tensor input, Tensor mask, Tensor|Scalar value) -> Tensor"),
    doc: "`input` with `value` (a number or a 0-dim tensor) where `mask` is true.

Example::

    >>> oneflow.zeros(2).masked_fill(oneflow.tensor([True, False]), 5.)
    tensor([5., 0.])",
    faces: Faces::FN_METHOD.or(Faces::INPLACE),
    infer: |c, outs| {
        let (x, m) = (c.t(masked_fill::INPUT)?, c.t(masked_fill::MASK)?);
        super::where_::check_mask(m, "masked_fill_ only supports boolean masks, but got mask with dtype")?;
        if let Some(v) = c.opt(masked_fill::VALUE)
            && v.ndim() > 0
        {
            return Err(Error::runtime(format!(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                v.ndim()
            )));
        }
        // A number is cast if the dtype can hold it; of a tensor that depends on data, unless it is complex.
        match (c.arg(masked_fill::VALUE_SCALAR).scalar(), c.opt(masked_fill::VALUE)) {
            (Some(s), _) => scalar_range::check(c, x.dtype(), s)?,
            (None, Some(v)) if v.dtype().is_complex() && !x.dtype().is_complex() => {
                return Err(Error::runtime(format!(
                    "masked_fill(): value cannot be converted to type {} without overflow",
                    x.dtype().scalar_type_name()
                )));
            }
            _ => {}
        }
        let sizes = broadcast_shapes(x.sizes(), m.sizes()).map_err(|e| e.context("masked_fill(): "))?;
        outs.push(x.dtype(), x.device(), &sizes)
    },
    kernel: Kernel::Elementwise(|c, outs, p| {
        let compute = outs[masked_fill::RESULT].dtype().compute();
        p.push(compute.into());
        match c.arg(masked_fill::VALUE_SCALAR).scalar() {
            Some(s) => {
                super::push_scalar(p, compute, scalar_range::written(outs[masked_fill::RESULT].dtype(), s));
                Ok(&FILL_SCALAR)
            }
            None => Ok(&FILL),
        }
    }),
    grad: Grad::Rule {
        save: &[Save::of(masked_fill::MASK, &[masked_fill::INPUT, masked_fill::VALUE])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(masked_fill::INPUT, || c.g()?.masked_fill(c.x(masked_fill::MASK)?, 0.0))?;
            out.set(masked_fill::VALUE, || c.x(masked_fill::MASK)?.r#where(c.g()?, 0.0))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[masked_fill::INPUT, masked_fill::VALUE])] }),
    traits: Traits::ALIAS_OK,
    into_overlapped: Some(write_changed_of!("masked_fill", "tensor[mask] = scalar")),
    samples: || {
        let t = |s: &[i64], m: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::bool(m), SampleArg::Float(1.5)]);
        vec![t(&[3, 4], &[3, 4]), t(&[3, 4], &[4]), t(&[2, 3, 4], &[3, 1])]
    },
    limited: Limited::COMPLEX,
    ..OpDef::BASE
};
