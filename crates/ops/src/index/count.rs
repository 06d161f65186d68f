//! Counting and repeating: bincount, histc, repeat_interleave.

use super::{COMPOSED, give, on_host, wide};
use crate::named::{
    bincount, histc, repeat_interleave_self_int, repeat_interleave_self_tensor, repeat_interleave_tensor,
};
use crate::prelude::*;

/// An op that reads some numbers on the host to know its shape.
const COUNTED: OpDef = OpDef {
    shape: ShapeOf::Data,
    sbp: SbpRule::of(Rows::OnlyB { why: "the shape of the result depends on all the data" }),
    traits: Traits::HOST_SYNC,
    ..COMPOSED
};

pub static BINCOUNT: OpDef = OpDef {
    sig: Sig::parse("bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor"),
    doc: "How often each of 0, 1, 2, ... occurs, or the sum of its weights.

Example::

    >>> oneflow.bincount(oneflow.tensor([0, 2, 2]))
    tensor([1, 0, 2])",
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (x, w, least) = (c.t(bincount::INPUT)?, c.opt(bincount::WEIGHTS), c.int(bincount::MINLENGTH)?);
        if least < 0 {
            return Err(Error::runtime(format!("minlength should be >= 0, got {least}")));
        }
        let text = "bincount only supports 1-d non-negative integral inputs.";
        if !x.dtype().is_int() {
            return Err(Error::runtime(format!("{text} (got {})", x.dtype())));
        }
        if x.ndim() != 1 && x.numel() > 0 {
            return Err(Error::runtime(text));
        }
        let i = wide(&x.reshape(&[-1])?)?;
        let n = if i.numel() == 0 {
            0
        } else {
            let ends = on_host(&f::stack([&i.amin(&[], false)?, &i.amax(&[], false)?], 0)?)?;
            if ends[0] < 0 {
                return Err(Error::runtime(text));
            }
            ends[1] + 1
        };
        let counted = match w {
            None => i.ones_like()?,
            Some(w) if w.sizes() != x.sizes() => {
                return Err(Error::runtime("weights should be 1-d and have the same length as input"));
            }
            Some(w) if w.dtype() == DType::F32 => w.reshape(&[-1])?,
            Some(w) => w.to_copy_with(Some(DType::F64), None)?.reshape(&[-1])?,
        };
        let dtype = counted.dtype();
        give(outs, i.new_zeros_with(&[n.max(least)], Some(dtype), None, false)?.index_add(0, &i, &counted)?)
    }),
    samples: || {
        vec![
            Sample::new(vec![SampleArg::i64(&[8], 0, 5)]),
            Sample::new(vec![SampleArg::i64(&[8], 0, 5), SampleArg::f32(&[8]), SampleArg::Int(9)]),
        ]
    },
    ..COUNTED
};

pub static HISTC: OpDef = OpDef {
    sig: Sig::parse("histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"),
    doc:
        "How many elements lie in each of `bins` equal parts of `[min, max]` (of the data's range where both are equal);
others do not count.

Example::

    >>> oneflow.histc(oneflow.tensor([1., 2., 1.]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])",
    faces: Faces::FN_METHOD_OUT,
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (x, bins) = (c.t(histc::INPUT)?, c.int(histc::BINS)?);
        let limit =
            |at: At<Scalar>| c.arg(at).float().ok_or_else(|| Error::type_("histc(): min and max must be numbers"));
        let (mut low, mut high) = (limit(histc::MIN)?, limit(histc::MAX)?);
        if bins <= 0 {
            return Err(Error::runtime(format!("torch.histc(): bins must be > 0, but got {bins}")));
        }
        let flat = x.reshape(&[-1])?;
        // In the input's precision, as the edges of bins are defined.
        let exact = if flat.dtype() == DType::F32 { flat.clone() } else { flat.to_copy_with(Some(DType::F64), None)? };
        if low == high && flat.numel() > 0 {
            let ends = f::stack([&exact.amin(&[], false)?, &exact.amax(&[], false)?], 0)?;
            let host = copy_to_host(&ends.to_copy_with(Some(DType::F64), None)?)?;
            // SAFETY: the host copy holds two float64.
            (low, high) =
                unsafe { (host.data_ptr().cast::<f64>().read(), host.data_ptr().cast::<f64>().add(1).read()) };
        }
        if low == high {
            (low, high) = (low - 1.0, high + 1.0);
        }
        if !low.is_finite() || !high.is_finite() {
            return Err(Error::runtime(format!("torch.histc: range of [{low}, {high}] is not finite")));
        }
        if low > high {
            return Err(Error::runtime("torch.histc: max must be larger than min"));
        }
        let inside = exact.ge(low)?.logical_and(&exact.le(high)?)?;
        let scaled = inside.r#where(&exact, low)?.sub(low)?.div(high - low)?.mul(bins as f64)?;
        let at = scaled.to_copy_with(Some(DType::I64), None)?.clamp(None, Some(Scalar::Int(bins - 1)))?;
        let counts = at.new_zeros(&[bins])?.index_add(0, &at, &inside.to_copy_with(Some(DType::I64), None)?)?;
        give(outs, counts.to_copy_with(Some(x.dtype()), None)?)
    }),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[3, 4]), i(5), i(-1), i(1)])]
    },
    shape: ShapeOf::Inputs,
    traits: Traits::HOST_SYNC,
    sbp: SbpRule::of(Rows::OnlyB { why: "the range may be that of all the data" }),
    ..COUNTED
};

