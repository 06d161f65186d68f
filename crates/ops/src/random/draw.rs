//! Draws from distributions: new tensors, `_like` forms, and in-place fills.

use crate::named::{
    bernoulli_tensor, draw_in_order, exponential, multinomial, normal, rand, rand_like, randint, randint_like,
    randint_like_low, randint_low, randn, randn_like, randperm, uniform,
};
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
    l.output(rand::RESULT).param(kind as u64).param(seed).param(offset).param(a).param(b);
    super::push_window(l, rng);
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
fn drawn(c: &Call<'_>, dtype: DType) -> Result<()> {
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
fn of_parts(
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

fn uniform_parts(c: &Call<'_>, outs: &mut Outs, rng: Arg<'_>) -> Result<()> {
    of_parts(c, outs, rng, |sizes, g, d, device| f::rand_with(sizes, Some(g), Some(d), Some(device), false))
}

/// Each part has half of the variance.
fn normal_parts(c: &Call<'_>, outs: &mut Outs, rng: Arg<'_>) -> Result<()> {
    of_parts(c, outs, rng, |sizes, g, d, device| {
        let parts = f::empty_with(sizes, Some(d), Some(device), false, None)?;
        parts.normal_with_(0.0, 1.0 / 2f64.sqrt(), Some(g))?;
        Ok(parts)
    })
}

pub static RAND: OpDef = OpDef {
    sig: Sig::parse(
        "rand(int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Uniform numbers in [0, 1).

Example::

    >>> oneflow.rand(2, 3).shape
    oneflow.Size([2, 3])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        drawn(c, c.arg(rand::DTYPE).dtype().unwrap_or(default_dtype()))?;
        crate::creation::push(c, c.ints(rand::SIZE)?, c.arg(rand::DTYPE), c.arg(rand::DEVICE), outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| draw(l, RandomKind::Uniform, c.arg(rand::GENERATOR), 0.0, 1.0),
    },
    compose: Some(|c, outs| uniform_parts(c, outs, c.arg(rand::GENERATOR))),
    samples: || vec![Sample::new(vec![SampleArg::Ints(vec![3, 4])])],
    ..DRAW
};

pub static RANDN: OpDef = OpDef {
    sig: Sig::parse(
        "randn(int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Standard normal numbers.

Example::

    >>> oneflow.randn(2, 3).shape
    oneflow.Size([2, 3])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        drawn(c, c.arg(randn::DTYPE).dtype().unwrap_or(default_dtype()))?;
        crate::creation::push(c, c.ints(randn::SIZE)?, c.arg(randn::DTYPE), c.arg(randn::DEVICE), outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| draw(l, RandomKind::Normal, c.arg(randn::GENERATOR), 0.0, 1.0),
    },
    compose: Some(|c, outs| normal_parts(c, outs, c.arg(randn::GENERATOR))),
    samples: || vec![Sample::new(vec![SampleArg::Ints(vec![3, 4])])],
    ..DRAW
};

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
        _ => return Ok(()),
    };
    for (what, n) in [("from", low), ("to - 1", high - 1)] {
        if !(least..=most).contains(&n) {
            return Err(Error::runtime(format!("{what} is out of bounds for {}", dtype.name())));
        }
    }
    Ok(())
}

pub static RANDINT_HIGH: OpDef = OpDef {
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
        lower: |c, _, l| draw(l, RandomKind::Integers, c.arg(randint::GENERATOR), 0i64, c.int(randint::HIGH)?),
    },
    samples: || vec![Sample::new(vec![SampleArg::Int(9), SampleArg::Ints(vec![3, 4])])],
    ..DRAW
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
            draw(
                l,
                RandomKind::Integers,
                c.arg(randint_low::GENERATOR),
                c.int(randint_low::LOW)?,
                c.int(randint_low::HIGH)?,
            )
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::Int(2), SampleArg::Int(9), SampleArg::Ints(vec![3, 4])])],
    ..DRAW
};

