//! The exponential of matrices.

use super::*;
use crate::named::matrix_exp as at;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("matrix_exp(Tensor input) -> Tensor"),
    doc: "The exponential of square matrices.

Example::

    >>> oneflow.matrix_exp(oneflow.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let a = c.t(at::INPUT)?;
        square("linalg.matrix_exp", a)?;
        outs.push(a.dtype(), a.device(), a.sizes())
    },
    kernel: Kernel::Prim {
        prim: &MATRIX_EXP,
        lower: |_, _, l| {
            l.input(at::INPUT).output(at::RESULT);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::of(at::INPUT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            // The exponential of [[A^H, G], [0, A^H]] holds the gradient beside exp(A^H).
            out.set(at::INPUT, || {
                let (h, g) = (c.x(at::INPUT)?.adjoint()?, c.g()?);
                let n = h.sizes()[h.ndim() - 1];
                let top = f::cat([&h, g], -1)?;
                let bottom = f::cat([&h.zeros_like()?, &h], -1)?;
                f::cat([&top, &bottom], -2)?.matrix_exp()?.narrow(-2, 0, n)?.narrow(-1, n, n)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| batch_rows(c, 1, rows))),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 3])]), Sample::new(vec![SampleArg::f32(&[2, 2, 2])])],
    ..LINALG
};
