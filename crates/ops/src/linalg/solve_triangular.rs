//! Systems with a triangular matrix.

use super::*;
use crate::named::linalg_solve_triangular as at;

/// Common batch dimensions, after every check that metas allow.
fn batch(c: &Call<'_>) -> Result<Dims> {
    const NAME: &str = "linalg.solve_triangular";
    let (a, b, left) = (c.t(at::INPUT)?, c.t(at::B)?, c.bool(at::LEFT));
    if b.ndim() < 2 {
        matrix(NAME, a)?;
        return Err(Error::runtime(format!(
            "{NAME}: The input tensor B must have at least 2 dimensions, but it is {:?}",
            b.sizes()
        )));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "{NAME}: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
            a.dtype().scalar_type_name(),
            b.dtype().scalar_type_name()
        )));
    }
    let n = square(NAME, a)?;
    let (rows, cols) = (b.sizes()[b.ndim() - 2], b.sizes()[b.ndim() - 1]);
    if (if left { rows } else { cols }) != n {
        let (product, side) = if left { ("AX = B", "rows") } else { ("XA = B", "columns") };
        return Err(Error::runtime(format!(
            "{NAME}: Incompatible shapes of A and B for the equation {product} ({:?} and {:?}: the {side} of B differ from A's)",
            a.sizes(),
            b.sizes()
        )));
    }
    broadcast_shapes(lead(a), lead(b)).map_err(|e| e.context(format_args!("{NAME}: batch dimensions: ")))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "linalg_solve_triangular(Tensor input, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
    ),
    doc: "The solution of a system with a triangular matrix.",
    infer: |c, outs| {
        let b = c.t(at::B)?;
        let sizes = joined(&batch(c)?, &b.sizes()[b.ndim() - 2..]);
        push_columns(outs, b, b.dtype(), sizes)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::TRIANGULAR_SOLVE,
        lower: |c, outs, l| {
            let (a, b, batch) = (c.t(at::INPUT)?, c.t(at::B)?, batch(c)?);
            let left = c.bool(at::LEFT);
            // X A = B is A^T X^T = B^T.
            let mut seen = |t: &Tensor, input: In| {
                let d = t.ndim();
                let sizes = joined(&batch, &t.sizes()[d - 2..]);
                let mut strides: Dims = SmallVec::from_elem(0, batch.len());
                let own = d - 2;
                for i in 0..own {
                    let at = batch.len() - own + i;
                    strides[at] = if t.sizes()[i] == batch[at] { t.strides()[i] } else { 0 };
                }
                strides.extend_from_slice(&t.strides()[d - 2..]);
                let (sizes, strides) = turned(left, sizes, strides);
                l.input_as(input, sizes, strides, t.offset());
            };
            seen(a, at::INPUT);
            seen(b, at::B);
            let out = &outs[at::RESULT];
            let (sizes, strides) = turned(left, Dims::from_slice(out.sizes()), Dims::from_slice(out.strides()));
            l.output_as(at::RESULT, sizes, strides, out.offset());
            l.with(TriangularSolveParams {
                upper: c.bool(at::UPPER) == left,
                unitriangular: c.bool(at::UNITRIANGULAR),
            });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::of(at::INPUT, &[at::INPUT, at::B]), Save::out(at::RESULT, &[at::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (upper, left, unit) =
                (c.arg(at::UPPER).bool(), c.arg(at::LEFT).bool(), c.arg(at::UNITRIANGULAR).bool());
            let gb = c.x(at::INPUT)?.adjoint()?.linalg_solve_triangular_with(c.g()?, !upper, left, unit)?;
            out.set(at::INPUT, || {
                let xh = c.y(at::RESULT)?.adjoint()?;
                let ga = if left { gb.matmul(&xh)? } else { xh.matmul(&gb)? }.neg()?;
                if upper { ga.triu(unit as i64) } else { ga.tril(-(unit as i64)) }
            })?;
            out.set(at::B, || Ok(gb))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| batch_rows(c, 1, rows))),
    samples: || {
        // Away from zero: solutions stay small.
        let t = |a: &[i64], b: &[i64], upper, left| {
            Sample::new(vec![SampleArg::range(a, 0.6, 1.4), SampleArg::f32(b)])
                .kw("upper", SampleArg::Bool(upper))
                .kw("left", SampleArg::Bool(left))
        };
        vec![
            t(&[3, 3], &[3, 2], true, true),
            t(&[2, 3, 3], &[2, 2, 3], false, false),
            t(&[2, 2], &[4, 2, 3], false, true),
        ]
    },
    ..LINALG
};

/// The layout as it is, or of the transposed matrices.
fn turned(left: bool, mut sizes: Dims, mut strides: Dims) -> (Dims, Dims) {
    let n = sizes.len();
    if !left {
        sizes.swap(n - 2, n - 1);
        strides.swap(n - 2, n - 1);
    }
    (sizes, strides)
}