/// dtype and device of the input, unless named.
fn like(c: &Call<'_>, [dtype, device, format]: [AnyArg; 3], outs: &mut Outs) -> Result<()> {
    let x = c.t(rand_like::INPUT)?;
    let (d, dev) = (c.arg(dtype).dtype().unwrap_or(x.dtype()), c.arg(device).device().unwrap_or(x.device()));
    drawn(c, d)?;
    crate::elementwise::push_like(x, d, dev, c.arg(format).str(), outs)
}

pub static RAND_LIKE: OpDef = OpDef {
    sig: Sig::parse(
        "rand_like(Tensor input, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "Uniform numbers in [0, 1) of the input's shape.

Example::

    >>> oneflow.rand_like(oneflow.zeros(2)).shape
    oneflow.Size([2])",
    infer: |c, outs| like(c, [rand_like::DTYPE.any(), rand_like::DEVICE.any(), rand_like::MEMORY_FORMAT.any()], outs),
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| draw(l, RandomKind::Uniform, c.arg(rand_like::GENERATOR), 0.0, 1.0),
    },
    compose: Some(|c, outs| uniform_parts(c, outs, c.arg(rand_like::GENERATOR))),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..DRAW
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
        like(c, [randn_like::DTYPE.any(), randn_like::DEVICE.any(), randn_like::MEMORY_FORMAT.any()], outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| draw(l, RandomKind::Normal, c.arg(randn_like::GENERATOR), 0.0, 1.0),
    },
    compose: Some(|c, outs| normal_parts(c, outs, c.arg(randn_like::GENERATOR))),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..DRAW
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
            draw(l, RandomKind::Integers, c.arg(randint_like::GENERATOR), 0i64, c.int(randint_like::HIGH)?)
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Int(9)])],
    ..DRAW
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
            draw(
                l,
                RandomKind::Integers,
                c.arg(randint_like_low::GENERATOR),
                c.int(randint_like_low::LOW)?,
                c.int(randint_like_low::HIGH)?,
            )
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Int(2), SampleArg::Int(9)])],
    ..DRAW
};

