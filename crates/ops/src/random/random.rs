//! `random`: fills the tensor with integers, from a range or all that its dtype holds.

use super::draw::FILL_WITH;
use crate::named::{random, random_from, random_to};
use crate::prelude::*;

/// The integers that random_ draws from where no end is named: those a dtype holds exactly.
fn end_of(d: DType) -> i64 {
    match d {
        DType::Bool => 2,
        DType::U8 => 256,
        DType::U16 => 1 << 16,
        DType::U32 => 1 << 32,
        DType::I8 => 128,
        DType::I16 => 1 << 15,
        DType::I32 => 1 << 31,
        DType::I64 | DType::U64 => i64::MAX,
        DType::F16 => (1 << 11) + 1,
        DType::BF16 => (1 << 8) + 1,
        DType::F32 => (1 << 24) + 1,
        _ => (1 << 53) + 1,
    }
}

fn integers(c: &Call<'_>, l: &mut Lowered, rng: Arg<'_>, low: i64, high: i64) -> Result<()> {
    super::randint::integers(c, c.t(random_from::INPUT)?.dtype(), low, high)?;
    if c.t(random_from::INPUT)?.dtype().is_complex() {
        return Err(Error::not_implemented("\"random_\" not implemented for complex numbers"));
    }
    super::draw::draw(l, RandomKind::Integers, rng, low, high)
}

pub static RANDOM_FROM: OpDef = OpDef {
    sig: Sig::parse("random.from(Tensor input, int from, int? to, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with integers in [from, to).

Example::

    >>> oneflow.zeros(2).random_(3, 4)
    tensor([3., 3.])",
    infer: FILL_WITH.infer,
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, o, l| {
            integers(
                c,
                l,
                c.arg(random_from::GENERATOR),
                c.int(random_from::FROM)?,
                c.arg(random_from::TO).int().unwrap_or(end_of(o[random_from::RESULT].dtype())),
            )
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Int(2), SampleArg::Int(9)])],
    ..FILL_WITH
};

pub static RANDOM_TO: OpDef = OpDef {
    sig: Sig::parse("random.to(Tensor input, int to, *, Generator? generator=None) -> Tensor"),
    doc: "",
    infer: FILL_WITH.infer,
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| integers(c, l, c.arg(random_to::GENERATOR), 0, c.int(random_to::TO)?),
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Int(9)])],
    ..FILL_WITH
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("random(Tensor input, *, Generator? generator=None) -> Tensor"),
    doc: "",
    infer: FILL_WITH.infer,
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, o, l| {
            if super::is_in_order(c.arg(random::GENERATOR)) && !o[random::RESULT].dtype().is_complex() {
                return super::draw::draw(l, RandomKind::AnyInteger, c.arg(random::GENERATOR), 0i64, 0i64);
            }
            integers(c, l, c.arg(random::GENERATOR), 0, end_of(o[random::RESULT].dtype()))
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..FILL_WITH
};
