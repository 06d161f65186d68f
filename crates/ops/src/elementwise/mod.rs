//! Elementwise ops: the rules they share. An op's file adds its formula, its gradient and its words.

pub mod abs;
pub mod add;
pub mod addcmul;
pub mod angle;
pub mod binary_rules;
pub mod bitwise_and;
pub mod bitwise_left_shift;
pub mod bitwise_not;
pub mod bitwise_or;
pub mod bitwise_xor;
pub mod ceil;
pub mod clamp;
pub mod clamp_min;
pub mod complex;
pub mod conj;
pub mod copysign;
pub mod cos;
pub mod deg2rad;
pub mod digamma;
pub mod div;
pub mod elu;
pub mod entr;
pub mod eq;
pub mod erf;
pub mod erfc;
pub mod erfcx;
pub mod erfinv;
pub mod exp;
pub mod exp2;
pub mod expm1;
pub mod float_power;
pub mod floor;
pub mod floor_divide;
pub mod fmax;
pub mod fmod;
pub mod frac;
pub mod frexp;
pub mod gcd;
pub mod ge;
pub mod gelu;
pub mod glu;
pub mod gt;
pub mod hardsigmoid;
pub mod hardswish;
pub mod hardtanh;
pub mod heaviside;
pub mod hypot;
pub mod i0;
pub mod i1;
pub mod isclose;
pub mod isfinite;
pub mod isinf;
pub mod isnan;
pub mod isposinf;
pub mod isreal;
pub mod ldexp;
pub mod le;
pub mod leaky_relu;
pub mod lerp;
pub mod lgamma;
pub mod log;
pub mod log10;
pub mod log1p;
pub mod log2;
pub mod log_sigmoid;
pub mod logaddexp;
pub mod logical_and;
pub mod logical_not;
pub mod logical_or;
pub mod logical_xor;
pub mod logit;
pub mod lt;
pub mod masked_fill;
pub mod maximum;
pub mod minimum;
pub mod mish;
pub mod mul;
pub mod mvlgamma;
pub mod nan_to_num;
pub mod ndtr;
pub mod ne;
pub mod neg;
pub mod nextafter;
pub mod polar;
pub mod polygamma;
pub mod positive;
pub mod pow;
pub mod prelu;
pub mod real;
pub mod reciprocal;
pub mod relu;
pub mod remainder;
pub mod round;
pub mod rsqrt;
pub mod rsub;
pub mod sgn;
pub mod shrink;
pub mod sigmoid;
pub mod sign;
pub mod signbit;
pub mod silu;
pub mod sin;
pub mod sinc;
pub mod softplus;
pub mod special_rules;
pub mod sqrt;
pub mod square;
pub mod sub;
pub mod tanh;
pub mod threshold;
pub mod trig;
pub mod trunc;
pub mod view_as_real;
pub mod where_;
pub mod xlog1py;
pub mod xlogy;
pub mod zeta;

use crate::named::{add as binary_at, exp as unary_at, gelu_backward as backward_at};
use crate::prelude::*;
use oneflow_core::narrow_operands;

/// Layout of an elementwise result: broadcast sizes, and the memory order of the first operand that fixes one.
pub fn push_broadcast(c: &Call<'_>, dtype: DType, outs: &mut Outs) -> Result<()> {
    push_mixed(c, dtype, false, outs)
}

/// As `push_broadcast`; `mixed` where an operand is a number. Operands of one size that are all contiguous give a contiguous
/// result. Beside a number or a tensor of another size their strides decide, also those of dimensions of size one, as in PyTorch.
pub(crate) fn push_mixed(c: &Call<'_>, dtype: DType, mut mixed: bool, outs: &mut Outs) -> Result<()> {
    let mut ins = c.ins.iter().flatten();
    let Some(first) = ins.next() else {
        return outs.push(dtype, Device::CPU, &[]);
    };
    let mut device = first.device();
    let mut sizes = Dims::from_slice(first.sizes());
    let mut all_contiguous = first.is_contiguous();
    for t in ins {
        if t.sizes() != sizes.as_slice() {
            mixed = true;
            sizes = broadcast_shapes(&sizes, t.sizes()).map_err(|e| {
                let in_place =
                    matches!(c.dest, Dest::Into([d, ..]) if c.opt(binary_at::INPUT).is_some_and(|t| d.same(t)));
                e.context(format_args!("{}{}(): ", c.name(), if in_place { "_" } else { "" }))
            })?;
        }
        all_contiguous &= t.is_contiguous();
        device = follow_device(device, first.ndim() == 0, t);
    }
    if all_contiguous && (!mixed || c.ins.iter().flatten().all(|t| has_canonical_strides(t))) {
        return outs.push(dtype, device, &sizes);
    }
    let strides = memory_order(c, &sizes);
    outs.push_strided(dtype, device, sizes, strides)
}

