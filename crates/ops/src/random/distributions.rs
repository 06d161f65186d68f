//! Distributions with tensors as parameters, and in-place fills that are functions of simpler draws.

use super::draw::{DRAW, FILL_WITH, in_order};
use crate::named::{
    bernoulli, bernoulli_float, bernoulli_p, bernoulli_tensor, binomial, binomial_doubles, cauchy, gamma_doubles,
    geometric, log_normal, normal_float_float, normal_float_tensor, normal_tensor_float, normal_tensor_tensor, poisson,
    poisson_doubles, random, random_from, random_to,
};
use crate::prelude::*;

/// A generator at the position a call was given.
fn generator(rng: Arg<'_>) -> Result<Generator> {
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

fn float_only(c: &Call<'_>, d: DType) -> Result<()> {
    if d.is_float() {
        return Ok(());
    }
    Err(Error::not_implemented(format!("\"{}\" not implemented for '{}'", c.name(), d.scalar_type_name())))
}

const BY_TENSORS: OpDef = OpDef {
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
    float_only(c, dtype)?;
    let like = if some.sizes() == sizes.as_slice() { some.clone() } else { some.expand(&sizes)? };
    let z = like.contiguous()?.randn_like_with(Some(&generator(rng)?), Some(dtype), None, false, None)?;
    let z = match std {
        Some(s) => {
            if !all_hold(s, || s.ge(0.0))? {
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
        float_only(c, c.t(normal_tensor_tensor::MEAN)?.dtype())?;
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
    ..BY_TENSORS
};

pub static NORMAL_MEAN: OpDef = OpDef {
    sig: Sig::parse("normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor"),
    doc: "",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        check_std(c.float(normal_tensor_float::STD)?)?;
        float_only(c, c.t(normal_tensor_float::MEAN)?.dtype())?;
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
    ..BY_TENSORS
};

pub static NORMAL_STD: OpDef = OpDef {
    sig: Sig::parse("normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor"),
    doc: "",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        float_only(c, c.t(normal_float_tensor::STD)?.dtype())?;
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
    ..BY_TENSORS
};

pub static NORMAL_SIZE: OpDef = OpDef {
    sig: Sig::parse(
        "normal.float_float(float mean, float std, int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        check_std(c.float(normal_float_float::STD)?)?;
        float_only(c, c.arg(normal_float_float::DTYPE).dtype().unwrap_or(default_dtype()))?;
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
        let g = generator(c.arg(normal_float_float::GENERATOR))?;
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

/// A fill by a function of a simpler draw of the same shape.
const FILL_BY_PARTS: OpDef = OpDef {
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

pub static LOG_NORMAL: OpDef = OpDef {
    sig: Sig::parse("log_normal(Tensor input, float mean=1, float std=2, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with numbers whose logarithm is normal.

Example::

    >>> (oneflow.zeros(2).log_normal_() > 0).all()
    tensor(True)",
    compose: Some(|c, outs| {
        if c.float(log_normal::STD)? <= 0.0 {
            return Err(Error::runtime(format!(
                "log_normal_ expects std > 0.0, but found std={}",
                c.float(log_normal::STD)?
            )));
        }
        (c.op.infer)(c, &mut Outs::new())?;
        if super::is_in_order(c.arg(log_normal::GENERATOR)) {
            outs.give(in_order(
                c.t(log_normal::INPUT)?,
                RandomKind::LogNormal,
                c.float(log_normal::MEAN)?,
                c.float(log_normal::STD)?,
                c.arg(log_normal::GENERATOR),
            )?);
            return Ok(());
        }
        let x = c.t(log_normal::INPUT)?.empty_like()?;
        x.normal_with_(
            c.float(log_normal::MEAN)?,
            c.float(log_normal::STD)?,
            Some(&generator(c.arg(log_normal::GENERATOR))?),
        )?;
        outs.give(x.exp()?);
        Ok(())
    }),
    ..FILL_BY_PARTS
};

pub static CAUCHY: OpDef = OpDef {
    sig: Sig::parse("cauchy(Tensor input, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with numbers of the Cauchy distribution.

Example::

    >>> oneflow.zeros(2).cauchy_().shape
    oneflow.Size([2])",
    infer: |c, outs| {
        super::draw::continuous(c, c.t(cauchy::INPUT)?.dtype())?;
        (FILL_WITH.infer)(c, outs)
    },
    compose: Some(|c, outs| {
        if c.float(cauchy::SIGMA)? <= 0.0 {
            return Err(Error::runtime(format!(
                "cauchy_ expects sigma > 0.0, but found sigma={}",
                c.float(cauchy::SIGMA)?
            )));
        }
        (c.op.infer)(c, &mut Outs::new())?;
        if super::is_in_order(c.arg(cauchy::GENERATOR)) {
            outs.give(in_order(
                c.t(cauchy::INPUT)?,
                RandomKind::Cauchy,
                c.float(cauchy::MEDIAN)?,
                c.float(cauchy::SIGMA)?,
                c.arg(cauchy::GENERATOR),
            )?);
            return Ok(());
        }
        let x = c.t(cauchy::INPUT)?.empty_like()?;
        x.uniform_with_(-0.5, 0.5, Some(&generator(c.arg(cauchy::GENERATOR))?))?;
        outs.give(x.mul(std::f64::consts::PI)?.tan()?.mul(c.float(cauchy::SIGMA)?)?.add(c.float(cauchy::MEDIAN)?)?);
        Ok(())
    }),
    ..FILL_BY_PARTS
};

pub static GEOMETRIC: OpDef = OpDef {
    sig: Sig::parse("geometric(Tensor input, float p, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with numbers of trials until the first success of probability `p`.

Example::

    >>> oneflow.zeros(2).geometric_(0.5).min() >= 1
    tensor(True)",
    infer: |c, outs| {
        let d = c.t(geometric::INPUT)?.dtype();
        if d == DType::Bool || d.is_complex() {
            return Err(Error::not_implemented(format!(
                "\"geometric_\" not implemented for '{}'",
                d.scalar_type_name()
            )));
        }
        (FILL_WITH.infer)(c, outs)
    },
    compose: Some(|c, outs| {
        let p = c.float(geometric::P)?;
        if !(p > 0.0 && p < 1.0) {
            return Err(Error::runtime(format!("geometric_ expects p to be in (0, 1), but got p={p}")));
        }
        (c.op.infer)(c, &mut Outs::new())?;
        let x = c.t(geometric::INPUT)?;
        if super::is_in_order(c.arg(geometric::GENERATOR)) {
            outs.give(in_order(x, RandomKind::Geometric, p, 0.0, c.arg(geometric::GENERATOR))?);
            return Ok(());
        }
        let g = generator(c.arg(geometric::GENERATOR))?;
        let u = x.contiguous()?.rand_like_with(Some(&g), Some(DType::F64), None, false, None)?;
        // One minus a number of [0, 1) has a logarithm.
        let trials = u.neg()?.log1p()?.div((-p).ln_1p())?.ceil()?.clamp(Some(Scalar::Float(1.0)), None)?;
        outs.give(trials.to_copy_with(Some(x.dtype()), None)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(0.4)])],
    ..FILL_BY_PARTS
};

/// The integers that random_ draws from where no end is named: those a dtype holds exactly.
fn end_of(d: DType) -> i64 {
    match d {
        DType::Bool => 2,
        DType::U8 => 256,
        DType::I8 => 128,
        DType::I16 => 1 << 15,
        DType::I32 => 1 << 31,
        DType::I64 => i64::MAX,
        DType::F16 => (1 << 11) + 1,
        DType::BF16 => (1 << 8) + 1,
        DType::F32 => (1 << 24) + 1,
        _ => (1 << 53) + 1,
    }
}

fn integers(c: &Call<'_>, l: &mut Lowered, rng: Arg<'_>, low: i64, high: i64) -> Result<()> {
    super::draw::integers(c, c.t(random_from::INPUT)?.dtype(), low, high)?;
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

pub static RANDOM_ANY: OpDef = OpDef {
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

/// One with the probability that a tensor says.
fn bernoulli(p: &Tensor, of: &Tensor, rng: Arg<'_>) -> Result<Tensor> {
    let d = if p.dtype().is_float() { p.dtype().compute() } else { default_dtype() };
    // By position the layout does not matter; in order it says which number is whose.
    let of = if super::is_in_order(rng) { of.clone() } else { of.contiguous()? };
    let u = of.rand_like_with(Some(&generator(rng)?), Some(d), None, false, None)?;
    u.lt(p)?.to_copy_with(Some(of.dtype()), None)
}

/// Zeros, as nothing is a function of the probabilities.
const ZERO_GRAD: Grad =
    Grad::Rule { save: &[], fix: Fix::Broadcast, f: |c, out| out.set(bernoulli::INPUT, || c.g()?.zeros_like()) };

pub static BERNOULLI: OpDef = OpDef {
    sig: Sig::parse("bernoulli(Tensor input, *, Generator? generator=None) -> Tensor"),
    doc: "Ones with the probabilities in `input`, and zeros.

Example::

    >>> oneflow.bernoulli(oneflow.tensor([0., 1.]))
    tensor([0., 1.])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        float_only(c, c.t(bernoulli::INPUT)?.dtype())?;
        outs.push(c.t(bernoulli::INPUT)?.dtype(), c.t(bernoulli::INPUT)?.device(), c.t(bernoulli::INPUT)?.sizes())
    },
    compose: Some(|c, outs| {
        let p = c.t(bernoulli::INPUT)?;
        float_only(c, p.dtype())?;
        if !all_hold(p, || p.ge(0.0)?.logical_and(&p.le(1.0)?))? {
            return Err(Error::runtime("bernoulli(): Expected p_in >= 0 && p_in <= 1 to be true, but got false."));
        }
        // The result is contiguous whatever the probabilities' layout is.
        outs.give(bernoulli(p, &p.contiguous()?, c.arg(bernoulli::GENERATOR))?);
        Ok(())
    }),
    grad: ZERO_GRAD,
    sbp: SbpRule::of(Rows::OnlyB {
        why: "its draws are numbered by the whole tensor, whose sizes only the composition knows",
    }),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 0.1, 0.9)])],
    traits: DRAW.traits.or(Traits::ANY_OUT),
    ..DRAW
};

pub static BERNOULLI_P: OpDef = OpDef {
    sig: Sig::parse("bernoulli.p(Tensor input, float p, *, Generator? generator=None) -> Tensor"),
    doc: "",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let p = c.float(bernoulli_p::P)?;
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::runtime(format!("bernoulli_ expects p to be in [0, 1], but got p={p}")));
        }
        outs.push(c.t(bernoulli_p::INPUT)?.dtype(), c.t(bernoulli_p::INPUT)?.device(), c.t(bernoulli_p::INPUT)?.sizes())
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            super::draw::draw(l, RandomKind::Bernoulli, c.arg(bernoulli_p::GENERATOR), c.float(bernoulli_p::P)?, 0.0)
        },
    },
    grad: ZERO_GRAD,
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(0.3)])],
    ..DRAW
};

