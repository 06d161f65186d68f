//! `empty`, `empty_like`: A tensor whose values are whatever the memory held.

use super::new::allocate;
use crate::elementwise::channels_last;
use crate::named::empty;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "empty(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "A tensor whose values are whatever the memory held.

Example::

    >>> oneflow.empty(2, 3).shape
    oneflow.Size([2, 3])",
    infer: |c, outs| {
        let sizes = c.ints(empty::SIZE)?;
        match channels_last(c.arg(empty::MEMORY_FORMAT).str().unwrap_or(""), sizes)? {
            Some(strides) => {
                let device = c.arg(empty::DEVICE).device().unwrap_or(Device::CPU);
                outs.push_strided(c.dtype_or(empty::DTYPE, default_dtype()), device, Dims::from_slice(sizes), strides)
            }
            None => super::push(c, sizes, c.arg(empty::DTYPE), c.arg(empty::DEVICE), outs),
        }
    },
    kernel: Kernel::Host(allocate),
    samples: Vec::new,
    ..super::full::SIZED
};

pub static EMPTY_LIKE: OpDef = OpDef {
    sig: Sig::parse(
        "empty_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "Uninitialised memory with the input's shape, dtype and device.

Example::

    >>> oneflow.empty_like(oneflow.zeros(2, 3)).shape
    oneflow.Size([2, 3])",
    kernel: Kernel::Host(allocate),
    sparse: Sparse::Empty,
    samples: Vec::new,
    ..super::full::LIKE
};