/// Whether the strides are those of a new tensor, dimensions of size one included.
#[inline]
fn has_canonical_strides(t: &Tensor) -> bool {
    let mut expected = 1;
    t.sizes().iter().zip(t.strides()).rev().all(|(n, s)| {
        let fits = *s == expected;
        expected *= (*n).max(1);
        fits
    })
}

/// Dense strides in the memory order of the operands.
fn memory_order(c: &Call<'_>, sizes: &[i64]) -> Dims {
    let ins: SmallVec<[&Tensor; 4]> = c.ins.iter().flatten().copied().collect();
    order_of(&ins, sizes)
}

/// Dense strides of `sizes`, dims sorted by the strides of the first operand that tells two of them apart (torch's rule, whose
/// ties are part of what programs see).
pub(crate) fn order_of(ins: &[&Tensor], sizes: &[i64]) -> Dims {
    let n = sizes.len();
    let stride = |t: usize, d: usize| match (d + ins[t].ndim()).checked_sub(n) {
        Some(k) if ins[t].sizes()[k] == sizes[d] => ins[t].strides()[k],
        _ => 0,
    };
    dense_order(ins.len(), stride, sizes)
}

/// As `order_of`, of `n_operands`; `stride` of an operand along a dim of the result, which is zero where it is broadcast.
pub(crate) fn dense_order(n_operands: usize, stride: impl Fn(usize, usize) -> i64, sizes: &[i64]) -> Dims {
    let n = sizes.len();
    // Whether `inner` must come after `outer`; `None` where no operand says.
    let swap = |inner: usize, outer: usize| -> Option<bool> {
        for t in 0..n_operands {
            let (a, b) = (stride(t, inner), stride(t, outer));
            if a == 0 || b == 0 {
                continue;
            }
            if a != b {
                return Some(a > b);
            }
            if sizes[inner] > sizes[outer] {
                return Some(true);
            }
        }
        None
    };
    // Innermost first. Insertion sort that walks past dims it cannot compare with.
    let mut order: SmallVec<[usize; 6]> = (0..n).rev().collect();
    for i in 1..n {
        let mut at = i;
        for k in (0..i).rev() {
            match swap(order[k], order[at]) {
                Some(true) => {
                    order.swap(k, at);
                    at = k;
                }
                Some(false) => break,
                None => {}
            }
        }
    }
    let mut strides: Dims = SmallVec::from_elem(1, n);
    let mut acc = 1;
    for &d in &order {
        strides[d] = acc;
        acc *= sizes[d].max(1);
    }
    strides
}

/// Whether the elements fill one block without gaps or overlap, in any order of dimensions.
pub fn is_dense(t: &Tensor) -> bool {
    t.is_contiguous() || is_dense_as(t.sizes(), t.strides())
}

/// The same of a tensor of these sizes and strides.
pub(crate) fn is_dense_as(sizes: &[i64], strides: &[i64]) -> bool {
    let mut dims: SmallVec<[(i64, i64); 6]> =
        strides.iter().copied().zip(sizes.iter().copied()).filter(|(_, n)| *n > 1).collect();
    dims.sort_unstable();
    let mut acc = 1;
    dims.iter().all(|(s, n)| {
        let fits = *s == acc;
        acc *= n;
        fits
    })
}

/// Strides with the channels (dimension 1) innermost; `None` for a format that is not such.
pub fn channels_last(format: &str, sizes: &[i64]) -> Result<Option<Dims>> {
    let rank = match format {
        "channels_last" => 4,
        "channels_last_3d" => 5,
        _ => return Ok(None),
    };
    if sizes.len() != rank {
        return Err(Error::runtime(format!("required rank {rank} tensor to use {format} format, got sizes {sizes:?}")));
    }
    let mut strides: Dims = SmallVec::from_elem(1, rank);
    let mut acc = sizes[1].max(1);
    for d in (2..rank).rev().chain([0]) {
        strides[d] = acc;
        acc = acc.wrapping_mul(sizes[d].max(1));
    }
    Ok(Some(strides))
}