pub static BERNOULLI_FILL_P: OpDef = OpDef {
    sig: Sig::parse("bernoulli.float(Tensor input, float p=0.5, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with ones of probability `p` and zeros.",
    infer: |c, outs| {
        let p = c.float(bernoulli_float::P)?;
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::runtime(format!("bernoulli_ expects p to be in [0, 1], but got p={p}")));
        }
        (FILL_WITH.infer)(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            super::draw::draw(
                l,
                RandomKind::Bernoulli,
                c.arg(bernoulli_float::GENERATOR),
                c.float(bernoulli_float::P)?,
                0.0,
            )
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..FILL_WITH
};

pub static BERNOULLI_FILL: OpDef = OpDef {
    sig: Sig::parse("bernoulli.Tensor(Tensor input, Tensor p, *, Generator? generator=None) -> Tensor"),
    doc: "",
    infer: FILL_WITH.infer,
    compose: Some(|c, outs| {
        outs.give(bernoulli(
            c.t(bernoulli_tensor::P)?,
            c.t(bernoulli_tensor::INPUT)?,
            c.arg(bernoulli_tensor::GENERATOR),
        )?);
        Ok(())
    }),
    sbp: SbpRule::of(Rows::OnlyB {
        why: "its draws are numbered by the whole tensor, whose sizes only the composition knows",
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::range(&[4], 0.1, 0.9)])],
    ..FILL_WITH
};

