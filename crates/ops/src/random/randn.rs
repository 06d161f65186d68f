//! `randn`, `randn_like`: Standard normal numbers.

use crate::named::{randn, randn_like};
use crate::prelude::*;

/// Each part has half of the variance.
fn normal_parts(c: &Call<'_>, outs: &mut Outs, rng: Arg<'_>) -> Result<()> {
    super::draw::of_parts(c, outs, rng, |sizes, g, d, device| {
        let parts = f::empty_with(sizes, Some(d), Some(device), false, None)?;
        parts.normal_with_(0.0, 1.0 / 2f64.sqrt(), Some(g))?;
        Ok(parts)
    })
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "randn(int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Standard normal numbers.

Example::

    >>> oneflow.randn(2, 3).shape
    oneflow.Size([2, 3])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        super::draw::drawn(c, c.arg(randn::DTYPE).dtype().unwrap_or(default_dtype()))?;
        crate::creation::push(c, c.ints(randn::SIZE)?, c.arg(randn::DTYPE), c.arg(randn::DEVICE), outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| super::draw::draw(l, RandomKind::Normal, c.arg(randn::GENERATOR), 0.0, 1.0),
    },
    compose: Some(|c, outs| normal_parts(c, outs, c.arg(randn::GENERATOR))),
    samples: || vec![Sample::new(vec![SampleArg::Ints(vec![3, 4])])],
    ..super::draw::DRAW
};

pub static RANDN_LIKE: OpDef = OpDef {
    sig: Sig::parse(
        "randn_like(Tensor input, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "Standard normal numbers of the input's shape.

Example::

    >>> oneflow.randn_like(oneflow.zeros(2)).shape
    oneflow.Size([2])",
    infer: |c, outs| {
        super::draw::like(c, [randn_like::DTYPE.any(), randn_like::DEVICE.any(), randn_like::MEMORY_FORMAT.any()], outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| super::draw::draw(l, RandomKind::Normal, c.arg(randn_like::GENERATOR), 0.0, 1.0),
    },
    compose: Some(|c, outs| normal_parts(c, outs, c.arg(randn_like::GENERATOR))),
    sparse: Sparse::Places,
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..super::draw::DRAW
};