/// Layout of a copy: the memory format asked for, by default the input's own order.
pub fn push_like(x: &Tensor, dtype: DType, device: Device, format: Option<&str>, outs: &mut Outs) -> Result<()> {
    let sizes = Dims::from_slice(x.sizes());
    let strides = match format {
        None | Some("preserve_format") if is_dense(x) => Dims::from_slice(x.strides()),
        None | Some("preserve_format") => order_of(&[x], x.sizes()),
        Some(f) => channels_last(f, x.sizes())?.unwrap_or_else(|| contiguous_strides(x.sizes())),
    };
    outs.push_strided(dtype, device, sizes, strides)
}

/// The scalar of a `Tensor|Scalar` parameter, absent where a tensor was given.
#[inline]
pub fn scalar_arg(c: &Call<'_>, at: At<Scalar>) -> Option<Scalar> {
    c.arg(at).scalar()
}

/// Pushes a scalar in the compute dtype.
#[inline]
pub fn push_scalar(p: &mut Params, compute: DType, s: Scalar) {
    if compute.is_complex() {
        let (re, im) = s.parts();
        p.extend_from_slice(&[Word::from(re), Word::from(im)]);
    } else {
        p.push(if compute == DType::I64 { Word::from(s.to_i64()) } else { Word::from(s.to_f64()) });
    }
}

/// What a gradient is multiplied with for a derivative: its conjugate, which is the number itself where it is real.
#[inline]
pub fn dual(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_complex() { t.conj() } else { Ok(t.clone()) }
}

/// Two float tensors: alike, broadcast, 0-dim, empty.
pub fn two_tensors() -> Vec<Sample> {
    let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
    vec![t(&[5], &[5]), t(&[3, 4], &[4]), t(&[3, 1], &[1, 4]), t(&[], &[2]), t(&[0, 3], &[3])]
}

/// Unary ops.
pub mod unary {
    use super::*;

