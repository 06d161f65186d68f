//! `randint`, `randint_like`: Uniform integers in [0, high).

use crate::named::{randint, randint_like, randint_like_low, randint_low};
use crate::prelude::*;

/// Checks that there is something in [low, high), and that an integer dtype holds its ends.
pub(super) fn integers(c: &Call<'_>, dtype: DType, low: i64, high: i64) -> Result<()> {
    if low >= high {
        return Err(Error::runtime(format!(
            "{}(): random_ expects 'from' to be less than 'to', but got from={low} >= to={high}",
            c.name()
        )));
    }
    let (least, most) = match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, u8::MAX.into()),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::U64 => (0, i64::MAX),
        DType::F16 => (-65504, 65504),
        _ => return Ok(()),
    };
    for (what, n) in [("from", low), ("to - 1", high - 1)] {
        if !(least..=most).contains(&n) {
            return Err(Error::runtime(format!("{what} is out of bounds for {}", dtype.name())));
        }
    }
    Ok(())
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "randint(int high, int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Uniform integers in [0, high).

Example::

    >>> oneflow.randint(10, (2, 3)).shape
    oneflow.Size([2, 3])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let dtype = c.arg(randint::DTYPE).dtype().unwrap_or(DType::I64);
        integers(c, dtype, 0, c.int(randint::HIGH)?)?;
        crate::creation::push(c, c.ints(randint::SIZE)?, Arg::DType(dtype), c.arg(randint::DEVICE), outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            super::draw::draw(l, RandomKind::Integers, c.arg(randint::GENERATOR), 0i64, c.int(randint::HIGH)?)
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::Int(9), SampleArg::Ints(vec![3, 4])])],
    ..super::draw::DRAW
};

pub static RANDINT: OpDef = OpDef {
    sig: Sig::parse(
        "randint.low(int low, int high, int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Uniform integers in [low, high).

Example::

    >>> oneflow.randint(5, 10, (2, 3)).shape
    oneflow.Size([2, 3])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let dtype = c.arg(randint_low::DTYPE).dtype().unwrap_or(DType::I64);
        integers(c, dtype, c.int(randint_low::LOW)?, c.int(randint_low::HIGH)?)?;
        crate::creation::push(c, c.ints(randint_low::SIZE)?, Arg::DType(dtype), c.arg(randint_low::DEVICE), outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            super::draw::draw(
                l,
                RandomKind::Integers,
                c.arg(randint_low::GENERATOR),
                c.int(randint_low::LOW)?,
                c.int(randint_low::HIGH)?,
            )
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::Int(2), SampleArg::Int(9), SampleArg::Ints(vec![3, 4])])],
    ..super::draw::DRAW
};

/// Integers of the input's shape, in its dtype unless one is named.
fn integers_like(
    c: &Call<'_>,
    [dtype, device, format]: [AnyArg; 3],
    low: i64,
    high: i64,
    outs: &mut Outs,
) -> Result<()> {
    let x = c.t(randint_like::INPUT)?;
    let (d, dev) = (c.arg(dtype).dtype().unwrap_or(x.dtype()), c.arg(device).device().unwrap_or(x.device()));
    integers(c, d, low, high)?;
    crate::elementwise::push_like(x, d, dev, c.arg(format).str(), outs)
}

pub static RANDINT_LIKE_HIGH: OpDef = OpDef {
    sig: Sig::parse(
        "randint_like(Tensor input, int high, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "Uniform integers in [0, high) of the input's shape.

Example::

    >>> oneflow.randint_like(oneflow.zeros(2), 1)
    tensor([0., 0.])",
    infer: |c, outs| {
        integers_like(
            c,
            [randint_like::DTYPE.any(), randint_like::DEVICE.any(), randint_like::MEMORY_FORMAT.any()],
            0,
            c.int(randint_like::HIGH)?,
            outs,
        )
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            super::draw::draw(l, RandomKind::Integers, c.arg(randint_like::GENERATOR), 0i64, c.int(randint_like::HIGH)?)
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Int(9)])],
    ..super::draw::DRAW
};

pub static RANDINT_LIKE: OpDef = OpDef {
    sig: Sig::parse(
        "randint_like.low(Tensor input, int low, int high, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "Uniform integers in [low, high) of the input's shape.",
    infer: |c, outs| {
        integers_like(
            c,
            [randint_like_low::DTYPE.any(), randint_like_low::DEVICE.any(), randint_like_low::MEMORY_FORMAT.any()],
            c.int(randint_like_low::LOW)?,
            c.int(randint_like_low::HIGH)?,
            outs,
        )
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            super::draw::draw(
                l,
                RandomKind::Integers,
                c.arg(randint_like_low::GENERATOR),
                c.int(randint_like_low::LOW)?,
                c.int(randint_like_low::HIGH)?,
            )
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Int(2), SampleArg::Int(9)])],
    ..super::draw::DRAW
};
