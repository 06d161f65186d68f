//! Written by `cargo xtask codegen` from the signatures of the ops that this tree calls; edit those.
#![allow(non_snake_case, clippy::wrong_self_convention, clippy::should_implement_trait, unused_imports)]

use crate::Operand;
use crate::call::{OptInts, ints, list, many, none, one, rng, split, sym};
use oneflow_base::{Arg, DType, Device, NdSbpId, PlacementId, Result, Scalar};
use oneflow_core::{Call, Dest, Generator, Tensor};
use smallvec::SmallVec;

/// Ops whose first parameter is a tensor, as methods.
pub trait TensorOps {
    /// `_as_strided(Tensor(a) input, int[] size, int[] stride, int offset) -> Tensor(a)`
    fn _as_strided(&self, size: &[i64], stride: &[i64], offset: i64) -> Result<Tensor>;
    /// `_as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int offset) -> Tensor`
    fn _as_strided_scatter(&self, src: &Tensor, size: &[i64], stride: &[i64], offset: i64) -> Result<Tensor>;
    /// `_int_mm(Tensor input, Tensor mat2) -> Tensor`
    fn _int_mm(&self, mat2: &Tensor) -> Result<Tensor>;
    /// `_linear_accumulate_(Tensor(a!) weight, Tensor(b!)? sums, Tensor grad_output, Tensor input) -> ()`
    fn _linear_accumulate_(&self, sums: Option<&Tensor>, grad_output: &Tensor, input: &Tensor) -> Result<()>;
    /// `_standard_gamma(Tensor input, Generator? generator=None) -> Tensor`
    fn _standard_gamma(&self, generator: Option<&Generator>) -> Result<Tensor>;
    /// `abs(Tensor input) -> Tensor`
    fn abs(&self) -> Result<Tensor>;
    /// `abs(Tensor input) -> Tensor`
    fn abs_(&self) -> Result<()>;
    /// `acos(Tensor input) -> Tensor`
    fn acos(&self) -> Result<Tensor>;
    /// `acosh(Tensor input) -> Tensor`
    fn acosh(&self) -> Result<Tensor>;
    /// `adaptive_avg_pool1d(Tensor input, int[1] output_size) -> Tensor`
    fn adaptive_avg_pool1d(&self, output_size: &[i64]) -> Result<Tensor>;
    /// `adaptive_avg_pool2d(Tensor input, int[2] output_size) -> Tensor`
    fn adaptive_avg_pool2d(&self, output_size: &[i64]) -> Result<Tensor>;
    /// `adaptive_avg_pool3d(Tensor input, int[3] output_size) -> Tensor`
    fn adaptive_avg_pool3d(&self, output_size: &[i64]) -> Result<Tensor>;
    /// `adaptive_max_pool1d(Tensor input, int[1] output_size) -> (Tensor, Tensor)`
    fn adaptive_max_pool1d(&self, output_size: &[i64]) -> Result<[Tensor; 2]>;
    /// `adaptive_max_pool2d(Tensor input, int[2] output_size) -> (Tensor, Tensor)`
    fn adaptive_max_pool2d(&self, output_size: &[i64]) -> Result<[Tensor; 2]>;
    /// `adaptive_max_pool3d(Tensor input, int[3] output_size) -> (Tensor, Tensor)`
    fn adaptive_max_pool3d(&self, output_size: &[i64]) -> Result<[Tensor; 2]>;
    /// `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn add<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn add_with<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<Tensor>;
    /// `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn add_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn add_with_<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<()>;
    /// `addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor`
    fn addbmm(&self, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor>;
    /// `addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcdiv(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor>;
    /// `addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcdiv_(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<()>;
    /// `addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcmul(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor>;
    /// `addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
    fn addcmul_(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<()>;
    /// `addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor`
    fn addmm(&self, mat1: &Tensor, mat2: &Tensor) -> Result<Tensor>;
    /// `addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor`
    fn addmm_(&self, mat1: &Tensor, mat2: &Tensor) -> Result<()>;
    /// `addmv(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor`
    fn addmv(&self, mat: &Tensor, vec: &Tensor) -> Result<Tensor>;
    /// `addr(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor`
    fn addr(&self, vec1: &Tensor, vec2: &Tensor) -> Result<Tensor>;
    /// `adjoint(Tensor(a) input) -> Tensor(a)`
    fn adjoint(&self) -> Result<Tensor>;
    /// `alias_copy(Tensor input) -> Tensor`
    fn alias_copy(&self) -> Result<Tensor>;
    /// `all(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor`
    fn all<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `amax(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor`
    fn amax(&self, dim: &[i64], keepdim: bool) -> Result<Tensor>;
    /// `amin(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor`
    fn amin(&self, dim: &[i64], keepdim: bool) -> Result<Tensor>;
    /// `aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)`
    fn aminmax(&self) -> Result<[Tensor; 2]>;
    /// `angle(Tensor input) -> Tensor`
    fn angle(&self) -> Result<Tensor>;
    /// `any(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor`
    fn any<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor`
    fn argmax(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor>;
    /// `argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor`
    fn argmin(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor>;
    /// `argsort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor`
    fn argsort(&self, dim: i64, descending: bool) -> Result<Tensor>;
    /// `argwhere(Tensor input) -> Tensor`
    fn argwhere(&self) -> Result<Tensor>;
    /// `as_strided(Tensor(a) input, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)`
    fn as_strided(&self, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Result<Tensor>;
    /// `as_strided_copy(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor`
    fn as_strided_copy(&self, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Result<Tensor>;
    /// `as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor`
    fn as_strided_scatter(
        &self,
        src: &Tensor,
        size: &[i64],
        stride: &[i64],
        storage_offset: Option<i64>,
    ) -> Result<Tensor>;
    /// `asin(Tensor input) -> Tensor`
    fn asin(&self) -> Result<Tensor>;
    /// `asinh(Tensor input) -> Tensor`
    fn asinh(&self) -> Result<Tensor>;
    /// `atan(Tensor input) -> Tensor`
    fn atan(&self) -> Result<Tensor>;
    /// `atan2(Tensor input, Tensor other) -> Tensor`
    fn atan2(&self, other: &Tensor) -> Result<Tensor>;
    /// `atanh(Tensor input) -> Tensor`
    fn atanh(&self) -> Result<Tensor>;
    /// `atleast_1d(Tensor(a) input) -> Tensor(a)`
    fn atleast_1d(&self) -> Result<Tensor>;
    /// `atleast_2d(Tensor(a) input) -> Tensor(a)`
    fn atleast_2d(&self) -> Result<Tensor>;
    /// `atleast_3d(Tensor(a) input) -> Tensor(a)`
    fn atleast_3d(&self) -> Result<Tensor>;
    /// `avg_pool1d(Tensor input, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False, bool count_include_pad=True) -> Tensor`
    fn avg_pool1d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> Result<Tensor>;
    /// `avg_pool2d(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor`
    fn avg_pool2d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Option<i64>,
    ) -> Result<Tensor>;
    /// `avg_pool3d(Tensor input, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor`
    fn avg_pool3d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Option<i64>,
    ) -> Result<Tensor>;
    /// `avg_pool_backward(Tensor grad_output, int[] kernel_size, int[] stride, int[] padding, bool count_include_pad, int divisor, int[] input_size) -> Tensor`
    fn avg_pool_backward(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        count_include_pad: bool,
        divisor: i64,
        input_size: &[i64],
    ) -> Result<Tensor>;
    /// `baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor`
    fn baddbmm(&self, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor>;
    /// `batch_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, bool training, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)`
    fn batch_norm_backward(
        &self,
        input: &Tensor,
        mean: &Tensor,
        rstd: &Tensor,
        weight: Option<&Tensor>,
        training: bool,
        affine: bool,
        eps: f64,
    ) -> Result<[Tensor; 3]>;
    /// `batch_norm_inference(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps) -> Tensor`
    fn batch_norm_inference(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        mean: &Tensor,
        var: &Tensor,
        eps: f64,
    ) -> Result<Tensor>;
    /// `batch_norm_training(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps) -> (Tensor output, Tensor mean, Tensor rstd, Tensor running)`
    fn batch_norm_training(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        running_mean: Option<&Tensor>,
        running_var: Option<&Tensor>,
        momentum: f64,
        eps: f64,
    ) -> Result<[Tensor; 4]>;
    /// `bernoulli(Tensor input, *, Generator? generator=None) -> Tensor`
    fn bernoulli(&self) -> Result<Tensor>;
    /// `bernoulli.float(Tensor input, float p=0.5, *, Generator? generator=None) -> Tensor`
    fn bernoulli_float(&self, p: f64) -> Result<Tensor>;
    /// `bernoulli.p(Tensor input, float p, *, Generator? generator=None) -> Tensor`
    fn bernoulli_p(&self, p: f64) -> Result<Tensor>;
    /// `binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, str reduction="mean") -> Tensor`
    fn binary_cross_entropy(&self, target: &Tensor, weight: Option<&Tensor>, reduction: &str) -> Result<Tensor>;
    /// `binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, str reduction="mean", Tensor? pos_weight=None) -> Tensor`
    fn binary_cross_entropy_with_logits(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: &str,
        pos_weight: Option<&Tensor>,
    ) -> Result<Tensor>;
    /// `binary_entropy(Tensor input, Tensor target, Tensor? pos_weight) -> Tensor`
    fn binary_entropy(&self, target: &Tensor, pos_weight: Option<&Tensor>) -> Result<Tensor>;
    /// `binary_entropy_backward(Tensor grad_output, Tensor input, Tensor target, Tensor? pos_weight) -> Tensor`
    fn binary_entropy_backward(&self, input: &Tensor, target: &Tensor, pos_weight: Option<&Tensor>) -> Result<Tensor>;
    /// `binary_entropy_of_probability(Tensor input, Tensor target) -> Tensor`
    fn binary_entropy_of_probability(&self, target: &Tensor) -> Result<Tensor>;
    /// `binary_entropy_of_probability_backward(Tensor grad_output, Tensor input, Tensor target) -> Tensor`
    fn binary_entropy_of_probability_backward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor>;
    /// `bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor`
    fn bincount(&self, weights: Option<&Tensor>, minlength: i64) -> Result<Tensor>;
    /// `binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor`
    fn binomial(&self, prob: &Tensor, generator: Option<&Generator>) -> Result<Tensor>;
    /// `binomial_doubles(Tensor count, Tensor prob, *, Generator? generator=None) -> Tensor`
    fn binomial_doubles(&self, prob: &Tensor) -> Result<Tensor>;
    /// `binomial_doubles(Tensor count, Tensor prob, *, Generator? generator=None) -> Tensor`
    fn binomial_doubles_with(&self, prob: &Tensor, generator: Option<&Generator>) -> Result<Tensor>;
    /// `bitwise_and(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_and<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `bitwise_and(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_and_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `bitwise_left_shift(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_left_shift<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `bitwise_left_shift(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_left_shift_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `bitwise_not(Tensor input) -> Tensor`
    fn bitwise_not(&self) -> Result<Tensor>;
    /// `bitwise_or(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_or<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `bitwise_or(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_or_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `bitwise_right_shift(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_right_shift<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `bitwise_right_shift(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_right_shift_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `bitwise_xor(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_xor<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `bitwise_xor(Tensor input, Tensor|Scalar other) -> Tensor`
    fn bitwise_xor_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `bmm(Tensor input, Tensor mat2) -> Tensor`
    fn bmm(&self, mat2: &Tensor) -> Result<Tensor>;
    /// `broadcast_to(Tensor(a) input, int[] size) -> Tensor(a)`
    fn broadcast_to(&self, size: &[i64]) -> Result<Tensor>;
    /// `bucketize(Tensor input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor`
    fn bucketize(&self, boundaries: &Tensor) -> Result<Tensor>;
    /// `cauchy(Tensor input, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor`
    fn cauchy(&self, median: f64, sigma: f64) -> Result<Tensor>;
    /// `cauchy(Tensor input, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor`
    fn cauchy_(&self, median: f64, sigma: f64) -> Result<()>;
    /// `ceil(Tensor input) -> Tensor`
    fn ceil(&self) -> Result<Tensor>;
    /// `ceil(Tensor input) -> Tensor`
    fn ceil_(&self) -> Result<()>;
    /// `celu(Tensor input, Scalar alpha=1.0) -> Tensor`
    fn celu(&self, alpha: impl Into<Scalar>) -> Result<Tensor>;
    /// `cholesky_inverse(Tensor input, bool upper=False) -> Tensor`
    fn cholesky_inverse(&self, upper: bool) -> Result<Tensor>;
    /// `cholesky_solve(Tensor input, Tensor L, bool upper=False) -> Tensor`
    fn cholesky_solve(&self, L: &Tensor, upper: bool) -> Result<Tensor>;
    /// `chunk(Tensor(a) input, int chunks, int dim=0) -> Tensor(a)[]`
    fn chunk(&self, chunks: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `clamp(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor`
    fn clamp(&self, min: Option<Scalar>, max: Option<Scalar>) -> Result<Tensor>;
    /// `clamp(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor`
    fn clamp_(&self, min: Option<Scalar>, max: Option<Scalar>) -> Result<()>;
    /// `clamp_max(Tensor input, Tensor|Scalar max) -> Tensor`
    fn clamp_max<'a>(&self, max: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `clamp_max(Tensor input, Tensor|Scalar max) -> Tensor`
    fn clamp_max_<'a>(&self, max: impl Into<Operand<'a>>) -> Result<()>;
    /// `clamp_min(Tensor input, Tensor|Scalar min) -> Tensor`
    fn clamp_min<'a>(&self, min: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `clamp_min(Tensor input, Tensor|Scalar min) -> Tensor`
    fn clamp_min_<'a>(&self, min: impl Into<Operand<'a>>) -> Result<()>;
    /// `clone(Tensor input, *, MemoryFormat? memory_format=None) -> Tensor`
    fn cloned(&self) -> Result<Tensor>;
    /// `clone_contiguous(Tensor input, *, MemoryFormat? memory_format=None) -> Tensor`
    fn clone_contiguous(&self) -> Result<Tensor>;
    /// `clone_contiguous(Tensor input, *, MemoryFormat? memory_format=None) -> Tensor`
    fn clone_contiguous_with(&self, memory_format: Option<&str>) -> Result<Tensor>;
    /// `complex(Tensor real, Tensor imag) -> Tensor`
    fn complex(&self, imag: &Tensor) -> Result<Tensor>;
    /// `conj(Tensor(a) input) -> Tensor(a)`
    fn conj(&self) -> Result<Tensor>;
    /// `conj_physical(Tensor input) -> Tensor`
    fn conj_physical(&self) -> Result<Tensor>;
    /// `contiguous(Tensor(a) input, *, MemoryFormat? memory_format=None) -> Tensor(a)`
    fn contiguous(&self) -> Result<Tensor>;
    /// `contiguous(Tensor(a) input, *, MemoryFormat? memory_format=None) -> Tensor(a)`
    fn contiguous_with(&self, memory_format: Option<&str>) -> Result<Tensor>;
    /// `conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] dilation=1, int groups=1) -> Tensor`
    fn conv1d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor>;
    /// `conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str padding="valid", int[1] dilation=1, int groups=1) -> Tensor`
    fn conv1d_padding(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &str,
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor>;
    /// `conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1, int groups=1) -> Tensor`
    fn conv2d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor>;
    /// `conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, int[3] dilation=1, int groups=1) -> Tensor`
    fn conv3d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor>;
    /// `conv_backward_input(Tensor grad_output, Tensor weight, Tensor? bias, int[] input_size, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor`
    fn conv_backward_input(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        input_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor>;
    /// `conv_backward_weight(Tensor grad_output, Tensor input, int[] weight_size, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor`
    fn conv_backward_weight(
        &self,
        input: &Tensor,
        weight_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor>;
    /// `conv_prepare_weight(Tensor weight, bool at_points) -> Tensor`
    fn conv_prepare_weight(&self, at_points: bool) -> Result<Tensor>;
    /// `conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] output_padding=0, int groups=1, int[1] dilation=1) -> Tensor`
    fn conv_transpose1d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        output_padding: &[i64],
        groups: i64,
        dilation: &[i64],
    ) -> Result<Tensor>;
    /// `conv_transpose2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] output_padding=0, int groups=1, int[2] dilation=1) -> Tensor`
    fn conv_transpose2d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        output_padding: &[i64],
        groups: i64,
        dilation: &[i64],
    ) -> Result<Tensor>;
    /// `conv_transpose3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor`
    fn conv_transpose3d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        output_padding: &[i64],
        groups: i64,
        dilation: &[i64],
    ) -> Result<Tensor>;
    /// `copy(Tensor input, Tensor src, bool non_blocking=False) -> Tensor`
    fn copy(&self, src: &Tensor, non_blocking: bool) -> Result<Tensor>;
    /// `copy(Tensor input, Tensor src, bool non_blocking=False) -> Tensor`
    fn copy_(&self, src: &Tensor, non_blocking: bool) -> Result<()>;
    /// `copysign(Tensor input, Tensor|Scalar other) -> Tensor`
    fn copysign<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `corrcoef(Tensor input) -> Tensor`
    fn corrcoef(&self) -> Result<Tensor>;
    /// `cos(Tensor input) -> Tensor`
    fn cos(&self) -> Result<Tensor>;
    /// `cosh(Tensor input) -> Tensor`
    fn cosh(&self) -> Result<Tensor>;
    /// `count_nonzero(Tensor input, int[1]? dim=None) -> Tensor`
    fn count_nonzero<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<Tensor>;
    /// `cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor`
    fn cov(&self) -> Result<Tensor>;
    /// `cross_entropy(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction="mean", float label_smoothing=0.0) -> Tensor`
    fn cross_entropy(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        ignore_index: i64,
        reduction: &str,
        label_smoothing: f64,
    ) -> Result<Tensor>;
    /// `cross_entropy_backward(Tensor grad_loss, Tensor input, Tensor target, Tensor? weight, Tensor logsumexp, int ignore_index, float label_smoothing) -> Tensor`
    fn cross_entropy_backward(
        &self,
        input: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        logsumexp: &Tensor,
        ignore_index: i64,
        label_smoothing: f64,
    ) -> Result<Tensor>;
    /// `ctc_loss_backward(Tensor grad_loss, Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, Tensor loss, Tensor log_alpha, int blank, bool zero_infinity) -> Tensor`
    fn ctc_loss_backward(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
        loss: &Tensor,
        log_alpha: &Tensor,
        blank: i64,
        zero_infinity: bool,
    ) -> Result<Tensor>;
    /// `cummax(Tensor input, int dim) -> (Tensor values, Tensor indices)`
    fn cummax(&self, dim: i64) -> Result<[Tensor; 2]>;
    /// `cummin(Tensor input, int dim) -> (Tensor values, Tensor indices)`
    fn cummin(&self, dim: i64) -> Result<[Tensor; 2]>;
    /// `cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumprod(&self, dim: i64) -> Result<Tensor>;
    /// `cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumprod_with(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor>;
    /// `cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumsum(&self, dim: i64) -> Result<Tensor>;
    /// `cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumsum_with(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor>;
    /// `cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
    fn cumsum_(&self, dim: i64) -> Result<()>;
    /// `cumulative_extreme(Tensor input, int dim, bool largest) -> Tensor`
    fn cumulative_extreme(&self, dim: i64, largest: bool) -> Result<Tensor>;
    /// `cumulative_trapezoid(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor`
    fn cumulative_trapezoid(&self) -> Result<Tensor>;
    /// `deg2rad(Tensor input) -> Tensor`
    fn deg2rad(&self) -> Result<Tensor>;
    /// `det(Tensor input) -> Tensor`
    fn det(&self) -> Result<Tensor>;
    /// `diag(Tensor input, int diagonal=0) -> Tensor`
    fn diag(&self, diagonal: i64) -> Result<Tensor>;
    /// `diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor`
    fn diag_embed(&self, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor>;
    /// `diagflat(Tensor input, int offset=0) -> Tensor`
    fn diagflat(&self, offset: i64) -> Result<Tensor>;
    /// `diagonal(Tensor(a) input, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)`
    fn diagonal(&self, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor>;
    /// `diagonal_copy(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor`
    fn diagonal_copy(&self, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor>;
    /// `diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor`
    fn diagonal_scatter(&self, src: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor>;
    /// `diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor`
    fn diff(&self, n: i64, dim: i64, prepend: Option<&Tensor>, append: Option<&Tensor>) -> Result<Tensor>;
    /// `digamma(Tensor input) -> Tensor`
    fn digamma(&self) -> Result<Tensor>;
    /// `dist(Tensor input, Tensor other, Scalar p=2) -> Tensor`
    fn dist(&self, other: &Tensor, p: impl Into<Scalar>) -> Result<Tensor>;
    /// `div(Tensor input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor`
    fn div<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `div(Tensor input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor`
    fn div_with<'a>(&self, other: impl Into<Operand<'a>>, rounding_mode: Option<&str>) -> Result<Tensor>;
    /// `div(Tensor input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor`
    fn div_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `dot(Tensor input, Tensor tensor) -> Tensor`
    fn dot(&self, tensor: &Tensor) -> Result<Tensor>;
    /// `draw_in_order(Tensor input, int kind, float a, float b, *, Generator? generator=None) -> Tensor`
    fn draw_in_order(&self, kind: i64, a: f64, b: f64) -> Result<Tensor>;
    /// `draw_in_order(Tensor input, int kind, float a, float b, *, Generator? generator=None) -> Tensor`
    fn draw_in_order_with(&self, kind: i64, a: f64, b: f64, generator: Option<&Generator>) -> Result<Tensor>;
    /// `dsplit(Tensor(a) input, int sections) -> Tensor(a)[]`
    fn dsplit(&self, sections: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `dsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]`
    fn dsplit_array(&self, indices: &[i64]) -> Result<SmallVec<[Tensor; 2]>>;
    /// `elu(Tensor input, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor`
    fn elu(&self, alpha: impl Into<Scalar>, scale: impl Into<Scalar>, input_scale: impl Into<Scalar>)
    -> Result<Tensor>;
    /// `elu_backward(Tensor grad_output, Tensor input, Scalar alpha, Scalar scale, Scalar input_scale) -> Tensor`
    fn elu_backward(
        &self,
        input: &Tensor,
        alpha: impl Into<Scalar>,
        scale: impl Into<Scalar>,
        input_scale: impl Into<Scalar>,
    ) -> Result<Tensor>;
    /// `embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False, int start=0, int total=-1) -> Tensor`
    fn embedding(
        &self,
        indices: &Tensor,
        padding_idx: i64,
        scale_grad_by_freq: bool,
        sparse: bool,
        start: i64,
        total: i64,
    ) -> Result<Tensor>;
    /// `embedding_backward(Tensor grad_output, Tensor indices, int num_rows, int padding_idx, int start, int total) -> Tensor`
    fn embedding_backward(
        &self,
        indices: &Tensor,
        num_rows: i64,
        padding_idx: i64,
        start: i64,
        total: i64,
    ) -> Result<Tensor>;
    /// `empty_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn empty_like(&self) -> Result<Tensor>;
    /// `eq(Tensor input, Tensor|Scalar other) -> Tensor`
    fn eq<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `erf(Tensor input) -> Tensor`
    fn erf(&self) -> Result<Tensor>;
    /// `erfc(Tensor input) -> Tensor`
    fn erfc(&self) -> Result<Tensor>;
    /// `erfinv(Tensor input) -> Tensor`
    fn erfinv(&self) -> Result<Tensor>;
    /// `erfinv(Tensor input) -> Tensor`
    fn erfinv_(&self) -> Result<()>;
    /// `exp(Tensor input) -> Tensor`
    fn exp(&self) -> Result<Tensor>;
    /// `exp(Tensor input) -> Tensor`
    fn exp_(&self) -> Result<()>;
    /// `exp2(Tensor input) -> Tensor`
    fn exp2(&self) -> Result<Tensor>;
    /// `expand(Tensor(a) input, int[] size, *, bool implicit=False) -> Tensor(a)`
    fn expand(&self, size: &[i64]) -> Result<Tensor>;
    /// `expand_as(Tensor(a) input, Tensor other) -> Tensor(a)`
    fn expand_as(&self, other: &Tensor) -> Result<Tensor>;
    /// `expand_copy(Tensor input, int[] size, *, bool implicit=False) -> Tensor`
    fn expand_copy(&self, size: &[i64]) -> Result<Tensor>;
    /// `expm1(Tensor input) -> Tensor`
    fn expm1(&self) -> Result<Tensor>;
    /// `exponential(Tensor input, float lambd=1, *, Generator? generator=None) -> Tensor`
    fn exponential(&self, lambd: f64) -> Result<Tensor>;
    /// `exponential(Tensor input, float lambd=1, *, Generator? generator=None) -> Tensor`
    fn exponential_(&self, lambd: f64) -> Result<()>;
    /// `exponential(Tensor input, float lambd=1, *, Generator? generator=None) -> Tensor`
    fn exponential_with_(&self, lambd: f64, generator: Option<&Generator>) -> Result<()>;
    /// `fft_c2c(Tensor input, int[] dim, int normalization, bool forward) -> Tensor`
    fn fft_c2c(&self, dim: &[i64], normalization: i64, forward: bool) -> Result<Tensor>;
    /// `fft_c2r(Tensor input, int[] dim, int normalization, int last_dim_size) -> Tensor`
    fn fft_c2r(&self, dim: &[i64], normalization: i64, last_dim_size: i64) -> Result<Tensor>;
    /// `fft_r2c(Tensor input, int[] dim, int normalization, bool onesided) -> Tensor`
    fn fft_r2c(&self, dim: &[i64], normalization: i64, onesided: bool) -> Result<Tensor>;
    /// `fill(Tensor input, Tensor|Scalar value) -> Tensor`
    fn fill<'a>(&self, value: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `fill(Tensor input, Tensor|Scalar value) -> Tensor`
    fn fill_<'a>(&self, value: impl Into<Operand<'a>>) -> Result<()>;
    /// `flatten(Tensor(a) input, int start_dim=0, int end_dim=-1) -> Tensor(a)`
    fn flatten(&self, start_dim: i64, end_dim: i64) -> Result<Tensor>;
    /// `flip(Tensor input, int[1] dims) -> Tensor`
    fn flip(&self, dims: &[i64]) -> Result<Tensor>;
    /// `fliplr(Tensor input) -> Tensor`
    fn fliplr(&self) -> Result<Tensor>;
    /// `flipud(Tensor input) -> Tensor`
    fn flipud(&self) -> Result<Tensor>;
    /// `float_power(Tensor input, Tensor|Scalar exponent) -> Tensor`
    fn float_power<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `float_power(Tensor input, Tensor|Scalar exponent) -> Tensor`
    fn float_power_<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<()>;
    /// `floor(Tensor input) -> Tensor`
    fn floor(&self) -> Result<Tensor>;
    /// `floor(Tensor input) -> Tensor`
    fn floor_(&self) -> Result<()>;
    /// `floor_divide(Tensor input, Tensor|Scalar other) -> Tensor`
    fn floor_divide<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `floor_divide(Tensor input, Tensor|Scalar other) -> Tensor`
    fn floor_divide_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `fmax(Tensor input, Tensor other) -> Tensor`
    fn fmax(&self, other: &Tensor) -> Result<Tensor>;
    /// `fmin(Tensor input, Tensor other) -> Tensor`
    fn fmin(&self, other: &Tensor) -> Result<Tensor>;
    /// `fmod(Tensor input, Tensor|Scalar other) -> Tensor`
    fn fmod<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `frac(Tensor input) -> Tensor`
    fn frac(&self) -> Result<Tensor>;
    /// `frac(Tensor input) -> Tensor`
    fn frac_(&self) -> Result<()>;
    /// `frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)`
    fn frexp(&self) -> Result<[Tensor; 2]>;
    /// `frexp_exponent(Tensor input) -> Tensor`
    fn frexp_exponent(&self) -> Result<Tensor>;
    /// `frexp_mantissa(Tensor input) -> Tensor`
    fn frexp_mantissa(&self) -> Result<Tensor>;
    /// `full_like(Tensor input, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn full_like(&self, fill_value: impl Into<Scalar>) -> Result<Tensor>;
    /// `fused_add_layer_norm(Tensor input, Tensor residual, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor output, Tensor mean, Tensor rstd, Tensor sum)`
    fn fused_add_layer_norm(
        &self,
        residual: &Tensor,
        normalized_shape: &[i64],
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<[Tensor; 4]>;
    /// `fused_add_rms_norm(Tensor input, Tensor residual, int[] normalized_shape, Tensor? weight, float eps) -> (Tensor output, Tensor rstd, Tensor sum)`
    fn fused_add_rms_norm(
        &self,
        residual: &Tensor,
        normalized_shape: &[i64],
        weight: Option<&Tensor>,
        eps: f64,
    ) -> Result<[Tensor; 3]>;
    /// `fused_linear(Tensor input, Tensor weight, Tensor? bias, str activation) -> Tensor`
    fn fused_linear(&self, weight: &Tensor, bias: Option<&Tensor>, activation: &str) -> Result<Tensor>;
    /// `fused_linear_add(Tensor input, Tensor weight, Tensor? bias, Tensor residual) -> Tensor`
    fn fused_linear_add(&self, weight: &Tensor, bias: Option<&Tensor>, residual: &Tensor) -> Result<Tensor>;
    /// `fused_linear_keep(Tensor input, Tensor weight, Tensor? bias, str activation) -> (Tensor output, Tensor before)`
    fn fused_linear_keep(&self, weight: &Tensor, bias: Option<&Tensor>, activation: &str) -> Result<[Tensor; 2]>;
    /// `fused_matmul_add(Tensor input, Tensor other, Tensor residual) -> Tensor`
    fn fused_matmul_add(&self, other: &Tensor, residual: &Tensor) -> Result<Tensor>;
    /// `gamma_doubles(Tensor input, *, Generator? generator=None) -> Tensor`
    fn gamma_doubles(&self) -> Result<Tensor>;
    /// `gamma_doubles(Tensor input, *, Generator? generator=None) -> Tensor`
    fn gamma_doubles_with(&self, generator: Option<&Generator>) -> Result<Tensor>;
    /// `gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor`
    fn gather(&self, dim: i64, index: &Tensor) -> Result<Tensor>;
    /// `gcd(Tensor input, Tensor other) -> Tensor`
    fn gcd(&self, other: &Tensor) -> Result<Tensor>;
    /// `ge(Tensor input, Tensor|Scalar other) -> Tensor`
    fn ge<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `ge(Tensor input, Tensor|Scalar other) -> Tensor`
    fn ge_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `gelu(Tensor input, *, str approximate="none") -> Tensor`
    fn gelu(&self) -> Result<Tensor>;
    /// `gelu(Tensor input, *, str approximate="none") -> Tensor`
    fn gelu_with(&self, approximate: &str) -> Result<Tensor>;
    /// `gelu_backward(Tensor grad_output, Tensor input, *, str approximate="none") -> Tensor`
    fn gelu_backward(&self, input: &Tensor) -> Result<Tensor>;
    /// `gelu_backward(Tensor grad_output, Tensor input, *, str approximate="none") -> Tensor`
    fn gelu_backward_with(&self, input: &Tensor, approximate: &str) -> Result<Tensor>;
    /// `geometric(Tensor input, float p, *, Generator? generator=None) -> Tensor`
    fn geometric(&self, p: f64) -> Result<Tensor>;
    /// `geometric(Tensor input, float p, *, Generator? generator=None) -> Tensor`
    fn geometric_(&self, p: f64) -> Result<()>;
    /// `geqrf(Tensor input) -> (Tensor a, Tensor tau)`
    fn geqrf(&self) -> Result<[Tensor; 2]>;
    /// `glu(Tensor input, int dim=-1) -> Tensor`
    fn glu(&self, dim: i64) -> Result<Tensor>;
    /// `grid_sample(Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners) -> Tensor`
    fn grid_sample(&self, grid: &Tensor, mode: &str, padding_mode: &str, align_corners: bool) -> Result<Tensor>;
    /// `grid_sample_backward(Tensor grad_output, Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners, bool of_input, bool of_grid) -> (Tensor grad_input, Tensor grad_grid)`
    fn grid_sample_backward(
        &self,
        input: &Tensor,
        grid: &Tensor,
        mode: &str,
        padding_mode: &str,
        align_corners: bool,
        of_input: bool,
        of_grid: bool,
    ) -> Result<[Tensor; 2]>;
    /// `group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor`
    fn group_norm(
        &self,
        num_groups: i64,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
        cudnn_enabled: bool,
    ) -> Result<Tensor>;
    /// `group_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, int num_groups, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)`
    fn group_norm_backward(
        &self,
        input: &Tensor,
        mean: &Tensor,
        rstd: &Tensor,
        weight: Option<&Tensor>,
        num_groups: i64,
        affine: bool,
        eps: f64,
    ) -> Result<[Tensor; 3]>;
    /// `group_norm_with_statistics(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps) -> (Tensor output, Tensor mean, Tensor rstd)`
    fn group_norm_with_statistics(
        &self,
        num_groups: i64,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<[Tensor; 3]>;
    /// `gt(Tensor input, Tensor|Scalar other) -> Tensor`
    fn gt<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `gt(Tensor input, Tensor|Scalar other) -> Tensor`
    fn gt_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `hardshrink(Tensor input, Scalar lambd=0.5) -> Tensor`
    fn hardshrink(&self, lambd: impl Into<Scalar>) -> Result<Tensor>;
    /// `hardsigmoid(Tensor input) -> Tensor`
    fn hardsigmoid(&self) -> Result<Tensor>;
    /// `hardsigmoid_backward(Tensor grad_output, Tensor input) -> Tensor`
    fn hardsigmoid_backward(&self, input: &Tensor) -> Result<Tensor>;
    /// `hardswish(Tensor input) -> Tensor`
    fn hardswish(&self) -> Result<Tensor>;
    /// `hardswish_backward(Tensor grad_output, Tensor input) -> Tensor`
    fn hardswish_backward(&self, input: &Tensor) -> Result<Tensor>;
    /// `hardtanh(Tensor input, Scalar min_val=-1, Scalar max_val=1) -> Tensor`
    fn hardtanh(&self, min_val: impl Into<Scalar>, max_val: impl Into<Scalar>) -> Result<Tensor>;
    /// `hardtanh_backward(Tensor grad_output, Tensor input, Scalar min_val, Scalar max_val) -> Tensor`
    fn hardtanh_backward(
        &self,
        input: &Tensor,
        min_val: impl Into<Scalar>,
        max_val: impl Into<Scalar>,
    ) -> Result<Tensor>;
    /// `heaviside(Tensor input, Tensor values) -> Tensor`
    fn heaviside(&self, values: &Tensor) -> Result<Tensor>;
    /// `histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor`
    fn histc(&self, bins: i64, min: impl Into<Scalar>, max: impl Into<Scalar>) -> Result<Tensor>;
    /// `hsplit(Tensor(a) input, int sections) -> Tensor(a)[]`
    fn hsplit(&self, sections: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `hsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]`
    fn hsplit_array(&self, indices: &[i64]) -> Result<SmallVec<[Tensor; 2]>>;
    /// `huber_loss(Tensor input, Tensor target, str reduction="mean", float delta=1.0, Tensor? weight=None) -> Tensor`
    fn huber_loss(&self, target: &Tensor, reduction: &str, delta: f64, weight: Option<&Tensor>) -> Result<Tensor>;
    /// `hypot(Tensor input, Tensor other) -> Tensor`
    fn hypot(&self, other: &Tensor) -> Result<Tensor>;
    /// `i0(Tensor input) -> Tensor`
    fn i0(&self) -> Result<Tensor>;
    /// `imag(Tensor(a) input) -> Tensor(a)`
    fn imag(&self) -> Result<Tensor>;
    /// `index(Tensor input, Tensor?[] indices) -> Tensor`
    fn index<'a>(&'a self, indices: impl IntoIterator<Item = Option<&'a Tensor>>) -> Result<Tensor>;
    /// `index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor`
    fn index_add(&self, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor>;
    /// `index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor`
    fn index_add_with(&self, dim: i64, index: &Tensor, source: &Tensor, alpha: impl Into<Scalar>) -> Result<Tensor>;
    /// `index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor`
    fn index_add_(&self, dim: i64, index: &Tensor, source: &Tensor) -> Result<()>;
    /// `index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor`
    fn index_add_with_(&self, dim: i64, index: &Tensor, source: &Tensor, alpha: impl Into<Scalar>) -> Result<()>;
    /// `index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor`
    fn index_copy(&self, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor>;
    /// `index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor`
    fn index_copy_(&self, dim: i64, index: &Tensor, source: &Tensor) -> Result<()>;
    /// `index_fill(Tensor input, int dim, Tensor index, Tensor|Scalar value) -> Tensor`
    fn index_fill<'a>(&self, dim: i64, index: &Tensor, value: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `index_fill(Tensor input, int dim, Tensor index, Tensor|Scalar value) -> Tensor`
    fn index_fill_<'a>(&self, dim: i64, index: &Tensor, value: impl Into<Operand<'a>>) -> Result<()>;
    /// `index_put(Tensor input, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor`
    fn index_put<'a>(
        &'a self,
        indices: impl IntoIterator<Item = Option<&'a Tensor>>,
        values: &'a Tensor,
        accumulate: bool,
    ) -> Result<Tensor>;
    /// `index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor`
    fn index_reduce(&self, dim: i64, index: &Tensor, source: &Tensor, reduce: &str) -> Result<Tensor>;
    /// `index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor`
    fn index_reduce_(&self, dim: i64, index: &Tensor, source: &Tensor, reduce: &str) -> Result<()>;
    /// `index_select(Tensor input, int dim, Tensor index) -> Tensor`
    fn index_select(&self, dim: i64, index: &Tensor) -> Result<Tensor>;
    /// `inner(Tensor input, Tensor other) -> Tensor`
    fn inner(&self, other: &Tensor) -> Result<Tensor>;
    /// `is_member(Tensor input, Tensor others, bool invert) -> Tensor`
    fn is_member(&self, others: &Tensor, invert: bool) -> Result<Tensor>;
    /// `isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor`
    fn isclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Tensor>;
    /// `isfinite(Tensor input) -> Tensor`
    fn isfinite(&self) -> Result<Tensor>;
    /// `isin(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor`
    fn isin(&self, test_elements: &Tensor) -> Result<Tensor>;
    /// `isin.number(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor`
    fn isin_number(&self, test_element: impl Into<Scalar>) -> Result<Tensor>;
    /// `isinf(Tensor input) -> Tensor`
    fn isinf(&self) -> Result<Tensor>;
    /// `isnan(Tensor input) -> Tensor`
    fn isnan(&self) -> Result<Tensor>;
    /// `isneginf(Tensor input) -> Tensor`
    fn isneginf(&self) -> Result<Tensor>;
    /// `isposinf(Tensor input) -> Tensor`
    fn isposinf(&self) -> Result<Tensor>;
    /// `isreal(Tensor input) -> Tensor`
    fn isreal(&self) -> Result<Tensor>;
    /// `kron(Tensor input, Tensor other) -> Tensor`
    fn kron(&self, other: &Tensor) -> Result<Tensor>;
    /// `kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)`
    fn kthvalue(&self, k: i64, dim: i64, keepdim: bool) -> Result<[Tensor; 2]>;
    /// `l1_loss(Tensor input, Tensor target, str reduction="mean", Tensor? weight=None) -> Tensor`
    fn l1_loss(&self, target: &Tensor, reduction: &str, weight: Option<&Tensor>) -> Result<Tensor>;
    /// `layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor`
    fn layer_norm(
        &self,
        normalized_shape: &[i64],
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
        cudnn_enable: bool,
    ) -> Result<Tensor>;
    /// `layer_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, Tensor? residual, int[] normalized_shape, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)`
    fn layer_norm_backward(
        &self,
        input: &Tensor,
        mean: &Tensor,
        rstd: &Tensor,
        weight: Option<&Tensor>,
        residual: Option<&Tensor>,
        normalized_shape: &[i64],
        affine: bool,
        eps: f64,
    ) -> Result<[Tensor; 3]>;
    /// `lcm(Tensor input, Tensor other) -> Tensor`
    fn lcm(&self, other: &Tensor) -> Result<Tensor>;
    /// `ldexp(Tensor input, Tensor other) -> Tensor`
    fn ldexp(&self, other: &Tensor) -> Result<Tensor>;
    /// `le(Tensor input, Tensor|Scalar other) -> Tensor`
    fn le<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `leaky_relu(Tensor input, Scalar negative_slope=0.01) -> Tensor`
    fn leaky_relu(&self, negative_slope: impl Into<Scalar>) -> Result<Tensor>;
    /// `leaky_relu_backward(Tensor grad_output, Tensor input, Scalar negative_slope) -> Tensor`
    fn leaky_relu_backward(&self, input: &Tensor, negative_slope: impl Into<Scalar>) -> Result<Tensor>;
    /// `lerp(Tensor input, Tensor end, Tensor|Scalar weight) -> Tensor`
    fn lerp<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `lerp(Tensor input, Tensor end, Tensor|Scalar weight) -> Tensor`
    fn lerp_<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<()>;
    /// `lgamma(Tensor input) -> Tensor`
    fn lgamma(&self) -> Result<Tensor>;
    /// `linalg_cholesky_ex(Tensor input, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)`
    fn linalg_cholesky_ex(&self) -> Result<[Tensor; 2]>;
    /// `linalg_cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor`
    fn linalg_cross(&self, other: &Tensor) -> Result<Tensor>;
    /// `linalg_eig(Tensor input, bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)`
    fn linalg_eig(&self, compute_v: bool) -> Result<[Tensor; 2]>;
    /// `linalg_eigh(Tensor input, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)`
    fn linalg_eigh(&self, UPLO: &str, compute_v: bool) -> Result<[Tensor; 2]>;
    /// `linalg_householder_product(Tensor input, Tensor tau, int columns=-1) -> Tensor`
    fn linalg_householder_product(&self, tau: &Tensor, columns: i64) -> Result<Tensor>;
    /// `linalg_inv_ex(Tensor input, *, int check=0) -> (Tensor inverse, Tensor info)`
    fn linalg_inv_ex(&self) -> Result<[Tensor; 2]>;
    /// `linalg_lu_factor_ex(Tensor input, *, bool pivot=True, int check=0) -> (Tensor LU, Tensor pivots, Tensor info)`
    fn linalg_lu_factor_ex(&self) -> Result<[Tensor; 3]>;
    /// `linalg_lu_factor_ex(Tensor input, *, bool pivot=True, int check=0) -> (Tensor LU, Tensor pivots, Tensor info)`
    fn linalg_lu_factor_ex_with(&self, pivot: bool, check: i64) -> Result<[Tensor; 3]>;
    /// `linalg_lu_permutation(Tensor input, int rows) -> Tensor`
    fn linalg_lu_permutation(&self, rows: i64) -> Result<Tensor>;
    /// `linalg_pinv_of(Tensor input, Tensor inverse) -> Tensor`
    fn linalg_pinv_of(&self, inverse: &Tensor) -> Result<Tensor>;
    /// `linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)`
    fn linalg_qr(&self, mode: &str) -> Result<[Tensor; 2]>;
    /// `linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, int check=0) -> (Tensor result, Tensor info)`
    fn linalg_solve_ex(&self, B: &Tensor) -> Result<[Tensor; 2]>;
    /// `linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, int check=0) -> (Tensor result, Tensor info)`
    fn linalg_solve_ex_with(&self, B: &Tensor, left: bool, check: i64) -> Result<[Tensor; 2]>;
    /// `linalg_solve_triangular(Tensor input, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor`
    fn linalg_solve_triangular(&self, B: &Tensor, upper: bool) -> Result<Tensor>;
    /// `linalg_solve_triangular(Tensor input, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor`
    fn linalg_solve_triangular_with(&self, B: &Tensor, upper: bool, left: bool, unitriangular: bool) -> Result<Tensor>;
    /// `linalg_svd(Tensor input, bool full_matrices=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor Vh)`
    fn linalg_svd(&self, full_matrices: bool, compute_uv: bool) -> Result<[Tensor; 3]>;
    /// `linalg_vector_norm(Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn linalg_vector_norm<'a>(
        &self,
        ord: impl Into<Scalar>,
        dim: impl Into<OptInts<'a>>,
        keepdim: bool,
    ) -> Result<Tensor>;
    /// `linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor`
    fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor>;
    /// `linear_backward_parameters(Tensor grad_output, Tensor input) -> (Tensor weight, Tensor bias)`
    fn linear_backward_parameters(&self, input: &Tensor) -> Result<[Tensor; 2]>;
    /// `linear_backward_weight(Tensor grad_output, Tensor input, Tensor? residual=None) -> Tensor`
    fn linear_backward_weight(&self, input: &Tensor, residual: Option<&Tensor>) -> Result<Tensor>;
    /// `log(Tensor input) -> Tensor`
    fn log(&self) -> Result<Tensor>;
    /// `log(Tensor input) -> Tensor`
    fn log_(&self) -> Result<()>;
    /// `log10(Tensor input) -> Tensor`
    fn log10(&self) -> Result<Tensor>;
    /// `log1p(Tensor input) -> Tensor`
    fn log1p(&self) -> Result<Tensor>;
    /// `log2(Tensor input) -> Tensor`
    fn log2(&self) -> Result<Tensor>;
    /// `log_normal(Tensor input, float mean=1, float std=2, *, Generator? generator=None) -> Tensor`
    fn log_normal(&self, mean: f64, std: f64) -> Result<Tensor>;
    /// `log_normal(Tensor input, float mean=1, float std=2, *, Generator? generator=None) -> Tensor`
    fn log_normal_(&self, mean: f64, std: f64) -> Result<()>;
    /// `log_sigmoid(Tensor input) -> Tensor`
    fn log_sigmoid(&self) -> Result<Tensor>;
    /// `log_softmax(Tensor input, int dim, DType? dtype=None) -> Tensor`
    fn log_softmax(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor>;
    /// `logaddexp(Tensor input, Tensor other) -> Tensor`
    fn logaddexp(&self, other: &Tensor) -> Result<Tensor>;
    /// `logaddexp2(Tensor input, Tensor other) -> Tensor`
    fn logaddexp2(&self, other: &Tensor) -> Result<Tensor>;
    /// `logcumsumexp(Tensor input, int dim) -> Tensor`
    fn logcumsumexp(&self, dim: i64) -> Result<Tensor>;
    /// `logdet(Tensor input) -> Tensor`
    fn logdet(&self) -> Result<Tensor>;
    /// `logical_and(Tensor input, Tensor other) -> Tensor`
    fn logical_and(&self, other: &Tensor) -> Result<Tensor>;
    /// `logical_and(Tensor input, Tensor other) -> Tensor`
    fn logical_and_(&self, other: &Tensor) -> Result<()>;
    /// `logical_not(Tensor input) -> Tensor`
    fn logical_not(&self) -> Result<Tensor>;
    /// `logical_not(Tensor input) -> Tensor`
    fn logical_not_(&self) -> Result<()>;
    /// `logical_or(Tensor input, Tensor other) -> Tensor`
    fn logical_or(&self, other: &Tensor) -> Result<Tensor>;
    /// `logical_xor(Tensor input, Tensor other) -> Tensor`
    fn logical_xor(&self, other: &Tensor) -> Result<Tensor>;
    /// `logit(Tensor input, float? eps=None) -> Tensor`
    fn logit(&self, eps: Option<f64>) -> Result<Tensor>;
    /// `logit_backward(Tensor grad_output, Tensor input, float? eps=None) -> Tensor`
    fn logit_backward(&self, input: &Tensor, eps: Option<f64>) -> Result<Tensor>;
    /// `logsumexp(Tensor input, int[1] dim, bool keepdim=False) -> Tensor`
    fn logsumexp(&self, dim: &[i64], keepdim: bool) -> Result<Tensor>;
    /// `lt(Tensor input, Tensor|Scalar other) -> Tensor`
    fn lt<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `masked_fill(Tensor input, Tensor mask, Tensor|Scalar value) -> Tensor`
    fn masked_fill<'a>(&self, mask: &Tensor, value: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `masked_fill(Tensor input, Tensor mask, Tensor|Scalar value) -> Tensor`
    fn masked_fill_<'a>(&self, mask: &Tensor, value: impl Into<Operand<'a>>) -> Result<()>;
    /// `masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor`
    fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Result<Tensor>;
    /// `masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor`
    fn masked_scatter_(&self, mask: &Tensor, source: &Tensor) -> Result<()>;
    /// `masked_select(Tensor input, Tensor mask) -> Tensor`
    fn masked_select(&self, mask: &Tensor) -> Result<Tensor>;
    /// `matmul(Tensor input, Tensor other) -> Tensor`
    fn matmul(&self, other: &Tensor) -> Result<Tensor>;
    /// `matrix_exp(Tensor input) -> Tensor`
    fn matrix_exp(&self) -> Result<Tensor>;
    /// `max(Tensor input) -> Tensor`
    fn max(&self) -> Result<Tensor>;
    /// `max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)`
    fn max_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]>;
    /// `max.other(Tensor input, Tensor other) -> Tensor`
    fn max_other(&self, other: &Tensor) -> Result<Tensor>;
    /// `max_pool1d(Tensor input, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> Tensor`
    fn max_pool1d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<Tensor>;
    /// `max_pool1d_with_indices(Tensor input, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)`
    fn max_pool1d_with_indices(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<[Tensor; 2]>;
    /// `max_pool2d(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor`
    fn max_pool2d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<Tensor>;
    /// `max_pool2d_with_indices(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)`
    fn max_pool2d_with_indices(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<[Tensor; 2]>;
    /// `max_pool3d(Tensor input, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor`
    fn max_pool3d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<Tensor>;
    /// `max_pool3d_with_indices(Tensor input, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)`
    fn max_pool3d_with_indices(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<[Tensor; 2]>;
    /// `max_pool_backward(Tensor grad_output, Tensor indices, int[] input_size) -> Tensor`
    fn max_pool_backward(&self, indices: &Tensor, input_size: &[i64]) -> Result<Tensor>;
    /// `maximum(Tensor input, Tensor other) -> Tensor`
    fn maximum(&self, other: &Tensor) -> Result<Tensor>;
    /// `mean(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn mean<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `median(Tensor input) -> Tensor`
    fn median(&self) -> Result<Tensor>;
    /// `median.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)`
    fn median_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]>;
    /// `min(Tensor input) -> Tensor`
    fn min(&self) -> Result<Tensor>;
    /// `min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)`
    fn min_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]>;
    /// `min.other(Tensor input, Tensor other) -> Tensor`
    fn min_other(&self, other: &Tensor) -> Result<Tensor>;
    /// `minimum(Tensor input, Tensor other) -> Tensor`
    fn minimum(&self, other: &Tensor) -> Result<Tensor>;
    /// `mish(Tensor input) -> Tensor`
    fn mish(&self) -> Result<Tensor>;
    /// `mish_backward(Tensor grad_output, Tensor input) -> Tensor`
    fn mish_backward(&self, input: &Tensor) -> Result<Tensor>;
    /// `mm(Tensor input, Tensor mat2) -> Tensor`
    fn mm(&self, mat2: &Tensor) -> Result<Tensor>;
    /// `mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)`
    fn mode(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]>;
    /// `moveaxis(Tensor(a) input, int[1] source, int[1] destination) -> Tensor(a)`
    fn moveaxis(&self, source: &[i64], destination: &[i64]) -> Result<Tensor>;
    /// `movedim(Tensor(a) input, int[1] source, int[1] destination) -> Tensor(a)`
    fn movedim(&self, source: &[i64], destination: &[i64]) -> Result<Tensor>;
    /// `mse_loss(Tensor input, Tensor target, str reduction="mean", Tensor? weight=None) -> Tensor`
    fn mse_loss(&self, target: &Tensor, reduction: &str, weight: Option<&Tensor>) -> Result<Tensor>;
    /// `msort(Tensor input) -> Tensor`
    fn msort(&self) -> Result<Tensor>;
    /// `mul(Tensor input, Tensor|Scalar other) -> Tensor`
    fn mul<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `mul(Tensor input, Tensor|Scalar other) -> Tensor`
    fn mul_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `multinomial(Tensor input, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor`
    fn multinomial(&self, num_samples: i64, replacement: bool) -> Result<Tensor>;
    /// `mv(Tensor input, Tensor vec) -> Tensor`
    fn mv(&self, vec: &Tensor) -> Result<Tensor>;
    /// `mvlgamma(Tensor input, int p) -> Tensor`
    fn mvlgamma(&self, p: i64) -> Result<Tensor>;
    /// `nan_to_num(Tensor input, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor`
    fn nan_to_num(&self, nan: Option<f64>, posinf: Option<f64>, neginf: Option<f64>) -> Result<Tensor>;
    /// `nanmean(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn nanmean<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `nanmedian(Tensor input) -> Tensor`
    fn nanmedian(&self) -> Result<Tensor>;
    /// `nanmedian.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)`
    fn nanmedian_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]>;
    /// `nanquantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor`
    fn nanquantile(&self, q: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Tensor>;
    /// `nanquantile.scalar(Tensor input, float q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor`
    fn nanquantile_scalar(&self, q: f64, dim: Option<i64>, keepdim: bool) -> Result<Tensor>;
    /// `nansum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn nansum<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `narrow(Tensor(a) input, int dim, int start, int length) -> Tensor(a)`
    fn narrow(&self, dim: i64, start: i64, length: i64) -> Result<Tensor>;
    /// `narrow.tensor(Tensor(a) input, int dim, Tensor start, int length) -> Tensor(a)`
    fn narrow_tensor(&self, dim: i64, start: &Tensor, length: i64) -> Result<Tensor>;
    /// `narrow_copy(Tensor input, int dim, int start, int length) -> Tensor`
    fn narrow_copy(&self, dim: i64, start: i64, length: i64) -> Result<Tensor>;
    /// `native_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float dropout_p, bool is_causal, float scale, int library=0, *, Generator? generator=None) -> (Tensor output, Tensor logsumexp)`
    fn native_attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        attn_mask: Option<&Tensor>,
        dropout_p: f64,
        is_causal: bool,
        scale: f64,
        library: i64,
    ) -> Result<[Tensor; 2]>;
    /// `native_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor output, Tensor logsumexp, float dropout_p, bool is_causal, float scale, bool needs_mask, int library=0, *, Generator? generator=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_mask)`
    fn native_attention_backward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        attn_mask: Option<&Tensor>,
        output: &Tensor,
        logsumexp: &Tensor,
        dropout_p: f64,
        is_causal: bool,
        scale: f64,
        needs_mask: bool,
        library: i64,
    ) -> Result<[Tensor; 4]>;
    /// `native_avg_pool(Tensor input, int[] kernel_size, int[] stride, int[] padding, bool count_include_pad, int divisor, int[] output_size) -> Tensor`
    fn native_avg_pool(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        count_include_pad: bool,
        divisor: i64,
        output_size: &[i64],
    ) -> Result<Tensor>;
    /// `native_conv(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor`
    fn native_conv(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor>;
    /// `native_conv_activation(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups, str activation) -> Tensor`
    fn native_conv_activation(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
        activation: &str,
    ) -> Result<Tensor>;
    /// `native_conv_prepared(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups, str activation, int[] weight_size, bool at_points) -> Tensor`
    fn native_conv_prepared(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
        activation: &str,
        weight_size: &[i64],
        at_points: bool,
    ) -> Result<Tensor>;
    /// `native_cross_entropy(Tensor input, Tensor target, Tensor? weight, int ignore_index, float label_smoothing) -> (Tensor loss, Tensor logsumexp)`
    fn native_cross_entropy(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        ignore_index: i64,
        label_smoothing: f64,
    ) -> Result<[Tensor; 2]>;
    /// `native_cross_entropy_reduced(Tensor input, Tensor target, Tensor? weight, int ignore_index, float label_smoothing, bool mean) -> (Tensor loss, Tensor logsumexp, Tensor total_weight)`
    fn native_cross_entropy_reduced(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        ignore_index: i64,
        label_smoothing: f64,
        mean: bool,
    ) -> Result<[Tensor; 3]>;
    /// `native_ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int max_target_length, int blank, bool zero_infinity) -> (Tensor loss, Tensor log_alpha)`
    fn native_ctc_loss(
        &self,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
        max_target_length: i64,
        blank: i64,
        zero_infinity: bool,
    ) -> Result<[Tensor; 2]>;
    /// `native_dropout(Tensor input, float p, *, Generator? generator=None) -> (Tensor output, Tensor mask)`
    fn native_dropout(&self, p: f64) -> Result<[Tensor; 2]>;
    /// `native_embedding_bag(Tensor weight, Tensor indices, Tensor? offsets, Tensor? per_sample_weights, str mode="mean", bool scale_grad_by_freq=False, bool sparse=False, bool include_last_offset=False, int padding_idx=-1, int start=0, int total=-1) -> (Tensor output, Tensor chosen)`
    fn native_embedding_bag(
        &self,
        indices: &Tensor,
        offsets: Option<&Tensor>,
        per_sample_weights: Option<&Tensor>,
        mode: &str,
        scale_grad_by_freq: bool,
        sparse: bool,
        include_last_offset: bool,
        padding_idx: i64,
        start: i64,
        total: i64,
    ) -> Result<[Tensor; 2]>;
    /// `native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor output, Tensor mean, Tensor rstd)`
    fn native_layer_norm(
        &self,
        normalized_shape: &[i64],
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<[Tensor; 3]>;
    /// `native_max_pool(Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, int[] output_size) -> (Tensor output, Tensor indices)`
    fn native_max_pool(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        output_size: &[i64],
    ) -> Result<[Tensor; 2]>;
    /// `native_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float eps) -> (Tensor output, Tensor rstd)`
    fn native_rms_norm(&self, normalized_shape: &[i64], weight: Option<&Tensor>, eps: f64) -> Result<[Tensor; 2]>;
    /// `ne(Tensor input, Tensor|Scalar other) -> Tensor`
    fn ne<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `neg(Tensor input) -> Tensor`
    fn neg(&self) -> Result<Tensor>;
    /// `neg(Tensor input) -> Tensor`
    fn neg_(&self) -> Result<()>;
    /// `new_empty(Tensor input, int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    fn new_empty(&self, size: &[i64]) -> Result<Tensor>;
    /// `new_empty_strided(Tensor input, int[] size, int[] stride, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    fn new_empty_strided(&self, size: &[i64], stride: &[i64]) -> Result<Tensor>;
    /// `new_full(Tensor input, int[] size, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    fn new_full(&self, size: &[i64], fill_value: impl Into<Scalar>) -> Result<Tensor>;
    /// `new_full(Tensor input, int[] size, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    fn new_full_with(
        &self,
        size: &[i64],
        fill_value: impl Into<Scalar>,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
    ) -> Result<Tensor>;
    /// `new_ones(Tensor input, int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    fn new_ones(&self, size: &[i64]) -> Result<Tensor>;
    /// `new_ones(Tensor input, int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    fn new_ones_with(
        &self,
        size: &[i64],
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
    ) -> Result<Tensor>;
    /// `new_zeros(Tensor input, int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    fn new_zeros(&self, size: &[i64]) -> Result<Tensor>;
    /// `new_zeros(Tensor input, int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    fn new_zeros_with(
        &self,
        size: &[i64],
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
    ) -> Result<Tensor>;
    /// `nextafter(Tensor input, Tensor other) -> Tensor`
    fn nextafter(&self, other: &Tensor) -> Result<Tensor>;
    /// `nll_loss(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction="mean") -> Tensor`
    fn nll_loss(&self, target: &Tensor, weight: Option<&Tensor>, ignore_index: i64, reduction: &str) -> Result<Tensor>;
    /// `nonzero(Tensor input) -> Tensor`
    fn nonzero(&self) -> Result<Tensor>;
    /// `nonzero_static(Tensor input, *, int size, int fill_value=-1) -> Tensor`
    fn nonzero_static(&self, size: i64) -> Result<Tensor>;
    /// `nonzero_tuple(Tensor input) -> Tensor[]`
    fn nonzero_tuple(&self) -> Result<SmallVec<[Tensor; 2]>>;
    /// `normal(Tensor input, float mean=0, float std=1, *, Generator? generator=None) -> Tensor`
    fn normal(&self, mean: f64, std: f64) -> Result<Tensor>;
    /// `normal(Tensor input, float mean=0, float std=1, *, Generator? generator=None) -> Tensor`
    fn normal_(&self, mean: f64, std: f64) -> Result<()>;
    /// `normal(Tensor input, float mean=0, float std=1, *, Generator? generator=None) -> Tensor`
    fn normal_with_(&self, mean: f64, std: f64, generator: Option<&Generator>) -> Result<()>;
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
    /// `outer(Tensor input, Tensor vec2) -> Tensor`
    fn outer(&self, vec2: &Tensor) -> Result<Tensor>;
    /// `pad_nd(Tensor input, int[] widths, str mode, Scalar value=0) -> Tensor`
    fn pad_nd(&self, widths: &[i64], mode: &str, value: impl Into<Scalar>) -> Result<Tensor>;
    /// `pad_nd_backward(Tensor grad_output, int[] sizes, int[] widths, str mode) -> Tensor`
    fn pad_nd_backward(&self, sizes: &[i64], widths: &[i64], mode: &str) -> Result<Tensor>;
    /// `pair_distances(Tensor x1, Tensor x2, float p) -> Tensor`
    fn pair_distances(&self, x2: &Tensor, p: f64) -> Result<Tensor>;
    /// `permute(Tensor(a) input, int[] dims) -> Tensor(a)`
    fn permute(&self, dims: &[i64]) -> Result<Tensor>;
    /// `permute_copy(Tensor input, int[] dims) -> Tensor`
    fn permute_copy(&self, dims: &[i64]) -> Result<Tensor>;
    /// `poisson(Tensor input, Generator? generator=None) -> Tensor`
    fn poisson(&self, generator: Option<&Generator>) -> Result<Tensor>;
    /// `poisson_doubles(Tensor input, *, Generator? generator=None) -> Tensor`
    fn poisson_doubles(&self) -> Result<Tensor>;
    /// `poisson_doubles(Tensor input, *, Generator? generator=None) -> Tensor`
    fn poisson_doubles_with(&self, generator: Option<&Generator>) -> Result<Tensor>;
    /// `polar(Tensor abs, Tensor angle) -> Tensor`
    fn polar(&self, angle: &Tensor) -> Result<Tensor>;
    /// `positive(Tensor(a) input) -> Tensor(a)`
    fn positive(&self) -> Result<Tensor>;
    /// `pow(Tensor input, Tensor|Scalar exponent) -> Tensor`
    fn pow<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `pow(Tensor input, Tensor|Scalar exponent) -> Tensor`
    fn pow_<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<()>;
    /// `prelu(Tensor input, Tensor weight) -> Tensor`
    fn prelu(&self, weight: &Tensor) -> Result<Tensor>;
    /// `prelu_kernel(Tensor input, Tensor weight) -> Tensor`
    fn prelu_kernel(&self, weight: &Tensor) -> Result<Tensor>;
    /// `prod(Tensor input, int? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn prod(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor>;
    /// `prod(Tensor input, int? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn prod_with(&self, dim: Option<i64>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor>;
    /// `put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor`
    fn put(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor>;
    /// `put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor`
    fn put_(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<()>;
    /// `quantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor`
    fn quantile(&self, q: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Tensor>;
    /// `quantile.scalar(Tensor input, float q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor`
    fn quantile_scalar(&self, q: f64, dim: Option<i64>, keepdim: bool) -> Result<Tensor>;
    /// `rad2deg(Tensor input) -> Tensor`
    fn rad2deg(&self) -> Result<Tensor>;
    /// `rand_like(Tensor input, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn rand_like(&self) -> Result<Tensor>;
    /// `rand_like(Tensor input, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn rand_like_with(
        &self,
        generator: Option<&Generator>,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor>;
    /// `randint_like(Tensor input, int high, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn randint_like(&self, high: i64) -> Result<Tensor>;
    /// `randint_like.low(Tensor input, int low, int high, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn randint_like_low(&self, low: i64, high: i64) -> Result<Tensor>;
    /// `randn_like(Tensor input, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn randn_like(&self) -> Result<Tensor>;
    /// `randn_like(Tensor input, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    fn randn_like_with(
        &self,
        generator: Option<&Generator>,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor>;
    /// `random(Tensor input, *, Generator? generator=None) -> Tensor`
    fn random(&self) -> Result<Tensor>;
    /// `random(Tensor input, *, Generator? generator=None) -> Tensor`
    fn random_(&self) -> Result<()>;
    /// `random.from(Tensor input, int from, int? to, *, Generator? generator=None) -> Tensor`
    fn random_from(&self, from: i64, to: Option<i64>) -> Result<Tensor>;
    /// `random.to(Tensor input, int to, *, Generator? generator=None) -> Tensor`
    fn random_to(&self, to: i64) -> Result<Tensor>;
    /// `ravel(Tensor(a) input) -> Tensor(a)`
    fn ravel(&self) -> Result<Tensor>;
    /// `real(Tensor(a) input) -> Tensor(a)`
    fn real(&self) -> Result<Tensor>;
    /// `reciprocal(Tensor input) -> Tensor`
    fn reciprocal(&self) -> Result<Tensor>;
    /// `relu(Tensor input) -> Tensor`
    fn relu(&self) -> Result<Tensor>;
    /// `relu(Tensor input) -> Tensor`
    fn relu_(&self) -> Result<()>;
    /// `remainder(Tensor input, Tensor|Scalar other) -> Tensor`
    fn remainder<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `remainder(Tensor input, Tensor|Scalar other) -> Tensor`
    fn remainder_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `repeat(Tensor input, int[] repeats) -> Tensor`
    fn repeat(&self, repeats: &[i64]) -> Result<Tensor>;
    /// `repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor`
    fn repeat_interleave_Tensor(&self) -> Result<Tensor>;
    /// `repeat_interleave.self_int(Tensor input, int repeats, int? dim=None, *, int? output_size=None) -> Tensor`
    fn repeat_interleave_self_int(&self, repeats: i64, dim: Option<i64>) -> Result<Tensor>;
    /// `resample(Tensor input, int[] size, str mode, bool align_corners, bool antialias, float[]? scales=None) -> Tensor`
    fn resample(
        &self,
        size: &[i64],
        mode: &str,
        align_corners: bool,
        antialias: bool,
        scales: &[f64],
    ) -> Result<Tensor>;
    /// `resample_backward(Tensor grad_output, int[] size, str mode, bool align_corners, bool antialias, float[]? scales=None) -> Tensor`
    fn resample_backward(
        &self,
        size: &[i64],
        mode: &str,
        align_corners: bool,
        antialias: bool,
        scales: &[f64],
    ) -> Result<Tensor>;
    /// `reshape(Tensor(a) input, int[] shape) -> Tensor(a)`
    fn reshape(&self, shape: &[i64]) -> Result<Tensor>;
    /// `reshape_as(Tensor(a) input, Tensor other) -> Tensor(a)`
    fn reshape_as(&self, other: &Tensor) -> Result<Tensor>;
    /// `rms_norm_backward(Tensor grad_output, Tensor input, Tensor rstd, Tensor? weight, Tensor? residual, int[] normalized_shape, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight)`
    fn rms_norm_backward(
        &self,
        input: &Tensor,
        rstd: &Tensor,
        weight: Option<&Tensor>,
        residual: Option<&Tensor>,
        normalized_shape: &[i64],
        affine: bool,
        eps: f64,
    ) -> Result<[Tensor; 2]>;
    /// `rnn_layer(Tensor gates_x, Tensor h_0, Tensor? c_0, Tensor w_hh, Tensor? b_hh, Tensor? w_hr, int[] batch_sizes, str mode, bool reverse) -> (Tensor output, Tensor h_n, Tensor c_n, Tensor gates, Tensor cells)`
    fn rnn_layer(
        &self,
        h_0: &Tensor,
        c_0: Option<&Tensor>,
        w_hh: &Tensor,
        b_hh: Option<&Tensor>,
        w_hr: Option<&Tensor>,
        batch_sizes: &[i64],
        mode: &str,
        reverse: bool,
    ) -> Result<[Tensor; 5]>;
    /// `rnn_stack(Tensor input, Tensor h_0, Tensor? c_0, Tensor weights, int[] batch_sizes, str mode, int hidden, int num_layers, bool bias, bool bidirectional, bool batch_first, bool allow_tf32, int reserve) -> (Tensor output, Tensor h_n, Tensor c_n, Tensor reserved)`
    fn rnn_stack(
        &self,
        h_0: &Tensor,
        c_0: Option<&Tensor>,
        weights: &Tensor,
        batch_sizes: &[i64],
        mode: &str,
        hidden: i64,
        num_layers: i64,
        bias: bool,
        bidirectional: bool,
        batch_first: bool,
        allow_tf32: bool,
        reserve: i64,
    ) -> Result<[Tensor; 4]>;
    /// `roll(Tensor input, int[1] shifts, int[1] dims=[]) -> Tensor`
    fn roll(&self, shifts: &[i64], dims: &[i64]) -> Result<Tensor>;
    /// `rot90(Tensor input, int k=1, int[] dims=[0,1]) -> Tensor`
    fn rot90(&self, k: i64, dims: &[i64]) -> Result<Tensor>;
    /// `round(Tensor input, *, int decimals=0) -> Tensor`
    fn round(&self) -> Result<Tensor>;
    /// `round(Tensor input, *, int decimals=0) -> Tensor`
    fn round_(&self) -> Result<()>;
    /// `rsqrt(Tensor input) -> Tensor`
    fn rsqrt(&self) -> Result<Tensor>;
    /// `rsqrt(Tensor input) -> Tensor`
    fn rsqrt_(&self) -> Result<()>;
    /// `rsub(Tensor input, Tensor|Scalar other, Scalar alpha=1) -> Tensor`
    fn rsub<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<Tensor>;
    /// `scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor`
    fn scaled_dot_product_attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        attn_mask: Option<&Tensor>,
        dropout_p: f64,
        is_causal: bool,
    ) -> Result<Tensor>;
    /// `scatter.reduce(Tensor input, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor`
    fn scatter_reduce(&self, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<Tensor>;
    /// `scatter.reduce(Tensor input, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor`
    fn scatter_reduce_(&self, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<()>;
    /// `scatter.src(Tensor input, int dim, Tensor index, Tensor src) -> Tensor`
    fn scatter_src(&self, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor>;
    /// `scatter.value(Tensor input, int dim, Tensor index, Scalar value) -> Tensor`
    fn scatter_value(&self, dim: i64, index: &Tensor, value: impl Into<Scalar>) -> Result<Tensor>;
    /// `scatter.value_reduce(Tensor input, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor`
    fn scatter_value_reduce(&self, dim: i64, index: &Tensor, value: impl Into<Scalar>, reduce: &str) -> Result<Tensor>;
    /// `scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor`
    fn scatter_add(&self, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor>;
    /// `scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor`
    fn scatter_add_(&self, dim: i64, index: &Tensor, src: &Tensor) -> Result<()>;
    /// `scatter_combine(Tensor input, int dim, Tensor index, Tensor src, str reduce) -> Tensor`
    fn scatter_combine(&self, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<Tensor>;
    /// `scatter_reduce.two(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor`
    fn scatter_reduce_two(&self, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<Tensor>;
    /// `scatter_reduce.two(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor`
    fn scatter_reduce_two_with(
        &self,
        dim: i64,
        index: &Tensor,
        src: &Tensor,
        reduce: &str,
        include_self: bool,
    ) -> Result<Tensor>;
    /// `searchsorted(Tensor sorted_sequence, Tensor input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor`
    fn searchsorted(&self, input: &Tensor) -> Result<Tensor>;
    /// `searchsorted(Tensor sorted_sequence, Tensor input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor`
    fn searchsorted_with(
        &self,
        input: &Tensor,
        out_int32: bool,
        right: bool,
        side: Option<&str>,
        sorter: Option<&Tensor>,
    ) -> Result<Tensor>;
    /// `searchsorted.scalar(Tensor sorted_sequence, Scalar input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor`
    fn searchsorted_scalar(&self, input: impl Into<Scalar>) -> Result<Tensor>;
    /// `select(Tensor(a) input, int dim, int index) -> Tensor(a)`
    fn select(&self, dim: i64, index: i64) -> Result<Tensor>;
    /// `select_copy(Tensor input, int dim, int index) -> Tensor`
    fn select_copy(&self, dim: i64, index: i64) -> Result<Tensor>;
    /// `select_scatter(Tensor input, Tensor src, int dim, int index) -> Tensor`
    fn select_scatter(&self, src: &Tensor, dim: i64, index: i64) -> Result<Tensor>;
    /// `selu(Tensor input) -> Tensor`
    fn selu(&self) -> Result<Tensor>;
    /// `sgn(Tensor input) -> Tensor`
    fn sgn(&self) -> Result<Tensor>;
    /// `shrink_backward(Tensor grad_output, Tensor input, Scalar lambd) -> Tensor`
    fn shrink_backward(&self, input: &Tensor, lambd: impl Into<Scalar>) -> Result<Tensor>;
    /// `sigmoid(Tensor input) -> Tensor`
    fn sigmoid(&self) -> Result<Tensor>;
    /// `sigmoid(Tensor input) -> Tensor`
    fn sigmoid_(&self) -> Result<()>;
    /// `sign(Tensor input) -> Tensor`
    fn sign(&self) -> Result<Tensor>;
    /// `signbit(Tensor input) -> Tensor`
    fn signbit(&self) -> Result<Tensor>;
    /// `silu(Tensor input) -> Tensor`
    fn silu(&self) -> Result<Tensor>;
    /// `silu_backward(Tensor grad_output, Tensor input) -> Tensor`
    fn silu_backward(&self, input: &Tensor) -> Result<Tensor>;
    /// `sin(Tensor input) -> Tensor`
    fn sin(&self) -> Result<Tensor>;
    /// `sin(Tensor input) -> Tensor`
    fn sin_(&self) -> Result<()>;
    /// `sinc(Tensor input) -> Tensor`
    fn sinc(&self) -> Result<Tensor>;
    /// `sinh(Tensor input) -> Tensor`
    fn sinh(&self) -> Result<Tensor>;
    /// `slice(Tensor(a) input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)`
    fn slice(&self, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor>;
    /// `slice_backward(Tensor grad_output, int[] input_sizes, int dim, int start, int end, int step) -> Tensor`
    fn slice_backward(&self, input_sizes: &[i64], dim: i64, start: i64, end: i64, step: i64) -> Result<Tensor>;
    /// `slice_copy(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor`
    fn slice_copy(&self, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor>;
    /// `slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor`
    fn slice_scatter(&self, src: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor>;
    /// `slogdet(Tensor input) -> (Tensor sign, Tensor logabsdet)`
    fn slogdet(&self) -> Result<[Tensor; 2]>;
    /// `smooth_absolute_difference(Tensor input, Tensor target, float beta) -> Tensor`
    fn smooth_absolute_difference(&self, target: &Tensor, beta: f64) -> Result<Tensor>;
    /// `smooth_absolute_difference_backward(Tensor grad_output, Tensor input, Tensor target, float beta) -> Tensor`
    fn smooth_absolute_difference_backward(&self, input: &Tensor, target: &Tensor, beta: f64) -> Result<Tensor>;
    /// `smooth_l1_loss(Tensor input, Tensor target, str reduction="mean", float beta=1.0) -> Tensor`
    fn smooth_l1_loss(&self, target: &Tensor, reduction: &str, beta: f64) -> Result<Tensor>;
    /// `softmax(Tensor input, int dim, DType? dtype=None) -> Tensor`
    fn softmax(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor>;
    /// `softmax_backward(Tensor grad_output, Tensor output, int dim, bool log) -> Tensor`
    fn softmax_backward(&self, output: &Tensor, dim: i64, log: bool) -> Result<Tensor>;
    /// `softplus(Tensor input, Scalar beta=1, Scalar threshold=20) -> Tensor`
    fn softplus(&self, beta: impl Into<Scalar>, threshold: impl Into<Scalar>) -> Result<Tensor>;
    /// `softplus_backward(Tensor grad_output, Tensor input, Scalar beta, Scalar threshold) -> Tensor`
    fn softplus_backward(
        &self,
        input: &Tensor,
        beta: impl Into<Scalar>,
        threshold: impl Into<Scalar>,
    ) -> Result<Tensor>;
    /// `softshrink(Tensor input, Scalar lambd=0.5) -> Tensor`
    fn softshrink(&self, lambd: impl Into<Scalar>) -> Result<Tensor>;
    /// `sort(Tensor input, int dim=-1, bool descending=False, *, bool? stable=False) -> (Tensor values, Tensor indices)`
    fn sort(&self, dim: i64, descending: bool) -> Result<[Tensor; 2]>;
    /// `sort(Tensor input, int dim=-1, bool descending=False, *, bool? stable=False) -> (Tensor values, Tensor indices)`
    fn sort_with(&self, dim: i64, descending: bool, stable: Option<bool>) -> Result<[Tensor; 2]>;
    /// `special_entr(Tensor input) -> Tensor`
    fn special_entr(&self) -> Result<Tensor>;
    /// `special_erfcx(Tensor input) -> Tensor`
    fn special_erfcx(&self) -> Result<Tensor>;
    /// `special_i0e(Tensor input) -> Tensor`
    fn special_i0e(&self) -> Result<Tensor>;
    /// `special_i1(Tensor input) -> Tensor`
    fn special_i1(&self) -> Result<Tensor>;
    /// `special_i1e(Tensor input) -> Tensor`
    fn special_i1e(&self) -> Result<Tensor>;
    /// `special_log_ndtr(Tensor input) -> Tensor`
    fn special_log_ndtr(&self) -> Result<Tensor>;
    /// `special_ndtr(Tensor input) -> Tensor`
    fn special_ndtr(&self) -> Result<Tensor>;
    /// `special_ndtri(Tensor input) -> Tensor`
    fn special_ndtri(&self) -> Result<Tensor>;
    /// `special_xlog1py(Tensor input, Tensor|Scalar other) -> Tensor`
    fn special_xlog1py<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `special_zeta(Tensor input, Tensor|Scalar other) -> Tensor`
    fn special_zeta<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `split(Tensor(a) input, int split_size, int dim=0) -> Tensor(a)[]`
    fn split(&self, split_size: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `split.sizes(Tensor(a) input, int[] split_size, int dim=0) -> Tensor(a)[]`
    fn split_sizes(&self, split_size: &[i64], dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `split_with_sizes(Tensor(a) input, int[] split_sizes, int dim=0) -> Tensor(a)[]`
    fn split_with_sizes(&self, split_sizes: &[i64], dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `split_with_sizes_copy(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]`
    fn split_with_sizes_copy(&self, split_sizes: &[i64], dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `sqrt(Tensor input) -> Tensor`
    fn sqrt(&self) -> Result<Tensor>;
    /// `sqrt(Tensor input) -> Tensor`
    fn sqrt_(&self) -> Result<()>;
    /// `square(Tensor input) -> Tensor`
    fn square(&self) -> Result<Tensor>;
    /// `square_deviations(Tensor input, int[1]? dim=None, bool keepdim=False, float divisor=1, bool root=False) -> Tensor`
    fn square_deviations<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        keepdim: bool,
        divisor: f64,
        root: bool,
    ) -> Result<Tensor>;
    /// `squared_difference(Tensor input, Tensor target) -> Tensor`
    fn squared_difference(&self, target: &Tensor) -> Result<Tensor>;
    /// `squared_difference_backward(Tensor grad_output, Tensor input, Tensor target) -> Tensor`
    fn squared_difference_backward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor>;
    /// `squeeze(Tensor(a) input) -> Tensor(a)`
    fn squeeze(&self) -> Result<Tensor>;
    /// `squeeze.dim(Tensor(a) input, int[1] dim) -> Tensor(a)`
    fn squeeze_dim(&self, dim: &[i64]) -> Result<Tensor>;
    /// `squeeze_copy(Tensor input) -> Tensor`
    fn squeeze_copy(&self) -> Result<Tensor>;
    /// `squeeze_copy.dim(Tensor input, int[1] dim) -> Tensor`
    fn squeeze_copy_dim(&self, dim: &[i64]) -> Result<Tensor>;
    /// `std(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn std<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<Tensor>;
    /// `std(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn std_with<'a>(&self, dim: impl Into<OptInts<'a>>, correction: Option<Scalar>, keepdim: bool) -> Result<Tensor>;
    /// `std.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor`
    fn std_dim<'a>(&self, dim: impl Into<OptInts<'a>>, unbiased: bool, keepdim: bool) -> Result<Tensor>;
    /// `std.unbiased(Tensor input, bool unbiased) -> Tensor`
    fn std_unbiased(&self, unbiased: bool) -> Result<Tensor>;
    /// `std_mean(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)`
    fn std_mean<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<[Tensor; 2]>;
    /// `std_mean(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)`
    fn std_mean_with<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        correction: Option<Scalar>,
        keepdim: bool,
    ) -> Result<[Tensor; 2]>;
    /// `std_mean.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)`
    fn std_mean_dim<'a>(&self, dim: impl Into<OptInts<'a>>, unbiased: bool, keepdim: bool) -> Result<[Tensor; 2]>;
    /// `std_mean.unbiased(Tensor input, bool unbiased) -> (Tensor, Tensor)`
    fn std_mean_unbiased(&self, unbiased: bool) -> Result<[Tensor; 2]>;
    /// `straight(Tensor(a) input) -> Tensor(a)`
    fn straight(&self) -> Result<Tensor>;
    /// `sub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn sub<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `sub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
    fn sub_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()>;
    /// `sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn sum<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn sum_with<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor>;
    /// `sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn sum_out<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool, out: &Tensor) -> Result<()>;
    /// `sum_to_size(Tensor input, int[] size) -> Tensor`
    fn sum_to_size(&self, size: &[i64]) -> Result<Tensor>;
    /// `swapaxes(Tensor(a) input, int axis0, int axis1) -> Tensor(a)`
    fn swapaxes(&self, axis0: i64, axis1: i64) -> Result<Tensor>;
    /// `swapdims(Tensor(a) input, int dim0, int dim1) -> Tensor(a)`
    fn swapdims(&self, dim0: i64, dim1: i64) -> Result<Tensor>;
    /// `t(Tensor(a) input) -> Tensor(a)`
    fn t(&self) -> Result<Tensor>;
    /// `t_copy(Tensor input) -> Tensor`
    fn t_copy(&self) -> Result<Tensor>;
    /// `take(Tensor input, Tensor index) -> Tensor`
    fn take(&self, index: &Tensor) -> Result<Tensor>;
    /// `take(Tensor input, Tensor index) -> Tensor`
    fn take_out(&self, index: &Tensor, out: &Tensor) -> Result<()>;
    /// `take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor`
    fn take_along_dim(&self, indices: &Tensor, dim: Option<i64>) -> Result<Tensor>;
    /// `tan(Tensor input) -> Tensor`
    fn tan(&self) -> Result<Tensor>;
    /// `tanh(Tensor input) -> Tensor`
    fn tanh(&self) -> Result<Tensor>;
    /// `tensor_split(Tensor(a) input, int sections, int dim=0) -> Tensor(a)[]`
    fn tensor_split(&self, sections: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `tensor_split.indices(Tensor(a) input, int[] indices, int dim=0) -> Tensor(a)[]`
    fn tensor_split_indices(&self, indices: &[i64], dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `tensor_split.tensor(Tensor(a) input, Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]`
    fn tensor_split_tensor(&self, tensor_indices_or_sections: &Tensor, dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `threshold(Tensor input, Scalar threshold, Scalar value) -> Tensor`
    fn threshold(&self, threshold: impl Into<Scalar>, value: impl Into<Scalar>) -> Result<Tensor>;
    /// `threshold_backward(Tensor grad_output, Tensor input, Scalar threshold) -> Tensor`
    fn threshold_backward(&self, input: &Tensor, threshold: impl Into<Scalar>) -> Result<Tensor>;
    /// `tile(Tensor input, int[] dims) -> Tensor`
    fn tile(&self, dims: &[i64]) -> Result<Tensor>;
    /// `to_copy(Tensor input, *, DType? dtype=None, Device? device=None) -> Tensor`
    fn to_copy(&self) -> Result<Tensor>;
    /// `to_copy(Tensor input, *, DType? dtype=None, Device? device=None) -> Tensor`
    fn to_copy_with(&self, dtype: Option<DType>, device: Option<Device>) -> Result<Tensor>;
    /// `topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)`
    fn topk(&self, k: i64, dim: i64, largest: bool, sorted: bool) -> Result<[Tensor; 2]>;
    /// `trace(Tensor input) -> Tensor`
    fn trace(&self) -> Result<Tensor>;
    /// `transpose(Tensor(a) input, int dim0, int dim1) -> Tensor(a)`
    fn transpose(&self, dim0: i64, dim1: i64) -> Result<Tensor>;
    /// `transpose_copy(Tensor input, int dim0, int dim1) -> Tensor`
    fn transpose_copy(&self, dim0: i64, dim1: i64) -> Result<Tensor>;
    /// `trapezoid(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor`
    fn trapezoid(&self) -> Result<Tensor>;
    /// `trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor`
    fn trapezoid_x(&self, x: &Tensor) -> Result<Tensor>;
    /// `trapz(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor`
    fn trapz(&self) -> Result<Tensor>;
    /// `tril(Tensor input, int diagonal=0) -> Tensor`
    fn tril(&self, diagonal: i64) -> Result<Tensor>;
    /// `tril(Tensor input, int diagonal=0) -> Tensor`
    fn tril_(&self, diagonal: i64) -> Result<()>;
    /// `triu(Tensor input, int diagonal=0) -> Tensor`
    fn triu(&self, diagonal: i64) -> Result<Tensor>;
    /// `triu(Tensor input, int diagonal=0) -> Tensor`
    fn triu_(&self, diagonal: i64) -> Result<()>;
    /// `trunc(Tensor input) -> Tensor`
    fn trunc(&self) -> Result<Tensor>;
    /// `unbind(Tensor(a) input, int dim=0) -> Tensor(a)[]`
    fn unbind(&self, dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `unbind_copy(Tensor input, int dim=0) -> Tensor[]`
    fn unbind_copy(&self, dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `unflatten(Tensor(a) input, int dim, int[] sizes) -> Tensor(a)`
    fn unflatten(&self, dim: i64, sizes: &[i64]) -> Result<Tensor>;
    /// `unfold(Tensor(a) input, int dimension, int size, int step) -> Tensor(a)`
    fn unfold(&self, dimension: i64, size: i64, step: i64) -> Result<Tensor>;
    /// `unfold_backward(Tensor grad_output, int[] input_sizes, int dim, int size, int step) -> Tensor`
    fn unfold_backward(&self, input_sizes: &[i64], dim: i64, size: i64, step: i64) -> Result<Tensor>;
    /// `unfold_copy(Tensor input, int dimension, int size, int step) -> Tensor`
    fn unfold_copy(&self, dimension: i64, size: i64, step: i64) -> Result<Tensor>;
    /// `uniform(Tensor input, float from=0, float to=1, *, Generator? generator=None) -> Tensor`
    fn uniform(&self, from: f64, to: f64) -> Result<Tensor>;
    /// `uniform(Tensor input, float from=0, float to=1, *, Generator? generator=None) -> Tensor`
    fn uniform_(&self, from: f64, to: f64) -> Result<()>;
    /// `uniform(Tensor input, float from=0, float to=1, *, Generator? generator=None) -> Tensor`
    fn uniform_with_(&self, from: f64, to: f64, generator: Option<&Generator>) -> Result<()>;
    /// `unsafe_chunk(Tensor input, int chunks, int dim=0) -> Tensor[]`
    fn unsafe_chunk(&self, chunks: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `unsafe_split(Tensor input, int split_size, int dim=0) -> Tensor[]`
    fn unsafe_split(&self, split_size: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `unsafe_split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]`
    fn unsafe_split_with_sizes(&self, split_sizes: &[i64], dim: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `unsqueeze(Tensor(a) input, int dim) -> Tensor(a)`
    fn unsqueeze(&self, dim: i64) -> Result<Tensor>;
    /// `unsqueeze_copy(Tensor input, int dim) -> Tensor`
    fn unsqueeze_copy(&self, dim: i64) -> Result<Tensor>;
    /// `vander(Tensor x, int? N=None, bool increasing=False) -> Tensor`
    fn vander(&self, N: Option<i64>, increasing: bool) -> Result<Tensor>;
    /// `var(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn var<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<Tensor>;
    /// `var(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
    fn var_with<'a>(&self, dim: impl Into<OptInts<'a>>, correction: Option<Scalar>, keepdim: bool) -> Result<Tensor>;
    /// `var.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor`
    fn var_dim<'a>(&self, dim: impl Into<OptInts<'a>>, unbiased: bool, keepdim: bool) -> Result<Tensor>;
    /// `var.unbiased(Tensor input, bool unbiased) -> Tensor`
    fn var_unbiased(&self, unbiased: bool) -> Result<Tensor>;
    /// `var_mean(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)`
    fn var_mean<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<[Tensor; 2]>;
    /// `var_mean(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)`
    fn var_mean_with<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        correction: Option<Scalar>,
        keepdim: bool,
    ) -> Result<[Tensor; 2]>;
    /// `var_mean.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)`
    fn var_mean_dim<'a>(&self, dim: impl Into<OptInts<'a>>, unbiased: bool, keepdim: bool) -> Result<[Tensor; 2]>;
    /// `var_mean.unbiased(Tensor input, bool unbiased) -> (Tensor, Tensor)`
    fn var_mean_unbiased(&self, unbiased: bool) -> Result<[Tensor; 2]>;
    /// `vdot(Tensor input, Tensor other) -> Tensor`
    fn vdot(&self, other: &Tensor) -> Result<Tensor>;
    /// `vector_norm(Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
    fn vector_norm<'a>(&self, ord: impl Into<Scalar>, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>;
    /// `view(Tensor(a) input, int[] size) -> Tensor(a)`
    fn view(&self, size: &[i64]) -> Result<Tensor>;
    /// `view.dtype(Tensor(a) input, DType dtype) -> Tensor(a)`
    fn view_dtype(&self, dtype: DType) -> Result<Tensor>;
    /// `view_as(Tensor(a) input, Tensor other) -> Tensor(a)`
    fn view_as(&self, other: &Tensor) -> Result<Tensor>;
    /// `view_as_complex(Tensor(a) input) -> Tensor(a)`
    fn view_as_complex(&self) -> Result<Tensor>;
    /// `view_as_real(Tensor(a) input) -> Tensor(a)`
    fn view_as_real(&self) -> Result<Tensor>;
    /// `view_copy(Tensor input, int[] size) -> Tensor`
    fn view_copy(&self, size: &[i64]) -> Result<Tensor>;
    /// `vsplit(Tensor(a) input, int sections) -> Tensor(a)[]`
    fn vsplit(&self, sections: i64) -> Result<SmallVec<[Tensor; 2]>>;
    /// `vsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]`
    fn vsplit_array(&self, indices: &[i64]) -> Result<SmallVec<[Tensor; 2]>>;
    /// `where(Tensor condition, Tensor|Scalar input, Tensor|Scalar other) -> Tensor`
    fn r#where<'a>(&self, input: impl Into<Operand<'a>>, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `where.places(Tensor condition) -> Tensor[]`
    fn where_places(&self) -> Result<SmallVec<[Tensor; 2]>>;
    /// `xlog1py_pair(Tensor input, Tensor other) -> Tensor`
    fn xlog1py_pair(&self, other: &Tensor) -> Result<Tensor>;
    /// `xlogy(Tensor input, Tensor|Scalar other) -> Tensor`
    fn xlogy<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor>;
    /// `xlogy_pair(Tensor input, Tensor other) -> Tensor`
    fn xlogy_pair(&self, other: &Tensor) -> Result<Tensor>;
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
    /// `zeta_pair(Tensor input, Tensor other) -> Tensor`
    fn zeta_pair(&self, other: &Tensor) -> Result<Tensor>;
}

impl TensorOps for Tensor {
    #[inline]
    fn _as_strided(&self, size: &[i64], stride: &[i64], offset: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::as_strided::FROM_FIRST,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), Arg::Ints(stride), Arg::Int(offset)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn _as_strided_scatter(&self, src: &Tensor, size: &[i64], stride: &[i64], offset: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::as_strided::SCATTER_FROM_FIRST,
            ins: &[Some(self), Some(src)],
            args: &[Arg::Ints(size), Arg::Ints(stride), Arg::Int(offset)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn _int_mm(&self, mat2: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::matmul::int_mm::OP, ins: &[Some(self), Some(mat2)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn _linear_accumulate_(&self, sums: Option<&Tensor>, grad_output: &Tensor, input: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::matmul::linear_accumulate::OP,
            ins: &[Some(self), sums, Some(grad_output), Some(input)],
            args: &[],
            dest: Dest::Fresh,
        };
        none(&call)
    }

    #[inline]
    fn _standard_gamma(&self, generator: Option<&Generator>) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::standard_gamma::OP,
            ins: &[Some(self)],
            args: &[rng(generator)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

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
    fn acos(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::trig::ACOS, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn acosh(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::trig::ACOSH, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn adaptive_avg_pool1d(&self, output_size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pooling::ADAPTIVE_AVG1D,
            ins: &[Some(self)],
            args: &[Arg::Ints(output_size)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn adaptive_avg_pool2d(&self, output_size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pooling::ADAPTIVE_AVG2D,
            ins: &[Some(self)],
            args: &[Arg::Ints(output_size)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn adaptive_avg_pool3d(&self, output_size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pooling::ADAPTIVE_AVG3D,
            ins: &[Some(self)],
            args: &[Arg::Ints(output_size)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn adaptive_max_pool1d(&self, output_size: &[i64]) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::conv::pooling::ADAPTIVE_MAX1D,
            ins: &[Some(self)],
            args: &[Arg::Ints(output_size)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn adaptive_max_pool2d(&self, output_size: &[i64]) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::conv::pooling::ADAPTIVE_MAX2D,
            ins: &[Some(self)],
            args: &[Arg::Ints(output_size)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn adaptive_max_pool3d(&self, output_size: &[i64]) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::conv::pooling::ADAPTIVE_MAX3D,
            ins: &[Some(self)],
            args: &[Arg::Ints(output_size)],
            dest: Dest::Fresh,
        };
        many(&call)
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
    fn addbmm(&self, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::matmul::addbmm::OP,
            ins: &[Some(self), Some(batch1), Some(batch2)],
            args: &[Arg::Int(1), Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn addcdiv(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::addcmul::ADDCDIV,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn addcdiv_(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::addcmul::ADDCDIV,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::Int(1)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn addcmul(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::addcmul::OP,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn addcmul_(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::elementwise::addcmul::OP,
            ins: &[Some(self), Some(tensor1), Some(tensor2)],
            args: &[Arg::Int(1)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn addmm(&self, mat1: &Tensor, mat2: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::matmul::addmm::OP,
            ins: &[Some(self), Some(mat1), Some(mat2)],
            args: &[Arg::Int(1), Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn addmm_(&self, mat1: &Tensor, mat2: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::matmul::addmm::OP,
            ins: &[Some(self), Some(mat1), Some(mat2)],
            args: &[Arg::Int(1), Arg::Int(1)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn addmv(&self, mat: &Tensor, vec: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::matmul::addmv::OP,
            ins: &[Some(self), Some(mat), Some(vec)],
            args: &[Arg::Int(1), Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn addr(&self, vec1: &Tensor, vec2: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::matmul::addr::OP,
            ins: &[Some(self), Some(vec1), Some(vec2)],
            args: &[Arg::Int(1), Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn adjoint(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::adjoint::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn alias_copy(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::view_copies::ALIAS, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn all<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::any::ALL,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn amax(&self, dim: &[i64], keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::amax::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn amin(&self, dim: &[i64], keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::amax::AMIN,
            ins: &[Some(self)],
            args: &[Arg::Ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn aminmax(&self) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::aminmax::OP,
            ins: &[Some(self)],
            args: &[Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn angle(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::angle::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn any<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::any::ANY,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn argmax(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::argmax::OP,
            ins: &[Some(self)],
            args: &[dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn argmin(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::argmax::ARGMIN,
            ins: &[Some(self)],
            args: &[dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn argsort(&self, dim: i64, descending: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::argsort::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Bool(descending), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn argwhere(&self) -> Result<Tensor> {
        let call = Call { op: &crate::index::argwhere::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
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
    fn as_strided_copy(&self, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::AS_STRIDED,
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
    fn asin(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::trig::ASIN, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn asinh(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::trig::ASINH, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn atan(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::trig::ATAN, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn atan2(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::trig::ATAN2,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn atanh(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::trig::ATANH, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn atleast_1d(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::atleast::LEAST_1D, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn atleast_2d(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::atleast::LEAST_2D, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn atleast_3d(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::atleast::LEAST_3D, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn avg_pool1d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pooling::AVG1D,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Bool(ceil_mode),
                Arg::Bool(count_include_pad),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn avg_pool2d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Option<i64>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pooling::AVG2D,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Bool(ceil_mode),
                Arg::Bool(count_include_pad),
                divisor_override.map_or(Arg::None, Arg::Int),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn avg_pool3d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Option<i64>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pooling::AVG3D,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Bool(ceil_mode),
                Arg::Bool(count_include_pad),
                divisor_override.map_or(Arg::None, Arg::Int),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn avg_pool_backward(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        count_include_pad: bool,
        divisor: i64,
        input_size: &[i64],
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pool::AVG_BACKWARD,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Bool(count_include_pad),
                Arg::Int(divisor),
                Arg::Ints(input_size),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn baddbmm(&self, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::matmul::baddbmm::OP,
            ins: &[Some(self), Some(batch1), Some(batch2)],
            args: &[Arg::Int(1), Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn batch_norm_backward(
        &self,
        input: &Tensor,
        mean: &Tensor,
        rstd: &Tensor,
        weight: Option<&Tensor>,
        training: bool,
        affine: bool,
        eps: f64,
    ) -> Result<[Tensor; 3]> {
        let call = Call {
            op: &crate::nn::batch_norm::BACKWARD,
            ins: &[Some(self), Some(input), Some(mean), Some(rstd), weight],
            args: &[Arg::Bool(training), Arg::Bool(affine), Arg::Float(eps)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn batch_norm_inference(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        mean: &Tensor,
        var: &Tensor,
        eps: f64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::batch_norm::INFERENCE,
            ins: &[Some(self), weight, bias, Some(mean), Some(var)],
            args: &[Arg::Float(eps)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn batch_norm_training(
        &self,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        running_mean: Option<&Tensor>,
        running_var: Option<&Tensor>,
        momentum: f64,
        eps: f64,
    ) -> Result<[Tensor; 4]> {
        let call = Call {
            op: &crate::nn::batch_norm::TRAINING,
            ins: &[Some(self), weight, bias, running_mean, running_var],
            args: &[Arg::Float(momentum), Arg::Float(eps)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn bernoulli(&self) -> Result<Tensor> {
        let call =
            Call { op: &crate::random::bernoulli::OP, ins: &[Some(self)], args: &[rng(None)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn bernoulli_float(&self, p: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::bernoulli::BERNOULLI_FILL_P,
            ins: &[Some(self)],
            args: &[Arg::Float(p), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn bernoulli_p(&self, p: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::bernoulli::BERNOULLI_P,
            ins: &[Some(self)],
            args: &[Arg::Float(p), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn binary_cross_entropy(&self, target: &Tensor, weight: Option<&Tensor>, reduction: &str) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::binary_cross_entropy::BINARY,
            ins: &[Some(self), Some(target), weight],
            args: &[sym(reduction)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn binary_cross_entropy_with_logits(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        reduction: &str,
        pos_weight: Option<&Tensor>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::binary_cross_entropy::WITH_LOGITS,
            ins: &[Some(self), Some(target), weight, pos_weight],
            args: &[sym(reduction)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn binary_entropy(&self, target: &Tensor, pos_weight: Option<&Tensor>) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::binary_cross_entropy::LOGITS,
            ins: &[Some(self), Some(target), pos_weight],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn binary_entropy_backward(&self, input: &Tensor, target: &Tensor, pos_weight: Option<&Tensor>) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::binary_cross_entropy::LOGITS_BACKWARD,
            ins: &[Some(self), Some(input), Some(target), pos_weight],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn binary_entropy_of_probability(&self, target: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::binary_cross_entropy::PROBABILITY,
            ins: &[Some(self), Some(target)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn binary_entropy_of_probability_backward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::binary_cross_entropy::PROBABILITY_BACKWARD,
            ins: &[Some(self), Some(input), Some(target)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn bincount(&self, weights: Option<&Tensor>, minlength: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::bincount::OP,
            ins: &[Some(self), weights],
            args: &[Arg::Int(minlength)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn binomial(&self, prob: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::binomial::OP,
            ins: &[Some(self), Some(prob)],
            args: &[rng(generator)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn binomial_doubles(&self, prob: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::binomial::BINOMIAL_DOUBLES,
            ins: &[Some(self), Some(prob)],
            args: &[rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn binomial_doubles_with(&self, prob: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::binomial::BINOMIAL_DOUBLES,
            ins: &[Some(self), Some(prob)],
            args: &[rng(generator)],
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
    fn bitwise_left_shift<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_left_shift::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn bitwise_left_shift_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_left_shift::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn bitwise_not(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::bitwise_not::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
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
    fn bitwise_right_shift<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_left_shift::RIGHT_SHIFT,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn bitwise_right_shift_<'a>(&self, other: impl Into<Operand<'a>>) -> Result<()> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::bitwise_left_shift::RIGHT_SHIFT,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
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
    fn bmm(&self, mat2: &Tensor) -> Result<Tensor> {
        let call = Call { op: &crate::matmul::bmm::OP, ins: &[Some(self), Some(mat2)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn broadcast_to(&self, size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::broadcast_to::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(size)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn bucketize(&self, boundaries: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::bucketize::OP,
            ins: &[Some(self), Some(boundaries)],
            args: &[Arg::Bool(false), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cauchy(&self, median: f64, sigma: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::cauchy::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(median), Arg::Float(sigma), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cauchy_(&self, median: f64, sigma: f64) -> Result<()> {
        let call = Call {
            op: &crate::random::cauchy::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(median), Arg::Float(sigma), rng(None)],
            dest: Dest::Into(&[self]),
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
    fn celu(&self, alpha: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::elu::CELU,
            ins: &[Some(self)],
            args: &[Arg::from(alpha.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cholesky_inverse(&self, upper: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::linalg::cholesky_solve::INVERSE,
            ins: &[Some(self)],
            args: &[Arg::Bool(upper)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cholesky_solve(&self, L: &Tensor, upper: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::linalg::cholesky_solve::OP,
            ins: &[Some(self), Some(L)],
            args: &[Arg::Bool(upper)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn chunk(&self, chunks: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::chunk::OP,
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
    fn clamp_max<'a>(&self, max: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (max, max_scalar) = split(max);
        let call = Call {
            op: &crate::elementwise::clamp_min::CLAMP_MAX,
            ins: &[Some(self), max],
            args: &[max_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn clamp_max_<'a>(&self, max: impl Into<Operand<'a>>) -> Result<()> {
        let (max, max_scalar) = split(max);
        let call = Call {
            op: &crate::elementwise::clamp_min::CLAMP_MAX,
            ins: &[Some(self), max],
            args: &[max_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn clamp_min<'a>(&self, min: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (min, min_scalar) = split(min);
        let call = Call {
            op: &crate::elementwise::clamp_min::OP,
            ins: &[Some(self), min],
            args: &[min_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn clamp_min_<'a>(&self, min: impl Into<Operand<'a>>) -> Result<()> {
        let (min, min_scalar) = split(min);
        let call = Call {
            op: &crate::elementwise::clamp_min::OP,
            ins: &[Some(self), min],
            args: &[min_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn cloned(&self) -> Result<Tensor> {
        let call = Call { op: &crate::creation::clone::OP, ins: &[Some(self)], args: &[Arg::None], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn clone_contiguous(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::contiguous::COPY_OP,
            ins: &[Some(self)],
            args: &[Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn clone_contiguous_with(&self, memory_format: Option<&str>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::contiguous::COPY_OP,
            ins: &[Some(self)],
            args: &[memory_format.map_or(Arg::None, sym)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn complex(&self, imag: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::complex::OP, ins: &[Some(self), Some(imag)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn conj(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::conj::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn conj_physical(&self) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::conj::CONJ_PHYSICAL, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
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
    fn conv1d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::conv_nd::CONV1D,
            ins: &[Some(self), Some(weight), bias],
            args: &[Arg::Ints(stride), Arg::Ints(padding), Arg::Ints(dilation), Arg::Int(groups)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn conv1d_padding(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &str,
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::conv_nd::CONV1D_NAMED,
            ins: &[Some(self), Some(weight), bias],
            args: &[Arg::Ints(stride), sym(padding), Arg::Ints(dilation), Arg::Int(groups)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn conv2d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::conv_nd::CONV2D,
            ins: &[Some(self), Some(weight), bias],
            args: &[Arg::Ints(stride), Arg::Ints(padding), Arg::Ints(dilation), Arg::Int(groups)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn conv3d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::conv_nd::CONV3D,
            ins: &[Some(self), Some(weight), bias],
            args: &[Arg::Ints(stride), Arg::Ints(padding), Arg::Ints(dilation), Arg::Int(groups)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn conv_backward_input(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        input_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::native_conv::BACKWARD_INPUT,
            ins: &[Some(self), Some(weight), bias],
            args: &[
                Arg::Ints(input_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(dilation),
                Arg::Int(groups),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn conv_backward_weight(
        &self,
        input: &Tensor,
        weight_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::native_conv::BACKWARD_WEIGHT,
            ins: &[Some(self), Some(input)],
            args: &[
                Arg::Ints(weight_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(dilation),
                Arg::Int(groups),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn conv_prepare_weight(&self, at_points: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::conv_prepare_weight::OP,
            ins: &[Some(self)],
            args: &[Arg::Bool(at_points)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn conv_transpose1d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        output_padding: &[i64],
        groups: i64,
        dilation: &[i64],
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::conv_transpose_nd::TRANSPOSE1D,
            ins: &[Some(self), Some(weight), bias],
            args: &[
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(output_padding),
                Arg::Int(groups),
                Arg::Ints(dilation),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn conv_transpose2d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        output_padding: &[i64],
        groups: i64,
        dilation: &[i64],
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::conv_transpose_nd::TRANSPOSE2D,
            ins: &[Some(self), Some(weight), bias],
            args: &[
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(output_padding),
                Arg::Int(groups),
                Arg::Ints(dilation),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn conv_transpose3d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        output_padding: &[i64],
        groups: i64,
        dilation: &[i64],
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::conv_transpose_nd::TRANSPOSE3D,
            ins: &[Some(self), Some(weight), bias],
            args: &[
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(output_padding),
                Arg::Int(groups),
                Arg::Ints(dilation),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn copy(&self, src: &Tensor, non_blocking: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::copy::OP,
            ins: &[Some(self), Some(src)],
            args: &[Arg::Bool(non_blocking)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn copy_(&self, src: &Tensor, non_blocking: bool) -> Result<()> {
        let call = Call {
            op: &crate::creation::copy::OP,
            ins: &[Some(self), Some(src)],
            args: &[Arg::Bool(non_blocking)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn copysign<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::copysign::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn corrcoef(&self) -> Result<Tensor> {
        let call = Call { op: &crate::reduce::corrcoef::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn cos(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::cos::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn cosh(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::trig::COSH, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn count_nonzero<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<Tensor> {
        let call =
            Call { op: &crate::reduce::count_nonzero::OP, ins: &[Some(self)], args: &[ints(dim)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn cov(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::cov::OP,
            ins: &[Some(self), None, None],
            args: &[Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cross_entropy(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        ignore_index: i64,
        reduction: &str,
        label_smoothing: f64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::cross_entropy::OP,
            ins: &[Some(self), Some(target), weight],
            args: &[Arg::Int(ignore_index), sym(reduction), Arg::Float(label_smoothing)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cross_entropy_backward(
        &self,
        input: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        logsumexp: &Tensor,
        ignore_index: i64,
        label_smoothing: f64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::cross_entropy::BACKWARD,
            ins: &[Some(self), Some(input), Some(target), weight, Some(logsumexp)],
            args: &[Arg::Int(ignore_index), Arg::Float(label_smoothing)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn ctc_loss_backward(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
        loss: &Tensor,
        log_alpha: &Tensor,
        blank: i64,
        zero_infinity: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::ctc_loss::BACKWARD,
            ins: &[
                Some(self),
                Some(log_probs),
                Some(targets),
                Some(input_lengths),
                Some(target_lengths),
                Some(loss),
                Some(log_alpha),
            ],
            args: &[Arg::Int(blank), Arg::Bool(zero_infinity)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cummax(&self, dim: i64) -> Result<[Tensor; 2]> {
        let call =
            Call { op: &crate::reduce::cummax::OP, ins: &[Some(self)], args: &[Arg::Int(dim)], dest: Dest::Fresh };
        many(&call)
    }

    #[inline]
    fn cummin(&self, dim: i64) -> Result<[Tensor; 2]> {
        let call =
            Call { op: &crate::reduce::cummax::CUMMIN, ins: &[Some(self)], args: &[Arg::Int(dim)], dest: Dest::Fresh };
        many(&call)
    }

    #[inline]
    fn cumprod(&self, dim: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::cumprod::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cumprod_with(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::cumprod::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cumsum(&self, dim: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::cumsum::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cumsum_with(&self, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::cumsum::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cumsum_(&self, dim: i64) -> Result<()> {
        let call = Call {
            op: &crate::reduce::cumsum::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::None],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn cumulative_extreme(&self, dim: i64, largest: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::cummax::EXTREME,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Bool(largest)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn cumulative_trapezoid(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::trapezoid::CUMULATIVE,
            ins: &[Some(self)],
            args: &[Arg::Int(1), Arg::Int(-1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn deg2rad(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::deg2rad::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn det(&self) -> Result<Tensor> {
        let call = Call { op: &crate::linalg::slogdet::DET, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn diag(&self, diagonal: i64) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::diag::OP, ins: &[Some(self)], args: &[Arg::Int(diagonal)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn diag_embed(&self, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::diag_embed::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(offset), Arg::Int(dim1), Arg::Int(dim2)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn diagflat(&self, offset: i64) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::diagflat::OP, ins: &[Some(self)], args: &[Arg::Int(offset)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn diagonal(&self, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::diagonal::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(offset), Arg::Int(dim1), Arg::Int(dim2)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn diagonal_copy(&self, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::DIAGONAL,
            ins: &[Some(self)],
            args: &[Arg::Int(offset), Arg::Int(dim1), Arg::Int(dim2)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn diagonal_scatter(&self, src: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::diagonal::SCATTER,
            ins: &[Some(self), Some(src)],
            args: &[Arg::Int(offset), Arg::Int(dim1), Arg::Int(dim2)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn diff(&self, n: i64, dim: i64, prepend: Option<&Tensor>, append: Option<&Tensor>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::diff::OP,
            ins: &[Some(self), prepend, append],
            args: &[Arg::Int(n), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn digamma(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::digamma::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn dist(&self, other: &Tensor, p: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::dist::OP,
            ins: &[Some(self), Some(other)],
            args: &[Arg::from(p.into())],
            dest: Dest::Fresh,
        };
        one(&call)
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
    fn dot(&self, tensor: &Tensor) -> Result<Tensor> {
        let call = Call { op: &crate::matmul::dot::OP, ins: &[Some(self), Some(tensor)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn draw_in_order(&self, kind: i64, a: f64, b: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::draw::DRAW_IN_ORDER,
            ins: &[Some(self)],
            args: &[Arg::Int(kind), Arg::Float(a), Arg::Float(b), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn draw_in_order_with(&self, kind: i64, a: f64, b: f64, generator: Option<&Generator>) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::draw::DRAW_IN_ORDER,
            ins: &[Some(self)],
            args: &[Arg::Int(kind), Arg::Float(a), Arg::Float(b), rng(generator)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn dsplit(&self, sections: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call =
            Call { op: &crate::view::dsplit::OP, ins: &[Some(self)], args: &[Arg::Int(sections)], dest: Dest::Fresh };
        list(&call)
    }

    #[inline]
    fn dsplit_array(&self, indices: &[i64]) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::dsplit::DSPLIT_POINTS,
            ins: &[Some(self)],
            args: &[Arg::Ints(indices)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn elu(
        &self,
        alpha: impl Into<Scalar>,
        scale: impl Into<Scalar>,
        input_scale: impl Into<Scalar>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::elu::OP,
            ins: &[Some(self)],
            args: &[Arg::from(alpha.into()), Arg::from(scale.into()), Arg::from(input_scale.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn elu_backward(
        &self,
        input: &Tensor,
        alpha: impl Into<Scalar>,
        scale: impl Into<Scalar>,
        input_scale: impl Into<Scalar>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::elu::BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[Arg::from(alpha.into()), Arg::from(scale.into()), Arg::from(input_scale.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn embedding(
        &self,
        indices: &Tensor,
        padding_idx: i64,
        scale_grad_by_freq: bool,
        sparse: bool,
        start: i64,
        total: i64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::embedding::OP,
            ins: &[Some(self), Some(indices)],
            args: &[
                Arg::Int(padding_idx),
                Arg::Bool(scale_grad_by_freq),
                Arg::Bool(sparse),
                Arg::Int(start),
                Arg::Int(total),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn embedding_backward(
        &self,
        indices: &Tensor,
        num_rows: i64,
        padding_idx: i64,
        start: i64,
        total: i64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::embedding::BACKWARD,
            ins: &[Some(self), Some(indices)],
            args: &[Arg::Int(num_rows), Arg::Int(padding_idx), Arg::Int(start), Arg::Int(total)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn empty_like(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::empty::EMPTY_LIKE,
            ins: &[Some(self)],
            args: &[Arg::None, Arg::None, Arg::Bool(false), Arg::None],
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
    fn erf(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::erf::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn erfc(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::erfc::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn erfinv(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::erfinv::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn erfinv_(&self) -> Result<()> {
        let call =
            Call { op: &crate::elementwise::erfinv::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
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
    fn exp2(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::exp2::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
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
    fn expand_as(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::expand::EXPAND_AS, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn expand_copy(&self, size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::EXPAND,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn expm1(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::expm1::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn exponential(&self, lambd: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::exponential::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(lambd), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn exponential_(&self, lambd: f64) -> Result<()> {
        let call = Call {
            op: &crate::random::exponential::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(lambd), rng(None)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn exponential_with_(&self, lambd: f64, generator: Option<&Generator>) -> Result<()> {
        let call = Call {
            op: &crate::random::exponential::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(lambd), rng(generator)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn fft_c2c(&self, dim: &[i64], normalization: i64, forward: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::fft::transform::C2C,
            ins: &[Some(self)],
            args: &[Arg::Ints(dim), Arg::Int(normalization), Arg::Bool(forward)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn fft_c2r(&self, dim: &[i64], normalization: i64, last_dim_size: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::fft::transform::C2R,
            ins: &[Some(self)],
            args: &[Arg::Ints(dim), Arg::Int(normalization), Arg::Int(last_dim_size)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn fft_r2c(&self, dim: &[i64], normalization: i64, onesided: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::fft::transform::R2C,
            ins: &[Some(self)],
            args: &[Arg::Ints(dim), Arg::Int(normalization), Arg::Bool(onesided)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn fill<'a>(&self, value: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (value, value_scalar) = split(value);
        let call = Call {
            op: &crate::creation::fill::OP,
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
            op: &crate::creation::fill::OP,
            ins: &[Some(self), value],
            args: &[value_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn flatten(&self, start_dim: i64, end_dim: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::flatten::OP,
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
    fn fliplr(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::flip::FLIPLR, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn flipud(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::flip::FLIPUD, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn float_power<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (exponent, exponent_scalar) = split(exponent);
        let call = Call {
            op: &crate::elementwise::float_power::OP,
            ins: &[Some(self), exponent],
            args: &[exponent_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn float_power_<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<()> {
        let (exponent, exponent_scalar) = split(exponent);
        let call = Call {
            op: &crate::elementwise::float_power::OP,
            ins: &[Some(self), exponent],
            args: &[exponent_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
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
    fn floor_divide<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::floor_divide::OP,
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
            op: &crate::elementwise::floor_divide::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn fmax(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::fmax::OP, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn fmin(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::fmax::FMIN, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn fmod<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::fmod::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn frac(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::frac::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn frac_(&self) -> Result<()> {
        let call = Call { op: &crate::elementwise::frac::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn frexp(&self) -> Result<[Tensor; 2]> {
        let call = Call { op: &crate::elementwise::frexp::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        many(&call)
    }

    #[inline]
    fn frexp_exponent(&self) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::frexp::FREXP_EXPONENT, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn frexp_mantissa(&self) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::frexp::FREXP_MANTISSA, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
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
    fn fused_add_layer_norm(
        &self,
        residual: &Tensor,
        normalized_shape: &[i64],
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<[Tensor; 4]> {
        let call = Call {
            op: &crate::nn::layer_norm::FUSED_ADD,
            ins: &[Some(self), Some(residual), weight, bias],
            args: &[Arg::Ints(normalized_shape), Arg::Float(eps)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn fused_add_rms_norm(
        &self,
        residual: &Tensor,
        normalized_shape: &[i64],
        weight: Option<&Tensor>,
        eps: f64,
    ) -> Result<[Tensor; 3]> {
        let call = Call {
            op: &crate::nn::rms_norm::FUSED_ADD,
            ins: &[Some(self), Some(residual), weight],
            args: &[Arg::Ints(normalized_shape), Arg::Float(eps)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn fused_linear(&self, weight: &Tensor, bias: Option<&Tensor>, activation: &str) -> Result<Tensor> {
        let call = Call {
            op: &crate::matmul::linear::FUSED,
            ins: &[Some(self), Some(weight), bias],
            args: &[sym(activation)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn fused_linear_add(&self, weight: &Tensor, bias: Option<&Tensor>, residual: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::matmul::linear::FUSED_ADD,
            ins: &[Some(self), Some(weight), bias, Some(residual)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn fused_linear_keep(&self, weight: &Tensor, bias: Option<&Tensor>, activation: &str) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::matmul::linear::FUSED_KEEP,
            ins: &[Some(self), Some(weight), bias],
            args: &[sym(activation)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn fused_matmul_add(&self, other: &Tensor, residual: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::matmul::matmul::FUSED_ADD,
            ins: &[Some(self), Some(other), Some(residual)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn gamma_doubles(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::standard_gamma::GAMMA_DOUBLES,
            ins: &[Some(self)],
            args: &[rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn gamma_doubles_with(&self, generator: Option<&Generator>) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::standard_gamma::GAMMA_DOUBLES,
            ins: &[Some(self)],
            args: &[rng(generator)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn gather(&self, dim: i64, index: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::gather::OP,
            ins: &[Some(self), Some(index)],
            args: &[Arg::Int(dim), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn gcd(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::gcd::OP, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
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
    fn geometric(&self, p: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::geometric::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(p), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn geometric_(&self, p: f64) -> Result<()> {
        let call = Call {
            op: &crate::random::geometric::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(p), rng(None)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn geqrf(&self) -> Result<[Tensor; 2]> {
        let call = Call { op: &crate::linalg::qr::GEQRF_OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        many(&call)
    }

    #[inline]
    fn glu(&self, dim: i64) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::glu::OP, ins: &[Some(self)], args: &[Arg::Int(dim)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn grid_sample(&self, grid: &Tensor, mode: &str, padding_mode: &str, align_corners: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::resample::grid_sample::OP,
            ins: &[Some(self), Some(grid)],
            args: &[sym(mode), sym(padding_mode), Arg::Bool(align_corners)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn grid_sample_backward(
        &self,
        input: &Tensor,
        grid: &Tensor,
        mode: &str,
        padding_mode: &str,
        align_corners: bool,
        of_input: bool,
        of_grid: bool,
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::resample::grid_sample::BACKWARD,
            ins: &[Some(self), Some(input), Some(grid)],
            args: &[sym(mode), sym(padding_mode), Arg::Bool(align_corners), Arg::Bool(of_input), Arg::Bool(of_grid)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn group_norm(
        &self,
        num_groups: i64,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
        cudnn_enabled: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::group_norm::OP,
            ins: &[Some(self), weight, bias],
            args: &[Arg::Int(num_groups), Arg::Float(eps), Arg::Bool(cudnn_enabled)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn group_norm_backward(
        &self,
        input: &Tensor,
        mean: &Tensor,
        rstd: &Tensor,
        weight: Option<&Tensor>,
        num_groups: i64,
        affine: bool,
        eps: f64,
    ) -> Result<[Tensor; 3]> {
        let call = Call {
            op: &crate::nn::group_norm::BACKWARD,
            ins: &[Some(self), Some(input), Some(mean), Some(rstd), weight],
            args: &[Arg::Int(num_groups), Arg::Bool(affine), Arg::Float(eps)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn group_norm_with_statistics(
        &self,
        num_groups: i64,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<[Tensor; 3]> {
        let call = Call {
            op: &crate::nn::group_norm::NATIVE,
            ins: &[Some(self), weight, bias],
            args: &[Arg::Int(num_groups), Arg::Float(eps)],
            dest: Dest::Fresh,
        };
        many(&call)
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
    fn hardshrink(&self, lambd: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::shrink::HARDSHRINK,
            ins: &[Some(self)],
            args: &[Arg::from(lambd.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn hardsigmoid(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::hardsigmoid::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn hardsigmoid_backward(&self, input: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::hardsigmoid::HARDSIGMOID_BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn hardswish(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::hardswish::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn hardswish_backward(&self, input: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::hardswish::HARDSWISH_BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn hardtanh(&self, min_val: impl Into<Scalar>, max_val: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::hardtanh::OP,
            ins: &[Some(self)],
            args: &[Arg::from(min_val.into()), Arg::from(max_val.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn hardtanh_backward(
        &self,
        input: &Tensor,
        min_val: impl Into<Scalar>,
        max_val: impl Into<Scalar>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::hardtanh::HARDTANH_BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[Arg::from(min_val.into()), Arg::from(max_val.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn heaviside(&self, values: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::heaviside::OP,
            ins: &[Some(self), Some(values)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn histc(&self, bins: i64, min: impl Into<Scalar>, max: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::histc::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(bins), Arg::from(min.into()), Arg::from(max.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn hsplit(&self, sections: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call =
            Call { op: &crate::view::hsplit::OP, ins: &[Some(self)], args: &[Arg::Int(sections)], dest: Dest::Fresh };
        list(&call)
    }

    #[inline]
    fn hsplit_array(&self, indices: &[i64]) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::hsplit::HSPLIT_POINTS,
            ins: &[Some(self)],
            args: &[Arg::Ints(indices)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn huber_loss(&self, target: &Tensor, reduction: &str, delta: f64, weight: Option<&Tensor>) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::smooth_l1_loss::HUBER,
            ins: &[Some(self), Some(target), weight],
            args: &[sym(reduction), Arg::Float(delta)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn hypot(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::hypot::OP, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn i0(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::i0::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn imag(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::real::IMAG, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn index<'a>(&'a self, indices: impl IntoIterator<Item = Option<&'a Tensor>>) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        ins.push(Some(self));
        let n_indices = ins.len();
        ins.extend(indices);
        let n_indices = ins.len() - n_indices;
        let call =
            Call { op: &crate::index::index::OP, ins: &ins, args: &[Arg::Len(n_indices as u32)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn index_add(&self, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::index_add::OP,
            ins: &[Some(self), Some(index), Some(source)],
            args: &[Arg::Int(dim), Arg::Int(1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn index_add_with(&self, dim: i64, index: &Tensor, source: &Tensor, alpha: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::index_add::OP,
            ins: &[Some(self), Some(index), Some(source)],
            args: &[Arg::Int(dim), Arg::from(alpha.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn index_add_(&self, dim: i64, index: &Tensor, source: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::index::index_add::OP,
            ins: &[Some(self), Some(index), Some(source)],
            args: &[Arg::Int(dim), Arg::Int(1)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn index_add_with_(&self, dim: i64, index: &Tensor, source: &Tensor, alpha: impl Into<Scalar>) -> Result<()> {
        let call = Call {
            op: &crate::index::index_add::OP,
            ins: &[Some(self), Some(index), Some(source)],
            args: &[Arg::Int(dim), Arg::from(alpha.into())],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn index_copy(&self, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::index_copy::OP,
            ins: &[Some(self), Some(index), Some(source)],
            args: &[Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn index_copy_(&self, dim: i64, index: &Tensor, source: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::index::index_copy::OP,
            ins: &[Some(self), Some(index), Some(source)],
            args: &[Arg::Int(dim)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn index_fill<'a>(&self, dim: i64, index: &Tensor, value: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (value, value_scalar) = split(value);
        let call = Call {
            op: &crate::index::index_fill::OP,
            ins: &[Some(self), Some(index), value],
            args: &[Arg::Int(dim), value_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn index_fill_<'a>(&self, dim: i64, index: &Tensor, value: impl Into<Operand<'a>>) -> Result<()> {
        let (value, value_scalar) = split(value);
        let call = Call {
            op: &crate::index::index_fill::OP,
            ins: &[Some(self), Some(index), value],
            args: &[Arg::Int(dim), value_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn index_put<'a>(
        &'a self,
        indices: impl IntoIterator<Item = Option<&'a Tensor>>,
        values: &'a Tensor,
        accumulate: bool,
    ) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        ins.push(Some(self));
        let n_indices = ins.len();
        ins.extend(indices);
        let n_indices = ins.len() - n_indices;
        ins.push(Some(values));
        let call = Call {
            op: &crate::index::index_put::OP,
            ins: &ins,
            args: &[Arg::Len(n_indices as u32), Arg::Bool(accumulate)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn index_reduce(&self, dim: i64, index: &Tensor, source: &Tensor, reduce: &str) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::index_reduce::OP,
            ins: &[Some(self), Some(index), Some(source)],
            args: &[Arg::Int(dim), sym(reduce), Arg::Bool(true)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn index_reduce_(&self, dim: i64, index: &Tensor, source: &Tensor, reduce: &str) -> Result<()> {
        let call = Call {
            op: &crate::index::index_reduce::OP,
            ins: &[Some(self), Some(index), Some(source)],
            args: &[Arg::Int(dim), sym(reduce), Arg::Bool(true)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn index_select(&self, dim: i64, index: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::index_select::OP,
            ins: &[Some(self), Some(index)],
            args: &[Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn inner(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::matmul::inner::OP, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn is_member(&self, others: &Tensor, invert: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::isin::IS_MEMBER,
            ins: &[Some(self), Some(others)],
            args: &[Arg::Bool(invert)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn isclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::isclose::OP,
            ins: &[Some(self), Some(other)],
            args: &[Arg::Float(rtol), Arg::Float(atol), Arg::Bool(equal_nan)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn isfinite(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::isfinite::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn isin(&self, test_elements: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::isin::OP,
            ins: &[Some(self), Some(test_elements)],
            args: &[Arg::Bool(false), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn isin_number(&self, test_element: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::isin::ISIN_NUMBER,
            ins: &[Some(self)],
            args: &[Arg::from(test_element.into()), Arg::Bool(false), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
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
    fn isneginf(&self) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::isposinf::ISNEGINF, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn isposinf(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::isposinf::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn isreal(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::isreal::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn kron(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call { op: &crate::matmul::kron::OP, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn kthvalue(&self, k: i64, dim: i64, keepdim: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::kthvalue::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(k), Arg::Int(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn l1_loss(&self, target: &Tensor, reduction: &str, weight: Option<&Tensor>) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::l1_loss::OP,
            ins: &[Some(self), Some(target), weight],
            args: &[sym(reduction)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn layer_norm(
        &self,
        normalized_shape: &[i64],
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
        cudnn_enable: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::layer_norm::OP,
            ins: &[Some(self), weight, bias],
            args: &[Arg::Ints(normalized_shape), Arg::Float(eps), Arg::Bool(cudnn_enable)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn layer_norm_backward(
        &self,
        input: &Tensor,
        mean: &Tensor,
        rstd: &Tensor,
        weight: Option<&Tensor>,
        residual: Option<&Tensor>,
        normalized_shape: &[i64],
        affine: bool,
        eps: f64,
    ) -> Result<[Tensor; 3]> {
        let call = Call {
            op: &crate::nn::layer_norm::BACKWARD,
            ins: &[Some(self), Some(input), Some(mean), Some(rstd), weight, residual],
            args: &[Arg::Ints(normalized_shape), Arg::Bool(affine), Arg::Float(eps)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn lcm(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::gcd::LCM, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn ldexp(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::ldexp::OP, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
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
    fn leaky_relu(&self, negative_slope: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::leaky_relu::OP,
            ins: &[Some(self)],
            args: &[Arg::from(negative_slope.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn leaky_relu_backward(&self, input: &Tensor, negative_slope: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::leaky_relu::BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[Arg::from(negative_slope.into())],
            dest: Dest::Fresh,
        };
        one(&call)
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
    fn lgamma(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::lgamma::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn linalg_cholesky_ex(&self) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::linalg::cholesky::EX,
            ins: &[Some(self)],
            args: &[Arg::Bool(false), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn linalg_cross(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::matmul::cross::OP,
            ins: &[Some(self), Some(other)],
            args: &[Arg::Int(-1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn linalg_eig(&self, compute_v: bool) -> Result<[Tensor; 2]> {
        let call =
            Call { op: &crate::linalg::eig::OP, ins: &[Some(self)], args: &[Arg::Bool(compute_v)], dest: Dest::Fresh };
        many(&call)
    }

    #[inline]
    fn linalg_eigh(&self, UPLO: &str, compute_v: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::linalg::eigh::OP,
            ins: &[Some(self)],
            args: &[sym(UPLO), Arg::Bool(compute_v)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn linalg_householder_product(&self, tau: &Tensor, columns: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::linalg::qr::PRODUCT,
            ins: &[Some(self), Some(tau)],
            args: &[Arg::Int(columns)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn linalg_inv_ex(&self) -> Result<[Tensor; 2]> {
        let call = Call { op: &crate::linalg::inv::INV, ins: &[Some(self)], args: &[Arg::Int(0)], dest: Dest::Fresh };
        many(&call)
    }

    #[inline]
    fn linalg_lu_factor_ex(&self) -> Result<[Tensor; 3]> {
        let call = Call {
            op: &crate::linalg::lu::EX,
            ins: &[Some(self)],
            args: &[Arg::Bool(true), Arg::Int(0)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn linalg_lu_factor_ex_with(&self, pivot: bool, check: i64) -> Result<[Tensor; 3]> {
        let call = Call {
            op: &crate::linalg::lu::EX,
            ins: &[Some(self)],
            args: &[Arg::Bool(pivot), Arg::Int(check)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn linalg_lu_permutation(&self, rows: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::linalg::lu::PERMUTATION,
            ins: &[Some(self)],
            args: &[Arg::Int(rows)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn linalg_pinv_of(&self, inverse: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::linalg::pinv::OF, ins: &[Some(self), Some(inverse)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn linalg_qr(&self, mode: &str) -> Result<[Tensor; 2]> {
        let call = Call { op: &crate::linalg::qr::OP, ins: &[Some(self)], args: &[sym(mode)], dest: Dest::Fresh };
        many(&call)
    }

    #[inline]
    fn linalg_solve_ex(&self, B: &Tensor) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::linalg::solve::SOLVE,
            ins: &[Some(self), Some(B)],
            args: &[Arg::Bool(true), Arg::Int(0)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn linalg_solve_ex_with(&self, B: &Tensor, left: bool, check: i64) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::linalg::solve::SOLVE,
            ins: &[Some(self), Some(B)],
            args: &[Arg::Bool(left), Arg::Int(check)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn linalg_solve_triangular(&self, B: &Tensor, upper: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::linalg::solve_triangular::OP,
            ins: &[Some(self), Some(B)],
            args: &[Arg::Bool(upper), Arg::Bool(true), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn linalg_solve_triangular_with(&self, B: &Tensor, upper: bool, left: bool, unitriangular: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::linalg::solve_triangular::OP,
            ins: &[Some(self), Some(B)],
            args: &[Arg::Bool(upper), Arg::Bool(left), Arg::Bool(unitriangular)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn linalg_svd(&self, full_matrices: bool, compute_uv: bool) -> Result<[Tensor; 3]> {
        let call = Call {
            op: &crate::linalg::svd::OP,
            ins: &[Some(self)],
            args: &[Arg::Bool(full_matrices), Arg::Bool(compute_uv)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn linalg_vector_norm<'a>(
        &self,
        ord: impl Into<Scalar>,
        dim: impl Into<OptInts<'a>>,
        keepdim: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::linalg::vector_norm::OP,
            ins: &[Some(self)],
            args: &[Arg::from(ord.into()), ints(dim), Arg::Bool(keepdim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let call = Call {
            op: &crate::matmul::linear::OP,
            ins: &[Some(self), Some(weight), bias],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn linear_backward_parameters(&self, input: &Tensor) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::matmul::linear_backward_parameters::OP,
            ins: &[Some(self), Some(input)],
            args: &[],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn linear_backward_weight(&self, input: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        let call = Call {
            op: &crate::matmul::linear_backward_weight::OP,
            ins: &[Some(self), Some(input), residual],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
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
    fn log10(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::log10::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn log1p(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::log1p::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn log2(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::log2::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn log_normal(&self, mean: f64, std: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::log_normal::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(mean), Arg::Float(std), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn log_normal_(&self, mean: f64, std: f64) -> Result<()> {
        let call = Call {
            op: &crate::random::log_normal::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(mean), Arg::Float(std), rng(None)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn log_sigmoid(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::log_sigmoid::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
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
    fn logaddexp(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::logaddexp::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn logaddexp2(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::logaddexp::LOGADDEXP2,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn logcumsumexp(&self, dim: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::logcumsumexp::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn logdet(&self) -> Result<Tensor> {
        let call = Call { op: &crate::linalg::slogdet::LOGDET, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
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
    fn logit(&self, eps: Option<f64>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::logit::OP,
            ins: &[Some(self)],
            args: &[eps.map_or(Arg::None, Arg::Float)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn logit_backward(&self, input: &Tensor, eps: Option<f64>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::logit::LOGIT_BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[eps.map_or(Arg::None, Arg::Float)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn logsumexp(&self, dim: &[i64], keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::logsumexp::OP,
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
    fn masked_fill<'a>(&self, mask: &Tensor, value: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (value, value_scalar) = split(value);
        let call = Call {
            op: &crate::elementwise::masked_fill::OP,
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
            op: &crate::elementwise::masked_fill::OP,
            ins: &[Some(self), Some(mask), value],
            args: &[value_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::masked_scatter::OP,
            ins: &[Some(self), Some(mask), Some(source)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn masked_scatter_(&self, mask: &Tensor, source: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::index::masked_scatter::OP,
            ins: &[Some(self), Some(mask), Some(source)],
            args: &[],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::index::masked_select::OP, ins: &[Some(self), Some(mask)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::matmul::matmul::OP, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn matrix_exp(&self) -> Result<Tensor> {
        let call = Call { op: &crate::linalg::matrix_exp::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn max(&self) -> Result<Tensor> {
        let call = Call { op: &crate::reduce::max::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn max_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::max::MAX_DIM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn max_other(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::reduce::max::MAX_OTHER, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn max_pool1d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pooling::MAX1D,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(dilation),
                Arg::Bool(ceil_mode),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn max_pool1d_with_indices(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::conv::pooling::INDICES1D,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(dilation),
                Arg::Bool(ceil_mode),
            ],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn max_pool2d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pooling::MAX2D,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(dilation),
                Arg::Bool(ceil_mode),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn max_pool2d_with_indices(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::conv::pooling::INDICES2D,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(dilation),
                Arg::Bool(ceil_mode),
            ],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn max_pool3d(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pooling::MAX3D,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(dilation),
                Arg::Bool(ceil_mode),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn max_pool3d_with_indices(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        ceil_mode: bool,
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::conv::pooling::INDICES3D,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(dilation),
                Arg::Bool(ceil_mode),
            ],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn max_pool_backward(&self, indices: &Tensor, input_size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pool::MAX_BACKWARD,
            ins: &[Some(self), Some(indices)],
            args: &[Arg::Ints(input_size)],
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
    fn median(&self) -> Result<Tensor> {
        let call = Call { op: &crate::reduce::median::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn median_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::median::MEDIAN_DIM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn min(&self) -> Result<Tensor> {
        let call = Call { op: &crate::reduce::max::MIN, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn min_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::max::MIN_DIM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn min_other(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::reduce::max::MIN_OTHER, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
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
    fn mish(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::mish::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn mish_backward(&self, input: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::mish::MISH_BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn mm(&self, mat2: &Tensor) -> Result<Tensor> {
        let call = Call { op: &crate::matmul::mm::OP, ins: &[Some(self), Some(mat2)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn mode(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::mode::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn moveaxis(&self, source: &[i64], destination: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::movedim::MOVEAXIS,
            ins: &[Some(self)],
            args: &[Arg::Ints(source), Arg::Ints(destination)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn movedim(&self, source: &[i64], destination: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::movedim::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(source), Arg::Ints(destination)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn mse_loss(&self, target: &Tensor, reduction: &str, weight: Option<&Tensor>) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::mse_loss::OP,
            ins: &[Some(self), Some(target), weight],
            args: &[sym(reduction)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn msort(&self) -> Result<Tensor> {
        let call = Call { op: &crate::reduce::msort::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
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
    fn multinomial(&self, num_samples: i64, replacement: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::multinomial::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(num_samples), Arg::Bool(replacement), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn mv(&self, vec: &Tensor) -> Result<Tensor> {
        let call = Call { op: &crate::matmul::mv::OP, ins: &[Some(self), Some(vec)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn mvlgamma(&self, p: i64) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::mvlgamma::OP, ins: &[Some(self)], args: &[Arg::Int(p)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn nan_to_num(&self, nan: Option<f64>, posinf: Option<f64>, neginf: Option<f64>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::nan_to_num::OP,
            ins: &[Some(self)],
            args: &[
                nan.map_or(Arg::None, Arg::Float),
                posinf.map_or(Arg::None, Arg::Float),
                neginf.map_or(Arg::None, Arg::Float),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn nanmean<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::nanmean::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn nanmedian(&self) -> Result<Tensor> {
        let call = Call { op: &crate::reduce::median::NANMEDIAN, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn nanmedian_dim(&self, dim: i64, keepdim: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::median::NANMEDIAN_DIM,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn nanquantile(&self, q: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::quantile::NANQUANTILE,
            ins: &[Some(self), Some(q)],
            args: &[dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim), sym("linear")],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn nanquantile_scalar(&self, q: f64, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::quantile::NANQUANTILE_NUMBER,
            ins: &[Some(self)],
            args: &[Arg::Float(q), dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim), sym("linear")],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn nansum<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::nansum::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn narrow(&self, dim: i64, start: i64, length: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::narrow::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Int(start), Arg::Int(length)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn narrow_tensor(&self, dim: i64, start: &Tensor, length: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::narrow::NARROW_FROM,
            ins: &[Some(self), Some(start)],
            args: &[Arg::Int(dim), Arg::Int(length)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn narrow_copy(&self, dim: i64, start: i64, length: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::NARROW,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Int(start), Arg::Int(length)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn native_attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        attn_mask: Option<&Tensor>,
        dropout_p: f64,
        is_causal: bool,
        scale: f64,
        library: i64,
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::attention::native_attention::NATIVE,
            ins: &[Some(self), Some(key), Some(value), attn_mask],
            args: &[Arg::Float(dropout_p), Arg::Bool(is_causal), Arg::Float(scale), Arg::Int(library), rng(None)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn native_attention_backward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        attn_mask: Option<&Tensor>,
        output: &Tensor,
        logsumexp: &Tensor,
        dropout_p: f64,
        is_causal: bool,
        scale: f64,
        needs_mask: bool,
        library: i64,
    ) -> Result<[Tensor; 4]> {
        let call = Call {
            op: &crate::attention::native_attention::BACKWARD,
            ins: &[Some(self), Some(query), Some(key), Some(value), attn_mask, Some(output), Some(logsumexp)],
            args: &[
                Arg::Float(dropout_p),
                Arg::Bool(is_causal),
                Arg::Float(scale),
                Arg::Bool(needs_mask),
                Arg::Int(library),
                rng(None),
            ],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn native_avg_pool(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        count_include_pad: bool,
        divisor: i64,
        output_size: &[i64],
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::pool::AVG,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Bool(count_include_pad),
                Arg::Int(divisor),
                Arg::Ints(output_size),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn native_conv(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::native_conv::OP,
            ins: &[Some(self), Some(weight), bias],
            args: &[Arg::Ints(stride), Arg::Ints(padding), Arg::Ints(dilation), Arg::Int(groups)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn native_conv_activation(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
        activation: &str,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::native_conv_activation::OP,
            ins: &[Some(self), Some(weight), bias],
            args: &[Arg::Ints(stride), Arg::Ints(padding), Arg::Ints(dilation), Arg::Int(groups), sym(activation)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn native_conv_prepared(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: i64,
        activation: &str,
        weight_size: &[i64],
        at_points: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::conv::native_conv_prepared::OP,
            ins: &[Some(self), Some(weight), bias],
            args: &[
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(dilation),
                Arg::Int(groups),
                sym(activation),
                Arg::Ints(weight_size),
                Arg::Bool(at_points),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn native_cross_entropy(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        ignore_index: i64,
        label_smoothing: f64,
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::nn::cross_entropy::OP,
            ins: &[Some(self), Some(target), weight],
            args: &[Arg::Int(ignore_index), Arg::Float(label_smoothing)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn native_cross_entropy_reduced(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        ignore_index: i64,
        label_smoothing: f64,
        mean: bool,
    ) -> Result<[Tensor; 3]> {
        let call = Call {
            op: &crate::nn::cross_entropy::REDUCED,
            ins: &[Some(self), Some(target), weight],
            args: &[Arg::Int(ignore_index), Arg::Float(label_smoothing), Arg::Bool(mean)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn native_ctc_loss(
        &self,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
        max_target_length: i64,
        blank: i64,
        zero_infinity: bool,
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::nn::loss::ctc_loss::NATIVE,
            ins: &[Some(self), Some(targets), Some(input_lengths), Some(target_lengths)],
            args: &[Arg::Int(max_target_length), Arg::Int(blank), Arg::Bool(zero_infinity)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn native_dropout(&self, p: f64) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::random::dropout::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(p), rng(None)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn native_embedding_bag(
        &self,
        indices: &Tensor,
        offsets: Option<&Tensor>,
        per_sample_weights: Option<&Tensor>,
        mode: &str,
        scale_grad_by_freq: bool,
        sparse: bool,
        include_last_offset: bool,
        padding_idx: i64,
        start: i64,
        total: i64,
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::nn::embedding_bag::OP,
            ins: &[Some(self), Some(indices), offsets, per_sample_weights],
            args: &[
                sym(mode),
                Arg::Bool(scale_grad_by_freq),
                Arg::Bool(sparse),
                Arg::Bool(include_last_offset),
                Arg::Int(padding_idx),
                Arg::Int(start),
                Arg::Int(total),
            ],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn native_layer_norm(
        &self,
        normalized_shape: &[i64],
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
        eps: f64,
    ) -> Result<[Tensor; 3]> {
        let call = Call {
            op: &crate::nn::layer_norm::NATIVE,
            ins: &[Some(self), weight, bias],
            args: &[Arg::Ints(normalized_shape), Arg::Float(eps)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn native_max_pool(
        &self,
        kernel_size: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        output_size: &[i64],
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::conv::pool::MAX,
            ins: &[Some(self)],
            args: &[
                Arg::Ints(kernel_size),
                Arg::Ints(stride),
                Arg::Ints(padding),
                Arg::Ints(dilation),
                Arg::Ints(output_size),
            ],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn native_rms_norm(&self, normalized_shape: &[i64], weight: Option<&Tensor>, eps: f64) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::nn::rms_norm::NATIVE,
            ins: &[Some(self), weight],
            args: &[Arg::Ints(normalized_shape), Arg::Float(eps)],
            dest: Dest::Fresh,
        };
        many(&call)
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
    fn new_empty(&self, size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::new::NEW_EMPTY,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn new_empty_strided(&self, size: &[i64], stride: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::new_empty_strided::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), Arg::Ints(stride), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn new_full(&self, size: &[i64], fill_value: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::new::NEW_FULL,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), Arg::from(fill_value.into()), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn new_full_with(
        &self,
        size: &[i64],
        fill_value: impl Into<Scalar>,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::new::NEW_FULL,
            ins: &[Some(self)],
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

    #[inline]
    fn new_ones(&self, size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::new::NEW_ONES,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn new_ones_with(
        &self,
        size: &[i64],
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::new::NEW_ONES,
            ins: &[Some(self)],
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

    #[inline]
    fn new_zeros(&self, size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::new::NEW_ZEROS,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn new_zeros_with(
        &self,
        size: &[i64],
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::new::NEW_ZEROS,
            ins: &[Some(self)],
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

    #[inline]
    fn nextafter(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::nextafter::OP,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn nll_loss(&self, target: &Tensor, weight: Option<&Tensor>, ignore_index: i64, reduction: &str) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::nll_loss::OP,
            ins: &[Some(self), Some(target), weight],
            args: &[Arg::Int(ignore_index), sym(reduction)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn nonzero(&self) -> Result<Tensor> {
        let call = Call { op: &crate::index::nonzero::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn nonzero_static(&self, size: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::nonzero_static::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(size), Arg::Int(-1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn nonzero_tuple(&self) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call { op: &crate::index::nonzero::TUPLE, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        list(&call)
    }

    #[inline]
    fn normal(&self, mean: f64, std: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::normal::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(mean), Arg::Float(std), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn normal_(&self, mean: f64, std: f64) -> Result<()> {
        let call = Call {
            op: &crate::random::normal::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(mean), Arg::Float(std), rng(None)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn normal_with_(&self, mean: f64, std: f64, generator: Option<&Generator>) -> Result<()> {
        let call = Call {
            op: &crate::random::normal::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(mean), Arg::Float(std), rng(generator)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn ones_like(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::ones::ONES_LIKE,
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
            op: &crate::creation::ones::ONES_LIKE,
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
    fn outer(&self, vec2: &Tensor) -> Result<Tensor> {
        let call = Call { op: &crate::matmul::outer::OP, ins: &[Some(self), Some(vec2)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn pad_nd(&self, widths: &[i64], mode: &str, value: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::pad::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(widths), sym(mode), Arg::from(value.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn pad_nd_backward(&self, sizes: &[i64], widths: &[i64], mode: &str) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::pad::BACKWARD,
            ins: &[Some(self)],
            args: &[Arg::Ints(sizes), Arg::Ints(widths), sym(mode)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn pair_distances(&self, x2: &Tensor, p: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::linalg::pair_distances::OP,
            ins: &[Some(self), Some(x2)],
            args: &[Arg::Float(p)],
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
    fn permute_copy(&self, dims: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::PERMUTE,
            ins: &[Some(self)],
            args: &[Arg::Ints(dims)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn poisson(&self, generator: Option<&Generator>) -> Result<Tensor> {
        let call =
            Call { op: &crate::random::poisson::OP, ins: &[Some(self)], args: &[rng(generator)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn poisson_doubles(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::poisson::POISSON_DOUBLES,
            ins: &[Some(self)],
            args: &[rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn poisson_doubles_with(&self, generator: Option<&Generator>) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::poisson::POISSON_DOUBLES,
            ins: &[Some(self)],
            args: &[rng(generator)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn polar(&self, angle: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::polar::OP, ins: &[Some(self), Some(angle)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn positive(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::positive::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
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
    fn prelu(&self, weight: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::prelu::OP, ins: &[Some(self), Some(weight)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn prelu_kernel(&self, weight: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::prelu::PRELU_KERNEL,
            ins: &[Some(self), Some(weight)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn prod(&self, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::prod::OP,
            ins: &[Some(self)],
            args: &[dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn prod_with(&self, dim: Option<i64>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::prod::OP,
            ins: &[Some(self)],
            args: &[dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim), dtype.map_or(Arg::None, Arg::DType)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn put(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::put::OP,
            ins: &[Some(self), Some(index), Some(source)],
            args: &[Arg::Bool(accumulate)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn put_(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<()> {
        let call = Call {
            op: &crate::index::put::OP,
            ins: &[Some(self), Some(index), Some(source)],
            args: &[Arg::Bool(accumulate)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn quantile(&self, q: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::quantile::OP,
            ins: &[Some(self), Some(q)],
            args: &[dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim), sym("linear")],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn quantile_scalar(&self, q: f64, dim: Option<i64>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::quantile::QUANTILE_NUMBER,
            ins: &[Some(self)],
            args: &[Arg::Float(q), dim.map_or(Arg::None, Arg::Int), Arg::Bool(keepdim), sym("linear")],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn rad2deg(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::deg2rad::RAD2DEG, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn rand_like(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::rand::RAND_LIKE,
            ins: &[Some(self)],
            args: &[rng(None), Arg::None, Arg::None, Arg::Bool(false), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn rand_like_with(
        &self,
        generator: Option<&Generator>,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::rand::RAND_LIKE,
            ins: &[Some(self)],
            args: &[
                rng(generator),
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
    fn randint_like(&self, high: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::randint::RANDINT_LIKE_HIGH,
            ins: &[Some(self)],
            args: &[Arg::Int(high), rng(None), Arg::None, Arg::None, Arg::Bool(false), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn randint_like_low(&self, low: i64, high: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::randint::RANDINT_LIKE,
            ins: &[Some(self)],
            args: &[Arg::Int(low), Arg::Int(high), rng(None), Arg::None, Arg::None, Arg::Bool(false), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn randn_like(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::randn::RANDN_LIKE,
            ins: &[Some(self)],
            args: &[rng(None), Arg::None, Arg::None, Arg::Bool(false), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn randn_like_with(
        &self,
        generator: Option<&Generator>,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
        memory_format: Option<&str>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::randn::RANDN_LIKE,
            ins: &[Some(self)],
            args: &[
                rng(generator),
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
    fn random(&self) -> Result<Tensor> {
        let call = Call { op: &crate::random::random::OP, ins: &[Some(self)], args: &[rng(None)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn random_(&self) -> Result<()> {
        let call =
            Call { op: &crate::random::random::OP, ins: &[Some(self)], args: &[rng(None)], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn random_from(&self, from: i64, to: Option<i64>) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::random::RANDOM_FROM,
            ins: &[Some(self)],
            args: &[Arg::Int(from), to.map_or(Arg::None, Arg::Int), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn random_to(&self, to: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::random::RANDOM_TO,
            ins: &[Some(self)],
            args: &[Arg::Int(to), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn ravel(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::ravel::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn real(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::real::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn reciprocal(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::reciprocal::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
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
            op: &crate::elementwise::remainder::OP,
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
            op: &crate::elementwise::remainder::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn repeat(&self, repeats: &[i64]) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::repeat::OP, ins: &[Some(self)], args: &[Arg::Ints(repeats)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn repeat_interleave_Tensor(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::repeat_interleave::REPEATS,
            ins: &[Some(self)],
            args: &[Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn repeat_interleave_self_int(&self, repeats: i64, dim: Option<i64>) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::repeat_interleave::INTERLEAVE_BY,
            ins: &[Some(self)],
            args: &[Arg::Int(repeats), dim.map_or(Arg::None, Arg::Int), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn resample(
        &self,
        size: &[i64],
        mode: &str,
        align_corners: bool,
        antialias: bool,
        scales: &[f64],
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::resample::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), sym(mode), Arg::Bool(align_corners), Arg::Bool(antialias), Arg::Floats(scales)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn resample_backward(
        &self,
        size: &[i64],
        mode: &str,
        align_corners: bool,
        antialias: bool,
        scales: &[f64],
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::resample::BACKWARD,
            ins: &[Some(self)],
            args: &[Arg::Ints(size), sym(mode), Arg::Bool(align_corners), Arg::Bool(antialias), Arg::Floats(scales)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn reshape(&self, shape: &[i64]) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::reshape::OP, ins: &[Some(self)], args: &[Arg::Ints(shape)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn reshape_as(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::reshape::RESHAPE_AS,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn rms_norm_backward(
        &self,
        input: &Tensor,
        rstd: &Tensor,
        weight: Option<&Tensor>,
        residual: Option<&Tensor>,
        normalized_shape: &[i64],
        affine: bool,
        eps: f64,
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::nn::rms_norm::BACKWARD,
            ins: &[Some(self), Some(input), Some(rstd), weight, residual],
            args: &[Arg::Ints(normalized_shape), Arg::Bool(affine), Arg::Float(eps)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn rnn_layer(
        &self,
        h_0: &Tensor,
        c_0: Option<&Tensor>,
        w_hh: &Tensor,
        b_hh: Option<&Tensor>,
        w_hr: Option<&Tensor>,
        batch_sizes: &[i64],
        mode: &str,
        reverse: bool,
    ) -> Result<[Tensor; 5]> {
        let call = Call {
            op: &crate::rnn::rnn_layer::OP,
            ins: &[Some(self), Some(h_0), c_0, Some(w_hh), b_hh, w_hr],
            args: &[Arg::Ints(batch_sizes), sym(mode), Arg::Bool(reverse)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn rnn_stack(
        &self,
        h_0: &Tensor,
        c_0: Option<&Tensor>,
        weights: &Tensor,
        batch_sizes: &[i64],
        mode: &str,
        hidden: i64,
        num_layers: i64,
        bias: bool,
        bidirectional: bool,
        batch_first: bool,
        allow_tf32: bool,
        reserve: i64,
    ) -> Result<[Tensor; 4]> {
        let call = Call {
            op: &crate::rnn::rnn_stack::OP,
            ins: &[Some(self), Some(h_0), c_0, Some(weights)],
            args: &[
                Arg::Ints(batch_sizes),
                sym(mode),
                Arg::Int(hidden),
                Arg::Int(num_layers),
                Arg::Bool(bias),
                Arg::Bool(bidirectional),
                Arg::Bool(batch_first),
                Arg::Bool(allow_tf32),
                Arg::Int(reserve),
            ],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn roll(&self, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::roll::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(shifts), Arg::Ints(dims)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn rot90(&self, k: i64, dims: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::rot90::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(k), Arg::Ints(dims)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn round(&self) -> Result<Tensor> {
        let call =
            Call { op: &crate::elementwise::round::OP, ins: &[Some(self)], args: &[Arg::Int(0)], dest: Dest::Fresh };
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
    fn rsub<'a>(&self, other: impl Into<Operand<'a>>, alpha: impl Into<Scalar>) -> Result<Tensor> {
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
    fn scaled_dot_product_attention(
        &self,
        key: &Tensor,
        value: &Tensor,
        attn_mask: Option<&Tensor>,
        dropout_p: f64,
        is_causal: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::attention::scaled_dot_product_attention::OP,
            ins: &[Some(self), Some(key), Some(value), attn_mask],
            args: &[Arg::Float(dropout_p), Arg::Bool(is_causal), Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn scatter_reduce(&self, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::scatter::SCATTER_REDUCE,
            ins: &[Some(self), Some(index), Some(src)],
            args: &[Arg::Int(dim), sym(reduce)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn scatter_reduce_(&self, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<()> {
        let call = Call {
            op: &crate::index::scatter::SCATTER_REDUCE,
            ins: &[Some(self), Some(index), Some(src)],
            args: &[Arg::Int(dim), sym(reduce)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn scatter_src(&self, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::scatter::SCATTER_OP,
            ins: &[Some(self), Some(index), Some(src)],
            args: &[Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn scatter_value(&self, dim: i64, index: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::scatter::SCATTER_VALUE,
            ins: &[Some(self), Some(index)],
            args: &[Arg::Int(dim), Arg::from(value.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn scatter_value_reduce(&self, dim: i64, index: &Tensor, value: impl Into<Scalar>, reduce: &str) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::scatter::SCATTER_VALUE_REDUCE,
            ins: &[Some(self), Some(index)],
            args: &[Arg::Int(dim), Arg::from(value.into()), sym(reduce)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn scatter_add(&self, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::scatter::SCATTER_ADD,
            ins: &[Some(self), Some(index), Some(src)],
            args: &[Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn scatter_add_(&self, dim: i64, index: &Tensor, src: &Tensor) -> Result<()> {
        let call = Call {
            op: &crate::index::scatter::SCATTER_ADD,
            ins: &[Some(self), Some(index), Some(src)],
            args: &[Arg::Int(dim)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn scatter_combine(&self, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::scatter_reduce::COMBINE,
            ins: &[Some(self), Some(index), Some(src)],
            args: &[Arg::Int(dim), sym(reduce)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn scatter_reduce_two(&self, dim: i64, index: &Tensor, src: &Tensor, reduce: &str) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::scatter_reduce::OP,
            ins: &[Some(self), Some(index), Some(src)],
            args: &[Arg::Int(dim), sym(reduce), Arg::Bool(true)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn scatter_reduce_two_with(
        &self,
        dim: i64,
        index: &Tensor,
        src: &Tensor,
        reduce: &str,
        include_self: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::scatter_reduce::OP,
            ins: &[Some(self), Some(index), Some(src)],
            args: &[Arg::Int(dim), sym(reduce), Arg::Bool(include_self)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn searchsorted(&self, input: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::searchsorted::OP,
            ins: &[Some(self), Some(input), None],
            args: &[Arg::Bool(false), Arg::Bool(false), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn searchsorted_with(
        &self,
        input: &Tensor,
        out_int32: bool,
        right: bool,
        side: Option<&str>,
        sorter: Option<&Tensor>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::searchsorted::OP,
            ins: &[Some(self), Some(input), sorter],
            args: &[Arg::Bool(out_int32), Arg::Bool(right), side.map_or(Arg::None, sym)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn searchsorted_scalar(&self, input: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::searchsorted::SORTED_NUMBER,
            ins: &[Some(self), None],
            args: &[Arg::from(input.into()), Arg::Bool(false), Arg::Bool(false), Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn select(&self, dim: i64, index: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::select::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Int(index)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn select_copy(&self, dim: i64, index: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::SELECT,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Int(index)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn select_scatter(&self, src: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::select_scatter::OP,
            ins: &[Some(self), Some(src)],
            args: &[Arg::Int(dim), Arg::Int(index)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn selu(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::elu::SELU, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn sgn(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::sgn::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn shrink_backward(&self, input: &Tensor, lambd: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::shrink::BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[Arg::from(lambd.into())],
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
    fn sign(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::sign::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn signbit(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::signbit::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn silu(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::silu::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
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
    fn sinc(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::sinc::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn sinh(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::trig::SINH, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
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
    fn slice_copy(&self, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::SLICE,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), start.map_or(Arg::None, Arg::Int), end.map_or(Arg::None, Arg::Int), Arg::Int(step)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn slice_scatter(&self, src: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::slice_scatter::OP,
            ins: &[Some(self), Some(src)],
            args: &[Arg::Int(dim), start.map_or(Arg::None, Arg::Int), end.map_or(Arg::None, Arg::Int), Arg::Int(step)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn slogdet(&self) -> Result<[Tensor; 2]> {
        let call = Call { op: &crate::linalg::slogdet::SLOGDET, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        many(&call)
    }

    #[inline]
    fn smooth_absolute_difference(&self, target: &Tensor, beta: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::smooth_l1_loss::SMOOTH,
            ins: &[Some(self), Some(target)],
            args: &[Arg::Float(beta)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn smooth_absolute_difference_backward(&self, input: &Tensor, target: &Tensor, beta: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::smooth_l1_loss::SMOOTH_BACKWARD,
            ins: &[Some(self), Some(input), Some(target)],
            args: &[Arg::Float(beta)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn smooth_l1_loss(&self, target: &Tensor, reduction: &str, beta: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::smooth_l1_loss::OP,
            ins: &[Some(self), Some(target)],
            args: &[sym(reduction), Arg::Float(beta)],
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
    fn softplus(&self, beta: impl Into<Scalar>, threshold: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::softplus::OP,
            ins: &[Some(self)],
            args: &[Arg::from(beta.into()), Arg::from(threshold.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn softplus_backward(
        &self,
        input: &Tensor,
        beta: impl Into<Scalar>,
        threshold: impl Into<Scalar>,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::softplus::BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[Arg::from(beta.into()), Arg::from(threshold.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn softshrink(&self, lambd: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::shrink::SOFTSHRINK,
            ins: &[Some(self)],
            args: &[Arg::from(lambd.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn sort(&self, dim: i64, descending: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::index::sort::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Bool(descending), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn sort_with(&self, dim: i64, descending: bool, stable: Option<bool>) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::index::sort::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Bool(descending), stable.map_or(Arg::None, Arg::Bool)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn special_entr(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::entr::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn special_erfcx(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::erfcx::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn special_i0e(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::i0::I0E, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn special_i1(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::i1::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn special_i1e(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::i1::I1E, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn special_log_ndtr(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::ndtr::LOG_NDTR, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn special_ndtr(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::ndtr::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn special_ndtri(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::ndtr::NDTRI, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn special_xlog1py<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::xlog1py::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn special_zeta<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::zeta::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
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
    fn split_with_sizes(&self, split_sizes: &[i64], dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::split_with_sizes::OP,
            ins: &[Some(self)],
            args: &[Arg::Ints(split_sizes), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn split_with_sizes_copy(&self, split_sizes: &[i64], dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::split_with_sizes::WITH_SIZES_COPY,
            ins: &[Some(self)],
            args: &[Arg::Ints(split_sizes), Arg::Int(dim)],
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
    fn square(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::square::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn square_deviations<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        keepdim: bool,
        divisor: f64,
        root: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::var::SQUARE_DEVIATIONS,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(keepdim), Arg::Float(divisor), Arg::Bool(root)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn squared_difference(&self, target: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::mse_loss::SQUARED,
            ins: &[Some(self), Some(target)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn squared_difference_backward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::nn::loss::mse_loss::SQUARED_BACKWARD,
            ins: &[Some(self), Some(input), Some(target)],
            args: &[],
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
    fn squeeze_copy(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::view_copies::SQUEEZE, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn squeeze_copy_dim(&self, dim: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::SQUEEZE_DIM,
            ins: &[Some(self)],
            args: &[Arg::Ints(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn std<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::var::STD,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn std_with<'a>(&self, dim: impl Into<OptInts<'a>>, correction: Option<Scalar>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::var::STD,
            ins: &[Some(self)],
            args: &[ints(dim), correction.map_or(Arg::None, Arg::from), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn std_dim<'a>(&self, dim: impl Into<OptInts<'a>>, unbiased: bool, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::var::STD_DIM,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(unbiased), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn std_unbiased(&self, unbiased: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::var::STD_UNBIASED,
            ins: &[Some(self)],
            args: &[Arg::Bool(unbiased)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn std_mean<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::var_mean::STD_MEAN,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn std_mean_with<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        correction: Option<Scalar>,
        keepdim: bool,
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::var_mean::STD_MEAN,
            ins: &[Some(self)],
            args: &[ints(dim), correction.map_or(Arg::None, Arg::from), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn std_mean_dim<'a>(&self, dim: impl Into<OptInts<'a>>, unbiased: bool, keepdim: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::var_mean::STD_MEAN_DIM,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(unbiased), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn std_mean_unbiased(&self, unbiased: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::var_mean::STD_MEAN_UNBIASED,
            ins: &[Some(self)],
            args: &[Arg::Bool(unbiased)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn straight(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::straight::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
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
    fn sum_to_size(&self, size: &[i64]) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::sum_to_size::OP, ins: &[Some(self)], args: &[Arg::Ints(size)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn swapaxes(&self, axis0: i64, axis1: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::swapaxes::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(axis0), Arg::Int(axis1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn swapdims(&self, dim0: i64, dim1: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::swapaxes::SWAPDIMS,
            ins: &[Some(self)],
            args: &[Arg::Int(dim0), Arg::Int(dim1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn t(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::t::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn t_copy(&self) -> Result<Tensor> {
        let call = Call { op: &crate::view::view_copies::T, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn take(&self, index: &Tensor) -> Result<Tensor> {
        let call = Call { op: &crate::index::take::OP, ins: &[Some(self), Some(index)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn take_out(&self, index: &Tensor, out: &Tensor) -> Result<()> {
        let call =
            Call { op: &crate::index::take::OP, ins: &[Some(self), Some(index)], args: &[], dest: Dest::Into(&[out]) };
        none(&call)
    }

    #[inline]
    fn take_along_dim(&self, indices: &Tensor, dim: Option<i64>) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::take_along_dim::OP,
            ins: &[Some(self), Some(indices)],
            args: &[dim.map_or(Arg::None, Arg::Int)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn tan(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::trig::TAN, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn tanh(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::tanh::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn tensor_split(&self, sections: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::tensor_split::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(sections), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn tensor_split_indices(&self, indices: &[i64], dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::tensor_split::TENSOR_SPLIT_POINTS,
            ins: &[Some(self)],
            args: &[Arg::Ints(indices), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn tensor_split_tensor(&self, tensor_indices_or_sections: &Tensor, dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::tensor_split::TENSOR_SPLIT_TENSOR,
            ins: &[Some(self), Some(tensor_indices_or_sections)],
            args: &[Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn threshold(&self, threshold: impl Into<Scalar>, value: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::threshold::OP,
            ins: &[Some(self)],
            args: &[Arg::from(threshold.into()), Arg::from(value.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn threshold_backward(&self, input: &Tensor, threshold: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::threshold::BACKWARD,
            ins: &[Some(self), Some(input)],
            args: &[Arg::from(threshold.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn tile(&self, dims: &[i64]) -> Result<Tensor> {
        let call = Call { op: &crate::view::tile::OP, ins: &[Some(self)], args: &[Arg::Ints(dims)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn to_copy(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::to_copy::OP,
            ins: &[Some(self)],
            args: &[Arg::None, Arg::None],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn to_copy_with(&self, dtype: Option<DType>, device: Option<Device>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::to_copy::OP,
            ins: &[Some(self)],
            args: &[dtype.map_or(Arg::None, Arg::DType), device.map_or(Arg::None, Arg::Device)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn topk(&self, k: i64, dim: i64, largest: bool, sorted: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::index::topk::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(k), Arg::Int(dim), Arg::Bool(largest), Arg::Bool(sorted)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn trace(&self) -> Result<Tensor> {
        let call = Call { op: &crate::reduce::trace::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
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
    fn transpose_copy(&self, dim0: i64, dim1: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::TRANSPOSE,
            ins: &[Some(self)],
            args: &[Arg::Int(dim0), Arg::Int(dim1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn trapezoid(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::trapezoid::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(1), Arg::Int(-1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn trapezoid_x(&self, x: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::trapezoid::TRAPEZOID_X,
            ins: &[Some(self), Some(x)],
            args: &[Arg::Int(-1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn trapz(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::trapezoid::TRAPZ,
            ins: &[Some(self)],
            args: &[Arg::Int(1), Arg::Int(-1)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn tril(&self, diagonal: i64) -> Result<Tensor> {
        let call =
            Call { op: &crate::index::tril::TRIL, ins: &[Some(self)], args: &[Arg::Int(diagonal)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn tril_(&self, diagonal: i64) -> Result<()> {
        let call = Call {
            op: &crate::index::tril::TRIL,
            ins: &[Some(self)],
            args: &[Arg::Int(diagonal)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn triu(&self, diagonal: i64) -> Result<Tensor> {
        let call =
            Call { op: &crate::index::tril::TRIU, ins: &[Some(self)], args: &[Arg::Int(diagonal)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn triu_(&self, diagonal: i64) -> Result<()> {
        let call = Call {
            op: &crate::index::tril::TRIU,
            ins: &[Some(self)],
            args: &[Arg::Int(diagonal)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn trunc(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::trunc::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn unbind(&self, dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call { op: &crate::view::unbind::OP, ins: &[Some(self)], args: &[Arg::Int(dim)], dest: Dest::Fresh };
        list(&call)
    }

    #[inline]
    fn unbind_copy(&self, dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::unbind::UNBIND_COPY,
            ins: &[Some(self)],
            args: &[Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn unflatten(&self, dim: i64, sizes: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::unflatten::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dim), Arg::Ints(sizes)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn unfold(&self, dimension: i64, size: i64, step: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::unfold::OP,
            ins: &[Some(self)],
            args: &[Arg::Int(dimension), Arg::Int(size), Arg::Int(step)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn unfold_backward(&self, input_sizes: &[i64], dim: i64, size: i64, step: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::unfold::BACKWARD,
            ins: &[Some(self)],
            args: &[Arg::Ints(input_sizes), Arg::Int(dim), Arg::Int(size), Arg::Int(step)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn unfold_copy(&self, dimension: i64, size: i64, step: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::UNFOLD,
            ins: &[Some(self)],
            args: &[Arg::Int(dimension), Arg::Int(size), Arg::Int(step)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn uniform(&self, from: f64, to: f64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::uniform::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(from), Arg::Float(to), rng(None)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn uniform_(&self, from: f64, to: f64) -> Result<()> {
        let call = Call {
            op: &crate::random::uniform::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(from), Arg::Float(to), rng(None)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn uniform_with_(&self, from: f64, to: f64, generator: Option<&Generator>) -> Result<()> {
        let call = Call {
            op: &crate::random::uniform::OP,
            ins: &[Some(self)],
            args: &[Arg::Float(from), Arg::Float(to), rng(generator)],
            dest: Dest::Into(&[self]),
        };
        none(&call)
    }

    #[inline]
    fn unsafe_chunk(&self, chunks: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::chunk::UNSAFE_CHUNK,
            ins: &[Some(self)],
            args: &[Arg::Int(chunks), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn unsafe_split(&self, split_size: i64, dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::split::UNSAFE_SPLIT,
            ins: &[Some(self)],
            args: &[Arg::Int(split_size), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn unsafe_split_with_sizes(&self, split_sizes: &[i64], dim: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::split_with_sizes::UNSAFE_SPLIT_WITH_SIZES,
            ins: &[Some(self)],
            args: &[Arg::Ints(split_sizes), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    #[inline]
    fn unsqueeze(&self, dim: i64) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::unsqueeze::OP, ins: &[Some(self)], args: &[Arg::Int(dim)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn unsqueeze_copy(&self, dim: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::UNSQUEEZE,
            ins: &[Some(self)],
            args: &[Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn vander(&self, N: Option<i64>, increasing: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::vander::OP,
            ins: &[Some(self)],
            args: &[N.map_or(Arg::None, Arg::Int), Arg::Bool(increasing)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn var<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::var::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn var_with<'a>(&self, dim: impl Into<OptInts<'a>>, correction: Option<Scalar>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::var::OP,
            ins: &[Some(self)],
            args: &[ints(dim), correction.map_or(Arg::None, Arg::from), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn var_dim<'a>(&self, dim: impl Into<OptInts<'a>>, unbiased: bool, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::var::VAR_DIM,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(unbiased), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn var_unbiased(&self, unbiased: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::var::VAR_UNBIASED,
            ins: &[Some(self)],
            args: &[Arg::Bool(unbiased)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn var_mean<'a>(&self, dim: impl Into<OptInts<'a>>) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::var_mean::OP,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn var_mean_with<'a>(
        &self,
        dim: impl Into<OptInts<'a>>,
        correction: Option<Scalar>,
        keepdim: bool,
    ) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::var_mean::OP,
            ins: &[Some(self)],
            args: &[ints(dim), correction.map_or(Arg::None, Arg::from), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn var_mean_dim<'a>(&self, dim: impl Into<OptInts<'a>>, unbiased: bool, keepdim: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::var_mean::VAR_MEAN_DIM,
            ins: &[Some(self)],
            args: &[ints(dim), Arg::Bool(unbiased), Arg::Bool(keepdim)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn var_mean_unbiased(&self, unbiased: bool) -> Result<[Tensor; 2]> {
        let call = Call {
            op: &crate::reduce::var_mean::VAR_MEAN_UNBIASED,
            ins: &[Some(self)],
            args: &[Arg::Bool(unbiased)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    #[inline]
    fn vdot(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call { op: &crate::matmul::vdot::OP, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn vector_norm<'a>(&self, ord: impl Into<Scalar>, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor> {
        let call = Call {
            op: &crate::reduce::norm::NORM,
            ins: &[Some(self)],
            args: &[Arg::from(ord.into()), ints(dim), Arg::Bool(keepdim), Arg::None],
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
    fn view_dtype(&self, dtype: DType) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::view::DTYPE, ins: &[Some(self)], args: &[Arg::DType(dtype)], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn view_as(&self, other: &Tensor) -> Result<Tensor> {
        let call =
            Call { op: &crate::view::view::VIEW_AS, ins: &[Some(self), Some(other)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn view_as_complex(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::view_as_real::VIEW_AS_COMPLEX,
            ins: &[Some(self)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn view_as_real(&self) -> Result<Tensor> {
        let call = Call { op: &crate::elementwise::view_as_real::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn view_copy(&self, size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::view::view_copies::VIEW,
            ins: &[Some(self)],
            args: &[Arg::Ints(size)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn vsplit(&self, sections: i64) -> Result<SmallVec<[Tensor; 2]>> {
        let call =
            Call { op: &crate::view::vsplit::OP, ins: &[Some(self)], args: &[Arg::Int(sections)], dest: Dest::Fresh };
        list(&call)
    }

    #[inline]
    fn vsplit_array(&self, indices: &[i64]) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call {
            op: &crate::view::vsplit::VSPLIT_POINTS,
            ins: &[Some(self)],
            args: &[Arg::Ints(indices)],
            dest: Dest::Fresh,
        };
        list(&call)
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
    fn where_places(&self) -> Result<SmallVec<[Tensor; 2]>> {
        let call = Call { op: &crate::index::where_places::WHERE, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        list(&call)
    }

    #[inline]
    fn xlog1py_pair(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::xlog1py::XLOG1PY_PAIR,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn xlogy<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        let (other, other_scalar) = split(other);
        let call = Call {
            op: &crate::elementwise::xlogy::OP,
            ins: &[Some(self), other],
            args: &[other_scalar],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn xlogy_pair(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::xlogy::XLOGY_PAIR,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    #[inline]
    fn zero(&self) -> Result<Tensor> {
        let call = Call { op: &crate::creation::zero::OP, ins: &[Some(self)], args: &[], dest: Dest::Fresh };
        one(&call)
    }

    #[inline]
    fn zero_(&self) -> Result<()> {
        let call = Call { op: &crate::creation::zero::OP, ins: &[Some(self)], args: &[], dest: Dest::Into(&[self]) };
        none(&call)
    }

    #[inline]
    fn zeros_like(&self) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::zeros::ZEROS_LIKE,
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
            op: &crate::creation::zeros::ZEROS_LIKE,
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
    fn zeta_pair(&self, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::zeta::ZETA_PAIR,
            ins: &[Some(self), Some(other)],
            args: &[],
            dest: Dest::Fresh,
        };
        one(&call)
    }
}

/// Ops without a tensor in front.
pub mod functions {
    use super::*;

    /// `_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] tensors, Tensor(b!) found_inf, Tensor inv_scale) -> ()`
    #[inline]
    pub fn _amp_foreach_non_finite_check_and_unscale_<'a>(
        tensors: impl IntoIterator<Item = &'a Tensor>,
        found_inf: &'a Tensor,
        inv_scale: &'a Tensor,
    ) -> Result<()> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        ins.push(Some(found_inf));
        ins.push(Some(inv_scale));
        let call = Call {
            op: &crate::optim::amp::UNSCALE_OP,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32)],
            dest: Dest::Fresh,
        };
        none(&call)
    }

    /// `_fused_adam_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor lr, Tensor step, *, float beta1, float beta2, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()`
    #[inline]
    pub fn _fused_adam_<'a>(
        params: impl IntoIterator<Item = &'a Tensor>,
        grads: impl IntoIterator<Item = &'a Tensor>,
        exp_avgs: impl IntoIterator<Item = &'a Tensor>,
        exp_avg_sqs: impl IntoIterator<Item = &'a Tensor>,
        lr: &'a Tensor,
        step: &'a Tensor,
        beta1: f64,
        beta2: f64,
        weight_decay: f64,
        eps: f64,
        maximize: bool,
    ) -> Result<()> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_params = ins.len();
        ins.extend(params.into_iter().map(Some));
        let n_params = ins.len() - n_params;
        let n_grads = ins.len();
        ins.extend(grads.into_iter().map(Some));
        let n_grads = ins.len() - n_grads;
        let n_exp_avgs = ins.len();
        ins.extend(exp_avgs.into_iter().map(Some));
        let n_exp_avgs = ins.len() - n_exp_avgs;
        let n_exp_avg_sqs = ins.len();
        ins.extend(exp_avg_sqs.into_iter().map(Some));
        let n_exp_avg_sqs = ins.len() - n_exp_avg_sqs;
        ins.push(Some(lr));
        ins.push(Some(step));
        ins.push(None);
        ins.push(None);
        let call = Call {
            op: &crate::optim::update::ADAM_OP,
            ins: &ins,
            args: &[
                Arg::Len(n_params as u32),
                Arg::Len(n_grads as u32),
                Arg::Len(n_exp_avgs as u32),
                Arg::Len(n_exp_avg_sqs as u32),
                Arg::Float(beta1),
                Arg::Float(beta2),
                Arg::Float(weight_decay),
                Arg::Float(eps),
                Arg::Bool(maximize),
            ],
            dest: Dest::Fresh,
        };
        none(&call)
    }

    /// `_fused_adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor lr, Tensor step, *, float beta1, float beta2, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()`
    #[inline]
    pub fn _fused_adamw_<'a>(
        params: impl IntoIterator<Item = &'a Tensor>,
        grads: impl IntoIterator<Item = &'a Tensor>,
        exp_avgs: impl IntoIterator<Item = &'a Tensor>,
        exp_avg_sqs: impl IntoIterator<Item = &'a Tensor>,
        lr: &'a Tensor,
        step: &'a Tensor,
        beta1: f64,
        beta2: f64,
        weight_decay: f64,
        eps: f64,
        maximize: bool,
    ) -> Result<()> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_params = ins.len();
        ins.extend(params.into_iter().map(Some));
        let n_params = ins.len() - n_params;
        let n_grads = ins.len();
        ins.extend(grads.into_iter().map(Some));
        let n_grads = ins.len() - n_grads;
        let n_exp_avgs = ins.len();
        ins.extend(exp_avgs.into_iter().map(Some));
        let n_exp_avgs = ins.len() - n_exp_avgs;
        let n_exp_avg_sqs = ins.len();
        ins.extend(exp_avg_sqs.into_iter().map(Some));
        let n_exp_avg_sqs = ins.len() - n_exp_avg_sqs;
        ins.push(Some(lr));
        ins.push(Some(step));
        ins.push(None);
        ins.push(None);
        let call = Call {
            op: &crate::optim::update::ADAMW,
            ins: &ins,
            args: &[
                Arg::Len(n_params as u32),
                Arg::Len(n_grads as u32),
                Arg::Len(n_exp_avgs as u32),
                Arg::Len(n_exp_avg_sqs as u32),
                Arg::Float(beta1),
                Arg::Float(beta2),
                Arg::Float(weight_decay),
                Arg::Float(eps),
                Arg::Bool(maximize),
            ],
            dest: Dest::Fresh,
        };
        none(&call)
    }

    /// `_fused_sgd_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] momentum_buffers, Tensor lr, *, float momentum, float dampening, float weight_decay, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()`
    #[inline]
    pub fn _fused_sgd_<'a>(
        params: impl IntoIterator<Item = &'a Tensor>,
        grads: impl IntoIterator<Item = &'a Tensor>,
        momentum_buffers: impl IntoIterator<Item = &'a Tensor>,
        lr: &'a Tensor,
        momentum: f64,
        dampening: f64,
        weight_decay: f64,
        nesterov: bool,
        maximize: bool,
        is_first_step: bool,
    ) -> Result<()> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_params = ins.len();
        ins.extend(params.into_iter().map(Some));
        let n_params = ins.len() - n_params;
        let n_grads = ins.len();
        ins.extend(grads.into_iter().map(Some));
        let n_grads = ins.len() - n_grads;
        let n_momentum_buffers = ins.len();
        ins.extend(momentum_buffers.into_iter().map(Some));
        let n_momentum_buffers = ins.len() - n_momentum_buffers;
        ins.push(Some(lr));
        ins.push(None);
        ins.push(None);
        let call = Call {
            op: &crate::optim::update::SGD_OP,
            ins: &ins,
            args: &[
                Arg::Len(n_params as u32),
                Arg::Len(n_grads as u32),
                Arg::Len(n_momentum_buffers as u32),
                Arg::Float(momentum),
                Arg::Float(dampening),
                Arg::Float(weight_decay),
                Arg::Bool(nesterov),
                Arg::Bool(maximize),
                Arg::Bool(is_first_step),
            ],
            dest: Dest::Fresh,
        };
        none(&call)
    }

    /// `_fused_update_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] states0, Tensor(c!)[] states1, Tensor(d!)[] states2, Tensor? lr, Tensor? step, Tensor? x2, Tensor? x3, Tensor? live=None, *, str rule, float[] hyper, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()`
    #[inline]
    pub fn _fused_update_<'a>(
        params: impl IntoIterator<Item = &'a Tensor>,
        grads: impl IntoIterator<Item = &'a Tensor>,
        states0: impl IntoIterator<Item = &'a Tensor>,
        states1: impl IntoIterator<Item = &'a Tensor>,
        states2: impl IntoIterator<Item = &'a Tensor>,
        lr: Option<&'a Tensor>,
        step: Option<&'a Tensor>,
        x2: Option<&'a Tensor>,
        x3: Option<&'a Tensor>,
        live: Option<&'a Tensor>,
        rule: &str,
        hyper: &[f64],
        maximize: bool,
    ) -> Result<()> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_params = ins.len();
        ins.extend(params.into_iter().map(Some));
        let n_params = ins.len() - n_params;
        let n_grads = ins.len();
        ins.extend(grads.into_iter().map(Some));
        let n_grads = ins.len() - n_grads;
        let n_states0 = ins.len();
        ins.extend(states0.into_iter().map(Some));
        let n_states0 = ins.len() - n_states0;
        let n_states1 = ins.len();
        ins.extend(states1.into_iter().map(Some));
        let n_states1 = ins.len() - n_states1;
        let n_states2 = ins.len();
        ins.extend(states2.into_iter().map(Some));
        let n_states2 = ins.len() - n_states2;
        ins.push(lr);
        ins.push(step);
        ins.push(x2);
        ins.push(x3);
        ins.push(live);
        ins.push(None);
        ins.push(None);
        let call = Call {
            op: &crate::optim::update::UPDATE_OP,
            ins: &ins,
            args: &[
                Arg::Len(n_params as u32),
                Arg::Len(n_grads as u32),
                Arg::Len(n_states0 as u32),
                Arg::Len(n_states1 as u32),
                Arg::Len(n_states2 as u32),
                sym(rule),
                Arg::Floats(hyper),
                Arg::Bool(maximize),
            ],
            dest: Dest::Fresh,
        };
        none(&call)
    }

    /// `_stacked_norms(Tensor[] tensors, float ord=2.0) -> Tensor`
    #[inline]
    pub fn _stacked_norms<'a>(tensors: impl IntoIterator<Item = &'a Tensor>, ord: f64) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::optim::stacked_norms::OP,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32), Arg::Float(ord)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `arange(Scalar end, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn arange(end: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::arange::OP,
            ins: &[],
            args: &[Arg::from(end.into()), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `arange(Scalar end, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn arange_with(
        end: impl Into<Scalar>,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::arange::OP,
            ins: &[],
            args: &[
                Arg::from(end.into()),
                dtype.map_or(Arg::None, Arg::DType),
                device.map_or(Arg::None, Arg::Device),
                Arg::Bool(requires_grad),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `arange.start(Scalar start, Scalar end, Scalar step=1, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn arange_start(start: impl Into<Scalar>, end: impl Into<Scalar>, step: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::arange::START,
            ins: &[],
            args: &[
                Arg::from(start.into()),
                Arg::from(end.into()),
                Arg::from(step.into()),
                Arg::None,
                Arg::None,
                Arg::Bool(false),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `block_diag(Tensor[] tensors) -> Tensor`
    #[inline]
    pub fn block_diag<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::block_diag::OP,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `broadcast_tensors(Tensor[] tensors) -> Tensor[]`
    #[inline]
    pub fn broadcast_tensors<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<SmallVec<[Tensor; 2]>> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::broadcast_tensors::OP,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32)],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    /// `bucketize.scalar(Scalar input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor`
    #[inline]
    pub fn bucketize_scalar(input: impl Into<Scalar>, boundaries: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::bucketize::BUCKETIZE_NUMBER,
            ins: &[Some(boundaries)],
            args: &[Arg::from(input.into()), Arg::Bool(false), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `cartesian_prod(Tensor[] tensors) -> Tensor`
    #[inline]
    pub fn cartesian_prod<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::cartesian_prod::OP,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

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

    /// `column_stack(Tensor[] tensors) -> Tensor`
    #[inline]
    pub fn column_stack<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::column_stack::OP,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `concat(Tensor[] tensors, int dim=0) -> Tensor`
    #[inline]
    pub fn concat<'a>(tensors: impl IntoIterator<Item = &'a Tensor>, dim: i64) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::concat::OP,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `concatenate(Tensor[] tensors, int dim=0) -> Tensor`
    #[inline]
    pub fn concatenate<'a>(tensors: impl IntoIterator<Item = &'a Tensor>, dim: i64) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::concat::CONCATENATE,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `dstack(Tensor[] tensors) -> Tensor`
    #[inline]
    pub fn dstack<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call =
            Call { op: &crate::view::dstack::OP, ins: &ins, args: &[Arg::Len(n_tensors as u32)], dest: Dest::Fresh };
        one(&call)
    }

    /// `empty(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
    #[inline]
    pub fn empty(size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::empty::OP,
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
            op: &crate::creation::empty::OP,
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

    /// `empty_permuted(int[] size, int[] physical_layout, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn empty_permuted(size: &[i64], physical_layout: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::empty_permuted::OP,
            ins: &[],
            args: &[Arg::Ints(size), Arg::Ints(physical_layout), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `empty_strided(int[] size, int[] stride, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn empty_strided(size: &[i64], stride: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::empty_strided::OP,
            ins: &[],
            args: &[Arg::Ints(size), Arg::Ints(stride), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `eye(int n, int? m=None, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn eye(n: i64, m: Option<i64>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::eye::OP,
            ins: &[],
            args: &[Arg::Int(n), m.map_or(Arg::None, Arg::Int), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `full(int[] size, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn full(size: &[i64], fill_value: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::full::OP,
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
            op: &crate::creation::full::OP,
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

    /// `hstack(Tensor[] tensors) -> Tensor`
    #[inline]
    pub fn hstack<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call =
            Call { op: &crate::view::hstack::OP, ins: &ins, args: &[Arg::Len(n_tensors as u32)], dest: Dest::Fresh };
        one(&call)
    }

    /// `isin.element(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor`
    #[inline]
    pub fn isin_element(element: impl Into<Scalar>, test_elements: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::index::isin::NUMBER_ISIN,
            ins: &[Some(test_elements)],
            args: &[Arg::from(element.into()), Arg::Bool(false), Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `linspace(Scalar start, Scalar end, int steps, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn linspace(start: impl Into<Scalar>, end: impl Into<Scalar>, steps: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::linspace::OP,
            ins: &[],
            args: &[
                Arg::from(start.into()),
                Arg::from(end.into()),
                Arg::Int(steps),
                Arg::None,
                Arg::None,
                Arg::Bool(false),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `linspace.tensors(Tensor|Scalar start, Tensor|Scalar end, int steps, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn linspace_tensors<'a>(
        start: impl Into<Operand<'a>>,
        end: impl Into<Operand<'a>>,
        steps: i64,
    ) -> Result<Tensor> {
        let (start, start_scalar) = split(start);
        let (end, end_scalar) = split(end);
        let call = Call {
            op: &crate::creation::linspace::LINSPACE,
            ins: &[start, end],
            args: &[start_scalar, end_scalar, Arg::Int(steps), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `logspace(Tensor|Scalar start, Tensor|Scalar end, int steps, float base=10.0, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn logspace<'a>(
        start: impl Into<Operand<'a>>,
        end: impl Into<Operand<'a>>,
        steps: i64,
        base: f64,
    ) -> Result<Tensor> {
        let (start, start_scalar) = split(start);
        let (end, end_scalar) = split(end);
        let call = Call {
            op: &crate::creation::logspace::OP,
            ins: &[start, end],
            args: &[
                start_scalar,
                end_scalar,
                Arg::Int(steps),
                Arg::Float(base),
                Arg::None,
                Arg::None,
                Arg::Bool(false),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `meshgrid(Tensor[] tensors, *, str? indexing=None) -> Tensor[]`
    #[inline]
    pub fn meshgrid<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<SmallVec<[Tensor; 2]>> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::meshgrid::OP,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32), Arg::None],
            dest: Dest::Fresh,
        };
        list(&call)
    }

    /// `normal.float_float(float mean, float std, int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn normal_float_float(mean: f64, std: f64, size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::normal::NORMAL_SIZE,
            ins: &[],
            args: &[
                Arg::Float(mean),
                Arg::Float(std),
                Arg::Ints(size),
                rng(None),
                Arg::None,
                Arg::None,
                Arg::Bool(false),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `ones(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn ones(size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::ones::OP,
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
            op: &crate::creation::ones::OP,
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

    /// `polygamma(int n, Tensor input) -> Tensor`
    #[inline]
    pub fn polygamma(n: i64, input: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::polygamma::OP,
            ins: &[Some(input)],
            args: &[Arg::Int(n)],
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

    /// `rand(int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn rand(size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::rand::OP,
            ins: &[],
            args: &[Arg::Ints(size), rng(None), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `rand(int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn rand_with(
        size: &[i64],
        generator: Option<&Generator>,
        dtype: Option<DType>,
        device: Option<Device>,
        requires_grad: bool,
    ) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::rand::OP,
            ins: &[],
            args: &[
                Arg::Ints(size),
                rng(generator),
                dtype.map_or(Arg::None, Arg::DType),
                device.map_or(Arg::None, Arg::Device),
                Arg::Bool(requires_grad),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `randint(int high, int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn randint(high: i64, size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::randint::OP,
            ins: &[],
            args: &[Arg::Int(high), Arg::Ints(size), rng(None), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `randint.low(int low, int high, int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn randint_low(low: i64, high: i64, size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::randint::RANDINT,
            ins: &[],
            args: &[Arg::Int(low), Arg::Int(high), Arg::Ints(size), rng(None), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `randn(int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn randn(size: &[i64]) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::randn::OP,
            ins: &[],
            args: &[Arg::Ints(size), rng(None), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `randperm(int n, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn randperm(n: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::random::randperm::OP,
            ins: &[],
            args: &[Arg::Int(n), rng(None), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `rnn_layer_backward(Tensor? grad_output, Tensor? grad_h_n, Tensor? grad_c_n, Tensor gates_x, Tensor h_0, Tensor? c_0, Tensor w_hh, Tensor? b_hh, Tensor? w_hr, Tensor output, Tensor gates, Tensor cells, int[] batch_sizes, str mode, bool reverse) -> (Tensor grad_gates_x, Tensor grad_gates_h, Tensor grad_h_0, Tensor grad_c_0, Tensor grad_h, Tensor projected)`
    #[inline]
    pub fn rnn_layer_backward(
        grad_output: Option<&Tensor>,
        grad_h_n: Option<&Tensor>,
        grad_c_n: Option<&Tensor>,
        gates_x: &Tensor,
        h_0: &Tensor,
        c_0: Option<&Tensor>,
        w_hh: &Tensor,
        b_hh: Option<&Tensor>,
        w_hr: Option<&Tensor>,
        output: &Tensor,
        gates: &Tensor,
        cells: &Tensor,
        batch_sizes: &[i64],
        mode: &str,
        reverse: bool,
    ) -> Result<[Tensor; 6]> {
        let call = Call {
            op: &crate::rnn::rnn_layer::BACKWARD,
            ins: &[
                grad_output,
                grad_h_n,
                grad_c_n,
                Some(gates_x),
                Some(h_0),
                c_0,
                Some(w_hh),
                b_hh,
                w_hr,
                Some(output),
                Some(gates),
                Some(cells),
            ],
            args: &[Arg::Ints(batch_sizes), sym(mode), Arg::Bool(reverse)],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    /// `rnn_stack_backward(Tensor? grad_output, Tensor? grad_h_n, Tensor? grad_c_n, Tensor input, Tensor h_0, Tensor? c_0, Tensor weights, Tensor output, Tensor reserved, int[] batch_sizes, str mode, int hidden, int num_layers, bool bias, bool bidirectional, bool batch_first, bool allow_tf32) -> (Tensor grad_input, Tensor grad_h_0, Tensor grad_c_0, Tensor grad_weights)`
    #[inline]
    pub fn rnn_stack_backward(
        grad_output: Option<&Tensor>,
        grad_h_n: Option<&Tensor>,
        grad_c_n: Option<&Tensor>,
        input: &Tensor,
        h_0: &Tensor,
        c_0: Option<&Tensor>,
        weights: &Tensor,
        output: &Tensor,
        reserved: &Tensor,
        batch_sizes: &[i64],
        mode: &str,
        hidden: i64,
        num_layers: i64,
        bias: bool,
        bidirectional: bool,
        batch_first: bool,
        allow_tf32: bool,
    ) -> Result<[Tensor; 4]> {
        let call = Call {
            op: &crate::rnn::rnn_stack::BACKWARD,
            ins: &[
                grad_output,
                grad_h_n,
                grad_c_n,
                Some(input),
                Some(h_0),
                c_0,
                Some(weights),
                Some(output),
                Some(reserved),
            ],
            args: &[
                Arg::Ints(batch_sizes),
                sym(mode),
                Arg::Int(hidden),
                Arg::Int(num_layers),
                Arg::Bool(bias),
                Arg::Bool(bidirectional),
                Arg::Bool(batch_first),
                Arg::Bool(allow_tf32),
            ],
            dest: Dest::Fresh,
        };
        many(&call)
    }

    /// `row_stack(Tensor[] tensors) -> Tensor`
    #[inline]
    pub fn row_stack<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call = Call {
            op: &crate::view::vstack::ROW_STACK,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `scalar_tensor(Scalar s, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn scalar_tensor(s: impl Into<Scalar>) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::scalar_tensor::OP,
            ins: &[],
            args: &[Arg::from(s.into()), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `special_xlog1py.self_scalar(Scalar input, Tensor other) -> Tensor`
    #[inline]
    pub fn special_xlog1py_self_scalar(input: impl Into<Scalar>, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::xlog1py::XLOG1PY_SELF,
            ins: &[Some(other)],
            args: &[Arg::from(input.into())],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `special_zeta.self_scalar(Scalar input, Tensor other) -> Tensor`
    #[inline]
    pub fn special_zeta_self_scalar(input: impl Into<Scalar>, other: &Tensor) -> Result<Tensor> {
        let call = Call {
            op: &crate::elementwise::zeta::ZETA_SELF,
            ins: &[Some(other)],
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
            op: &crate::view::stack::OP,
            ins: &ins,
            args: &[Arg::Len(n_tensors as u32), Arg::Int(dim)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `tril_indices(int row, int col, int offset=0, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn tril_indices(row: i64, col: i64, offset: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::tril_indices::OP,
            ins: &[],
            args: &[Arg::Int(row), Arg::Int(col), Arg::Int(offset), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `triu_indices(int row, int col, int offset=0, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
    #[inline]
    pub fn triu_indices(row: i64, col: i64, offset: i64) -> Result<Tensor> {
        let call = Call {
            op: &crate::creation::tril_indices::TRIU_INDICES,
            ins: &[],
            args: &[Arg::Int(row), Arg::Int(col), Arg::Int(offset), Arg::None, Arg::None, Arg::Bool(false)],
            dest: Dest::Fresh,
        };
        one(&call)
    }

    /// `vstack(Tensor[] tensors) -> Tensor`
    #[inline]
    pub fn vstack<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<Tensor> {
        let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();
        let n_tensors = ins.len();
        ins.extend(tensors.into_iter().map(Some));
        let n_tensors = ins.len() - n_tensors;
        let call =
            Call { op: &crate::view::vstack::OP, ins: &ins, args: &[Arg::Len(n_tensors as u32)], dest: Dest::Fresh };
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
                dtype.map_or(Arg::None, Arg::DType),
                device.map_or(Arg::None, Arg::Device),
                Arg::Bool(requires_grad),
            ],
            dest: Dest::Fresh,
        };
        one(&call)
    }
}