    /// Results of the input's dtype.
    pub fn same(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        push_broadcast(c, c.t(unary_at::INPUT)?.dtype(), outs)
    }
    /// Results of the input's dtype, which may not be bool.
    pub fn number(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        match c.t(unary_at::INPUT)?.dtype() {
            DType::Bool => Err(not_implemented(c, DType::Bool)),
            d => push_broadcast(c, d, outs),
        }
    }
    /// Results of the input's dtype in the input's own layout.
    pub fn like(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        push_like(c.t(unary_at::INPUT)?, c.t(unary_at::INPUT)?.dtype(), c.t(unary_at::INPUT)?.device(), None, outs)
    }
    /// Results are floats: integers become the default dtype.
    pub fn float(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        push_broadcast(c, promote::to_float(c.t(unary_at::INPUT)?.dtype()), outs)
    }
    /// Results are booleans.
    pub fn boolean(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        push_broadcast(c, DType::Bool, outs)
    }
    /// The expression, computed in the output's compute dtype.
    pub fn by_output(outs: &Outs, p: &mut Params, expr: &'static Expr) -> Result<&'static Expr> {
        p.push(outs[unary_at::RESULT].dtype().compute().into());
        Ok(expr)
    }
    /// The expression, computed in the input's compute dtype.
    pub fn by_input(c: &Call<'_>, p: &mut Params, expr: &'static Expr) -> Result<&'static Expr> {
        p.push(c.t(unary_at::INPUT)?.dtype().compute().into());
        Ok(expr)
    }
    /// The expression, computed in a float dtype whatever the input is.
    pub fn by_float(c: &Call<'_>, p: &mut Params, expr: &'static Expr) -> Result<&'static Expr> {
        p.push(promote::to_float(c.t(unary_at::INPUT)?.dtype()).compute().into());
        Ok(expr)
    }
    /// A rounding: the identity on integers.
    pub fn rounding(outs: &Outs, p: &mut Params, expr: &'static Expr) -> Result<&'static Expr> {
        static IDENTITY: Expr = expr!(num "identity", |x| x);
        by_output(outs, p, if outs[unary_at::RESULT].dtype().is_float() { expr } else { &IDENTITY })
    }
    /// Results of the input's dtype, which must be a float.
    pub fn floating(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        let d = c.t(unary_at::INPUT)?.dtype();
        if !d.is_float() {
            return Err(not_implemented(c, d));
        }
        push_broadcast(c, d, outs)
    }
    /// Results are floats and inputs no complex numbers.
    pub fn real_float(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        let d = c.t(unary_at::INPUT)?.dtype();
        if d.is_complex() {
            return Err(not_implemented(c, d));
        }
        float(c, outs)
    }
    /// What torch says of a dtype that an op has no meaning for.
    #[cold]
    pub fn not_implemented(c: &Call<'_>, d: DType) -> Error {
        Error::not_implemented(format!("\"{}_cpu\" not implemented for '{}'", c.name(), d.scalar_type_name()))
    }
    /// The expression, computed in the output's compute dtype, with these arguments as scalars.
    pub fn with_scalars(
        c: &Call<'_>,
        outs: &Outs,
        p: &mut Params,
        expr: &'static Expr,
        scalars: &[AnyArg],
    ) -> Result<&'static Expr> {
        let compute = outs[unary_at::RESULT].dtype().compute();
        p.push(compute.into());
        for at in scalars {
            let s = c.arg(*at).scalar().ok_or_else(|| Error::type_(format!("{}(): expected a number", c.name())))?;
            push_scalar(p, compute, s);
        }
        Ok(expr)
    }
    /// float32 and float64 with ordinary shapes, a scalar and an empty one.
    pub fn samples() -> Vec<Sample> {
        let t = |s: &[i64]| Sample::new(vec![SampleArg::f32(s)]);
        vec![t(&[5]), t(&[3, 4]), t(&[2, 3, 4]), t(&[]), t(&[0, 3])]
    }
    /// Positive inputs.
    pub fn samples_positive() -> Vec<Sample> {
        let t = |s: &[i64]| Sample::new(vec![SampleArg::range(s, 0.1, 3.0)]);
        vec![t(&[5]), t(&[3, 4]), t(&[]), t(&[0, 3])]
    }

    /// A differentiable function of one float tensor.
    pub const FLOAT: OpDef = OpDef {
        faces: Faces::ALL,
        infer: float,
        sbp: SbpRule::of(Rows::Elementwise { linear: &[] }),
        traits: Traits::ALIAS_OK,
        samples,
        ..OpDef::BASE
    };
    /// A function of one tensor that keeps its dtype.
    pub const SAME: OpDef = OpDef { infer: same, ..FLOAT };
    /// The gradient of a function of one tensor: (grad_output, input, ...), with a composition for derivatives of its own.
    pub const BACKWARD: OpDef = OpDef {
        faces: Faces::PRIVATE,
        infer: |c, outs| push_broadcast(c, c.t(backward_at::INPUT)?.dtype(), outs),
        grad: Grad::Compose,
        sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[backward_at::GRAD_OUTPUT])] }),
        samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[3, 4])])],
        ..FLOAT
    };
    /// A predicate.
    pub const BOOL: OpDef = OpDef { infer: boolean, faces: Faces::FN_METHOD, ..FLOAT };
}

/// Binary ops `op(Tensor input, Tensor|Scalar other, ...)`.
pub mod binary {
    use super::*;

