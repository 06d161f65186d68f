//! The gradients of an affine map's weight and bias in one launch, where a device's library has that.
//!
//! Eager gradients alone ask for it (`linear`): in a trace the product and the sum are nodes of their own, which fusion knows.

use super::*;
use crate::named::linear_backward_parameters as at;

/// Rows of both, and the widths of the gradient and of the input.
fn rows(c: &Call<'_>) -> Result<(i64, i64, i64)> {
    linear_backward_weight::rows_of("linear_backward_parameters", c.t(at::GRAD_OUTPUT)?, c.t(at::INPUT)?)
}

/// Whether the op is one launch for this gradient.
pub(super) fn is_one_launch(g: &Tensor) -> bool {
    let plain = 1 << bit::LOCAL | 1 << bit::AUTOGRAD;
    g.keys() & !plain == 0 && g.ndim() > 1 && g.dtype().is_float() && MATMUL_ROW_SUMS.is_provided(g.device().kind)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("linear_backward_parameters(Tensor grad_output, Tensor input) -> (Tensor weight, Tensor bias)"),
    doc: "`grad_output.T @ input` with all leading dimensions as rows, and the sums of `grad_output` over the rows.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (_, n, k) = rows(c)?;
        let g = c.t(at::GRAD_OUTPUT)?;
        outs.push(g.dtype(), g.device(), &[n, k])?;
        outs.push(g.dtype(), g.device(), &[n])
    },
    kernel: Kernel::Prim {
        prim: &MATMUL_ROW_SUMS,
        lower: |c, _, l| {
            let (g, x) = (c.t(at::GRAD_OUTPUT)?, c.t(at::INPUT)?);
            let (rows, n, k) = rows(c)?;
            let ((g_row, g_column), (x_row, x_column)) =
                (linear_backward_weight::row_strides(g, n)?, linear_backward_weight::row_strides(x, k)?);
            l.input_as(at::GRAD_OUTPUT, Dims::from_slice(&[n, rows]), Dims::from_slice(&[g_column, g_row]), g.offset());
            l.input_as(at::INPUT, Dims::from_slice(&[rows, k]), Dims::from_slice(&[x_row, x_column]), x.offset());
            l.output(at::WEIGHT).output(at::BIAS);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        rows(c)?;
        let (g, x) = (c.t(at::GRAD_OUTPUT)?, c.t(at::INPUT)?);
        let weight = g.linear_backward_weight(x, None)?;
        crate::view::give_all(outs, [weight, as_rows(g)?.sum_with(&[0], false, None)?])
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    amp: Amp::LOWER,
    samples: || {
        let t = |g: &[i64], x: &[i64]| Sample::new(vec![SampleArg::f32(g), SampleArg::f32(x)]);
        vec![t(&[4, 8], &[4, 6]), t(&[2, 4, 8], &[2, 4, 6]), t(&[0, 2, 3], &[0, 2, 2])]
    },
    ..OpDef::BASE
};
