//! What the ops that draw from a distribution share: checks of dtypes, dense parameters, and numbers drawn in float64.

use super::draw::{DRAW, FILL_WITH};
use crate::named::{log_normal, normal_tensor_tensor, poisson, poisson_doubles};
use crate::prelude::*;

/// A generator at the position a call was given.
pub(super) fn generator(rng: Arg<'_>) -> Result<Generator> {
    let (seed, offset) = rng.rng()?;
    Ok(Generator::at(seed, offset))
}

/// Whether a condition on the values of `t` holds everywhere. Values that are not at hand (traced, of several ranks, on another
/// device) are not waited for: what is drawn of bad parameters is undefined there.
pub(crate) fn all_hold(t: &Tensor, condition: impl Fn() -> Result<Tensor>) -> Result<bool> {
    if t.numel() == 0 || !is_at_hand(t) {
        return Ok(true);
    }
    let all = copy_to_host(&condition()?.all(None::<&[i64]>, false)?)?;
    // SAFETY: the host copy holds one boolean.
    Ok(unsafe { all.data_ptr().cast::<bool>().read() })
}

pub(super) fn float_only(c: &Call<'_>, d: DType) -> Result<()> {
    if d.is_float() {
        return Ok(());
    }
    Err(Error::not_implemented(format!("\"{}\" not implemented for '{}'", c.name(), d.scalar_type_name())))
}

pub(super) const BY_TENSORS: OpDef = OpDef {
    faces: Faces::FN,
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(normal_tensor_tensor::MEAN, || c.g()?.zeros_like())?;
            out.set(normal_tensor_tensor::STD, || c.g()?.zeros_like())
        },
    },
    sbp: SbpRule::of(Rows::OnlyB {
        why: "its draws are numbered by the whole tensor, whose sizes only the composition knows",
    }),
    ..DRAW
};

/// A fill by a function of a simpler draw of the same shape.
pub(super) const FILL_BY_PARTS: OpDef = OpDef {
    infer: |c, outs| {
        float_only(c, c.t(log_normal::INPUT)?.dtype())?;
        (FILL_WITH.infer)(c, outs)
    },
    sbp: SbpRule::of(Rows::OnlyB {
        why: "its draws are numbered by the whole tensor, whose sizes only the composition knows",
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..FILL_WITH
};

/// Lowers to RANDOM_BY with one or two parameters as doubles.
pub(super) fn by(
    l: &mut Lowered,
    c: &Call<'_>,
    o: &Outs,
    kind: RandomByKind,
    parameters: &[In],
    rng: Arg<'_>,
) -> Result<()> {
    let (seed, offset) = rng.rng()?;
    for at in parameters {
        l.input_expanded(*at, c.t(*at)?, o[poisson_doubles::RESULT].sizes());
    }
    l.output(poisson_doubles::RESULT).with(RandomByParams { kind, seed, offset, shard: super::shard_of(rng) });
    Ok(())
}

/// The op on parameters as doubles, its result in their dtype.
pub(super) fn in_doubles(
    c: &Call<'_>,
    outs: &mut Outs,
    draw: impl Fn(&[Tensor], &Generator) -> Result<Tensor>,
) -> Result<()> {
    let dtype = c.t(poisson::INPUT)?.dtype();
    float_only(c, dtype)?;
    let ins = c.ins.iter().flatten().map(|t| t.to_copy_with(Some(DType::F64), None)).collect::<Result<Vec<_>>>()?;
    let y = draw(&ins, &generator(c.arg(poisson::GENERATOR))?)?;
    outs.give(if dtype == DType::F64 { y } else { y.to_copy_with(Some(dtype), None)? });
    Ok(())
}

/// The broadcast sizes, row-major whatever the parameters' layout is.
fn contiguous(c: &Call<'_>, dtype: DType, outs: &mut Outs) -> Result<()> {
    let mut sizes = Dims::from_slice(c.t(poisson::INPUT)?.sizes());
    for t in c.ins.iter().flatten() {
        sizes = broadcast_shapes(&sizes, t.sizes()).map_err(|e| e.context(format_args!("{}(): ", c.name())))?;
    }
    outs.push(dtype, c.t(poisson::INPUT)?.device(), &sizes)
}

fn doubles(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    if c.ins.iter().flatten().any(|t| t.dtype() != DType::F64) {
        return Err(Error::type_(format!("{}(): parameters must be float64", c.name())));
    }
    contiguous(c, DType::F64, outs)
}

pub(super) fn same_float(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    float_only(c, c.t(poisson::INPUT)?.dtype())?;
    contiguous(c, c.t(poisson::INPUT)?.dtype(), outs)
}

pub(super) const DOUBLES: OpDef = OpDef {
    faces: Faces::PRIVATE,
    infer: doubles,
    sbp: SbpRule::of(Rows::OnlyB { why: "its draws are numbered by the whole tensor" }),
    ..DRAW
};
