//! Written by `cargo xtask codegen` from the signatures of the ops; edit those. One method or function an op.
#![allow(clippy::wrong_self_convention, clippy::should_implement_trait, unused_imports)]

use crate::Operand;
use crate::call::{OptInts, ints, list, many, none, one, rng, split, sym};
use oneflow_base::{Arg, DType, Device, NdSbpId, PlacementId, Result, Scalar};
use oneflow_core::{Call, Dest, Generator, Tensor};
use smallvec::SmallVec;

/// Every op whose first parameter is a tensor, as a method.
pub trait TensorOps {
    /// `abs(Tensor input) -> Tensor`
    fn abs(&self) -> Result<Tensor>;
    /// `abs(Tensor input) -> Tensor`
    fn abs_(&self) -> Result<()>;
    /// `abs(Tensor input) -> Tensor`
    fn abs_out(&self, out: &Tensor) -> Result<()>;
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
    /// `addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcdiv(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor>;
    /// `addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcdiv_with(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Result<Tensor>;
    /// `addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcdiv_(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<()>;
    /// `addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcdiv_with_(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Result<()>;
    /// `addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcdiv_out(&self, tensor1: &Tensor, tensor2: &Tensor, out: &Tensor) -> Result<()>;
    /// `addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcdiv_with_out(
        &self,
        tensor1: &Tensor,
        tensor2: &Tensor,
        value: impl Into<Scalar>,
        out: &Tensor,
    ) -> Result<()>;
    /// `addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcmul(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor>;
    /// `addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcmul_with(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Result<Tensor>;
    /// `addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcmul_(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<()>;
    /// `addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcmul_with_(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Result<()>;
    /// `addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcmul_out(&self, tensor1: &Tensor, tensor2: &Tensor, out: &Tensor) -> Result<()>;
    /// `addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcmul_with_out(
        &self,
        tensor1: &Tensor,
        tensor2: &Tensor,
        value: impl Into<Scalar>,
        out: &Tensor,
    ) -> Result<()>;
    /// `all(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor`
    fn all<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `all(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor`
    fn all_out<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, out: &Tensor) -> Result<()>;
    /// `amax(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor`
    fn amax(&self, dim: &[i64], keepdim: bool) -> Result<Tensor>;
    /// `amax(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor`
    fn amax_out(&self, dim: &[i64], keepdim: bool, out: &Tensor) -> Result<()>;
    /// `amin(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor`
    fn amin(&self, dim: &[i64], keepdim: bool) -> Result<Tensor>;
    /// `amin(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor`
    fn amin_out(&self, dim: &[i64], keepdim: bool, out: &Tensor) -> Result<()>;
    /// `any(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor`
    fn any<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `any(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor`
    fn any_out<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, out: &Tensor) -> Result<()>;
    /// `argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor`
    fn argmax(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor>;
    /// `argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor`
    fn argmin(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor>;
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
    /// `bitwise_and(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_and<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `bitwise_and(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_and_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `bitwise_and(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_and_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `bitwise_not(Tensor input) -> Tensor`
    fn bitwise_not(&self) -> Result<Tensor>;
    /// `bitwise_not(Tensor input) -> Tensor`
    fn bitwise_not_(&self) -> Result<()>;
    /// `bitwise_not(Tensor input) -> Tensor`
    fn bitwise_not_out(&self, out: &Tensor) -> Result<()>;
    /// `bitwise_or(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_or<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `bitwise_or(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_or_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `bitwise_or(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_or_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `bitwise_xor(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_xor<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `bitwise_xor(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_xor_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `bitwise_xor(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_xor_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `ceil(Tensor input) -> Tensor`
    fn ceil(&self) -> Result<Tensor>;
    /// `ceil(Tensor input) -> Tensor`
    fn ceil_(&self) -> Result<()>;
    /// `ceil(Tensor input) -> Tensor`
    fn ceil_out(&self, out: &Tensor) -> Result<()>;
    /// `chunk(Tensor(a) input, int chunks, int dim=0) -> Tensor(a)[]`
    fn chunk(&self, chunks: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `clamp(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor`
    fn clamp(&self, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor>;
    /// `clamp(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor`
    fn clamp_(&self, min: Option<Scalar>, max: Option<Scalar>) -> Result<()>;
    /// `clamp(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor`
    fn clamp_out(&self, min: Option<Scalar>, max: Option<Scalar>, out: &Tensor) -> Result<()>;
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
    /// `cos(Tensor input) -> Tensor`
    fn cos(&self) -> Result<Tensor>;
    /// `cos(Tensor input) -> Tensor`
    fn cos_(&self) -> Result<()>;
    /// `cos(Tensor input) -> Tensor`
    fn cos_out(&self, out: &Tensor) -> Result<()>;
    /// `cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumprod(&self, dim: i64) -> Result<Tensor>;
    /// `cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumprod_with(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor>;
    /// `cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumprod_(&self, dim: i64) -> Result<()>;
    /// `cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumprod_with_(&self, dim: i64, dtype: Option<DType>) -> Result<()>;
    /// `cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumprod_out(&self, dim: i64, out: &Tensor) -> Result<()>;
    /// `cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumprod_with_out(&self, dim: i64, dtype: Option<DType>, out: &Tensor) -> Result<()>;
    /// `cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumsum(&self, dim: i64) -> Result<Tensor>;
    /// `cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumsum_with(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor>;
    /// `cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumsum_(&self, dim: i64) -> Result<()>;
    /// `cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumsum_with_(&self, dim: i64, dtype: Option<DType>) -> Result<()>;
    /// `cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumsum_out(&self, dim: i64, out: &Tensor) -> Result<()>;
    /// `cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumsum_with_out(&self, dim: i64, dtype: Option<DType>, out: &Tensor) -> Result<()>;
    /// `div(Tensor input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor`
    fn div<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `div(Tensor input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor`
    fn div_with<'a>(&self, other: impl Into<Operand<'a>>, rounding_mode: Option<&str>) -> Result<Tensor>;
    /// `div(Tensor input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor`
    fn div_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `div(Tensor input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor`
    fn div_with_<'a>(&self, other: impl Into<Operand<'a>>, rounding_mode: Option<&str>) -> Result<()>;
    /// `div(Tensor input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor`
    fn div_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `div(Tensor input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor`
    fn div_with_out<'a>(&self, other: impl Into<Operand<'a>>, rounding_mode: Option<&str>, out: &Tensor) -> Result<()>;
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
    /// `eq(Tensor input, Tensor|Scalar other) -> Tensor`
    fn eq<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `eq(Tensor input, Tensor|Scalar other) -> Tensor`
    fn eq_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `eq(Tensor input, Tensor|Scalar other) -> Tensor`
    fn eq_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
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
    /// `expand_as(Tensor(a) input, Tensor other) -> Tensor(a)`
    fn expand_as(&self, other: &Tensor) -> Result<Tensor>;
    /// `expm1(Tensor input) -> Tensor`
    fn expm1(&self) -> Result<Tensor>;
    /// `expm1(Tensor input) -> Tensor`
    fn expm1_(&self) -> Result<()>;
    /// `expm1(Tensor input) -> Tensor`
    fn expm1_out(&self, out: &Tensor) -> Result<()>;
    /// `fill(Tensor input, Tensor|Scalar value) -> Tensor`
    fn fill<'a>(&self, value: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `fill(Tensor input, Tensor|Scalar value) -> Tensor`
    fn fill_<'a>(&self, value: impl Into<Operand<'a>>) -> Result<()>;
    /// `flatten(Tensor(a) input, int start_dim=0, int end_dim=-1) -> Tensor(a)`
    fn flatten(&self, start_dim: i64, end_dim: i64) -> Result<Tensor>;
    /// `flip(Tensor input, int[1] dims) -> Tensor`
    fn flip(&self, dims: &[i64]) -> Result<Tensor>;
    /// `floor(Tensor input) -> Tensor`
    fn floor(&self) -> Result<Tensor>;
    /// `floor(Tensor input) -> Tensor`
    fn floor_(&self) -> Result<()>;
    /// `floor(Tensor input) -> Tensor`
    fn floor_out(&self, out: &Tensor) -> Result<()>;
    /// `floor_divide(Tensor input, Tensor|Scalar other) -> Tensor`
    fn floor_divide<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `floor_divide(Tensor input, Tensor|Scalar other) -> Tensor`
    fn floor_divide_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `floor_divide(Tensor input, Tensor|Scalar other) -> Tensor`
    fn floor_divide_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
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
    /// `ge(Tensor input, Tensor|Scalar other) -> Tensor`
    fn ge<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `ge(Tensor input, Tensor|Scalar other) -> Tensor`
    fn ge_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `ge(Tensor input, Tensor|Scalar other) -> Tensor`
    fn ge_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `gelu(Tensor input, *, str approximate="none") -> Tensor`
    fn gelu(&self) -> Result<Tensor>;
    /// `gelu(Tensor input, *, str approximate="none") -> Tensor`
    fn gelu_with(&self, approximate: &str) -> Result<Tensor>;
    /// `gelu_backward(Tensor grad_output, Tensor input, *, str approximate="none") -> Tensor`
    fn gelu_backward(&self, input: &Tensor) -> Result<Tensor>;
    /// `gelu_backward(Tensor grad_output, Tensor input, *, str approximate="none") -> Tensor`
    fn gelu_backward_with(&self, input: &Tensor, approximate: &str) -> Result<Tensor>;
    /// `gt(Tensor input, Tensor|Scalar other) -> Tensor`
    fn gt<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `gt(Tensor input, Tensor|Scalar other) -> Tensor`
    fn gt_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `gt(Tensor input, Tensor|Scalar other) -> Tensor`
    fn gt_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `isfinite(Tensor input) -> Tensor`
    fn isfinite(&self) -> Result<Tensor>;
    /// `isinf(Tensor input) -> Tensor`
    fn isinf(&self) -> Result<Tensor>;
    /// `isnan(Tensor input) -> Tensor`
    fn isnan(&self) -> Result<Tensor>;
    /// `le(Tensor input, Tensor|Scalar other) -> Tensor`
    fn le<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `le(Tensor input, Tensor|Scalar other) -> Tensor`
    fn le_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `le(Tensor input, Tensor|Scalar other) -> Tensor`
    fn le_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `lerp(Tensor input, Tensor end, Tensor|Scalar weight) -> Tensor`
    fn lerp<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `lerp(Tensor input, Tensor end, Tensor|Scalar weight) -> Tensor`
    fn lerp_<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<()>;
    /// `lerp(Tensor input, Tensor end, Tensor|Scalar weight) -> Tensor`
    fn lerp_out<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `log(Tensor input) -> Tensor`
    fn log(&self) -> Result<Tensor>;
    /// `log(Tensor input) -> Tensor`
    fn log_(&self) -> Result<()>;
    /// `log(Tensor input) -> Tensor`
    fn log_out(&self, out: &Tensor) -> Result<()>;
    /// `log1p(Tensor input) -> Tensor`
    fn log1p(&self) -> Result<Tensor>;
    /// `log1p(Tensor input) -> Tensor`
    fn log1p_(&self) -> Result<()>;
    /// `log1p(Tensor input) -> Tensor`
    fn log1p_out(&self, out: &Tensor) -> Result<()>;
    /// `log2(Tensor input) -> Tensor`
    fn log2(&self) -> Result<Tensor>;
    /// `log2(Tensor input) -> Tensor`
    fn log2_(&self) -> Result<()>;
    /// `log2(Tensor input) -> Tensor`
    fn log2_out(&self, out: &Tensor) -> Result<()>;
    /// `log_softmax(Tensor input, int dim, DType? dtype=None) -> Tensor`
    fn log_softmax(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor>;
    /// `logical_and(Tensor input, Tensor other) -> Tensor`
    fn logical_and(&self, other: &Tensor) -> Result<Tensor>;
    /// `logical_and(Tensor input, Tensor other) -> Tensor`
    fn logical_and_(&self, other: &Tensor) -> Result<()>;
    /// `logical_and(Tensor input, Tensor other) -> Tensor`
    fn logical_and_out(&self, other: &Tensor, out: &Tensor) -> Result<()>;
    /// `logical_not(Tensor input) -> Tensor`
    fn logical_not(&self) -> Result<Tensor>;
    /// `logical_not(Tensor input) -> Tensor`
    fn logical_not_(&self) -> Result<()>;
    /// `logical_not(Tensor input) -> Tensor`
    fn logical_not_out(&self, out: &Tensor) -> Result<()>;
    /// `logical_or(Tensor input, Tensor other) -> Tensor`
    fn logical_or(&self, other: &Tensor) -> Result<Tensor>;
    /// `logical_or(Tensor input, Tensor other) -> Tensor`
    fn logical_or_(&self, other: &Tensor) -> Result<()>;
    /// `logical_or(Tensor input, Tensor other) -> Tensor`
    fn logical_or_out(&self, other: &Tensor, out: &Tensor) -> Result<()>;
    /// `logical_xor(Tensor input, Tensor other) -> Tensor`
    fn logical_xor(&self, other: &Tensor) -> Result<Tensor>;
    /// `logical_xor(Tensor input, Tensor other) -> Tensor`
    fn logical_xor_(&self, other: &Tensor) -> Result<()>;
    /// `logical_xor(Tensor input, Tensor other) -> Tensor`
    fn logical_xor_out(&self, other: &Tensor, out: &Tensor) -> Result<()>;
    /// `logsumexp(Tensor input, int[1] dim, bool keepdim=False) -> Tensor`
    fn logsumexp(&self, dim: &[i64], keepdim: bool) -> Result<Tensor>;
    /// `lt(Tensor input, Tensor|Scalar other) -> Tensor`
    fn lt<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `lt(Tensor input, Tensor|Scalar other) -> Tensor`
    fn lt_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `lt(Tensor input, Tensor|Scalar other) -> Tensor`
    fn lt_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `masked_fill(Tensor input, Tensor mask, Tensor|Scalar value) -> Tensor`
    fn masked_fill<'a>(&self, mask: &Tensor, value: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `masked_fill(Tensor input, Tensor mask, Tensor|Scalar value) -> Tensor`
    fn masked_fill_<'a>(&self, mask: &Tensor, value: impl Into<Operand<'a>>) -> Result<()>;
    /// `matmul(Tensor input, Tensor other) -> Tensor`
    fn matmul(&self, other: &Tensor) -> Result<Tensor>;
    /// `matmul(Tensor input, Tensor other) -> Tensor`
    fn matmul_out(&self, other: &Tensor, out: &Tensor) -> Result<()>;
    /// `max(Tensor input) -> Tensor`
    fn max(&self) -> Result<Tensor>;
    /// `max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)`
    fn max_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]>;
    /// `max.other(Tensor input, Tensor other) -> Tensor`
    fn max_other(&self, other: &Tensor) -> Result<Tensor>;
    /// `maximum(Tensor input, Tensor other) -> Tensor`
    fn maximum(&self, other: &Tensor) -> Result<Tensor>;
    /// `maximum(Tensor input, Tensor other) -> Tensor`
    fn maximum_out(&self, other: &Tensor, out: &Tensor) -> Result<()>;
    /// `mean(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn mean<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `mean(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn mean_with<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor>;
    /// `mean(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn mean_out<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, out: &Tensor) -> Result<()>;
    /// `mean(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn mean_with_out<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        keepdim: bool,
        dtype: Option<DType>,
        out: &Tensor,
    ) -> Result<()>;
    /// `min(Tensor input) -> Tensor`
    fn min(&self) -> Result<Tensor>;
    /// `min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)`
    fn min_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]>;
    /// `min.other(Tensor input, Tensor other) -> Tensor`
    fn min_other(&self, other: &Tensor) -> Result<Tensor>;
    /// `minimum(Tensor input, Tensor other) -> Tensor`
    fn minimum(&self, other: &Tensor) -> Result<Tensor>;
    /// `minimum(Tensor input, Tensor other) -> Tensor`
    fn minimum_out(&self, other: &Tensor, out: &Tensor) -> Result<()>;
    /// `movedim(Tensor(a) input, int[1] source, int[1] destination) -> Tensor(a)`
    fn movedim(&self, source: &[i64], destination: &[i64]) -> Result<Tensor>;
    /// `mul(Tensor input, Tensor|Scalar other) -> Tensor`
    fn mul<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `mul(Tensor input, Tensor|Scalar other) -> Tensor`
    fn mul_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `mul(Tensor input, Tensor|Scalar other) -> Tensor`
    fn mul_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `narrow(Tensor(a) input, int dim, int start, int length) -> Tensor(a)`
    fn narrow(&self, dim: i64, start: i64, length: i64) -> Result<Tensor>;
    /// `ne(Tensor input, Tensor|Scalar other) -> Tensor`
    fn ne<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `ne(Tensor input, Tensor|Scalar other) -> Tensor`
    fn ne_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `ne(Tensor input, Tensor|Scalar other) -> Tensor`
    fn ne_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `neg(Tensor input) -> Tensor`
    fn neg(&self) -> Result<Tensor>;
    /// `neg(Tensor input) -> Tensor`
    fn neg_(&self) -> Result<()>;
    /// `neg(Tensor input) -> Tensor`
    fn neg_out(&self, out: &Tensor) -> Result<()>;
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
    /// `pow(Tensor input, Tensor|Scalar exponent) -> Tensor`
    fn pow<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `pow(Tensor input, Tensor|Scalar exponent) -> Tensor`
    fn pow_<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<()>;
    /// `pow(Tensor input, Tensor|Scalar exponent) -> Tensor`
    fn pow_out<'a>(&self, exponent: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `prod(Tensor input, int? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn prod(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor>;
    /// `prod(Tensor input, int? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn prod_with(&self, dim: Option<i64>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor>;
    /// `reciprocal(Tensor input) -> Tensor`
    fn reciprocal(&self) -> Result<Tensor>;
    /// `reciprocal(Tensor input) -> Tensor`
    fn reciprocal_(&self) -> Result<()>;
    /// `reciprocal(Tensor input) -> Tensor`
    fn reciprocal_out(&self, out: &Tensor) -> Result<()>;
    /// `relu(Tensor input) -> Tensor`
    fn relu(&self) -> Result<Tensor>;
    /// `relu(Tensor input) -> Tensor`
    fn relu_(&self) -> Result<()>;
    /// `remainder(Tensor input, Tensor|Scalar other) -> Tensor`
    fn remainder<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `remainder(Tensor input, Tensor|Scalar other) -> Tensor`
    fn remainder_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `remainder(Tensor input, Tensor|Scalar other) -> Tensor`
    fn remainder_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()>;
    /// `reshape(Tensor(a) input, int[] shape) -> Tensor(a)`
    fn reshape(&self, shape: &[i64]) -> Result<Tensor>;
    /// `reshape_as(Tensor(a) input, Tensor other) -> Tensor(a)`
    fn reshape_as(&self, other: &Tensor) -> Result<Tensor>;
    /// `round(Tensor input, *, int decimals=0) -> Tensor`
    fn round(&self) -> Result<Tensor>;
    /// `round(Tensor input, *, int decimals=0) -> Tensor`
    fn round_with(&self, decimals: i64) -> Result<Tensor>;
    /// `round(Tensor input, *, int decimals=0) -> Tensor`
    fn round_(&self) -> Result<()>;
    /// `round(Tensor input, *, int decimals=0) -> Tensor`
    fn round_with_(&self, decimals: i64) -> Result<()>;
    /// `round(Tensor input, *, int decimals=0) -> Tensor`
    fn round_out(&self, out: &Tensor) -> Result<()>;
    /// `round(Tensor input, *, int decimals=0) -> Tensor`
    fn round_with_out(&self, decimals: i64, out: &Tensor) -> Result<()>;
    /// `rsqrt(Tensor input) -> Tensor`
    fn rsqrt(&self) -> Result<Tensor>;
    /// `rsqrt(Tensor input) -> Tensor`
    fn rsqrt_(&self) -> Result<()>;
    /// `rsqrt(Tensor input) -> Tensor`
    fn rsqrt_out(&self, out: &Tensor) -> Result<()>;
    /// `rsub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn rsub<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `rsub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn rsub_with<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<Tensor>;
    /// `select(Tensor(a) input, int dim, int index) -> Tensor(a)`
    fn select(&self, dim: i64, index: i64) -> Result<Tensor>;
    /// `sigmoid(Tensor input) -> Tensor`
    fn sigmoid(&self) -> Result<Tensor>;
    /// `sigmoid(Tensor input) -> Tensor`
    fn sigmoid_(&self) -> Result<()>;
    /// `sigmoid(Tensor input) -> Tensor`
    fn sigmoid_out(&self, out: &Tensor) -> Result<()>;
    /// `sign(Tensor input) -> Tensor`
    fn sign(&self) -> Result<Tensor>;
    /// `sign(Tensor input) -> Tensor`
    fn sign_(&self) -> Result<()>;
    /// `sign(Tensor input) -> Tensor`
    fn sign_out(&self, out: &Tensor) -> Result<()>;
    /// `silu(Tensor input) -> Tensor`
    fn silu(&self) -> Result<Tensor>;
    /// `silu(Tensor input) -> Tensor`
    fn silu_(&self) -> Result<()>;
    /// `silu_backward(Tensor grad_output, Tensor input) -> Tensor`
    fn silu_backward(&self, input: &Tensor) -> Result<Tensor>;
    /// `sin(Tensor input) -> Tensor`
    fn sin(&self) -> Result<Tensor>;
    /// `sin(Tensor input) -> Tensor`
    fn sin_(&self) -> Result<()>;
    /// `sin(Tensor input) -> Tensor`
    fn sin_out(&self, out: &Tensor) -> Result<()>;
    /// `slice(Tensor(a) input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)`
    fn slice(&self, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor>;
    /// `slice_backward(Tensor grad_output, int[] input_sizes, int dim, int start, int end, int step) -> Tensor`
    fn slice_backward(&self, input_sizes: &[i64], dim: i64, start: i64, end: i64, step: i64) -> Result<Tensor>;
    /// `softmax(Tensor input, int dim, DType? dtype=None) -> Tensor`
    fn softmax(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor>;
    /// `softmax_backward(Tensor grad_output, Tensor output, int dim, bool log) -> Tensor`
    fn softmax_backward(&self, output: &Tensor, dim: i64, log: bool) -> Result<Tensor>;
    /// `split(Tensor(a) input, int split_size, int dim=0) -> Tensor(a)[]`
    fn split(&self, split_size: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `split.sizes(Tensor(a) input, int[] split_size, int dim=0) -> Tensor(a)[]`
    fn split_sizes(&self, split_size: &[i64], dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `sqrt(Tensor input) -> Tensor`
    fn sqrt(&self) -> Result<Tensor>;
    /// `sqrt(Tensor input) -> Tensor`
    fn sqrt_(&self) -> Result<()>;
    /// `sqrt(Tensor input) -> Tensor`
    fn sqrt_out(&self, out: &Tensor) -> Result<()>;
    /// `square(Tensor input) -> Tensor`
    fn square(&self) -> Result<Tensor>;
    /// `square(Tensor input) -> Tensor`
    fn square_(&self) -> Result<()>;
    /// `square(Tensor input) -> Tensor`
    fn square_out(&self, out: &Tensor) -> Result<()>;
    /// `squeeze(Tensor(a) input) -> Tensor(a)`
    fn squeeze(&self) -> Result<Tensor>;
    /// `squeeze.dim(Tensor(a) input, int[1] dim) -> Tensor(a)`
    fn squeeze_dim(&self, dim: &[i64]) -> Result<Tensor>;
    /// `std(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn std<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<Tensor>;
    /// `std(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn std_with<'a>(&self, dim: impl Into<OptInts<'a>>, correction: Option<Scalar>, keepdim: bool) -> Result<Tensor>;
    /// `std(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn std_out<'a>(&self, dim: impl Into<OptInts<'a>>, out: &Tensor) -> Result<()>;
    /// `std(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn std_with_out<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        correction: Option<Scalar>,
        keepdim: bool,
        out: &Tensor,
    ) -> Result<()>;
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
    /// `t(Tensor(a) input) -> Tensor(a)`
    fn t(&self) -> Result<Tensor>;
    /// `tanh(Tensor input) -> Tensor`
    fn tanh(&self) -> Result<Tensor>;
    /// `tanh(Tensor input) -> Tensor`
    fn tanh_(&self) -> Result<()>;
    /// `tanh(Tensor input) -> Tensor`
    fn tanh_out(&self, out: &Tensor) -> Result<()>;
    /// `threshold_backward(Tensor grad_output, Tensor input, Scalar threshold) -> Tensor`
    fn threshold_backward(&self, input: &Tensor, threshold: impl Into<Scalar>) -> Result<Tensor>;
    /// `to_copy(Tensor input, *, DType? dtype=None, Device? device=None) -> Tensor`
    fn to_copy(&self) -> Result<Tensor>;
    /// `to_copy(Tensor input, *, DType? dtype=None, Device? device=None) -> Tensor`
    fn to_copy_with(&self, dtype: Option<DType>, device: Option<Device>) -> Result<Tensor>;
    /// `transpose(Tensor(a) input, int dim0, int dim1) -> Tensor(a)`
    fn transpose(&self, dim0: i64, dim1: i64) -> Result<Tensor>;
    /// `trunc(Tensor input) -> Tensor`
    fn trunc(&self) -> Result<Tensor>;
    /// `trunc(Tensor input) -> Tensor`
    fn trunc_(&self) -> Result<()>;
    /// `trunc(Tensor input) -> Tensor`
    fn trunc_out(&self, out: &Tensor) -> Result<()>;
    /// `unbind(Tensor(a) input, int dim=0) -> Tensor(a)[]`
    fn unbind(&self, dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `unflatten(Tensor(a) input, int dim, int[] sizes) -> Tensor(a)`
    fn unflatten(&self, dim: i64, sizes: &[i64]) -> Result<Tensor>;
    /// `unsqueeze(Tensor(a) input, int dim) -> Tensor(a)`
    fn unsqueeze(&self, dim: i64) -> Result<Tensor>;
    /// `var(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn var<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<Tensor>;
    /// `var(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn var_with<'a>(&self, dim: impl Into<OptInts<'a>>, correction: Option<Scalar>, keepdim: bool) -> Result<Tensor>;
    /// `var(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn var_out<'a>(&self, dim: impl Into<OptInts<'a>>, out: &Tensor) -> Result<()>;
    /// `var(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn var_with_out<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        correction: Option<Scalar>,
        keepdim: bool,
        out: &Tensor,
    ) -> Result<()>;
    /// `vector_norm(Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn vector_norm<'a>(&self, ord: impl Into<Scalar>, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `vector_norm(Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn vector_norm_with<'a>(
        &self,
        ord: impl Into<Scalar>,
        dim: impl Into<OptInts<'a>>,
        keepdim: bool,
        dtype: Option<DType>,
    ) -> Result<Tensor>;
    /// `view(Tensor(a) input, int[] size) -> Tensor(a)`
    fn view(&self, size: &[i64]) -> Result<Tensor>;
    /// `view_as(Tensor(a) input, Tensor other) -> Tensor(a)`
    fn view_as(&self, other: &Tensor) -> Result<Tensor>;
    /// `where(Tensor condition, Tensor|Scalar input, Tensor|Scalar other) -> Tensor`
    fn r#where<'a>(&self, input: impl Into<Operand<'a>>, other: impl Into<Operand<'a>>) -> Result<Tensor>;
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
    fn abs(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::abs::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn abs_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::abs::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn abs_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::abs::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

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
    fn addcdiv(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCDIV,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn addcdiv_with(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCDIV,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::from(value.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn addcdiv_(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCDIV,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::Int(1)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn addcdiv_with_(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCDIV,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::from(value.into())],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn addcdiv_out(&self, tensor1: &Tensor, tensor2: &Tensor, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCDIV,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::Int(1)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn addcdiv_with_out(
        &self,
        tensor1: &Tensor,
        tensor2: &Tensor,
        value: impl Into<Scalar>,
        out: &Tensor,
    ) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCDIV,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::from(value.into())],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn addcmul(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCMUL,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn addcmul_with(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCMUL,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::from(value.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn addcmul_(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCMUL,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::Int(1)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn addcmul_with_(&self, tensor1: &Tensor, tensor2: &Tensor, value: impl Into<Scalar>) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCMUL,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::from(value.into())],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn addcmul_out(&self, tensor1: &Tensor, tensor2: &Tensor, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCMUL,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::Int(1)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn addcmul_with_out(
        &self,
        tensor1: &Tensor,
        tensor2: &Tensor,
        value: impl Into<Scalar>,
        out: &Tensor,
    ) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::lerp::ADDCMUL,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::from(value.into())],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn all<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::logic::ALL,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn all_out<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::logic::ALL,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn amax(&self, dim: &[i64], keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::extrema::AMAX,
            ins: &[Some(self)],
            args: &[Arg::Ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn amax_out(&self, dim: &[i64], keepdim: bool, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::extrema::AMAX,
            ins: &[Some(self)],
            args: &[Arg::Ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn amin(&self, dim: &[i64], keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::extrema::AMIN,
            ins: &[Some(self)],
            args: &[Arg::Ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn amin_out(&self, dim: &[i64], keepdim: bool, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::extrema::AMIN,
            ins: &[Some(self)],
            args: &[Arg::Ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn any<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::logic::ANY,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn any_out<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::logic::ANY,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn argmax(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::extrema::ARGMAX,
            ins: &[Some(self)],
            args: &[dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn argmin(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::extrema::ARGMIN,
            ins: &[Some(self)],
            args: &[dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn as_strided(&self, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::as_strided::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), Arg::Ints(stride), storage_offset.map_or(Arg::None, Arg::Int)],
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
            args: &[Arg::Ints(size), Arg::Ints(stride), storage_offset.map_or(Arg::None, Arg::Int)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn bitwise_and<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_and::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn bitwise_and_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_and::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn bitwise_and_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_and::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn bitwise_not(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::bitwise_not::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn bitwise_not_(&self) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::bitwise_not::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn bitwise_not_out(&self, out: &Tensor) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::bitwise_not::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn bitwise_or<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_or::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn bitwise_or_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_or::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn bitwise_or_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_or::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn bitwise_xor<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_xor::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn bitwise_xor_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_xor::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn bitwise_xor_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_xor::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn ceil(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::ceil::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn ceil_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::ceil::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn ceil_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::ceil::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn chunk(&self, chunks: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::split::CHUNK,
            ins: &[Some(self)],
            args: &[Arg::Int(chunks), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn clamp(&self, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::clamp::OP,
            ins: &[Some(self)],
            args: &[min.map_or(Arg::None, Arg::from), max.map_or(Arg::None, Arg::from)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn clamp_(&self, min: Option<Scalar>, max: Option<Scalar>) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::clamp::OP,
            ins: &[Some(self)],
            args: &[min.map_or(Arg::None, Arg::from), max.map_or(Arg::None, Arg::from)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn clamp_out(&self, min: Option<Scalar>, max: Option<Scalar>, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::clamp::OP,
            ins: &[Some(self)],
            args: &[min.map_or(Arg::None, Arg::from), max.map_or(Arg::None, Arg::from)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
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
            args: &[memory_format.map_or(Arg::None, sym)],
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
    fn cos(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::cos::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn cos_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::cos::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn cos_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::cos::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn cumprod(&self, dim: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::prod::CUMPROD,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cumprod_with(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::prod::CUMPROD,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cumprod_(&self, dim: i64) -> Result<()> {
        let call = Call {
            op: &crate::reduce::prod::CUMPROD,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::None],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn cumprod_with_(&self, dim: i64, dtype: Option<DType>) -> Result<()> {
        let call = Call {
            op: &crate::reduce::prod::CUMPROD,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn cumprod_out(&self, dim: i64, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::prod::CUMPROD,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::None],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn cumprod_with_out(&self, dim: i64, dtype: Option<DType>, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::prod::CUMPROD,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn cumsum(&self, dim: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::prod::CUMSUM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cumsum_with(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::prod::CUMSUM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cumsum_(&self, dim: i64) -> Result<()> {
        let call = Call {
            op: &crate::reduce::prod::CUMSUM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::None],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn cumsum_with_(&self, dim: i64, dtype: Option<DType>) -> Result<()> {
        let call = Call {
            op: &crate::reduce::prod::CUMSUM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn cumsum_out(&self, dim: i64, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::prod::CUMSUM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::None],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn cumsum_with_out(&self, dim: i64, dtype: Option<DType>, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::prod::CUMSUM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn div<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn div_with<'a>(&self, other: impl Into<Operand<'a>>, rounding_mode: Option<&str>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, rounding_mode.map_or(Arg::None, sym)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn div_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::None],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn div_with_<'a>(&self, other: impl Into<Operand<'a>>, rounding_mode: Option<&str>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, rounding_mode.map_or(Arg::None, sym)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn div_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::None],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn div_with_out<'a>(&self, other: impl Into<Operand<'a>>, rounding_mode: Option<&str>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, rounding_mode.map_or(Arg::None, sym)],
            dest: Dest::Into(&[out]),
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
                dtype.map_or(Arg::None, Arg::DType),
                device.map_or(Arg::None, Arg::Device),
                Arg::Bool(requires_grad),
                memory_format.map_or(Arg::None, sym),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn eq<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::eq::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn eq_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::eq::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn eq_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::eq::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
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
    fn expand_as(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::shape::EXPAND_AS, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn expm1(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::expm1::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn expm1_(&self) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::expm1::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn expm1_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::expm1::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
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
    fn flatten(&self, start_dim: i64, end_dim: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::shape::FLATTEN,
            ins: &[Some(self)],
            args: &[Arg::Int(start_dim), Arg::Int(end_dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn flip(&self, dims: &[i64]) -> Result<Tensor> {
        let call = Call { op: &crate::view::flip::OP, ins: &[Some(self)], args: &[Arg::Ints(dims)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn floor(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::floor::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn floor_(&self) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::floor::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn floor_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::floor::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn floor_divide<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::FLOOR_DIVIDE,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn floor_divide_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::FLOOR_DIVIDE,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn floor_divide_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::FLOOR_DIVIDE,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
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
                dtype.map_or(Arg::None, Arg::DType),
                device.map_or(Arg::None, Arg::Device),
                Arg::Bool(requires_grad),
                memory_format.map_or(Arg::None, sym),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn ge<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::ge::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn ge_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::ge::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn ge_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::ge::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
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
    fn gt<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::gt::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn gt_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::gt::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn gt_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::gt::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn isfinite(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::isfinite::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn isinf(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::isinf::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn isnan(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::isnan::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn le<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::le::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn le_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::le::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn le_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::le::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn lerp<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (weight, weight_scalar) = split(weight);
        let call = Call {
            op: &crate::elementwise::lerp::OP,
            ins: &[Some(self), Some(end), weight],
            args: &[weight_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn lerp_<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<()> {
        let (weight, weight_scalar) = split(weight);
        let call = Call {
            op: &crate::elementwise::lerp::OP,
            ins: &[Some(self), Some(end), weight],
            args: &[weight_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn lerp_out<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (weight, weight_scalar) = split(weight);
        let call = Call {
            op: &crate::elementwise::lerp::OP,
            ins: &[Some(self), Some(end), weight],
            args: &[weight_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn log(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::log::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn log_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::log::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn log_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::log::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn log1p(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::log1p::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn log1p_(&self) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::log1p::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn log1p_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::log1p::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn log2(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::log2::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn log2_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::log2::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn log2_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::log2::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn log_softmax(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::softmax::LOG,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn logical_and(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::logical_and::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn logical_and_(&self, other: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::logical_and::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn logical_and_out(&self, other: &Tensor, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::logical_and::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn logical_not(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::logical_not::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn logical_not_(&self) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::logical_not::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn logical_not_out(&self, out: &Tensor) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::logical_not::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn logical_or(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::logical_or::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn logical_or_(&self, other: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::logical_or::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn logical_or_out(&self, other: &Tensor, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::logical_or::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn logical_xor(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::logical_xor::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn logical_xor_(&self, other: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::logical_xor::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn logical_xor_out(&self, other: &Tensor, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::logical_xor::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn logsumexp(&self, dim: &[i64], keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::prod::LOGSUMEXP,
            ins: &[Some(self)],
            args: &[Arg::Ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn lt<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::lt::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn lt_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::lt::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn lt_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::lt::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn masked_fill<'a>(&self, mask: &Tensor, value: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (value, value_scalar) = split(value);
        let call = Call {
            op: &crate::elementwise::where_::MASKED_FILL,
            ins: &[Some(self), Some(mask), value],
            args: &[value_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn masked_fill_<'a>(&self, mask: &Tensor, value: impl Into<Operand<'a>>) -> Result<()> {
        let (value, value_scalar) = split(value);
        let call = Call {
            op: &crate::elementwise::where_::MASKED_FILL,
            ins: &[Some(self), Some(mask), value],
            args: &[value_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
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
    fn max(&self) -> Result<Tensor> {
        let call = Call { op: &crate::reduce::extrema::MAX, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn max_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::extrema::MAX_DIM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn max_other(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::extrema::MAX_OTHER,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn maximum(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::maximum::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn maximum_out(&self, other: &Tensor, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::maximum::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn mean<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::mean::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn mean_with<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::mean::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn mean_out<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::mean::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim), Arg::None],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn mean_with_out<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        keepdim: bool,
        dtype: Option<DType>,
        out: &Tensor,
    ) -> Result<()> {
        let call = Call {
            op: &crate::reduce::mean::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn min(&self) -> Result<Tensor> {
        let call = Call { op: &crate::reduce::extrema::MIN, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn min_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::extrema::MIN_DIM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn min_other(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::extrema::MIN_OTHER,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn minimum(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::minimum::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn minimum_out(&self, other: &Tensor, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::minimum::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn movedim(&self, source: &[i64], destination: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::shape::MOVEDIM,
            ins: &[Some(self)],
            args: &[Arg::Ints(source), Arg::Ints(destination)],
            dest: Dest::Fresh,
        };
        one(&call)
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
    fn narrow(&self, dim: i64, start: i64, length: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::slice::NARROW,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Int(start), Arg::Int(length)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn ne<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::ne::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn ne_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::ne::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn ne_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::ne::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn neg(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::neg::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn neg_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::neg::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn neg_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::neg::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
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
                dtype.map_or(Arg::None, Arg::DType),
                device.map_or(Arg::None, Arg::Device),
                Arg::Bool(requires_grad),
                memory_format.map_or(Arg::None, sym),
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
    fn pow<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (exponent, exponent_scalar) = split(exponent);
        let call = Call {
            op: &crate::elementwise::pow::OP,
            ins: &[Some(self), exponent],
            args: &[exponent_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn pow_<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<()> {
        let (exponent, exponent_scalar) = split(exponent);
        let call = Call {
            op: &crate::elementwise::pow::OP,
            ins: &[Some(self), exponent],
            args: &[exponent_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn pow_out<'a>(&self, exponent: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (exponent, exponent_scalar) = split(exponent);
        let call = Call {
            op: &crate::elementwise::pow::OP,
            ins: &[Some(self), exponent],
            args: &[exponent_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn prod(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::prod::PROD,
            ins: &[Some(self)],
            args: &[dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn prod_with(&self, dim: Option<i64>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::prod::PROD,
            ins: &[Some(self)],
            args: &[dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn reciprocal(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::reciprocal::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn reciprocal_(&self) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::reciprocal::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn reciprocal_out(&self, out: &Tensor) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::reciprocal::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn relu(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::relu::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn relu_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::relu::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn remainder<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::REMAINDER,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn remainder_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::REMAINDER,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn remainder_out<'a>(&self, other: impl Into<Operand<'a>>, out: &Tensor) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::div::REMAINDER,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn reshape(&self, shape: &[i64]) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::reshape::OP, ins: &[Some(self)], args: &[Arg::Ints(shape)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn reshape_as(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::shape::RESHAPE_AS, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn round(&self) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::round::OP, ins: &[Some(self)], args: &[Arg::Int(0)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn round_with(&self, decimals: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::round::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(decimals)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn round_(&self) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::round::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(0)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn round_with_(&self, decimals: i64) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::round::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(decimals)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn round_out(&self, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::round::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(0)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn round_with_out(&self, decimals: i64, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::round::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(decimals)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn rsqrt(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::rsqrt::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn rsqrt_(&self) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::rsqrt::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn rsqrt_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::rsqrt::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn rsub<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::rsub::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn rsub_with<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::rsub::OP,
            ins: &[Some(self), other],
            args: &[other_scalar, Arg::from(alpha.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn select(&self, dim: i64, index: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::slice::SELECT,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Int(index)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn sigmoid(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::sigmoid::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn sigmoid_(&self) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::sigmoid::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn sigmoid_out(&self, out: &Tensor) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::sigmoid::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn sign(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::sign::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn sign_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::sign::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn sign_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::sign::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn silu(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::silu::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn silu_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::silu::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn silu_backward(&self, input: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::silu::BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn sin(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::sin::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn sin_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::sin::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn sin_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::sin::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn slice(&self, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::slice::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), start.map_or(Arg::None, Arg::Int), end.map_or(Arg::None, Arg::Int), Arg::Int(step)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn slice_backward(&self, input_sizes: &[i64], dim: i64, start: i64, end: i64, step: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::slice::BACKWARD,
            ins: &[Some(self)],
            args: &[Arg::Ints(input_sizes), Arg::Int(dim), Arg::Int(start), Arg::Int(end), Arg::Int(step)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn softmax(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::softmax::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, Arg::DType)],
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
    fn split(&self, split_size: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::split::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(split_size), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn split_sizes(&self, split_size: &[i64], dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::split::SIZES,
            ins: &[Some(self)],
            args: &[Arg::Ints(split_size), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn sqrt(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::sqrt::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn sqrt_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::sqrt::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn sqrt_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::sqrt::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn square(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::square::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn square_(&self) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::square::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn square_out(&self, out: &Tensor) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::square::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
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
    fn std<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::mean::STD,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn std_with<'a>(&self, dim: impl Into<OptInts<'a>>, correction: Option<Scalar>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::mean::STD,
            ins: &[Some(self)],
            args: &[ints(dim), correction.map_or(Arg::None, Arg::from), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn std_out<'a>(&self, dim: impl Into<OptInts<'a>>, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::mean::STD,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::None, Arg::Bool(false)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn std_with_out<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        correction: Option<Scalar>,
        keepdim: bool,
        out: &Tensor,
    ) -> Result<()> {
        let call = Call {
            op: &crate::reduce::mean::STD,
            ins: &[Some(self)],
            args: &[ints(dim), correction.map_or(Arg::None, Arg::from), Arg::Bool(keepdim)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
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
            args: &[ints(dim), Arg::Bool(keepdim), dtype.map_or(Arg::None, Arg::DType)],
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
            args: &[ints(dim), Arg::Bool(keepdim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn t(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::shape::T, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
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
    fn threshold_backward(&self, input: &Tensor, threshold: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::relu::BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[Arg::from(threshold.into())],
            dest: Dest::Fresh,
        };
        one(&call)
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
            args: &[dtype.map_or(Arg::None, Arg::DType), device.map_or(Arg::None, Arg::Device)],
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
    fn trunc(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::trunc::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn trunc_(&self) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::trunc::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn trunc_out(&self, out: &Tensor) -> Result<()> {
        let call = Call { op: &crate::elementwise::trunc::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn unbind(&self, dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call =
            Call { op: &crate::view::split::UNBIND, ins: &[Some(self)], args: &[Arg::Int(dim)], dest: Dest::Fresh };
        list(&call)
    }

    #[inline]
    fn unflatten(&self, dim: i64, sizes: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::shape::UNFLATTEN,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Ints(sizes)],
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
    fn var<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::mean::VAR,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn var_with<'a>(&self, dim: impl Into<OptInts<'a>>, correction: Option<Scalar>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::mean::VAR,
            ins: &[Some(self)],
            args: &[ints(dim), correction.map_or(Arg::None, Arg::from), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn var_out<'a>(&self, dim: impl Into<OptInts<'a>>, out: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::reduce::mean::VAR,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::None, Arg::Bool(false)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn var_with_out<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        correction: Option<Scalar>,
        keepdim: bool,
        out: &Tensor,
    ) -> Result<()> {
        let call = Call {
            op: &crate::reduce::mean::VAR,
            ins: &[Some(self)],
            args: &[ints(dim), correction.map_or(Arg::None, Arg::from), Arg::Bool(keepdim)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

    #[inline]
    fn vector_norm<'a>(&self, ord: impl Into<Scalar>, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::prod::NORM,
            ins: &[Some(self)],
            args: &[Arg::from(ord.into()), ints(dim), Arg::Bool(keepdim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn vector_norm_with<'a>(
        &self,
        ord: impl Into<Scalar>,
        dim: impl Into<OptInts<'a>>,
        keepdim: bool,
        dtype: Option<DType>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::prod::NORM,
            ins: &[Some(self)],
            args: &[Arg::from(ord.into()), ints(dim), Arg::Bool(keepdim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn view(&self, size: &[i64]) -> Result<Tensor> {
        let call = Call { op: &crate::view::view::OP, ins: &[Some(self)], args: &[Arg::Ints(size)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn view_as(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::shape::VIEW_AS, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn r#where<'a>(&self, input: impl Into<Operand<'a>>, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (input, input_scalar) = split(input);
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::where_::OP,
            ins: &[Some(self), input, other],
            args: &[input_scalar, other_scalar],
            dest: Dest::Fresh,
        };
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
                dtype.map_or(Arg::None, Arg::DType),
                device.map_or(Arg::None, Arg::Device),
                Arg::Bool(requires_grad),
                memory_format.map_or(Arg::None, sym),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }
}

/// Ops without a tensor in front.
pub mod functions {
    use super::*;

    /// `cat(Tensor[] tensors, int dim=0) -> Tensor`
    #[inline]
    pub fn cat<'a>(tensors: impl IntoIterator<Item = &'a Tensor>, dim: i64) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::cat::OP,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `cat(Tensor[] tensors, int dim=0) -> Tensor`
    #[inline]
    pub fn cat_out<'a>(tensors: impl IntoIterator<Item = &'a Tensor>, dim: i64, out: &Tensor) -> Result<()> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::cat::OP,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32), Arg::Int(dim)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
    }

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
                dtype.map_or(Arg::None, Arg::DType),
                device.map_or(Arg::None, Arg::Device),
                Arg::Bool(requires_grad),
                memory_format.map_or(Arg::None, sym),
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
                dtype.map_or(Arg::None, Arg::DType),
                device.map_or(Arg::None, Arg::Device),
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
                dtype.map_or(Arg::None, Arg::DType),
                device.map_or(Arg::None, Arg::Device),
                Arg::Bool(requires_grad),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `pow.scalar(Scalar input, Tensor exponent) -> Tensor`
    #[inline]
    pub fn pow_scalar(input: impl Into<Scalar>, exponent: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::pow::BASE,
            ins: &[Some(exponent)],
            args: &[Arg::from(input.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `stack(Tensor[] tensors, int dim=0) -> Tensor`
    #[inline]
    pub fn stack<'a>(tensors: impl IntoIterator<Item = &'a Tensor>, dim: i64) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::cat::STACK,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `stack(Tensor[] tensors, int dim=0) -> Tensor`
    #[inline]
    pub fn stack_out<'a>(tensors: impl IntoIterator<Item = &'a Tensor>, dim: i64, out: &Tensor) -> Result<()> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::cat::STACK,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32), Arg::Int(dim)],
            dest: Dest::Into(&[out]),
        };
        none(&call)
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
                dtype.map_or(Arg::None, Arg::DType),
                device.map_or(Arg::None, Arg::Device),
                Arg::Bool(requires_grad),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }
}
