//! `nextafter`: The next number after `input` towards `other`.

use super::{binary, two_tensors, unary};
use crate::named::nextafter;
use crate::prelude::*;

static NEXTAFTER_EXPR: Expr = expr!(float "nextafter", |x, y| x.next_after(y));

/// The next number of a real type, by counting bits: as integers of sign and magnitude its numbers lie in order.
fn step_of_bits(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (word, sign) = match x.dtype().size() {
        2 => (DType::I16, i64::from(i16::MIN)),
        4 => (DType::I32, i64::from(i32::MIN)),
        _ => (DType::I64, i64::MIN),
    };
    let bits = x.clone_contiguous()?.view_dtype(word)?;
    let magnitude = bits.bitwise_and(!sign)?;
    let place = bits.lt(0i64)?.r#where(&magnitude.neg()?, &magnitude)?;
    let up = y.gt(x)?.to_copy_with(Some(word), None)?;
    let next = place.add(&up.mul(2i64)?.sub(1i64)?)?;
    let coded = next.lt(0i64)?.r#where(&next.neg()?.bitwise_or(sign)?, &next)?;
    let stepped = coded.view_dtype(x.dtype())?;
    let moved = x.eq(y)?.r#where(y, &stepped)?;
    x.isnan()?.logical_or(&y.isnan()?)?.r#where(&x.add(y)?, &moved)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("nextafter(Tensor input, Tensor other) -> Tensor"),
    doc: "The next number after `input` towards `other`.

Example::

    >>> oneflow.nextafter(oneflow.tensor([1.]), oneflow.tensor([2.])) > 1
    tensor([True])",
    infer: |c, outs| {
        let d = binary::common(c)?;
        if !matches!(d, DType::F32 | DType::F64 | DType::F16 | DType::BF16) {
            return Err(unary::not_implemented(c, d));
        }
        binary::infer(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        let d = o[nextafter::RESULT].dtype();
        // The formula steps in the dtype of computation, which is finer than a half type.
        if d.compute() != d {
            return Err(unary::not_implemented(c, d));
        }
        unary::by_output(o, p, &NEXTAFTER_EXPR)
    }),
    compose: Some(|c, outs| {
        let d = binary::common(c)?;
        let (x, y) =
            (c.t(nextafter::INPUT)?.to_copy_with(Some(d), None)?, c.t(nextafter::OTHER)?.to_copy_with(Some(d), None)?);
        let together = f::broadcast_tensors([&x, &y])?;
        outs.give(step_of_bits(&together[0], &together[1])?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(nextafter::INPUT, &[nextafter::INPUT]), Save::of(nextafter::OTHER, &[nextafter::INPUT])],
        fix: Fix::Broadcast,
        // A step along with the first operand; where both are equal there is none.
        f: |c, out| {
            out.set(nextafter::INPUT, || {
                c.g()?
                    .mul(&c.x(nextafter::INPUT)?.ne(c.x(nextafter::OTHER)?)?.to_copy_with(Some(c.g()?.dtype()), None)?)
            })?;
            out.set(nextafter::OTHER, || c.g()?.zeros_like())
        },
    },
    samples: two_tensors,
    ..binary::ARITH
};