pub static UNIFORM: OpDef = OpDef {
    sig: Sig::parse("uniform(Tensor input, float from=0, float to=1, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with uniform numbers in [from, to).

Example::

    >>> oneflow.zeros(2).uniform_(1, 2).shape
    oneflow.Size([2])",
    infer: |c, outs| {
        let (a, b) = (c.float(uniform::FROM)?, c.float(uniform::TO)?);
        if a > b || a.is_nan() || b.is_nan() {
            return Err(Error::runtime(format!(
                "uniform_ expects to return a [from, to) range, but found from={a} > to={b}"
            )));
        }
        drawn(c, c.t(uniform::INPUT)?.dtype())?;
        (FILL_WITH.infer)(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            draw(l, RandomKind::Uniform, c.arg(uniform::GENERATOR), c.float(uniform::FROM)?, c.float(uniform::TO)?)
        },
    },
    compose: Some(|c, outs| {
        of_parts(c, outs, c.arg(uniform::GENERATOR), |sizes, g, d, device| {
            let parts = f::empty_with(sizes, Some(d), Some(device), false, None)?;
            parts.uniform_with_(c.float(uniform::FROM)?, c.float(uniform::TO)?, Some(g))?;
            Ok(parts)
        })
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..FILL_WITH
};

pub static NORMAL: OpDef = OpDef {
    sig: Sig::parse("normal(Tensor input, float mean=0, float std=1, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with normal numbers.

Example::

    >>> oneflow.zeros(2).normal_().shape
    oneflow.Size([2])",
    infer: |c, outs| {
        if c.float(normal::STD)? < 0.0 {
            return Err(Error::runtime(format!("normal expects std >= 0.0, but found std {}", c.float(normal::STD)?)));
        }
        drawn(c, c.t(normal::INPUT)?.dtype())?;
        (FILL_WITH.infer)(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            draw(l, RandomKind::Normal, c.arg(normal::GENERATOR), c.float(normal::MEAN)?, c.float(normal::STD)?)
        },
    },
    // Each part has half of the variance, and the mean is real.
    compose: Some(|c, outs| {
        let mut centred = Outs::new();
        of_parts(c, &mut centred, c.arg(normal::GENERATOR), |sizes, g, d, device| {
            let parts = f::empty_with(sizes, Some(d), Some(device), false, None)?;
            parts.normal_with_(0.0, c.float(normal::STD)? / 2f64.sqrt(), Some(g))?;
            Ok(parts)
        })?;
        outs.give(centred[0].add(c.float(normal::MEAN)?)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..FILL_WITH
};

pub static EXPONENTIAL: OpDef = OpDef {
    sig: Sig::parse("exponential(Tensor input, float lambd=1, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with exponential numbers of rate `lambd`.

Example::

    >>> oneflow.zeros(2).exponential_().shape
    oneflow.Size([2])",
    infer: |c, outs| {
        if c.float(exponential::LAMBD)? <= 0.0 {
            return Err(Error::runtime(format!(
                "exponential_ expects lambda > 0.0, but found lambda={}",
                c.float(exponential::LAMBD)?
            )));
        }
        continuous(c, c.t(exponential::INPUT)?.dtype())?;
        (FILL_WITH.infer)(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            draw(l, RandomKind::Exponential, c.arg(exponential::GENERATOR), c.float(exponential::LAMBD)?, 0.0)
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..FILL_WITH
};

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

pub static RANDPERM: OpDef = OpDef {
    sig: Sig::parse(
        "randperm(int n, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "A random permutation of 0 .. n-1.

Example::

    >>> sorted(oneflow.randperm(3).tolist())
    [0, 1, 2]",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let dtype = c.arg(randperm::DTYPE).dtype().unwrap_or(DType::I64);
        crate::creation::push(c, &[c.int(randperm::N)?], Arg::DType(dtype), c.arg(randperm::DEVICE), outs)
    },
    compose: Some(|c, outs| {
        let (seed, offset) = c.arg(randperm::GENERATOR).rng()?;
        let n = c.int(randperm::N)?;
        if n < 0 {
            return Err(Error::runtime(format!("randperm(): n must be non-negative, got {n}")));
        }
        // By whatever engine the CPU has it, which others get it from.
        let dtype = c.arg(randperm::DTYPE).dtype().unwrap_or(DType::I64);
        let like = f::empty_with(&[n], Some(dtype), None, false, None)?;
        let order = like.draw_in_order_with(
            RandomKind::Permutation as u64 as i64,
            0.0,
            0.0,
            Some(&Generator::at(seed, offset)),
        )?;
        let device = c.arg(randperm::DEVICE).device().unwrap_or(Device::CPU);
        outs.give(if device == Device::CPU { order } else { order.to_copy_with(None, Some(device))? });
        Ok(())
    }),
    sbp: SbpRule::of(Rows::OnlyB { why: "a permutation is one order over all elements" }),
    samples: || vec![Sample::new(vec![SampleArg::Int(7)])],
    ..DRAW
};

/// With replacement: the place of each uniform number among the cumulated weights of its row. In order of drawing, sums and
/// places are PyTorch's.
fn by_cumulated(p: &Tensor, n: i64, generator: &Generator, is_in_order: bool) -> Result<Tensor> {
    let (rows, k) = (p.sizes()[0], p.sizes()[1]);
    let u = f::rand_with(&[rows, n], Some(generator), Some(DType::F64), Some(p.device()), false)?;
    if !is_in_order {
        let sums = p.cumsum_with(1, Some(DType::F64))?;
        let whole = sums.narrow(1, k - 1, 1)?;
        let usable = || p.amin(&[1], true)?.ge(0.0)?.logical_and(&whole.isfinite()?.logical_and(&whole.gt(0.0)?)?);
        if !super::distributions::all_hold(p, usable)? {
            return Err(unusable());
        }
        // An element of weight zero ends where the one before it does: no number lies between. Rounding may bring a number
        // up to the whole sum, which lies behind all elements: it stays below.
        let at = u.mul(&whole)?.minimum(&whole.nextafter(&whole.zeros_like()?)?)?;
        return sums.searchsorted_with(&at, false, true, None, None);
    }
    let sums = if p.dtype().size() < 4 {
        // Every sum is rounded to the halves it is kept in.
        let mut columns = vec![p.select(1, 0)?];
        for j in 1..k {
            let next = columns[j as usize - 1].add(&p.select(1, j)?)?;
            columns.push(next);
        }
        f::stack(columns.iter(), 1)?
    } else {
        p.cumsum(1)?
    };
    let sums = sums.div(&sums.narrow(1, k - 1, 1)?)?.to_copy_with(Some(DType::F64), None)?;
    sums.searchsorted(&u)?.clamp(None, Some(Scalar::Int(k - 1)))
}

fn unusable() -> Error {
    Error::runtime(
        "multinomial(): probability tensor contains either `inf`, `nan` or element < 0, or a row that sums to 0",
    )
}

pub static MULTINOMIAL: OpDef = OpDef {
    sig: Sig::parse(
        "multinomial(Tensor input, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
    ),
    doc: "Indices drawn with the given (unnormalised) probabilities, row by row.

Example::

    >>> oneflow.multinomial(oneflow.tensor([0., 1.]), 1)
    tensor([1])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let (x, n) = (c.t(multinomial::INPUT)?, c.int(multinomial::NUM_SAMPLES)?);
        if x.ndim() == 0 || x.ndim() > 2 {
            return Err(Error::runtime(format!("multinomial(): prob_dist must be 1 or 2 dim, got {:?}", x.sizes())));
        }
        continuous(c, x.dtype())?;
        let k = x.sizes()[x.ndim() - 1];
        if n <= 0 {
            return Err(Error::runtime("multinomial(): cannot sample n_sample <= 0 samples"));
        }
        if !c.bool(multinomial::REPLACEMENT) && n > k {
            return Err(Error::runtime(
                "multinomial(): cannot sample n_sample > prob_dist.size(-1) samples without replacement",
            ));
        }
        let mut sizes = Dims::from_slice(x.sizes());
        sizes[x.ndim() - 1] = n;
        outs.push(DType::I64, x.device(), &sizes)
    },
    kernel: Kernel::Host(|c, outs| {
        (c.op.infer)(c, outs)?;
        outs.clear();
        let (x, n) = (c.t(multinomial::INPUT)?, c.int(multinomial::NUM_SAMPLES)?);
        let (seed, offset) = c.arg(multinomial::GENERATOR).rng()?;
        let generator = Generator::at(seed, offset);
        let rows = if x.ndim() == 2 { x.sizes()[0] } else { 1 };
        let k = x.sizes()[x.ndim() - 1];
        let is_in_order = super::is_in_order(c.arg(multinomial::GENERATOR));
        let mut sizes = Dims::from_slice(x.sizes());
        sizes[x.ndim() - 1] = n;
        let p = x.reshape(&[rows, k])?;
        if c.bool(multinomial::REPLACEMENT) && !is_in_order {
            outs.give(by_cumulated(&p, n, &generator, is_in_order)?.reshape(&sizes)?);
            return Ok(());
        }
        // Drawn in order, the numbers are of the input's dtype.
        let p = if is_in_order { p.contiguous()? } else { p.to_copy_with(Some(DType::F32), None)? };
        let usable = || {
            let weights = p.isfinite()?.logical_and(&p.ge(0.0)?)?.all(&[1], false)?;
            weights.logical_and(&p.sum(&[1], false)?.gt(0.0)?)
        };
        if !super::distributions::all_hold(&p, usable)? {
            return Err(unusable());
        }
        if c.bool(multinomial::REPLACEMENT) && n > 1 {
            outs.give(by_cumulated(&p, n, &generator, is_in_order)?.reshape(&sizes)?);
            return Ok(());
        }
        // The greatest of p / e with exponential e is a draw with probability p; the n greatest are draws without replacement.
        let p = p.contiguous()?;
        let e = p.empty_like()?;
        e.exponential_with_(1.0, Some(&generator))?;
        let keys = p.div(&e)?;
        let picked = if n == 1 {
            keys.argmax(Some(-1), false)?
        } else {
            let [_, i] = keys.topk(n, -1, true, true)?;
            i
        };
        outs.give(picked.reshape(&sizes)?);
        Ok(())
    }),
    sbp: SbpRule::of(Rows::OnlyB { why: "its draws are numbered by row, and are made on the host" }),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 0.1, 1.0), SampleArg::Int(2)])],
    traits: Traits::RANDOM.or(Traits::ALIAS_OK).or(Traits::EXACT_OUT),
    ..DRAW
};
