//! `normal`: Fills the tensor with normal numbers.

use super::draw::DRAW;
use crate::named::{normal, normal_float_float, normal_float_tensor, normal_tensor_float, normal_tensor_tensor};
use crate::prelude::*;

/// Normal numbers of the broadcast shape in `dtype`, scaled and moved.
fn normal(
    c: &Call<'_>,
    rng: Arg<'_>,
    mean: Option<&Tensor>,
    std: Option<&Tensor>,
    numbers: (f64, f64),
    outs: &mut Outs,
) -> Result<()> {
    let some = mean.or(std).ok_or_else(|| Error::runtime("normal(): no tensor was given"))?;
    if std.is_some_and(|s| s.dtype().is_complex()) {
        return Err(Error::runtime("normal expects standard deviation to be non-complex"));
    }
    let sizes = match (mean, std) {
        (Some(m), Some(s)) => broadcast_shapes(m.sizes(), s.sizes()).map_err(|e| e.context("normal(): "))?,
        _ => Dims::from_slice(some.sizes()),
    };
    let dtype = match (mean, std) {
        (Some(m), _) => m.dtype(),
        _ => some.dtype(),
    };
    super::distributions::float_only(c, dtype)?;
    let like = if some.sizes() == sizes.as_slice() { some.clone() } else { some.expand(&sizes)? };
    let z = like.contiguous()?.randn_like_with(
        Some(&super::distributions::generator(rng)?),
        Some(dtype),
        None,
        false,
        None,
    )?;
    let z = match std {
        Some(s) => {
            if !super::distributions::all_hold(s, || s.ge(0.0))? {
                return Err(Error::runtime("normal expects all elements of std >= 0.0"));
            }
            z.mul(s)?
        }
        None => z.mul(numbers.1)?,
    };
    let y = match mean {
        Some(m) => z.add(m)?,
        None => z.add(numbers.0)?,
    };
    outs.give(if y.dtype() == dtype { y } else { y.to_copy_with(Some(dtype), None)? });
    Ok(())
}

fn check_std(std: f64) -> Result<()> {
    if std >= 0.0 {
        return Ok(());
    }
    Err(Error::runtime(format!("normal expects std >= 0.0, but found std {std}")))
}

pub static NORMAL_BOTH: OpDef = OpDef {
    sig: Sig::parse("normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor"),
    doc: "Normal numbers with the given means and standard deviations (tensors or numbers).

Example::

    >>> oneflow.normal(oneflow.zeros(2), oneflow.zeros(2))
    tensor([0., 0.])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        super::distributions::float_only(c, c.t(normal_tensor_tensor::MEAN)?.dtype())?;
        crate::elementwise::push_broadcast(c, c.t(normal_tensor_tensor::MEAN)?.dtype(), outs)
    },
    compose: Some(|c, outs| {
        normal(
            c,
            c.arg(normal_tensor_tensor::GENERATOR),
            Some(c.t(normal_tensor_tensor::MEAN)?),
            Some(c.t(normal_tensor_tensor::STD)?),
            (0.0, 1.0),
            outs,
        )
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::range(&[4], 0.5, 1.0)])],
    ..super::distributions::BY_TENSORS
};

pub static NORMAL_MEAN: OpDef = OpDef {
    sig: Sig::parse("normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor"),
    doc: "",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        check_std(c.float(normal_tensor_float::STD)?)?;
        super::distributions::float_only(c, c.t(normal_tensor_float::MEAN)?.dtype())?;
        crate::elementwise::push_broadcast(c, c.t(normal_tensor_float::MEAN)?.dtype(), outs)
    },
    compose: Some(|c, outs| {
        check_std(c.float(normal_tensor_float::STD)?)?;
        normal(
            c,
            c.arg(normal_tensor_float::GENERATOR),
            Some(c.t(normal_tensor_float::MEAN)?),
            None,
            (0.0, c.float(normal_tensor_float::STD)?),
            outs,
        )
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(0.5)])],
    ..super::distributions::BY_TENSORS
};

pub static NORMAL_STD: OpDef = OpDef {
    sig: Sig::parse("normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor"),
    doc: "",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        super::distributions::float_only(c, c.t(normal_float_tensor::STD)?.dtype())?;
        crate::elementwise::push_broadcast(c, c.t(normal_float_tensor::STD)?.dtype(), outs)
    },
    compose: Some(|c, outs| {
        normal(
            c,
            c.arg(normal_float_tensor::GENERATOR),
            None,
            Some(c.t(normal_float_tensor::STD)?),
            (c.float(normal_float_tensor::MEAN)?, 1.0),
            outs,
        )
    }),
    samples: || vec![Sample::new(vec![SampleArg::Float(0.5), SampleArg::range(&[3, 4], 0.5, 1.0)])],
    ..super::distributions::BY_TENSORS
};

pub static NORMAL_SIZE: OpDef = OpDef {
    sig: Sig::parse(
        "normal.float_float(float mean, float std, int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        check_std(c.float(normal_float_float::STD)?)?;
        super::distributions::float_only(c, c.arg(normal_float_float::DTYPE).dtype().unwrap_or(default_dtype()))?;
        crate::creation::push(
            c,
            c.ints(normal_float_float::SIZE)?,
            c.arg(normal_float_float::DTYPE),
            c.arg(normal_float_float::DEVICE),
            outs,
        )
    },
    compose: Some(|c, outs| {
        check_std(c.float(normal_float_float::STD)?)?;
        let g = super::distributions::generator(c.arg(normal_float_float::GENERATOR))?;
        let z = f::empty_with(
            c.ints(normal_float_float::SIZE)?,
            c.arg(normal_float_float::DTYPE).dtype(),
            c.arg(normal_float_float::DEVICE).device(),
            false,
            None,
        )?;
        z.normal_with_(c.float(normal_float_float::MEAN)?, c.float(normal_float_float::STD)?, Some(&g))?;
        outs.give(z);
        Ok(())
    }),
    sbp: SbpRule::of(Rows::OnlyB {
        why: "its draws are numbered by the whole tensor, whose sizes only the composition knows",
    }),
    samples: || vec![Sample::new(vec![SampleArg::Float(0.5), SampleArg::Float(2.0), SampleArg::Ints(vec![3, 4])])],
    ..DRAW
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("normal(Tensor input, float mean=0, float std=1, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with normal numbers.

Example::

    >>> oneflow.zeros(2).normal_().shape
    oneflow.Size([2])",
    infer: |c, outs| {
        if c.float(normal::STD)? < 0.0 {
            return Err(Error::runtime(format!("normal expects std >= 0.0, but found std {}", c.float(normal::STD)?)));
        }
        super::draw::drawn(c, c.t(normal::INPUT)?.dtype())?;
        (super::draw::FILL_WITH.infer)(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            super::draw::draw(
                l,
                RandomKind::Normal,
                c.arg(normal::GENERATOR),
                c.float(normal::MEAN)?,
                c.float(normal::STD)?,
            )
        },
    },
    // Each part has half of the variance, and the mean is real.
    compose: Some(|c, outs| {
        let mut centred = Outs::new();
        super::draw::of_parts(c, &mut centred, c.arg(normal::GENERATOR), |sizes, g, d, device| {
            let parts = f::empty_with(sizes, Some(d), Some(device), false, None)?;
            parts.normal_with_(0.0, c.float(normal::STD)? / 2f64.sqrt(), Some(g))?;
            Ok(parts)
        })?;
        outs.give(centred[0].add(c.float(normal::MEAN)?)?);
        Ok(())
    }),
    sparse: Sparse::Places,
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..super::draw::FILL_WITH
};
