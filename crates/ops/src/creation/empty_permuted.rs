//! `empty_permuted`: Uninitialised dense memory whose dimensions lie in the order of `physical_layout`, the
//! outermost first.

use crate::named::empty_permuted;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "empty_permuted(int[] size, int[] physical_layout, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Uninitialised dense memory whose dimensions lie in the order of `physical_layout`, the outermost first.

Example::

    >>> oneflow.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)",
    infer: |c, outs| {
        let (size, order) = (c.ints(empty_permuted::SIZE)?, c.ints(empty_permuted::PHYSICAL_LAYOUT)?);
        let n = size.len();
        if order.len() != n {
            return Err(Error::runtime(format!(
                "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {n} is not equal to len(physical_layout) = {}",
                order.len()
            )));
        }
        let mut stride: Dims = SmallVec::from_elem(0, n);
        let (mut step, mut seen) = (1i64, 0u64);
        for &d in order.iter().rev() {
            if d < 0 || d >= n as i64 {
                return Err(Error::runtime(format!(
                    "Dimension out of range (expected to be between 0 and {}, but got {d}). NB: negative dims not currently supported",
                    n as i64 - 1
                )));
            }
            if seen >> d & 1 == 1 {
                return Err(Error::runtime("Duplicate dim not allowed"));
            }
            seen |= 1 << d;
            stride[d as usize] = step;
            step = step.saturating_mul(size[d as usize].max(1));
        }
        let device = c.arg(empty_permuted::DEVICE).device().unwrap_or(Device::CPU);
        super::empty_strided::push(c, size, &stride, c.dtype_or(empty_permuted::DTYPE, default_dtype()), device, outs)
    },
    ..super::empty_strided::EMPTY
};