/// Lowers to RANDOM_BY with one or two parameters as doubles.
fn by(l: &mut Lowered, c: &Call<'_>, o: &Outs, kind: RandomByKind, parameters: &[In], rng: Arg<'_>) -> Result<()> {
    let (seed, offset) = rng.rng()?;
    for at in parameters {
        l.input_expanded(*at, c.t(*at)?, o[poisson_doubles::RESULT].sizes());
    }
    l.output(poisson_doubles::RESULT).param(kind as u64).param(seed).param(offset);
    super::push_window(l, rng);
    Ok(())
}

/// The op on parameters as doubles, its result in their dtype.
fn in_doubles(c: &Call<'_>, outs: &mut Outs, draw: impl Fn(&[Tensor], &Generator) -> Result<Tensor>) -> Result<()> {
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

fn same_float(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    float_only(c, c.t(poisson::INPUT)?.dtype())?;
    contiguous(c, c.t(poisson::INPUT)?.dtype(), outs)
}

const DOUBLES: OpDef = OpDef {
    faces: Faces::PRIVATE,
    infer: doubles,
    sbp: SbpRule::of(Rows::OnlyB { why: "its draws are numbered by the whole tensor" }),
    ..DRAW
};

pub static POISSON: OpDef = OpDef {
    sig: Sig::parse("poisson(Tensor input, Generator? generator=None) -> Tensor"),
    doc: "Poisson numbers of the given rates.

Example::

    >>> oneflow.poisson(oneflow.zeros(2))
    tensor([0., 0.])",
    infer: same_float,
    compose: Some(|c, outs| in_doubles(c, outs, |t, g| t[0].poisson_doubles_with(Some(g)))),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 0.5, 20.0)])],
    ..BY_TENSORS
};