/// Indices of the entries in the result: entry i as often as `repeats[i]` says.
fn places(repeats: &Tensor, size: Option<i64>) -> Result<Tensor> {
    if repeats.ndim() > 1 {
        return Err(Error::runtime("repeat_interleave only accept 1D vector as repeat"));
    }
    if !matches!(repeats.dtype(), DType::I64 | DType::I32) {
        return Err(Error::runtime("repeats has to be Long or Int tensor"));
    }
    let r = wide(&repeats.reshape(&[-1])?)?;
    if r.numel() == 0 {
        return Ok(r);
    }
    let ends = r.cumsum(0)?;
    let read = on_host(&f::stack([&ends.select(0, -1)?, &r.amin(&[], false)?], 0)?)?;
    if read[1] < 0 {
        return Err(Error::runtime("repeats can not be negative"));
    }
    if size.is_some_and(|s| s != read[0]) {
        return Err(Error::runtime(format!(
            "allocated size {} does not match required size {}",
            size.unwrap_or(0),
            read[0]
        )));
    }
    let counted = r.new_ones(&[read[0]])?.cumsum(0)?.sub(1i64)?;
    ends.searchsorted_with(&counted, false, true, None, None)
}

pub static REPEATS: OpDef = OpDef {
    sig: Sig::parse("repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor"),
    faces: Faces::FN,
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let i = places(c.t(repeat_interleave_tensor::REPEATS)?, c.arg(repeat_interleave_tensor::OUTPUT_SIZE).int())?;
        give(
            outs,
            if c.t(repeat_interleave_tensor::REPEATS)?.dtype() == DType::I32 {
                i.to_copy_with(Some(DType::I32), None)?
            } else {
                i
            },
        )
    }),
    samples: || vec![Sample::new(vec![SampleArg::i64(&[4], 0, 3)])],
    ..COUNTED
};

pub static INTERLEAVE: OpDef = OpDef {
    sig: Sig::parse(
        "repeat_interleave.self_Tensor(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor",
    ),
    doc: "Each entry repeated (by one number or one an entry) along a dimension, of the flattened tensor without `dim`.

Example::

    >>> oneflow.repeat_interleave(oneflow.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])",
    compose: Some(|c, outs| {
        let (x, r) = (c.t(repeat_interleave_self_tensor::INPUT)?, c.t(repeat_interleave_self_tensor::REPEATS)?);
        let (x, d) = match c.arg(repeat_interleave_self_tensor::DIM).int() {
            Some(d) => (x.clone(), d),
            None => (x.reshape(&[-1])?, 0),
        };
        if r.ndim() > 1 {
            return Err(Error::runtime(format!("repeats must be 0-dim or 1-dim tensor, got shape {:?}", r.sizes())));
        }
        let n = x.sizes().get(wrap_dim(d, x.ndim())?).copied().unwrap_or(1);
        let r = match r.numel() {
            1 => r.reshape(&[1])?.expand(&[n])?,
            k if k == n => r.clone(),
            k => {
                return Err(Error::runtime(format!(
                    "repeats must have the same size as input along dim, but got repeats.size(0) = {k} and input.size({d}) = {n}"
                )));
            }
        };
        give(outs, x.index_select(d, &places(&r, c.arg(repeat_interleave_self_tensor::OUTPUT_SIZE).int())?)?)
    }),
    samples: || {
        let t = |s: &[i64], n, d| Sample::new(vec![SampleArg::f32(s), SampleArg::i64(&[n], 0, 3), d]);
        vec![t(&[3, 4], 3, SampleArg::Int(0)), t(&[4], 4, SampleArg::None)]
    },
    ..COUNTED
};

pub static INTERLEAVE_BY: OpDef = OpDef {
    sig: Sig::parse(
        "repeat_interleave.self_int(Tensor input, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
    ),
    compose: Some(|c, outs| {
        let (x, n) = (c.t(repeat_interleave_self_int::INPUT)?, c.int(repeat_interleave_self_int::REPEATS)?);
        if n < 0 {
            return Err(Error::runtime(format!("Repeats must be non-negative, got {n}")));
        }
        let (x, d) = match c.arg(repeat_interleave_self_int::DIM).int() {
            Some(d) if x.ndim() > 0 => (x.clone(), wrap_dim(d, x.ndim())?),
            _ => (x.reshape(&[-1])?, 0),
        };
        let mut wide: Dims = Dims::from_slice(x.sizes());
        wide.insert(d + 1, n);
        let mut sizes = Dims::from_slice(x.sizes());
        sizes[d] = sizes[d].checked_mul(n).ok_or_else(|| {
            Error::runtime(format!("repeat_interleave: {n} repeats of size {} are too many", sizes[d]))
        })?;
        if c.arg(repeat_interleave_self_int::OUTPUT_SIZE).int().is_some_and(|s| s != sizes[d]) {
            return Err(Error::runtime(format!(
                "repeat_interleave: Invalid output_size, expected {} but got {:?}",
                sizes[d],
                c.arg(repeat_interleave_self_int::OUTPUT_SIZE)
            )));
        }
        give(outs, x.unsqueeze(d as i64 + 1)?.expand(&wide)?.clone_contiguous()?.view(&sizes)?)
    }),
    samples: || {
        let i = SampleArg::Int;
        let t = |s: &[i64], n, d| Sample::new(vec![SampleArg::f32(s), i(n), d]);
        vec![t(&[3, 4], 2, i(1)), t(&[2, 2], 3, SampleArg::None)]
    },
    ..COMPOSED
};
