//! `draw_in_order`: Numbers of a kind that an engine draws one after the other, laid out as the input.

use crate::named::{bernoulli_tensor, draw_in_order, rand, rand_like};
use crate::prelude::*;

/// Fills the launch: kind, key, position, the two parameters, the window.
pub(super) fn draw(
    l: &mut Lowered,
    kind: RandomKind,
    rng: Arg<'_>,
    a: impl Into<Word>,
    b: impl Into<Word>,
) -> Result<()> {
    let (seed, offset) = rng.rng()?;
    l.output(rand::RESULT).with(RandomParams {
        kind,
        seed,
        offset,
        a: a.into(),
        b: b.into(),
        shard: super::shard_of(rng),
    });
    Ok(())
}

pub(super) const DRAW: OpDef = OpDef {
    faces: Faces::FN,
    sbp: SbpRule::of(Rows::Custom(crate::creation::unread_rows)),
    traits: Traits::RANDOM.or(Traits::ALIAS_OK),
    limited: Limited::UNSIGNED.or(Limited::COMPLEX),
    ..OpDef::BASE
};

/// The draw fills a tensor of the input's meta.
pub(super) const FILL_WITH: OpDef = OpDef {
    faces: Faces::INPLACE,
    infer: |c, outs| {
        outs.push(
            c.t(bernoulli_tensor::INPUT)?.dtype(),
            c.t(bernoulli_tensor::INPUT)?.device(),
            c.t(bernoulli_tensor::INPUT)?.sizes(),
        )
    },
    grad: Grad::Rule { save: &[], fix: Fix::None, f: crate::creation::copy::forgotten },
    ..DRAW
};

fn floating(c: &Call<'_>, dtype: DType) -> Result<()> {
    if dtype.is_float() {
        return Ok(());
    }
    Err(Error::not_implemented(format!("\"{}\" not implemented for '{}'", c.name(), dtype.scalar_type_name())))
}

/// Floats, or complex numbers by their parts.
pub(super) fn drawn(c: &Call<'_>, dtype: DType) -> Result<()> {
    if dtype.is_complex() { Ok(()) } else { floating(c, dtype) }
}

/// As `floating`, where torch raises the plain class.
pub(super) fn continuous(c: &Call<'_>, dtype: DType) -> Result<()> {
    floating(c, dtype).map_err(|_| {
        let name = dtype.scalar_type_name();
        Error::runtime(format!("{}(): dtype must be a floating point but you specified {name}", c.name()))
    })
}

/// Draws of complex numbers: of both parts, as the last dimension of a real draw.
pub(super) fn of_parts(
    c: &Call<'_>,
    outs: &mut Outs,
    rng: Arg<'_>,
    draw: impl Fn(&[i64], &Generator, DType, Device) -> Result<Tensor>,
) -> Result<()> {
    let mut shells = Outs::new();
    (c.op.infer)(c, &mut shells)?;
    let shell = &shells[0];
    if !shell.dtype().is_complex() {
        return Err(Error::not_implemented(format!(
            "{}(): is not implemented for {} on {}",
            c.name(),
            shell.dtype(),
            shell.device()
        )));
    }
    let (seed, offset) = rng.rng()?;
    let generator = Generator::at(seed, offset);
    let mut sizes = Dims::from_slice(shell.sizes());
    sizes.push(2);
    outs.give(draw(&sizes, &generator, shell.dtype().to_real(), shell.device())?.view_as_complex()?);
    Ok(())
}

/// dtype and device of the input, unless named.
pub(super) fn like(c: &Call<'_>, [dtype, device, format]: [AnyArg; 3], outs: &mut Outs) -> Result<()> {
    let x = c.t(rand_like::INPUT)?;
    let (d, dev) = (c.arg(dtype).dtype().unwrap_or(x.dtype()), c.arg(device).device().unwrap_or(x.device()));
    drawn(c, d)?;
    crate::elementwise::push_like(x, d, dev, c.arg(format).str(), outs)
}

/// Private: what the ops made of simpler draws are with an engine that draws in order.
pub static DRAW_IN_ORDER: OpDef = OpDef {
    sig: Sig::parse("draw_in_order(Tensor input, int kind, float a, float b, *, Generator? generator=None) -> Tensor"),
    doc: "Numbers of a kind that an engine draws one after the other, laid out as the input.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        crate::elementwise::push_like(
            c.t(draw_in_order::INPUT)?,
            c.t(draw_in_order::INPUT)?.dtype(),
            c.t(draw_in_order::INPUT)?.device(),
            None,
            outs,
        )
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            let kind = RandomKind::from_u64(c.int(draw_in_order::KIND)? as u64)
                .ok_or_else(|| Error::runtime("no such kind"))?;
            draw(l, kind, c.arg(draw_in_order::GENERATOR), c.float(draw_in_order::A)?, c.float(draw_in_order::B)?)
        },
    },
    samples: || {
        vec![Sample::new(vec![
            SampleArg::f32(&[3, 4]),
            SampleArg::Int(0),
            SampleArg::Float(0.0),
            SampleArg::Float(1.0),
        ])]
    },
    ..DRAW
};

/// Draws of a kind in the layout of `x`.
pub(super) fn in_order(x: &Tensor, kind: RandomKind, a: f64, b: f64, rng: Arg<'_>) -> Result<Tensor> {
    let (seed, offset) = rng.rng()?;
    x.draw_in_order_with(kind as u64 as i64, a, b, Some(&Generator::at(seed, offset)))
}