    /// The promoted dtype of both operands.
    #[inline]
    pub fn common(c: &Call<'_>) -> Result<DType> {
        match (c.opt(binary_at::INPUT), c.opt(binary_at::OTHER)) {
            (Some(a), Some(b)) if a.dtype() == b.dtype() => Ok(a.dtype()),
            _ => result_type(c.ins.iter().flatten().copied(), scalar_arg(c, binary_at::OTHER_SCALAR)),
        }
    }
    pub fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        push_mixed(c, common(c)?, c.opt(binary_at::OTHER).is_none(), outs)
    }
    /// Integers give the default float.
    pub fn infer_float(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        push_mixed(c, promote::to_float(common(c)?), c.opt(binary_at::OTHER).is_none(), outs)
    }
    pub fn infer_bool(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        push_mixed(c, DType::Bool, c.opt(binary_at::OTHER).is_none(), outs)
    }
    /// The promoted dtype, which `alpha` must fit.
    pub fn infer_alpha(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        let d = common(c)?;
        let why = match c.arg(binary_at::ALPHA).scalar() {
            Some(Scalar::Bool(_)) if d != DType::Bool => "Boolean alpha only supported for Boolean results.",
            Some(Scalar::Float(_) | Scalar::Complex(..)) if d.is_int() || d == DType::Bool => {
                "For integral input tensors, argument alpha must not be a floating point number."
            }
            Some(Scalar::Complex(..)) if !d.is_complex() => {
                "For non-complex input tensors, argument alpha must not be a complex number."
            }
            _ => return push_mixed(c, d, c.opt(binary_at::OTHER).is_none(), outs),
        };
        Err(Error::runtime(format!("{}(): {why}", c.name())))
    }
    /// The promoted dtype, which must be real.
    pub fn infer_real(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
        if common(c)?.is_complex() {
            return Err(Error::type_(format!("{} not implemented for complex tensors.", c.name())));
        }
        infer(c, outs)
    }
    /// Refuses floats where only bits make sense.
    pub fn integral(c: &Call<'_>) -> Result<()> {
        let d = common(c)?;
        if d.is_differentiable() {
            return Err(Error::not_implemented(format!(
                "\"{}_cpu\" not implemented for '{}'",
                c.name(),
                d.scalar_type_name()
            )));
        }
        Ok(())
    }
    /// Chooses between the tensor and the scalar expression and pushes the compute dtype and the scalar.
    #[inline]
    pub fn lower(
        c: &Call<'_>,
        compute: DType,
        p: &mut Params,
        tensor: &'static Expr,
        scalar: &'static Expr,
    ) -> Result<&'static Expr> {
        let number = number(c, compute)?;
        lower_with(compute, p, tensor, scalar, number)
    }
    /// As `lower`, of an op that reads a number beside half floats as it is (`Traits::WIDE_NUMBER`).
    #[inline]
    pub fn lower_wide(
        c: &Call<'_>,
        compute: DType,
        p: &mut Params,
        tensor: &'static Expr,
        scalar: &'static Expr,
    ) -> Result<&'static Expr> {
        let number = match scalar_arg(c, binary_at::OTHER_SCALAR) {
            Some(s) => Some(narrow_operands::wrapped(c.t(binary_at::INPUT)?.dtype(), compute, s)),
            None => None,
        };
        lower_with(compute, p, tensor, scalar, number)
    }
    /// As `lower`, of a number that bounds elements and may lie beyond what their dtype holds.
    #[inline]
    pub fn lower_limit(
        c: &Call<'_>,
        compute: DType,
        p: &mut Params,
        tensor: &'static Expr,
        scalar: &'static Expr,
    ) -> Result<&'static Expr> {
        let number = number(c, DType::F64)?;
        lower_with(compute, p, tensor, scalar, number)
    }
    #[inline]
    fn lower_with(
        compute: DType,
        p: &mut Params,
        tensor: &'static Expr,
        scalar: &'static Expr,
        number: Option<Scalar>,
    ) -> Result<&'static Expr> {
        p.push(compute.into());
        match number {
            None => Ok(tensor),
            Some(s) => {
                push_scalar(p, compute, s);
                Ok(scalar)
            }
        }
    }
    /// The number in the place of the second operand, as the op reads it beside the input.
    #[inline]
    pub fn number(c: &Call<'_>, compute: DType) -> Result<Option<Scalar>> {
        match scalar_arg(c, binary_at::OTHER_SCALAR) {
            Some(s) => Ok(Some(narrow_operands::number(c.t(binary_at::INPUT)?, compute, s))),
            None => Ok(None),
        }
    }
    /// Tensor with tensor, broadcasting both ways, tensor with number, 0-dim, empty.
    pub fn samples() -> Vec<Sample> {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
        vec![
            t(&[5], &[5]),
            t(&[3, 4], &[3, 4]),
            t(&[3, 4], &[4]),
            t(&[3, 1], &[1, 4]),
            t(&[2, 3, 4], &[]),
            t(&[0, 3], &[3]),
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(1.5)]),
            Sample::new(vec![SampleArg::i64(&[3, 4], -5, 5), SampleArg::Int(2)]),
        ]
    }

    /// An op of two operands whose result has the promoted dtype.
    pub const ARITH: OpDef = OpDef {
        faces: Faces::ALL,
        infer,
        sbp: SbpRule::of(Rows::Elementwise { linear: &[] }),
        traits: Traits::ALIAS_OK,
        samples,
        ..OpDef::BASE
    };

    /// A comparison: booleans out, computed in the promoted dtype.
    pub const COMPARE: OpDef = OpDef { infer: infer_bool, ..ARITH };
}
