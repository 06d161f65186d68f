//! Written by `cargo xtask codegen` from the signatures of the ops; edit those. One method or function an op.
#![allow(clippy::wrong_self_convention, clippy::should_implement_trait, unused_imports)]

use crate::Operand;
use crate::call::{OptInts, ints, list, many, none, one, rng, split, sym};
use oneflow_base::{Arg, DType, Device, NdSbpId, PlacementId, Result, Scalar};
use oneflow_core::{Call, Dest, Generator, Tensor};
use smallvec::SmallVec;

/// Every op whose first parameter is a tensor, as a method.
pub trait TensorOps {
    /// `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn add<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn add_with<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<Tensor>;
    /// `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn add_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn add_with_<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<()>;
    /// `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn add_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn add_with_out<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>, out: &Tensor) -> Result<()>;
    /// `as_strided(Tensor(a) input, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)`
    fn as_strided(&self, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Result<Tensor>;
    /// `as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor`
    fn as_strided_scatter(
        &self,
        src: &Tensor,
        size: &[i64],
        stride: &[i64],
        storage_offset: Option<i64>,
    ) -> Result<Tensor>;
    /// `clone_contiguous(Tensor input) -> Tensor`
    fn clone_contiguous(&self) -> Result<Tensor>;
    /// `contiguous(Tensor(a) input, *, MemoryFormat? memory_format=None) -> Tensor(a)`
    fn contiguous(&self) -> Result<Tensor>;
    /// `contiguous(Tensor(a) input, *, MemoryFormat? memory_format=None) -> Tensor(a)`
    fn contiguous_with(&self, memory_format: Option<&str>) -> Result<Tensor>;
    /// `copy(Tensor input, Tensor src, bool non_blocking=False) -> Tensor`
    fn copy(&self, src: &Tensor, non_blocking: bool) -> Result<Tensor>;
    /// `copy(Tensor input, Tensor src, bool non_blocking=False) -> Tensor`
    fn copy_(&self, src: &Tensor, non_blocking: bool) -> Result<()>;
    /// `empty_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn empty_like(&self) -> Result<Tensor>;
    /// `empty_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn empty_like_with(
        &self,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor>;
    /// `erf(Tensor input) -> Tensor`
    fn erf(&self) -> Result<Tensor>;
    /// `erf(Tensor input) -> Tensor`
    fn erf_(&self) -> Result<()>;
    /// `erf(Tensor input) -> Tensor`
    fn erf_out(&self, out: &Tensor) -> Result<()>;
    /// `exp(Tensor input) -> Tensor`
    fn exp(&self) -> Result<Tensor>;
    /// `exp(Tensor input) -> Tensor`
    fn exp_(&self) -> Result<()>;
    /// `exp(Tensor input) -> Tensor`
    fn exp_out(&self, out: &Tensor) -> Result<()>;
    /// `expand(Tensor(a) input, int[] size, *, bool implicit=False) -> Tensor(a)`
    fn expand(&self, size: &[i64]) -> Result<Tensor>;
    /// `expand(Tensor(a) input, int[] size, *, bool implicit=False) -> Tensor(a)`
    fn expand_with(&self, size: &[i64], implicit: bool) -> Result<Tensor>;
    /// `fill(Tensor input, Tensor|Scalar value) -> Tensor`
    fn fill<'a>(&self, value: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `fill(Tensor input, Tensor|Scalar value) -> Tensor`
    fn fill_<'a>(&self, value: impl Into<Operand<'a>>) -> Result<()>;
    /// `full_like(Tensor input, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn full_like(&self, fill_value: impl Into<Scalar>) -> Result<Tensor>;
    /// `full_like(Tensor input, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn full_like_with(
        &self,
        fill_value: impl Into<Scalar>,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor>;
    /// `gelu(Tensor input, *, str approximate="none") -> Tensor`
    fn gelu(&self) -> Result<Tensor>;
    /// `gelu(Tensor input, *, str approximate="none") -> Tensor`
    fn gelu_with(&self, approximate: &str) -> Result<Tensor>;
    /// `gelu_backward(Tensor grad_output, Tensor input, *, str approximate="none") -> Tensor`
    fn gelu_backward(&self, input: &Tensor) -> Result<Tensor>;
    /// `gelu_backward(Tensor grad_output, Tensor input, *, str approximate="none") -> Tensor`
    fn gelu_backward_with(&self, input: &Tensor, approximate: &str) -> Result<Tensor>;
    /// `log_softmax(Tensor input, int dim, DType? dtype=None) -> Tensor`
    fn log_softmax(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor>;
    /// `matmul(Tensor input, Tensor other) -> Tensor`
    fn matmul(&self, other: &Tensor) -> Result<Tensor>;
    /// `matmul(Tensor input, Tensor other) -> Tensor`
    fn matmul_out(&self, other: &Tensor, out: &Tensor) -> Result<()>;
    /// `mul(Tensor input, Tensor|Scalar other) -> Tensor`
    fn mul<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `mul(Tensor input, Tensor|Scalar other) -> Tensor`
    fn mul_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `mul(Tensor input, Tensor|Scalar other) -> Tensor`
    fn mul_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `ones_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn ones_like(&self) -> Result<Tensor>;
    /// `ones_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn ones_like_with(
        &self,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor>;
    /// `permute(Tensor(a) input, int[] dims) -> Tensor(a)`
    fn permute(&self, dims: &[i64]) -> Result<Tensor>;
    /// `reshape(Tensor(a) input, int[] shape) -> Tensor(a)`
    fn reshape(&self, shape: &[i64]) -> Result<Tensor>;
    /// `softmax(Tensor input, int dim, DType? dtype=None) -> Tensor`
    fn softmax(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor>;
    /// `softmax_backward(Tensor grad_output, Tensor output, int dim, bool log) -> Tensor`
    fn softmax_backward(&self, output: &Tensor, dim: i64, log: bool) -> Result<Tensor>;
    /// `squeeze(Tensor(a) input) -> Tensor(a)`
    fn squeeze(&self) -> Result<Tensor>;
    /// `squeeze.dim(Tensor(a) input, int[1] dim) -> Tensor(a)`
    fn squeeze_dim(&self, dim: &[i64]) -> Result<Tensor>;
    /// `sub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn sub<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `sub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn sub_with<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<Tensor>;
    /// `sub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn sub_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `sub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn sub_with_<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<()>;
    /// `sub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn sub_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `sub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn sub_with_out<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>, out: &Tensor) -> Result<()>;
    /// `sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn sum<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn sum_with<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor>;
    /// `sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn sum_out<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, out: &Tensor) -> Result<()>;
    /// `sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn sum_with_out<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        keepdim: bool,
        dtype: Option<DType>,
        out: &Tensor,
    ) -> Result<()>;
    /// `tanh(Tensor input) -> Tensor`
    fn tanh(&self) -> Result<Tensor>;
    /// `tanh(Tensor input) -> Tensor`
    fn tanh_(&self) -> Result<()>;
    /// `tanh(Tensor input) -> Tensor`
    fn tanh_out(&self, out: &Tensor) -> Result<()>;
    /// `to_copy(Tensor input, *, DType? dtype=None, Device? device=None) -> Tensor`
    fn to_copy(&self) -> Result<Tensor>;
    /// `to_copy(Tensor input, *, DType? dtype=None, Device? device=None) -> Tensor`
    fn to_copy_with(&self, dtype: Option<DType>, device: Option<Device>) -> Result<Tensor>;
    /// `transpose(Tensor(a) input, int dim0, int dim1) -> Tensor(a)`
    fn transpose(&self, dim0: i64, dim1: i64) -> Result<Tensor>;
    /// `unsqueeze(Tensor(a) input, int dim) -> Tensor(a)`
    fn unsqueeze(&self, dim: i64) -> Result<Tensor>;
    /// `view(Tensor(a) input, int[] size) -> Tensor(a)`
    fn view(&self, size: &[i64]) -> Result<Tensor>;
    /// `zero(Tensor input) -> Tensor`
    fn zero(&self) -> Result<Tensor>;
    /// `zero(Tensor input) -> Tensor`
    fn zero_(&self) -> Result<()>;
    /// `zeros_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn zeros_like(&self) -> Result<Tensor>;
    /// `zeros_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn zeros_like_with(
        &self,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor>;
}

impl TensorOps for Tensor {
    #[inline]
    fn add<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::add::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn add_with<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::add::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::from(alpha.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn add_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::add::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::Int(1)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn add_with_<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::add::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::from(alpha.into())],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn add_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::add::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::Int(1)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn add_with_out<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::add::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::from(alpha.into())],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn as_strided(&self, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::as_strided::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), Arg::Ints(stride), storage_offset.map_or(Arg::None, |v| Arg::Int(v))],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn as_strided_scatter(
        &self,
        src: &Tensor,
        size: &[i64],
        stride: &[i64],
        storage_offset: Option<i64>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::as_strided::SCATTER,
            ins: &[Some(self), Some(src)],
            args: &[Arg::Ints(size), Arg::Ints(stride), storage_offset.map_or(Arg::None, |v| Arg::Int(v))],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn clone_contiguous(&self) -> Result<Tensor> {
        let call = Call { op: &crate::creation::contiguous::COPY_OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn contiguous(&self) -> Result<Tensor> {
        let call =
            Call { op: &crate::creation::contiguous::OP, ins: &[Some(self)], args: &[Arg::None], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn contiguous_with(&self, memory_format: Option<&str>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::contiguous::OP,
            ins: &[Some(self)],
            args: &[memory_format.map_or(Arg::None, |v| sym(v))],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn copy(&self, src: &Tensor, non_blocking: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::copy::COPY_OP,
            ins: &[Some(self), Some(src)],
            args: &[Arg::Bool(non_blocking)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn copy_(&self, src: &Tensor, non_blocking: bool) -> Result<()> {
        let call = Call {
            op: &crate::creation::copy::COPY_OP,
            ins: &[Some(self), Some(src)],
            args: &[Arg::Bool(non_blocking)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn empty_like(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::EMPTY_LIKE,
            ins: &[Some(self)],
            args: &[Arg::None, Arg::None, Arg::Bool(false), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn empty_like_with(
        &self,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::EMPTY_LIKE,
            ins: &[Some(self)],
            args: &[
                dtype.map_or(Arg::None, |v| Arg::DType(v)),
                device.map_or(Arg::None, |v| Arg::Device(v)),
                Arg::Bool(requires_grad),
                memory_format.map_or(Arg::None, |v| sym(v)),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn erf(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::erf::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn erf_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::erf::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn erf_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::erf::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn exp(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::exp::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn exp_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::exp::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn exp_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::exp::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn expand(&self, size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::expand::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn expand_with(&self, size: &[i64], implicit: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::expand::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), Arg::Bool(implicit)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn fill<'a>(&self, value: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (value, value_scalar) = split(value);
        let call = Call {
            op: &crate::creation::copy::FILL_OP,
            ins: &[Some(self), value],
            args: &[value_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn fill_<'a>(&self, value: impl Into<Operand<'a>>) -> Result<()> {
        let (value, value_scalar) = split(value);
        let call = Call {
            op: &crate::creation::copy::FILL_OP,
            ins: &[Some(self), value],
            args: &[value_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn full_like(&self, fill_value: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::FULL_LIKE,
            ins: &[Some(self)],
            args: &[Arg::from(fill_value.into()), Arg::None, Arg::None, Arg::Bool(false), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn full_like_with(
        &self,
        fill_value: impl Into<Scalar>,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::FULL_LIKE,
            ins: &[Some(self)],
            args: &[
                Arg::from(fill_value.into()),
                dtype.map_or(Arg::None, |v| Arg::DType(v)),
                device.map_or(Arg::None, |v| Arg::Device(v)),
                Arg::Bool(requires_grad),
                memory_format.map_or(Arg::None, |v| sym(v)),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn gelu(&self) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::gelu::OP, ins: &[Some(self)], args: &[sym("none")], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn gelu_with(&self, approximate: &str) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::gelu::OP,
            ins: &[Some(self)],
            args: &[sym(approximate)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn gelu_backward(&self, input: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::gelu::BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[sym("none")],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn gelu_backward_with(&self, input: &Tensor, approximate: &str) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::gelu::BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[sym(approximate)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn log_softmax(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::softmax::LOG,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, |v| Arg::DType(v))],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::matmul::matmul::OP, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn matmul_out(&self, other: &Tensor, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::matmul::matmul::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn mul<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::mul::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn mul_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::mul::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn mul_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::mul::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn ones_like(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::ONES_LIKE,
            ins: &[Some(self)],
            args: &[Arg::None, Arg::None, Arg::Bool(false), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn ones_like_with(
        &self,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::ONES_LIKE,
            ins: &[Some(self)],
            args: &[
                dtype.map_or(Arg::None, |v| Arg::DType(v)),
                device.map_or(Arg::None, |v| Arg::Device(v)),
                Arg::Bool(requires_grad),
                memory_format.map_or(Arg::None, |v| sym(v)),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn permute(&self, dims: &[i64]) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::permute::OP, ins: &[Some(self)], args: &[Arg::Ints(dims)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn reshape(&self, shape: &[i64]) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::reshape::OP, ins: &[Some(self)], args: &[Arg::Ints(shape)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn softmax(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::softmax::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, |v| Arg::DType(v))],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn softmax_backward(&self, output: &Tensor, dim: i64, log: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::softmax::BACKWARD,
            ins: &[Some(self), Some(output)],
            args: &[Arg::Int(dim), Arg::Bool(log)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn squeeze(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::squeeze::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn squeeze_dim(&self, dim: &[i64]) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::squeeze::DIM, ins: &[Some(self)], args: &[Arg::Ints(dim)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn sub<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::sub::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn sub_with<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::sub::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::from(alpha.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn sub_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::sub::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::Int(1)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn sub_with_<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::sub::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::from(alpha.into())],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn sub_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::sub::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::Int(1)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn sub_with_out<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::sub::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::from(alpha.into())],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn sum<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::sum::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn sum_with<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::sum::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim), dtype.map_or(Arg::None, |v| Arg::DType(v))],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn sum_out<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::sum::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim), Arg::None],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn sum_with_out<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        keepdim: bool,
        dtype: Option<DType>,
        out: &Tensor,
    ) -> Result<()> {
        let call = Call {
            op: &crate::reduce::sum::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim), dtype.map_or(Arg::None, |v| Arg::DType(v))],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn tanh(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::tanh::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn tanh_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::tanh::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn tanh_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::tanh::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn to_copy(&self) -> Result<Tensor> {
        let call =
            Call { op: &crate::creation::to::OP, ins: &[Some(self)], args: &[Arg::None, Arg::None], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn to_copy_with(&self, dtype: Option<DType>, device: Option<Device>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::to::OP,
            ins: &[Some(self)],
            args: &[dtype.map_or(Arg::None, |v| Arg::DType(v)), device.map_or(Arg::None, |v| Arg::Device(v))],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn transpose(&self, dim0: i64, dim1: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::transpose::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim0), Arg::Int(dim1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn unsqueeze(&self, dim: i64) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::unsqueeze::OP, ins: &[Some(self)], args: &[Arg::Int(dim)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn view(&self, size: &[i64]) -> Result<Tensor> {
        let call = Call { op: &crate::view::view::OP, ins: &[Some(self)], args: &[Arg::Ints(size)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn zero(&self) -> Result<Tensor> {
        let call = Call { op: &crate::creation::copy::ZERO, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn zero_(&self) -> Result<()> {
        let call = Call { op: &crate::creation::copy::ZERO, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn zeros_like(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::ZEROS_LIKE,
            ins: &[Some(self)],
            args: &[Arg::None, Arg::None, Arg::Bool(false), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn zeros_like_with(
        &self,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::ZEROS_LIKE,
            ins: &[Some(self)],
            args: &[
                dtype.map_or(Arg::None, |v| Arg::DType(v)),
                device.map_or(Arg::None, |v| Arg::Device(v)),
                Arg::Bool(requires_grad),
                memory_format.map_or(Arg::None, |v| sym(v)),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }
}

/// Ops without a tensor in front.
pub mod functions {
    use super::*;

    /// `empty(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    #[inline]
    pub fn empty(size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::EMPTY,
            ins: &[],
            args: &[Arg::Ints(size), Arg::None, Arg::None, Arg::Bool(false), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `empty(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    #[inline]
    pub fn empty_with(
        size: &[i64],
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::EMPTY,
            ins: &[],
            args: &[
                Arg::Ints(size),
                dtype.map_or(Arg::None, |v| Arg::DType(v)),
                device.map_or(Arg::None, |v| Arg::Device(v)),
                Arg::Bool(requires_grad),
                memory_format.map_or(Arg::None, |v| sym(v)),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `full(int[] size, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn full(size: &[i64], fill_value: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::FULL,
            ins: &[],
            args: &[Arg::Ints(size), Arg::from(fill_value.into()), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `full(int[] size, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn full_with(
        size: &[i64],
        fill_value: impl Into<Scalar>,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::FULL,
            ins: &[],
            args: &[
                Arg::Ints(size),
                Arg::from(fill_value.into()),
                dtype.map_or(Arg::None, |v| Arg::DType(v)),
                device.map_or(Arg::None, |v| Arg::Device(v)),
                Arg::Bool(requires_grad),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `ones(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn ones(size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::ONES,
            ins: &[],
            args: &[Arg::Ints(size), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `ones(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn ones_with(
        size: &[i64],
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::ONES,
            ins: &[],
            args: &[
                Arg::Ints(size),
                dtype.map_or(Arg::None, |v| Arg::DType(v)),
                device.map_or(Arg::None, |v| Arg::Device(v)),
                Arg::Bool(requires_grad),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `zeros(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn zeros(size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::zeros::OP,
            ins: &[],
            args: &[Arg::Ints(size), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `zeros(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn zeros_with(
        size: &[i64],
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::zeros::OP,
            ins: &[],
            args: &[
                Arg::Ints(size),
                dtype.map_or(Arg::None, |v| Arg::DType(v)),
                device.map_or(Arg::None, |v| Arg::Device(v)),
                Arg::Bool(requires_grad),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }
}
