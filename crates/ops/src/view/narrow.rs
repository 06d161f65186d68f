//! `narrow`: A view of `length` elements from `start` along a dimension.

use super::VIEW;
use crate::named::{narrow, narrow_tensor};
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("narrow(Tensor(a) input, int dim, int start, int length) -> Tensor(a)"),
    doc: "A view of `length` elements from `start` along a dimension.

Example::

    >>> oneflow.narrow(oneflow.arange(5), 0, 1, 3)
    tensor([1, 2, 3])",
    kernel: Kernel::None,
    compose: Some(|c, outs| {
        let (x, start, length) = (c.t(narrow::INPUT)?, c.int(narrow::START)?, c.int(narrow::LENGTH)?);
        if x.ndim() == 0 {
            return Err(Error::runtime("narrow() cannot be applied to a 0-dim tensor."));
        }
        let n = x.sizes()[wrap_dim(c.int(narrow::DIM)?, x.ndim())?];
        if length < 0 {
            return Err(Error::runtime("narrow(): length must be non-negative."));
        }
        if start < -n || start > n {
            return Err(Error::index(format!(
                "narrow(): start out of range (expected to be in range of [{}, {n}], but got {start})",
                -n
            )));
        }
        let from = if start < 0 { start + n } else { start };
        if length > n - from {
            return Err(Error::runtime(format!(
                "narrow(): start ({from}) + length ({length}) exceeds dimension size ({n})."
            )));
        }
        outs.give(x.slice(c.int(narrow::DIM)?, Some(from), Some(from + length), 1)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[5, 4]), i(0), i(1), i(3)])]
    },
    ..VIEW
};

pub static NARROW_FROM: OpDef = OpDef {
    sig: Sig::parse("narrow.tensor(Tensor(a) input, int dim, Tensor start, int length) -> Tensor(a)"),
    doc: "",
    shape: ShapeOf::Data,
    kernel: Kernel::None,
    compose: Some(|c, outs| {
        let start = c.t(narrow_tensor::START)?;
        if start.ndim() != 0 || !start.dtype().is_int() || start.dtype() == DType::Bool {
            return Err(Error::runtime("narrow(): start must be an 0-dim integral Tensor."));
        }
        let host = copy_to_host(&start.to_copy_with(Some(DType::I64), None)?)?;
        // SAFETY: the host copy holds one int64.
        let start = unsafe { host.data_ptr().cast::<i64>().read() };
        outs.give(c.t(narrow_tensor::INPUT)?.narrow(
            c.int(narrow_tensor::DIM)?,
            start,
            c.int(narrow_tensor::LENGTH)?,
        )?);
        Ok(())
    }),
    grad: Grad::Compose,
    traits: Traits::HOST_SYNC,
    sbp: SbpRule::of(Rows::OnlyB { why: "the start is read on the host" }),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[5, 4]), i(0), SampleArg::i64(&[], 0, 2), i(3)])]
    },
    ..VIEW
};
