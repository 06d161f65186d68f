//! The gradient of an affine map's weight, over inputs of any number of leading dimensions.
//!
//! One op in place of views and a product, because a flattened batch could not stay split along its second dimension: a
//! sequence whose positions lie on several ranks gives a partial sum here, and nothing moves.

use super::*;
use crate::named::linear_backward_weight as at;

/// The gradient and the input as matrices of equally many rows.
fn rows(c: &Call<'_>) -> Result<(i64, i64, i64)> {
    rows_of("linear_backward_weight", c.t(at::GRAD_OUTPUT)?, c.t(at::INPUT)?)
}

/// As `rows`, for an op of this name.
pub(super) fn rows_of(op: &str, g: &Tensor, x: &Tensor) -> Result<(i64, i64, i64)> {
    let split = |t: &Tensor| t.sizes().split_last().map(|(last, lead)| (Dims::from_slice(lead), *last));
    let (Some((lead, n)), Some((other, k))) = (split(g), split(x)) else {
        return Err(Error::runtime(format!("{op}(): the gradient and the input have at least one dimension")));
    };
    if lead != other || g.dtype() != x.dtype() {
        return Err(Error::runtime(format!(
            "{op}(): the gradient is {}{:?}, the input {}{:?}: they differ in the last dimension alone",
            g.dtype(),
            g.sizes(),
            x.dtype(),
            x.sizes()
        )));
    }
    Ok((lead.iter().product(), n, k))
}

/// Strides of the rows and columns of a tensor whose last dimension is `width`.
pub(super) fn row_strides(t: &Tensor, width: i64) -> Result<(i64, i64)> {
    match t.ndim() {
        2 => Ok((t.strides()[0], t.strides()[1])),
        _ if t.is_contiguous() => Ok((width, 1)),
        _ => Err(Error::not_implemented("linear_backward_weight: layouts without rows run the composition")),
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("linear_backward_weight(Tensor grad_output, Tensor input, Tensor? residual=None) -> Tensor"),
    doc: "`grad_output.T @ input` with all leading dimensions as rows. The compiler lets `residual`, of the result's sizes, be \
          added.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (_, n, k) = rows(c)?;
        outs.push(c.t(at::GRAD_OUTPUT)?.dtype(), c.t(at::GRAD_OUTPUT)?.device(), &[n, k])?;
        c.opt(at::RESIDUAL).map_or(Ok(()), |r| check_residual(c, r, &outs[at::RESULT]))
    },
    kernel: Kernel::Prim {
        prim: &MATMUL,
        lower: |c, _, l| {
            let (g, x) = (c.t(at::GRAD_OUTPUT)?, c.t(at::INPUT)?);
            let (rows, n, k) = rows(c)?;
            let ((g_row, g_column), (x_row, x_column)) = (row_strides(g, n)?, row_strides(x, k)?);
            l.input_as(at::GRAD_OUTPUT, Dims::from_slice(&[n, rows]), Dims::from_slice(&[g_column, g_row]), g.offset());
            l.input_as(at::INPUT, Dims::from_slice(&[rows, k]), Dims::from_slice(&[x_row, x_column]), x.offset());
            l.ins.push(None);
            l.output_as(at::RESULT, Dims::from_slice(&[n, k]), Dims::from_slice(&[k, 1]), 0);
            l.with(MatmulParams { activation: Activation::None, alpha: 1.0 });
            match c.opt(at::RESIDUAL) {
                Some(residual) => lower_residual(l, at::RESIDUAL, residual),
                None => {
                    l.ins.push(None);
                    Ok(())
                }
            }
        },
    },
    compose: Some(|c, outs| {
        rows(c)?;
        let product = as_rows(c.t(at::GRAD_OUTPUT)?)?.transpose(0, 1)?.matmul(&as_rows(c.t(at::INPUT)?)?)?;
        outs.give(match c.opt(at::RESIDUAL) {
            Some(residual) => product.add(residual)?,
            None => product,
        });
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(at::INPUT, &[at::GRAD_OUTPUT]), Save::of(at::GRAD_OUTPUT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(at::GRAD_OUTPUT, || conj(c.x(at::INPUT)?)?.linear(c.g()?, None))?;
            out.set(at::INPUT, || conj(c.x(at::GRAD_OUTPUT)?)?.matmul(c.g()?))?;
            out.set(at::RESIDUAL, || Ok(c.g()?.clone()))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        if c.opt(at::RESIDUAL).is_some() {
            return Ok(());
        }
        let last = c.t(at::INPUT)?.ndim() as u8 - 1;
        let mut row = |g: Sbp, x: Sbp, out: Sbp| {
            rows.push(Row { ins: SmallVec::from_slice(&[g, x]), outs: SmallVec::from_slice(&[out]) });
        };
        for d in 0..last {
            row(Sbp::S(d), Sbp::S(d), Sbp::P_SUM);
        }
        row(Sbp::S(last), Sbp::B, Sbp::S(0));
        row(Sbp::B, Sbp::S(last), Sbp::S(1));
        row(Sbp::P_SUM, Sbp::B, Sbp::P_SUM);
        row(Sbp::B, Sbp::P_SUM, Sbp::P_SUM);
        Ok(())
    })),
    cost: |c, outs| {
        let n = c.opt(at::GRAD_OUTPUT).map_or(0, |g| g.numel());
        let k = c.opt(at::INPUT).and_then(|x| x.sizes().last().copied()).unwrap_or(0);
        Cost { flops: 2.0 * n as f64 * k as f64, products: true, ..Cost::bytes_only(c, outs) }
    },
    amp: Amp::LOWER,
    samples: || {
        let t = |g: &[i64], x: &[i64]| Sample::new(vec![SampleArg::f32(g), SampleArg::f32(x), SampleArg::None]);
        vec![t(&[4, 8], &[4, 6]), t(&[2, 4, 8], &[2, 4, 6]), t(&[2, 3, 2, 8], &[2, 3, 2, 4]), t(&[0, 2, 3], &[0, 2, 2])]
    },
    ..OpDef::BASE
};
