//! `rand`, `rand_like`: Uniform numbers in [0, 1).

use crate::named::{rand, rand_like};
use crate::prelude::*;

fn uniform_parts(c: &Call<'_>, outs: &mut Outs, rng: Arg<'_>) -> Result<()> {
    super::draw::of_parts(c, outs, rng, |sizes, g, d, device| {
        f::rand_with(sizes, Some(g), Some(d), Some(device), false)
    })
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "rand(int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Uniform numbers in [0, 1).

Example::

    >>> oneflow.rand(2, 3).shape
    oneflow.Size([2, 3])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        super::draw::drawn(c, c.arg(rand::DTYPE).dtype().unwrap_or(default_dtype()))?;
        crate::creation::push(c, c.ints(rand::SIZE)?, c.arg(rand::DTYPE), c.arg(rand::DEVICE), outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| super::draw::draw(l, RandomKind::Uniform, c.arg(rand::GENERATOR), 0.0, 1.0),
    },
    compose: Some(|c, outs| uniform_parts(c, outs, c.arg(rand::GENERATOR))),
    samples: || vec![Sample::new(vec![SampleArg::Ints(vec![3, 4])])],
    ..super::draw::DRAW
};

pub static RAND_LIKE: OpDef = OpDef {
    sig: Sig::parse(
        "rand_like(Tensor input, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "Uniform numbers in [0, 1) of the input's shape.

Example::

    >>> oneflow.rand_like(oneflow.zeros(2)).shape
    oneflow.Size([2])",
    infer: |c, outs| {
        super::draw::like(c, [rand_like::DTYPE.any(), rand_like::DEVICE.any(), rand_like::MEMORY_FORMAT.any()], outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| super::draw::draw(l, RandomKind::Uniform, c.arg(rand_like::GENERATOR), 0.0, 1.0),
    },
    compose: Some(|c, outs| uniform_parts(c, outs, c.arg(rand_like::GENERATOR))),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..super::draw::DRAW
};