pub static POISSON_DOUBLES: OpDef = OpDef {
    sig: Sig::parse("poisson_doubles(Tensor input, *, Generator? generator=None) -> Tensor"),
    doc: "poisson of float64.",
    kernel: Kernel::Prim {
        prim: &RANDOM_BY,
        lower: |c, o, l| {
            by(l, c, o, RandomByKind::Poisson, &[poisson_doubles::INPUT], c.arg(poisson_doubles::GENERATOR))
        },
    },
    ..DOUBLES
};

fn counts_and_chances(c: &Call<'_>) -> Result<()> {
    for (at, what) in [(binomial::COUNT, "count"), (binomial::PROB, "prob")] {
        let d = c.t(at)?.dtype();
        if !d.is_float() {
            let name = d.scalar_type_name();
            return Err(Error::value(format!("binomial only supports floating-point dtypes for {what}, got: {name}")));
        }
    }
    Ok(())
}

pub static BINOMIAL: OpDef = OpDef {
    sig: Sig::parse("binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor"),
    doc: "Numbers of successes in `count` trials of probability `prob`.

Example::

    >>> oneflow.binomial(oneflow.tensor([3.]), oneflow.tensor([1.]))
    tensor([3.])",
    infer: |c, outs| {
        counts_and_chances(c)?;
        same_float(c, outs)
    },
    compose: Some(|c, outs| {
        counts_and_chances(c)?;
        in_doubles(c, outs, |t, g| t[0].binomial_doubles_with(&t[1], Some(g)))
    }),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 1.0, 20.0), SampleArg::range(&[4], 0.1, 0.9)])],
    ..BY_TENSORS
};

pub static BINOMIAL_DOUBLES: OpDef = OpDef {
    sig: Sig::parse("binomial_doubles(Tensor count, Tensor prob, *, Generator? generator=None) -> Tensor"),
    doc: "binomial of float64.",
    kernel: Kernel::Prim {
        prim: &RANDOM_BY,
        lower: |c, o, l| {
            by(
                l,
                c,
                o,
                RandomByKind::Binomial,
                &[binomial_doubles::COUNT, binomial_doubles::PROB],
                c.arg(binomial_doubles::GENERATOR),
            )
        },
    },
    ..DOUBLES
};

pub static GAMMA: OpDef = OpDef {
    sig: Sig::parse("_standard_gamma(Tensor input, Generator? generator=None) -> Tensor"),
    doc: "Gamma numbers of the given shapes and scale one.

Example::

    >>> oneflow._standard_gamma(oneflow.ones(3)).shape
    oneflow.Size([3])",
    infer: same_float,
    compose: Some(|c, outs| in_doubles(c, outs, |t, g| t[0].gamma_doubles_with(Some(g)))),
    grad: Grad::Never,
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 0.5, 5.0)])],
    ..BY_TENSORS
};

pub static GAMMA_DOUBLES: OpDef = OpDef {
    sig: Sig::parse("gamma_doubles(Tensor input, *, Generator? generator=None) -> Tensor"),
    doc: "Gamma numbers of float64.",
    kernel: Kernel::Prim {
        prim: &RANDOM_BY,
        lower: |c, o, l| by(l, c, o, RandomByKind::Gamma, &[gamma_doubles::INPUT], c.arg(gamma_doubles::GENERATOR)),
    },
    ..DOUBLES
};
