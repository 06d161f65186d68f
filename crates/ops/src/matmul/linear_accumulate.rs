//! The gradient of an affine map's weight, added by the product itself to the sum of earlier ones.
//!
//! Eager gradients alone ask for it (`linear`), for a leaf that has a gradient: in a trace the sum is a node of its own, which
//! fusion knows.

use super::*;
use crate::named::_linear_accumulate_ as at;

/// Rows of both, and the widths of the gradient and of the input.
fn rows(c: &Call<'_>) -> Result<(i64, i64, i64)> {
    linear_backward_weight::rows_of("_linear_accumulate_", c.t(at::GRAD_OUTPUT)?, c.t(at::INPUT)?)
}

/// Whether the op is one launch for this sum, the gradient of an output and its input.
pub(super) fn is_one_launch(sum: &Tensor, g: &Tensor, x: &Tensor) -> bool {
    let plain = 1 << bit::LOCAL | 1 << bit::AUTOGRAD;
    // A product writes while it reads.
    let reads = |t: &Tensor| matches!((t.storage(), sum.storage()), (Some(a), Some(b)) if a.same(b));
    (g.keys() | x.keys()) & !plain == 0
        && g.ndim() > 1
        && g.dtype().is_float()
        && [g, x].iter().all(|t| t.dtype() == sum.dtype() && t.device() == sum.device() && !reads(t))
        && MATMUL_ACCUMULATE.is_provided(g.device().kind)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("_linear_accumulate_(Tensor(a!) weight, Tensor(b!)? sums, Tensor grad_output, Tensor input) -> ()"),
    doc: "Adds `grad_output.T @ input`, with all leading dimensions as rows, to `weight`; `sums` become those of `grad_output` over \
          the rows.",
    infer: |c, _| {
        let (_, n, k) = rows(c)?;
        let g = c.t(at::GRAD_OUTPUT)?;
        let written = [(Some(c.t(at::WEIGHT)?), &[n, k][..]), (c.opt(at::SUMS), &[n])];
        for (t, sizes) in written.into_iter().filter_map(|(t, sizes)| Some((t?, sizes))) {
            if t.sizes() != sizes || t.dtype() != g.dtype() || !t.is_contiguous() {
                return Err(Error::runtime(format!(
                    "_linear_accumulate_(): expected a contiguous {}{sizes:?}, but got {}{:?} with strides {:?}",
                    g.dtype(),
                    t.dtype(),
                    t.sizes(),
                    t.strides()
                )));
            }
        }
        Ok(())
    },
    kernel: Kernel::Prim {
        prim: &MATMUL_ACCUMULATE,
        lower: |c, _, l| {
            let (g, x) = (c.t(at::GRAD_OUTPUT)?, c.t(at::INPUT)?);
            let (rows, n, k) = rows(c)?;
            let ((g_row, g_column), (x_row, x_column)) =
                (linear_backward_weight::row_strides(g, n)?, linear_backward_weight::row_strides(x, k)?);
            l.written_input(at::WEIGHT);
            match c.opt(at::SUMS) {
                Some(_) => l.written_input(at::SUMS),
                None => l.no_output(),
            };
            l.input_as(at::GRAD_OUTPUT, Dims::from_slice(&[n, rows]), Dims::from_slice(&[g_column, g_row]), g.offset());
            l.input_as(at::INPUT, Dims::from_slice(&[rows, k]), Dims::from_slice(&[x_row, x_column]), x.offset());
            Ok(())
        },
    },
    compose: Some(|c, _| {
        rows(c)?;
        let (sum, g, x) = (c.t(at::WEIGHT)?, c.t(at::GRAD_OUTPUT)?, c.t(at::INPUT)?);
        match c.opt(at::SUMS) {
            // Where a library does not sum rows beside such a product, it may add alone.
            Some(sums) => {
                sum._linear_accumulate_(None, g, x)?;
                as_rows(g)?.sum_out(&[0], false, sums)?;
            }
            None => {
                sum.add_(&g.linear_backward_weight(x, None)?)?;
            }
        }
        Ok(())
    }),
    cost: |c, outs| {
        let n = c.opt(at::GRAD_OUTPUT).map_or(0, |g| g.numel());
        let k = c.opt(at::INPUT).and_then(|x| x.sizes().last().copied()).unwrap_or(0);
        Cost { flops: 2.0 * n as f64 * k as f64, products: true, ..Cost::bytes_only(c, outs) }
    },
    faces: Faces::PRIVATE,
    traits: Traits::MUTATES,
    sbp: SbpRule::of(Rows::OnlyB { why: "gradients of shards are added up by ops of their own" }),
    ..OpDef::BASE
};
