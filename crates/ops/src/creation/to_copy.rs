//! Another dtype or device.

use crate::elementwise::push_like;
use crate::named::to_copy as at;
use crate::prelude::*;

/// The copy that `to` makes where something differs; the public `Tensor.to` returns the tensor itself otherwise.
pub static OP: OpDef = OpDef {
    sig: Sig::parse("to_copy(Tensor input, *, DType? dtype=None, Device? device=None) -> Tensor"),
    doc: "A copy with another dtype or on another device.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(at::INPUT)?;
        let (dtype, device) = (c.dtype_or(at::DTYPE, x.dtype()), c.arg(at::DEVICE).device().unwrap_or(x.device()));
        push_like(x, dtype, device, None, outs)
    },
    kernel: Kernel::Prim {
        prim: &COPY,
        lower: |_, _, l| {
            l.input(at::INPUT).output(at::RESULT);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let m = c.in_meta(at::INPUT)?;
            out.set(at::INPUT, || {
                let g = c.g()?;
                // Of a complex gradient a real input takes the real part, as a view.
                let part = if g.dtype().is_complex() && !m.dtype.is_complex() { g.real()? } else { g.clone() };
                if part.dtype() == m.dtype && part.device() == m.device && g.dtype().is_complex() {
                    return Ok(part);
                }
                let narrows = matches!(part.dtype(), DType::BF16 | DType::F16) && m.dtype == DType::F32;
                if narrows && part.device() == m.device && c.takes_narrow(at::INPUT) {
                    return Ok(part);
                }
                part.to_copy_with(Some(m.dtype), Some(m.device))
            })
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[at::INPUT])] }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])]).kw("dtype", SampleArg::DType(DType::F64))],
    sparse: Sparse::Cast,
    ..OpDef::BASE
};
