//! Written by `cargo xtask codegen` from the signatures of the ops; edit those. Names of what an op takes and gives.
#![allow(dead_code)]

use oneflow_base::{DType, Device, Scalar};
use oneflow_core::{At, In, Ins, LastIn, Out, Rng};

/// `_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] tensors, Tensor(b!) found_inf, Tensor inv_scale) -> ()`
pub mod _amp_foreach_non_finite_check_and_unscale_ {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const FOUND_INF: LastIn = LastIn::nth_from_end(2);
    pub const INV_SCALE: LastIn = LastIn::nth_from_end(1);
}

/// `_as_strided(Tensor(a) input, int[] size, int[] stride, int offset) -> Tensor(a)`
pub mod _as_strided {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const OFFSET: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `_as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int offset) -> Tensor`
pub mod _as_strided_scatter {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SRC: In = In::nth(1);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const OFFSET: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `_fused_adam_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor lr, Tensor step, *, float beta1, float beta2, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()`
pub mod _fused_adam_ {
    use super::*;
    pub const PARAMS: Ins = Ins::new(0, 0, 0);
    pub const GRADS: Ins = Ins::new(0, 0, 1);
    pub const EXP_AVGS: Ins = Ins::new(0, 0, 2);
    pub const EXP_AVG_SQS: Ins = Ins::new(0, 0, 3);
    pub const LR: LastIn = LastIn::nth_from_end(4);
    pub const STEP: LastIn = LastIn::nth_from_end(3);
    pub const BETA1: At<f64> = At::nth(4);
    pub const BETA2: At<f64> = At::nth(5);
    pub const WEIGHT_DECAY: At<f64> = At::nth(6);
    pub const EPS: At<f64> = At::nth(7);
    pub const MAXIMIZE: At<bool> = At::nth(8);
    pub const GRAD_SCALE: LastIn = LastIn::nth_from_end(2);
    pub const FOUND_INF: LastIn = LastIn::nth_from_end(1);
}

/// `_fused_adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor lr, Tensor step, *, float beta1, float beta2, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()`
pub mod _fused_adamw_ {
    use super::*;
    pub const PARAMS: Ins = Ins::new(0, 0, 0);
    pub const GRADS: Ins = Ins::new(0, 0, 1);
    pub const EXP_AVGS: Ins = Ins::new(0, 0, 2);
    pub const EXP_AVG_SQS: Ins = Ins::new(0, 0, 3);
    pub const LR: LastIn = LastIn::nth_from_end(4);
    pub const STEP: LastIn = LastIn::nth_from_end(3);
    pub const BETA1: At<f64> = At::nth(4);
    pub const BETA2: At<f64> = At::nth(5);
    pub const WEIGHT_DECAY: At<f64> = At::nth(6);
    pub const EPS: At<f64> = At::nth(7);
    pub const MAXIMIZE: At<bool> = At::nth(8);
    pub const GRAD_SCALE: LastIn = LastIn::nth_from_end(2);
    pub const FOUND_INF: LastIn = LastIn::nth_from_end(1);
}

/// `_fused_sgd_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] momentum_buffers, Tensor lr, *, float momentum, float dampening, float weight_decay, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()`
pub mod _fused_sgd_ {
    use super::*;
    pub const PARAMS: Ins = Ins::new(0, 0, 0);
    pub const GRADS: Ins = Ins::new(0, 0, 1);
    pub const MOMENTUM_BUFFERS: Ins = Ins::new(0, 0, 2);
    pub const LR: LastIn = LastIn::nth_from_end(3);
    pub const MOMENTUM: At<f64> = At::nth(3);
    pub const DAMPENING: At<f64> = At::nth(4);
    pub const WEIGHT_DECAY: At<f64> = At::nth(5);
    pub const NESTEROV: At<bool> = At::nth(6);
    pub const MAXIMIZE: At<bool> = At::nth(7);
    pub const IS_FIRST_STEP: At<bool> = At::nth(8);
    pub const GRAD_SCALE: LastIn = LastIn::nth_from_end(2);
    pub const FOUND_INF: LastIn = LastIn::nth_from_end(1);
}

/// `_fused_update_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] states0, Tensor(c!)[] states1, Tensor(d!)[] states2, Tensor? lr, Tensor? step, Tensor? x2, Tensor? x3, Tensor? live=None, *, str rule, float[] hyper, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()`
pub mod _fused_update_ {
    use super::*;
    pub const PARAMS: Ins = Ins::new(0, 0, 0);
    pub const GRADS: Ins = Ins::new(0, 0, 1);
    pub const STATES0: Ins = Ins::new(0, 0, 2);
    pub const STATES1: Ins = Ins::new(0, 0, 3);
    pub const STATES2: Ins = Ins::new(0, 0, 4);
    pub const LR: LastIn = LastIn::nth_from_end(7);
    pub const STEP: LastIn = LastIn::nth_from_end(6);
    pub const X2: LastIn = LastIn::nth_from_end(5);
    pub const X3: LastIn = LastIn::nth_from_end(4);
    pub const LIVE: LastIn = LastIn::nth_from_end(3);
    pub const RULE: At<str> = At::nth(5);
    pub const HYPER: At<[f64]> = At::nth(6);
    pub const MAXIMIZE: At<bool> = At::nth(7);
    pub const GRAD_SCALE: LastIn = LastIn::nth_from_end(2);
    pub const FOUND_INF: LastIn = LastIn::nth_from_end(1);
}

/// `_int_mm(Tensor input, Tensor mat2) -> Tensor`
pub mod _int_mm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MAT2: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `_linear_accumulate_(Tensor(a!) weight, Tensor(b!)? sums, Tensor grad_output, Tensor input) -> ()`
pub mod _linear_accumulate_ {
    use super::*;
    pub const WEIGHT: In = In::nth(0);
    pub const SUMS: In = In::nth(1);
    pub const GRAD_OUTPUT: In = In::nth(2);
    pub const INPUT: In = In::nth(3);
}

/// `_stacked_norms(Tensor[] tensors, float ord=2.0) -> Tensor`
pub mod _stacked_norms {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const ORD: At<f64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `_standard_gamma(Tensor input, Generator? generator=None) -> Tensor`
pub mod _standard_gamma {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `abs(Tensor input) -> Tensor`
pub mod abs {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `acos(Tensor input) -> Tensor`
pub mod acos {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `acosh(Tensor input) -> Tensor`
pub mod acosh {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `adaptive_avg_pool1d(Tensor input, int[1] output_size) -> Tensor`
pub mod adaptive_avg_pool1d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OUTPUT_SIZE: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `adaptive_avg_pool2d(Tensor input, int[2] output_size) -> Tensor`
pub mod adaptive_avg_pool2d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OUTPUT_SIZE: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `adaptive_avg_pool3d(Tensor input, int[3] output_size) -> Tensor`
pub mod adaptive_avg_pool3d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OUTPUT_SIZE: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `adaptive_max_pool1d(Tensor input, int[1] output_size) -> (Tensor, Tensor)`
pub mod adaptive_max_pool1d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OUTPUT_SIZE: At<[i64]> = At::nth(0);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `adaptive_max_pool2d(Tensor input, int[2] output_size) -> (Tensor, Tensor)`
pub mod adaptive_max_pool2d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OUTPUT_SIZE: At<[i64]> = At::nth(0);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `adaptive_max_pool3d(Tensor input, int[3] output_size) -> (Tensor, Tensor)`
pub mod adaptive_max_pool3d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OUTPUT_SIZE: At<[i64]> = At::nth(0);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
pub mod add {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const ALPHA: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor`
pub mod addbmm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const BATCH1: In = In::nth(1);
    pub const BATCH2: In = In::nth(2);
    pub const BETA: At<Scalar> = At::nth(0);
    pub const ALPHA: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
pub mod addcdiv {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TENSOR1: In = In::nth(1);
    pub const TENSOR2: In = In::nth(2);
    pub const VALUE: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor`
pub mod addcmul {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TENSOR1: In = In::nth(1);
    pub const TENSOR2: In = In::nth(2);
    pub const VALUE: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor`
pub mod addmm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MAT1: In = In::nth(1);
    pub const MAT2: In = In::nth(2);
    pub const BETA: At<Scalar> = At::nth(0);
    pub const ALPHA: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `addmv(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor`
pub mod addmv {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MAT: In = In::nth(1);
    pub const VEC: In = In::nth(2);
    pub const BETA: At<Scalar> = At::nth(0);
    pub const ALPHA: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `addr(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor`
pub mod addr {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const VEC1: In = In::nth(1);
    pub const VEC2: In = In::nth(2);
    pub const BETA: At<Scalar> = At::nth(0);
    pub const ALPHA: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `adjoint(Tensor(a) input) -> Tensor(a)`
pub mod adjoint {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `alias_copy(Tensor input) -> Tensor`
pub mod alias_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `all(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor`
pub mod all {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `amax(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor`
pub mod amax {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `amin(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor`
pub mod amin {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)`
pub mod aminmax {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const MIN: Out = Out::nth(0);
    pub const MAX: Out = Out::nth(1);
}

/// `angle(Tensor input) -> Tensor`
pub mod angle {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `any(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor`
pub mod any {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `arange(Scalar end, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod arange {
    use super::*;
    pub const END: At<Scalar> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const DEVICE: At<Device> = At::nth(2);
    pub const REQUIRES_GRAD: At<bool> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `arange.start(Scalar start, Scalar end, Scalar step=1, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod arange_start {
    use super::*;
    pub const START: At<Scalar> = At::nth(0);
    pub const END: At<Scalar> = At::nth(1);
    pub const STEP: At<Scalar> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const DEVICE: At<Device> = At::nth(4);
    pub const REQUIRES_GRAD: At<bool> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor`
pub mod argmax {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor`
pub mod argmin {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `argsort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor`
pub mod argsort {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const DESCENDING: At<bool> = At::nth(1);
    pub const STABLE: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `argwhere(Tensor input) -> Tensor`
pub mod argwhere {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `as_strided(Tensor(a) input, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)`
pub mod as_strided {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const STORAGE_OFFSET: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `as_strided_copy(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor`
pub mod as_strided_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const STORAGE_OFFSET: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor`
pub mod as_strided_scatter {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SRC: In = In::nth(1);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const STORAGE_OFFSET: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `asin(Tensor input) -> Tensor`
pub mod asin {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `asinh(Tensor input) -> Tensor`
pub mod asinh {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `atan(Tensor input) -> Tensor`
pub mod atan {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `atan2(Tensor input, Tensor other) -> Tensor`
pub mod atan2 {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `atanh(Tensor input) -> Tensor`
pub mod atanh {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `atleast_1d(Tensor(a) input) -> Tensor(a)`
pub mod atleast_1d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `atleast_2d(Tensor(a) input) -> Tensor(a)`
pub mod atleast_2d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `atleast_3d(Tensor(a) input) -> Tensor(a)`
pub mod atleast_3d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `avg_pool1d(Tensor input, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False, bool count_include_pad=True) -> Tensor`
pub mod avg_pool1d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const CEIL_MODE: At<bool> = At::nth(3);
    pub const COUNT_INCLUDE_PAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `avg_pool2d(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor`
pub mod avg_pool2d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const CEIL_MODE: At<bool> = At::nth(3);
    pub const COUNT_INCLUDE_PAD: At<bool> = At::nth(4);
    pub const DIVISOR_OVERRIDE: At<i64> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `avg_pool3d(Tensor input, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor`
pub mod avg_pool3d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const CEIL_MODE: At<bool> = At::nth(3);
    pub const COUNT_INCLUDE_PAD: At<bool> = At::nth(4);
    pub const DIVISOR_OVERRIDE: At<i64> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `avg_pool_backward(Tensor grad_output, int[] kernel_size, int[] stride, int[] padding, bool count_include_pad, int divisor, int[] input_size) -> Tensor`
pub mod avg_pool_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const COUNT_INCLUDE_PAD: At<bool> = At::nth(3);
    pub const DIVISOR: At<i64> = At::nth(4);
    pub const INPUT_SIZE: At<[i64]> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor`
pub mod baddbmm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const BATCH1: In = In::nth(1);
    pub const BATCH2: In = In::nth(2);
    pub const BETA: At<Scalar> = At::nth(0);
    pub const ALPHA: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `batch_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, bool training, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)`
pub mod batch_norm_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const MEAN: In = In::nth(2);
    pub const RSTD: In = In::nth(3);
    pub const WEIGHT: In = In::nth(4);
    pub const TRAINING: At<bool> = At::nth(0);
    pub const AFFINE: At<bool> = At::nth(1);
    pub const EPS: At<f64> = At::nth(2);
    pub const GRAD_INPUT: Out = Out::nth(0);
    pub const GRAD_WEIGHT: Out = Out::nth(1);
    pub const GRAD_BIAS: Out = Out::nth(2);
}

/// `batch_norm_inference(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps) -> Tensor`
pub mod batch_norm_inference {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const MEAN: In = In::nth(3);
    pub const VAR: In = In::nth(4);
    pub const EPS: At<f64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `batch_norm_training(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps) -> (Tensor output, Tensor mean, Tensor rstd, Tensor running)`
pub mod batch_norm_training {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const RUNNING_MEAN: In = In::nth(3);
    pub const RUNNING_VAR: In = In::nth(4);
    pub const MOMENTUM: At<f64> = At::nth(0);
    pub const EPS: At<f64> = At::nth(1);
    pub const OUTPUT: Out = Out::nth(0);
    pub const MEAN: Out = Out::nth(1);
    pub const RSTD: Out = Out::nth(2);
    pub const RUNNING: Out = Out::nth(3);
}

/// `bernoulli(Tensor input, *, Generator? generator=None) -> Tensor`
pub mod bernoulli {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bernoulli.Tensor(Tensor input, Tensor p, *, Generator? generator=None) -> Tensor`
pub mod bernoulli_tensor {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const P: In = In::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bernoulli.float(Tensor input, float p=0.5, *, Generator? generator=None) -> Tensor`
pub mod bernoulli_float {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const P: At<f64> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `bernoulli.p(Tensor input, float p, *, Generator? generator=None) -> Tensor`
pub mod bernoulli_p {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const P: At<f64> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, str reduction="mean") -> Tensor`
pub mod binary_cross_entropy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const WEIGHT: In = In::nth(2);
    pub const REDUCTION: At<str> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, str reduction="mean", Tensor? pos_weight=None) -> Tensor`
pub mod binary_cross_entropy_with_logits {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const WEIGHT: In = In::nth(2);
    pub const REDUCTION: At<str> = At::nth(0);
    pub const POS_WEIGHT: In = In::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `binary_entropy(Tensor input, Tensor target, Tensor? pos_weight) -> Tensor`
pub mod binary_entropy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const POS_WEIGHT: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `binary_entropy_backward(Tensor grad_output, Tensor input, Tensor target, Tensor? pos_weight) -> Tensor`
pub mod binary_entropy_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const TARGET: In = In::nth(2);
    pub const POS_WEIGHT: In = In::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `binary_entropy_of_probability(Tensor input, Tensor target) -> Tensor`
pub mod binary_entropy_of_probability {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `binary_entropy_of_probability_backward(Tensor grad_output, Tensor input, Tensor target) -> Tensor`
pub mod binary_entropy_of_probability_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const TARGET: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor`
pub mod bincount {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHTS: In = In::nth(1);
    pub const MINLENGTH: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor`
pub mod binomial {
    use super::*;
    pub const COUNT: In = In::nth(0);
    pub const PROB: In = In::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `binomial_doubles(Tensor count, Tensor prob, *, Generator? generator=None) -> Tensor`
pub mod binomial_doubles {
    use super::*;
    pub const COUNT: In = In::nth(0);
    pub const PROB: In = In::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bitwise_and(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod bitwise_and {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bitwise_left_shift(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod bitwise_left_shift {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bitwise_left_shift.Scalar_Tensor(Scalar input, Tensor other) -> Tensor`
pub mod bitwise_left_shift_scalar_tensor {
    use super::*;
    pub const INPUT: At<Scalar> = At::nth(0);
    pub const OTHER: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bitwise_not(Tensor input) -> Tensor`
pub mod bitwise_not {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bitwise_or(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod bitwise_or {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bitwise_right_shift(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod bitwise_right_shift {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bitwise_right_shift.Scalar_Tensor(Scalar input, Tensor other) -> Tensor`
pub mod bitwise_right_shift_scalar_tensor {
    use super::*;
    pub const INPUT: At<Scalar> = At::nth(0);
    pub const OTHER: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bitwise_xor(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod bitwise_xor {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `block_diag(Tensor[] tensors) -> Tensor`
pub mod block_diag {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bmm(Tensor input, Tensor mat2) -> Tensor`
pub mod bmm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MAT2: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `broadcast_tensors(Tensor[] tensors) -> Tensor[]`
pub mod broadcast_tensors {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const RESULT: Out = Out::nth(0);
}

/// `broadcast_to(Tensor(a) input, int[] size) -> Tensor(a)`
pub mod broadcast_to {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `bucketize(Tensor input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor`
pub mod bucketize {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const BOUNDARIES: In = In::nth(1);
    pub const OUT_INT32: At<bool> = At::nth(0);
    pub const RIGHT: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `bucketize.scalar(Scalar input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor`
pub mod bucketize_scalar {
    use super::*;
    pub const INPUT: At<Scalar> = At::nth(0);
    pub const BOUNDARIES: In = In::nth(0);
    pub const OUT_INT32: At<bool> = At::nth(1);
    pub const RIGHT: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `cartesian_prod(Tensor[] tensors) -> Tensor`
pub mod cartesian_prod {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const RESULT: Out = Out::nth(0);
}

/// `cat(Tensor[] tensors, int dim=0) -> Tensor`
pub mod cat {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `cauchy(Tensor input, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor`
pub mod cauchy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MEDIAN: At<f64> = At::nth(0);
    pub const SIGMA: At<f64> = At::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `ceil(Tensor input) -> Tensor`
pub mod ceil {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `celu(Tensor input, Scalar alpha=1.0) -> Tensor`
pub mod celu {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const ALPHA: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `cholesky_inverse(Tensor input, bool upper=False) -> Tensor`
pub mod cholesky_inverse {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const UPPER: At<bool> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `cholesky_solve(Tensor input, Tensor L, bool upper=False) -> Tensor`
pub mod cholesky_solve {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const L: In = In::nth(1);
    pub const UPPER: At<bool> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `chunk(Tensor(a) input, int chunks, int dim=0) -> Tensor(a)[]`
pub mod chunk {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const CHUNKS: At<i64> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `clamp(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor`
pub mod clamp {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MIN: At<Scalar> = At::nth(0);
    pub const MAX: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `clamp.Tensor(Tensor input, Tensor? min=None, Tensor? max=None) -> Tensor`
pub mod clamp_tensor {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MIN: In = In::nth(1);
    pub const MAX: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `clamp_max(Tensor input, Tensor|Scalar max) -> Tensor`
pub mod clamp_max {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MAX: In = In::nth(1);
    pub const MAX_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `clamp_min(Tensor input, Tensor|Scalar min) -> Tensor`
pub mod clamp_min {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MIN: In = In::nth(1);
    pub const MIN_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `clone(Tensor input, *, MemoryFormat? memory_format=None) -> Tensor`
pub mod clone {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MEMORY_FORMAT: At<str> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `clone_contiguous(Tensor input, *, MemoryFormat? memory_format=None) -> Tensor`
pub mod clone_contiguous {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MEMORY_FORMAT: At<str> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `column_stack(Tensor[] tensors) -> Tensor`
pub mod column_stack {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const RESULT: Out = Out::nth(0);
}

/// `complex(Tensor real, Tensor imag) -> Tensor`
pub mod complex {
    use super::*;
    pub const REAL: In = In::nth(0);
    pub const IMAG: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `concat(Tensor[] tensors, int dim=0) -> Tensor`
pub mod concat {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `concatenate(Tensor[] tensors, int dim=0) -> Tensor`
pub mod concatenate {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `conj(Tensor(a) input) -> Tensor(a)`
pub mod conj {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `conj_physical(Tensor input) -> Tensor`
pub mod conj_physical {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `contiguous(Tensor(a) input, *, MemoryFormat? memory_format=None) -> Tensor(a)`
pub mod contiguous {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MEMORY_FORMAT: At<str> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] dilation=1, int groups=1) -> Tensor`
pub mod conv1d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<[i64]> = At::nth(1);
    pub const DILATION: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str padding="valid", int[1] dilation=1, int groups=1) -> Tensor`
pub mod conv1d_padding {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<str> = At::nth(1);
    pub const DILATION: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1, int groups=1) -> Tensor`
pub mod conv2d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<[i64]> = At::nth(1);
    pub const DILATION: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, str padding="valid", int[2] dilation=1, int groups=1) -> Tensor`
pub mod conv2d_padding {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<str> = At::nth(1);
    pub const DILATION: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, int[3] dilation=1, int groups=1) -> Tensor`
pub mod conv3d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<[i64]> = At::nth(1);
    pub const DILATION: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, str padding="valid", int[3] dilation=1, int groups=1) -> Tensor`
pub mod conv3d_padding {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<str> = At::nth(1);
    pub const DILATION: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv_backward_input(Tensor grad_output, Tensor weight, Tensor? bias, int[] input_size, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor`
pub mod conv_backward_input {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const INPUT_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const DILATION: At<[i64]> = At::nth(3);
    pub const GROUPS: At<i64> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv_backward_weight(Tensor grad_output, Tensor input, int[] weight_size, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor`
pub mod conv_backward_weight {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const WEIGHT_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const DILATION: At<[i64]> = At::nth(3);
    pub const GROUPS: At<i64> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv_prepare_weight(Tensor weight, bool at_points) -> Tensor`
pub mod conv_prepare_weight {
    use super::*;
    pub const WEIGHT: In = In::nth(0);
    pub const AT_POINTS: At<bool> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, int[1] output_padding=0, int groups=1, int[1] dilation=1) -> Tensor`
pub mod conv_transpose1d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<[i64]> = At::nth(1);
    pub const OUTPUT_PADDING: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const DILATION: At<[i64]> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv_transpose2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] output_padding=0, int groups=1, int[2] dilation=1) -> Tensor`
pub mod conv_transpose2d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<[i64]> = At::nth(1);
    pub const OUTPUT_PADDING: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const DILATION: At<[i64]> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `conv_transpose3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor`
pub mod conv_transpose3d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<[i64]> = At::nth(1);
    pub const OUTPUT_PADDING: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const DILATION: At<[i64]> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `copy(Tensor input, Tensor src, bool non_blocking=False) -> Tensor`
pub mod copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SRC: In = In::nth(1);
    pub const NON_BLOCKING: At<bool> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `copysign(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod copysign {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `corrcoef(Tensor input) -> Tensor`
pub mod corrcoef {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `cos(Tensor input) -> Tensor`
pub mod cos {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `cosh(Tensor input) -> Tensor`
pub mod cosh {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `count_nonzero(Tensor input, int[1]? dim=None) -> Tensor`
pub mod count_nonzero {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor`
pub mod cov {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const CORRECTION: At<i64> = At::nth(0);
    pub const FWEIGHTS: In = In::nth(1);
    pub const AWEIGHTS: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `cross_entropy(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction="mean", float label_smoothing=0.0) -> Tensor`
pub mod cross_entropy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const WEIGHT: In = In::nth(2);
    pub const IGNORE_INDEX: At<i64> = At::nth(0);
    pub const REDUCTION: At<str> = At::nth(1);
    pub const LABEL_SMOOTHING: At<f64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `cross_entropy_backward(Tensor grad_loss, Tensor input, Tensor target, Tensor? weight, Tensor logsumexp, int ignore_index, float label_smoothing) -> Tensor`
pub mod cross_entropy_backward {
    use super::*;
    pub const GRAD_LOSS: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const TARGET: In = In::nth(2);
    pub const WEIGHT: In = In::nth(3);
    pub const LOGSUMEXP: In = In::nth(4);
    pub const IGNORE_INDEX: At<i64> = At::nth(0);
    pub const LABEL_SMOOTHING: At<f64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `ctc_loss_backward(Tensor grad_loss, Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, Tensor loss, Tensor log_alpha, int blank, bool zero_infinity) -> Tensor`
pub mod ctc_loss_backward {
    use super::*;
    pub const GRAD_LOSS: In = In::nth(0);
    pub const LOG_PROBS: In = In::nth(1);
    pub const TARGETS: In = In::nth(2);
    pub const INPUT_LENGTHS: In = In::nth(3);
    pub const TARGET_LENGTHS: In = In::nth(4);
    pub const LOSS: In = In::nth(5);
    pub const LOG_ALPHA: In = In::nth(6);
    pub const BLANK: At<i64> = At::nth(0);
    pub const ZERO_INFINITY: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `cummax(Tensor input, int dim) -> (Tensor values, Tensor indices)`
pub mod cummax {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const VALUES: Out = Out::nth(0);
    pub const INDICES: Out = Out::nth(1);
}

/// `cummin(Tensor input, int dim) -> (Tensor values, Tensor indices)`
pub mod cummin {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const VALUES: Out = Out::nth(0);
    pub const INDICES: Out = Out::nth(1);
}

/// `cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
pub mod cumprod {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor`
pub mod cumsum {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `cumulative_extreme(Tensor input, int dim, bool largest) -> Tensor`
pub mod cumulative_extreme {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const LARGEST: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `cumulative_trapezoid(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor`
pub mod cumulative_trapezoid {
    use super::*;
    pub const Y: In = In::nth(0);
    pub const DX: At<Scalar> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor`
pub mod cumulative_trapezoid_x {
    use super::*;
    pub const Y: In = In::nth(0);
    pub const X: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `deg2rad(Tensor input) -> Tensor`
pub mod deg2rad {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `det(Tensor input) -> Tensor`
pub mod det {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `diag(Tensor input, int diagonal=0) -> Tensor`
pub mod diag {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIAGONAL: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor`
pub mod diag_embed {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OFFSET: At<i64> = At::nth(0);
    pub const DIM1: At<i64> = At::nth(1);
    pub const DIM2: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `diagflat(Tensor input, int offset=0) -> Tensor`
pub mod diagflat {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OFFSET: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `diagonal(Tensor(a) input, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)`
pub mod diagonal {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OFFSET: At<i64> = At::nth(0);
    pub const DIM1: At<i64> = At::nth(1);
    pub const DIM2: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `diagonal_copy(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor`
pub mod diagonal_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OFFSET: At<i64> = At::nth(0);
    pub const DIM1: At<i64> = At::nth(1);
    pub const DIM2: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor`
pub mod diagonal_scatter {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SRC: In = In::nth(1);
    pub const OFFSET: At<i64> = At::nth(0);
    pub const DIM1: At<i64> = At::nth(1);
    pub const DIM2: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor`
pub mod diff {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const N: At<i64> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const PREPEND: In = In::nth(1);
    pub const APPEND: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `digamma(Tensor input) -> Tensor`
pub mod digamma {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `dist(Tensor input, Tensor other, Scalar p=2) -> Tensor`
pub mod dist {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const P: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `div(Tensor input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor`
pub mod div {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const ROUNDING_MODE: At<str> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `dot(Tensor input, Tensor tensor) -> Tensor`
pub mod dot {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TENSOR: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `draw_in_order(Tensor input, int kind, float a, float b, *, Generator? generator=None) -> Tensor`
pub mod draw_in_order {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KIND: At<i64> = At::nth(0);
    pub const A: At<f64> = At::nth(1);
    pub const B: At<f64> = At::nth(2);
    pub const GENERATOR: At<Rng> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `dsplit(Tensor(a) input, int sections) -> Tensor(a)[]`
pub mod dsplit {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SECTIONS: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `dsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]`
pub mod dsplit_array {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const INDICES: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `dstack(Tensor[] tensors) -> Tensor`
pub mod dstack {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const RESULT: Out = Out::nth(0);
}

/// `elu(Tensor input, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor`
pub mod elu {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const ALPHA: At<Scalar> = At::nth(0);
    pub const SCALE: At<Scalar> = At::nth(1);
    pub const INPUT_SCALE: At<Scalar> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `elu_backward(Tensor grad_output, Tensor input, Scalar alpha, Scalar scale, Scalar input_scale) -> Tensor`
pub mod elu_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const ALPHA: At<Scalar> = At::nth(0);
    pub const SCALE: At<Scalar> = At::nth(1);
    pub const INPUT_SCALE: At<Scalar> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False, int start=0, int total=-1) -> Tensor`
pub mod embedding {
    use super::*;
    pub const WEIGHT: In = In::nth(0);
    pub const INDICES: In = In::nth(1);
    pub const PADDING_IDX: At<i64> = At::nth(0);
    pub const SCALE_GRAD_BY_FREQ: At<bool> = At::nth(1);
    pub const SPARSE: At<bool> = At::nth(2);
    pub const START: At<i64> = At::nth(3);
    pub const TOTAL: At<i64> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `embedding_backward(Tensor grad_output, Tensor indices, int num_rows, int padding_idx, int start, int total) -> Tensor`
pub mod embedding_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INDICES: In = In::nth(1);
    pub const NUM_ROWS: At<i64> = At::nth(0);
    pub const PADDING_IDX: At<i64> = At::nth(1);
    pub const START: At<i64> = At::nth(2);
    pub const TOTAL: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `empty(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
pub mod empty {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const DEVICE: At<Device> = At::nth(2);
    pub const REQUIRES_GRAD: At<bool> = At::nth(3);
    pub const MEMORY_FORMAT: At<str> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `empty_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
pub mod empty_like {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DTYPE: At<DType> = At::nth(0);
    pub const DEVICE: At<Device> = At::nth(1);
    pub const REQUIRES_GRAD: At<bool> = At::nth(2);
    pub const MEMORY_FORMAT: At<str> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `empty_permuted(int[] size, int[] physical_layout, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod empty_permuted {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const PHYSICAL_LAYOUT: At<[i64]> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const DEVICE: At<Device> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `empty_strided(int[] size, int[] stride, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod empty_strided {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const DEVICE: At<Device> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `eq(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod eq {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `erf(Tensor input) -> Tensor`
pub mod erf {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `erfc(Tensor input) -> Tensor`
pub mod erfc {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `erfinv(Tensor input) -> Tensor`
pub mod erfinv {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `exp(Tensor input) -> Tensor`
pub mod exp {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `exp2(Tensor input) -> Tensor`
pub mod exp2 {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `expand(Tensor(a) input, int[] size, *, bool implicit=False) -> Tensor(a)`
pub mod expand {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const IMPLICIT: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `expand_as(Tensor(a) input, Tensor other) -> Tensor(a)`
pub mod expand_as {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `expand_copy(Tensor input, int[] size, *, bool implicit=False) -> Tensor`
pub mod expand_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const IMPLICIT: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `expm1(Tensor input) -> Tensor`
pub mod expm1 {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `exponential(Tensor input, float lambd=1, *, Generator? generator=None) -> Tensor`
pub mod exponential {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const LAMBD: At<f64> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `eye(int n, int? m=None, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod eye {
    use super::*;
    pub const N: At<i64> = At::nth(0);
    pub const M: At<i64> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const DEVICE: At<Device> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `fft_c2c(Tensor input, int[] dim, int normalization, bool forward) -> Tensor`
pub mod fft_c2c {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const NORMALIZATION: At<i64> = At::nth(1);
    pub const FORWARD: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `fft_c2r(Tensor input, int[] dim, int normalization, int last_dim_size) -> Tensor`
pub mod fft_c2r {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const NORMALIZATION: At<i64> = At::nth(1);
    pub const LAST_DIM_SIZE: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `fft_r2c(Tensor input, int[] dim, int normalization, bool onesided) -> Tensor`
pub mod fft_r2c {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const NORMALIZATION: At<i64> = At::nth(1);
    pub const ONESIDED: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `fill(Tensor input, Tensor|Scalar value) -> Tensor`
pub mod fill {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const VALUE: In = In::nth(1);
    pub const VALUE_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `flatten(Tensor(a) input, int start_dim=0, int end_dim=-1) -> Tensor(a)`
pub mod flatten {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const START_DIM: At<i64> = At::nth(0);
    pub const END_DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `flip(Tensor input, int[1] dims) -> Tensor`
pub mod flip {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIMS: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `fliplr(Tensor input) -> Tensor`
pub mod fliplr {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `flipud(Tensor input) -> Tensor`
pub mod flipud {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `float_power(Tensor input, Tensor|Scalar exponent) -> Tensor`
pub mod float_power {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const EXPONENT: In = In::nth(1);
    pub const EXPONENT_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `float_power.Scalar(Scalar input, Tensor exponent) -> Tensor`
pub mod float_power_scalar {
    use super::*;
    pub const INPUT: At<Scalar> = At::nth(0);
    pub const EXPONENT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `floor(Tensor input) -> Tensor`
pub mod floor {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `floor_divide(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod floor_divide {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `fmax(Tensor input, Tensor other) -> Tensor`
pub mod fmax {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `fmin(Tensor input, Tensor other) -> Tensor`
pub mod fmin {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `fmod(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod fmod {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `frac(Tensor input) -> Tensor`
pub mod frac {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)`
pub mod frexp {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MANTISSA: Out = Out::nth(0);
    pub const EXPONENT: Out = Out::nth(1);
}

/// `frexp_exponent(Tensor input) -> Tensor`
pub mod frexp_exponent {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `frexp_mantissa(Tensor input) -> Tensor`
pub mod frexp_mantissa {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `full(int[] size, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod full {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const FILL_VALUE: At<Scalar> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const DEVICE: At<Device> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `full_like(Tensor input, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
pub mod full_like {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const FILL_VALUE: At<Scalar> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const DEVICE: At<Device> = At::nth(2);
    pub const REQUIRES_GRAD: At<bool> = At::nth(3);
    pub const MEMORY_FORMAT: At<str> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `fused_add_layer_norm(Tensor input, Tensor residual, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor output, Tensor mean, Tensor rstd, Tensor sum)`
pub mod fused_add_layer_norm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESIDUAL: In = In::nth(1);
    pub const NORMALIZED_SHAPE: At<[i64]> = At::nth(0);
    pub const WEIGHT: In = In::nth(2);
    pub const BIAS: In = In::nth(3);
    pub const EPS: At<f64> = At::nth(1);
    pub const OUTPUT: Out = Out::nth(0);
    pub const MEAN: Out = Out::nth(1);
    pub const RSTD: Out = Out::nth(2);
    pub const SUM: Out = Out::nth(3);
}

/// `fused_add_rms_norm(Tensor input, Tensor residual, int[] normalized_shape, Tensor? weight, float eps) -> (Tensor output, Tensor rstd, Tensor sum)`
pub mod fused_add_rms_norm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESIDUAL: In = In::nth(1);
    pub const NORMALIZED_SHAPE: At<[i64]> = At::nth(0);
    pub const WEIGHT: In = In::nth(2);
    pub const EPS: At<f64> = At::nth(1);
    pub const OUTPUT: Out = Out::nth(0);
    pub const RSTD: Out = Out::nth(1);
    pub const SUM: Out = Out::nth(2);
}

/// `fused_linear(Tensor input, Tensor weight, Tensor? bias, str activation) -> Tensor`
pub mod fused_linear {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const ACTIVATION: At<str> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `fused_linear_add(Tensor input, Tensor weight, Tensor? bias, Tensor residual) -> Tensor`
pub mod fused_linear_add {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const RESIDUAL: In = In::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `fused_linear_keep(Tensor input, Tensor weight, Tensor? bias, str activation) -> (Tensor output, Tensor before)`
pub mod fused_linear_keep {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const ACTIVATION: At<str> = At::nth(0);
    pub const OUTPUT: Out = Out::nth(0);
    pub const BEFORE: Out = Out::nth(1);
}

/// `fused_matmul_add(Tensor input, Tensor other, Tensor residual) -> Tensor`
pub mod fused_matmul_add {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESIDUAL: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `gamma_doubles(Tensor input, *, Generator? generator=None) -> Tensor`
pub mod gamma_doubles {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor`
pub mod gather {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const SPARSE_GRAD: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `gcd(Tensor input, Tensor other) -> Tensor`
pub mod gcd {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `ge(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod ge {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `gelu(Tensor input, *, str approximate="none") -> Tensor`
pub mod gelu {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const APPROXIMATE: At<str> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `gelu_backward(Tensor grad_output, Tensor input, *, str approximate="none") -> Tensor`
pub mod gelu_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const APPROXIMATE: At<str> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `geometric(Tensor input, float p, *, Generator? generator=None) -> Tensor`
pub mod geometric {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const P: At<f64> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `geqrf(Tensor input) -> (Tensor a, Tensor tau)`
pub mod geqrf {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const A: Out = Out::nth(0);
    pub const TAU: Out = Out::nth(1);
}

/// `glu(Tensor input, int dim=-1) -> Tensor`
pub mod glu {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `grid_sample(Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners) -> Tensor`
pub mod grid_sample {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const GRID: In = In::nth(1);
    pub const MODE: At<str> = At::nth(0);
    pub const PADDING_MODE: At<str> = At::nth(1);
    pub const ALIGN_CORNERS: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `grid_sample_backward(Tensor grad_output, Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners, bool of_input, bool of_grid) -> (Tensor grad_input, Tensor grad_grid)`
pub mod grid_sample_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const GRID: In = In::nth(2);
    pub const MODE: At<str> = At::nth(0);
    pub const PADDING_MODE: At<str> = At::nth(1);
    pub const ALIGN_CORNERS: At<bool> = At::nth(2);
    pub const OF_INPUT: At<bool> = At::nth(3);
    pub const OF_GRID: At<bool> = At::nth(4);
    pub const GRAD_INPUT: Out = Out::nth(0);
    pub const GRAD_GRID: Out = Out::nth(1);
}

/// `group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor`
pub mod group_norm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const NUM_GROUPS: At<i64> = At::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const EPS: At<f64> = At::nth(1);
    pub const CUDNN_ENABLED: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `group_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, int num_groups, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)`
pub mod group_norm_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const MEAN: In = In::nth(2);
    pub const RSTD: In = In::nth(3);
    pub const WEIGHT: In = In::nth(4);
    pub const NUM_GROUPS: At<i64> = At::nth(0);
    pub const AFFINE: At<bool> = At::nth(1);
    pub const EPS: At<f64> = At::nth(2);
    pub const GRAD_INPUT: Out = Out::nth(0);
    pub const GRAD_WEIGHT: Out = Out::nth(1);
    pub const GRAD_BIAS: Out = Out::nth(2);
}

/// `group_norm_with_statistics(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps) -> (Tensor output, Tensor mean, Tensor rstd)`
pub mod group_norm_with_statistics {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const NUM_GROUPS: At<i64> = At::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const EPS: At<f64> = At::nth(1);
    pub const OUTPUT: Out = Out::nth(0);
    pub const MEAN: Out = Out::nth(1);
    pub const RSTD: Out = Out::nth(2);
}

/// `gt(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod gt {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `hardshrink(Tensor input, Scalar lambd=0.5) -> Tensor`
pub mod hardshrink {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const LAMBD: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `hardsigmoid(Tensor input) -> Tensor`
pub mod hardsigmoid {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `hardsigmoid_backward(Tensor grad_output, Tensor input) -> Tensor`
pub mod hardsigmoid_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `hardswish(Tensor input) -> Tensor`
pub mod hardswish {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `hardswish_backward(Tensor grad_output, Tensor input) -> Tensor`
pub mod hardswish_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `hardtanh(Tensor input, Scalar min_val=-1, Scalar max_val=1) -> Tensor`
pub mod hardtanh {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MIN_VAL: At<Scalar> = At::nth(0);
    pub const MAX_VAL: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `hardtanh_backward(Tensor grad_output, Tensor input, Scalar min_val, Scalar max_val) -> Tensor`
pub mod hardtanh_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const MIN_VAL: At<Scalar> = At::nth(0);
    pub const MAX_VAL: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `heaviside(Tensor input, Tensor values) -> Tensor`
pub mod heaviside {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const VALUES: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor`
pub mod histc {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const BINS: At<i64> = At::nth(0);
    pub const MIN: At<Scalar> = At::nth(1);
    pub const MAX: At<Scalar> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `hsplit(Tensor(a) input, int sections) -> Tensor(a)[]`
pub mod hsplit {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SECTIONS: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `hsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]`
pub mod hsplit_array {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const INDICES: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `hstack(Tensor[] tensors) -> Tensor`
pub mod hstack {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const RESULT: Out = Out::nth(0);
}

/// `huber_loss(Tensor input, Tensor target, str reduction="mean", float delta=1.0, Tensor? weight=None) -> Tensor`
pub mod huber_loss {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const REDUCTION: At<str> = At::nth(0);
    pub const DELTA: At<f64> = At::nth(1);
    pub const WEIGHT: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `hypot(Tensor input, Tensor other) -> Tensor`
pub mod hypot {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `i0(Tensor input) -> Tensor`
pub mod i0 {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `imag(Tensor(a) input) -> Tensor(a)`
pub mod imag {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `index(Tensor input, Tensor?[] indices) -> Tensor`
pub mod index {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const INDICES: Ins = Ins::new(1, 0, 0);
    pub const RESULT: Out = Out::nth(0);
}

/// `index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor`
pub mod index_add {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const SOURCE: In = In::nth(2);
    pub const ALPHA: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor`
pub mod index_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const SOURCE: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `index_fill(Tensor input, int dim, Tensor index, Tensor|Scalar value) -> Tensor`
pub mod index_fill {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const VALUE: In = In::nth(2);
    pub const VALUE_SCALAR: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `index_put(Tensor input, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor`
pub mod index_put {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const INDICES: Ins = Ins::new(1, 0, 0);
    pub const VALUES: LastIn = LastIn::nth_from_end(1);
    pub const ACCUMULATE: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor`
pub mod index_reduce {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const SOURCE: In = In::nth(2);
    pub const REDUCE: At<str> = At::nth(1);
    pub const INCLUDE_SELF: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `index_select(Tensor input, int dim, Tensor index) -> Tensor`
pub mod index_select {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `inner(Tensor input, Tensor other) -> Tensor`
pub mod inner {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `is_member(Tensor input, Tensor others, bool invert) -> Tensor`
pub mod is_member {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHERS: In = In::nth(1);
    pub const INVERT: At<bool> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor`
pub mod isclose {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RTOL: At<f64> = At::nth(0);
    pub const ATOL: At<f64> = At::nth(1);
    pub const EQUAL_NAN: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `isfinite(Tensor input) -> Tensor`
pub mod isfinite {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `isin(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor`
pub mod isin {
    use super::*;
    pub const ELEMENTS: In = In::nth(0);
    pub const TEST_ELEMENTS: In = In::nth(1);
    pub const ASSUME_UNIQUE: At<bool> = At::nth(0);
    pub const INVERT: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `isin.element(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor`
pub mod isin_element {
    use super::*;
    pub const ELEMENT: At<Scalar> = At::nth(0);
    pub const TEST_ELEMENTS: In = In::nth(0);
    pub const ASSUME_UNIQUE: At<bool> = At::nth(1);
    pub const INVERT: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `isin.number(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor`
pub mod isin_number {
    use super::*;
    pub const ELEMENTS: In = In::nth(0);
    pub const TEST_ELEMENT: At<Scalar> = At::nth(0);
    pub const ASSUME_UNIQUE: At<bool> = At::nth(1);
    pub const INVERT: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `isinf(Tensor input) -> Tensor`
pub mod isinf {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `isnan(Tensor input) -> Tensor`
pub mod isnan {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `isneginf(Tensor input) -> Tensor`
pub mod isneginf {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `isposinf(Tensor input) -> Tensor`
pub mod isposinf {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `isreal(Tensor input) -> Tensor`
pub mod isreal {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `kron(Tensor input, Tensor other) -> Tensor`
pub mod kron {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)`
pub mod kthvalue {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const K: At<i64> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const VALUES: Out = Out::nth(0);
    pub const INDICES: Out = Out::nth(1);
}

/// `l1_loss(Tensor input, Tensor target, str reduction="mean", Tensor? weight=None) -> Tensor`
pub mod l1_loss {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const REDUCTION: At<str> = At::nth(0);
    pub const WEIGHT: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor`
pub mod layer_norm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const NORMALIZED_SHAPE: At<[i64]> = At::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const EPS: At<f64> = At::nth(1);
    pub const CUDNN_ENABLE: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `layer_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, Tensor? residual, int[] normalized_shape, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)`
pub mod layer_norm_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const MEAN: In = In::nth(2);
    pub const RSTD: In = In::nth(3);
    pub const WEIGHT: In = In::nth(4);
    pub const RESIDUAL: In = In::nth(5);
    pub const NORMALIZED_SHAPE: At<[i64]> = At::nth(0);
    pub const AFFINE: At<bool> = At::nth(1);
    pub const EPS: At<f64> = At::nth(2);
    pub const GRAD_INPUT: Out = Out::nth(0);
    pub const GRAD_WEIGHT: Out = Out::nth(1);
    pub const GRAD_BIAS: Out = Out::nth(2);
}

/// `lcm(Tensor input, Tensor other) -> Tensor`
pub mod lcm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `ldexp(Tensor input, Tensor other) -> Tensor`
pub mod ldexp {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `le(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod le {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `leaky_relu(Tensor input, Scalar negative_slope=0.01) -> Tensor`
pub mod leaky_relu {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const NEGATIVE_SLOPE: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `leaky_relu_backward(Tensor grad_output, Tensor input, Scalar negative_slope) -> Tensor`
pub mod leaky_relu_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const NEGATIVE_SLOPE: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `lerp(Tensor input, Tensor end, Tensor|Scalar weight) -> Tensor`
pub mod lerp {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const END: In = In::nth(1);
    pub const WEIGHT: In = In::nth(2);
    pub const WEIGHT_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `lgamma(Tensor input) -> Tensor`
pub mod lgamma {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `linalg_cholesky_ex(Tensor input, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)`
pub mod linalg_cholesky_ex {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const UPPER: At<bool> = At::nth(0);
    pub const CHECK_ERRORS: At<bool> = At::nth(1);
    pub const L: Out = Out::nth(0);
    pub const INFO: Out = Out::nth(1);
}

/// `linalg_cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor`
pub mod linalg_cross {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `linalg_eig(Tensor input, bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)`
pub mod linalg_eig {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const COMPUTE_V: At<bool> = At::nth(0);
    pub const EIGENVALUES: Out = Out::nth(0);
    pub const EIGENVECTORS: Out = Out::nth(1);
}

/// `linalg_eigh(Tensor input, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)`
pub mod linalg_eigh {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const UPLO: At<str> = At::nth(0);
    pub const COMPUTE_V: At<bool> = At::nth(1);
    pub const EIGENVALUES: Out = Out::nth(0);
    pub const EIGENVECTORS: Out = Out::nth(1);
}

/// `linalg_householder_product(Tensor input, Tensor tau, int columns=-1) -> Tensor`
pub mod linalg_householder_product {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TAU: In = In::nth(1);
    pub const COLUMNS: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `linalg_inv_ex(Tensor input, *, int check=0) -> (Tensor inverse, Tensor info)`
pub mod linalg_inv_ex {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const CHECK: At<i64> = At::nth(0);
    pub const INVERSE: Out = Out::nth(0);
    pub const INFO: Out = Out::nth(1);
}

/// `linalg_lu_factor_ex(Tensor input, *, bool pivot=True, int check=0) -> (Tensor LU, Tensor pivots, Tensor info)`
pub mod linalg_lu_factor_ex {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const PIVOT: At<bool> = At::nth(0);
    pub const CHECK: At<i64> = At::nth(1);
    pub const LU: Out = Out::nth(0);
    pub const PIVOTS: Out = Out::nth(1);
    pub const INFO: Out = Out::nth(2);
}

/// `linalg_lu_permutation(Tensor input, int rows) -> Tensor`
pub mod linalg_lu_permutation {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const ROWS: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `linalg_pinv_of(Tensor input, Tensor inverse) -> Tensor`
pub mod linalg_pinv_of {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const INVERSE: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)`
pub mod linalg_qr {
    use super::*;
    pub const A: In = In::nth(0);
    pub const MODE: At<str> = At::nth(0);
    pub const Q: Out = Out::nth(0);
    pub const R: Out = Out::nth(1);
}

/// `linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, int check=0) -> (Tensor result, Tensor info)`
pub mod linalg_solve_ex {
    use super::*;
    pub const A: In = In::nth(0);
    pub const B: In = In::nth(1);
    pub const LEFT: At<bool> = At::nth(0);
    pub const CHECK: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
    pub const INFO: Out = Out::nth(1);
}

/// `linalg_solve_triangular(Tensor input, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor`
pub mod linalg_solve_triangular {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const B: In = In::nth(1);
    pub const UPPER: At<bool> = At::nth(0);
    pub const LEFT: At<bool> = At::nth(1);
    pub const UNITRIANGULAR: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `linalg_svd(Tensor input, bool full_matrices=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor Vh)`
pub mod linalg_svd {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const FULL_MATRICES: At<bool> = At::nth(0);
    pub const COMPUTE_UV: At<bool> = At::nth(1);
    pub const U: Out = Out::nth(0);
    pub const S: Out = Out::nth(1);
    pub const VH: Out = Out::nth(2);
}

/// `linalg_vector_norm(Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
pub mod linalg_vector_norm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const ORD: At<Scalar> = At::nth(0);
    pub const DIM: At<[i64]> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor`
pub mod linear {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `linear_backward_parameters(Tensor grad_output, Tensor input) -> (Tensor weight, Tensor bias)`
pub mod linear_backward_parameters {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const WEIGHT: Out = Out::nth(0);
    pub const BIAS: Out = Out::nth(1);
}

/// `linear_backward_weight(Tensor grad_output, Tensor input, Tensor? residual=None) -> Tensor`
pub mod linear_backward_weight {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const RESIDUAL: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `linspace(Scalar start, Scalar end, int steps, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod linspace {
    use super::*;
    pub const START: At<Scalar> = At::nth(0);
    pub const END: At<Scalar> = At::nth(1);
    pub const STEPS: At<i64> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const DEVICE: At<Device> = At::nth(4);
    pub const REQUIRES_GRAD: At<bool> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `linspace.tensors(Tensor|Scalar start, Tensor|Scalar end, int steps, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod linspace_tensors {
    use super::*;
    pub const START: In = In::nth(0);
    pub const START_SCALAR: At<Scalar> = At::nth(0);
    pub const END: In = In::nth(1);
    pub const END_SCALAR: At<Scalar> = At::nth(1);
    pub const STEPS: At<i64> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const DEVICE: At<Device> = At::nth(4);
    pub const REQUIRES_GRAD: At<bool> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `log(Tensor input) -> Tensor`
pub mod log {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `log10(Tensor input) -> Tensor`
pub mod log10 {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `log1p(Tensor input) -> Tensor`
pub mod log1p {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `log2(Tensor input) -> Tensor`
pub mod log2 {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `log_normal(Tensor input, float mean=1, float std=2, *, Generator? generator=None) -> Tensor`
pub mod log_normal {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MEAN: At<f64> = At::nth(0);
    pub const STD: At<f64> = At::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `log_sigmoid(Tensor input) -> Tensor`
pub mod log_sigmoid {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `log_softmax(Tensor input, int dim, DType? dtype=None) -> Tensor`
pub mod log_softmax {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `logaddexp(Tensor input, Tensor other) -> Tensor`
pub mod logaddexp {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `logaddexp2(Tensor input, Tensor other) -> Tensor`
pub mod logaddexp2 {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `logcumsumexp(Tensor input, int dim) -> Tensor`
pub mod logcumsumexp {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `logdet(Tensor input) -> Tensor`
pub mod logdet {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `logical_and(Tensor input, Tensor other) -> Tensor`
pub mod logical_and {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `logical_not(Tensor input) -> Tensor`
pub mod logical_not {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `logical_or(Tensor input, Tensor other) -> Tensor`
pub mod logical_or {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `logical_xor(Tensor input, Tensor other) -> Tensor`
pub mod logical_xor {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `logit(Tensor input, float? eps=None) -> Tensor`
pub mod logit {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const EPS: At<f64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `logit_backward(Tensor grad_output, Tensor input, float? eps=None) -> Tensor`
pub mod logit_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const EPS: At<f64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `logspace(Tensor|Scalar start, Tensor|Scalar end, int steps, float base=10.0, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod logspace {
    use super::*;
    pub const START: In = In::nth(0);
    pub const START_SCALAR: At<Scalar> = At::nth(0);
    pub const END: In = In::nth(1);
    pub const END_SCALAR: At<Scalar> = At::nth(1);
    pub const STEPS: At<i64> = At::nth(2);
    pub const BASE: At<f64> = At::nth(3);
    pub const DTYPE: At<DType> = At::nth(4);
    pub const DEVICE: At<Device> = At::nth(5);
    pub const REQUIRES_GRAD: At<bool> = At::nth(6);
    pub const RESULT: Out = Out::nth(0);
}

/// `logsumexp(Tensor input, int[1] dim, bool keepdim=False) -> Tensor`
pub mod logsumexp {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `lt(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod lt {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `masked_fill(Tensor input, Tensor mask, Tensor|Scalar value) -> Tensor`
pub mod masked_fill {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MASK: In = In::nth(1);
    pub const VALUE: In = In::nth(2);
    pub const VALUE_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor`
pub mod masked_scatter {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MASK: In = In::nth(1);
    pub const SOURCE: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `masked_select(Tensor input, Tensor mask) -> Tensor`
pub mod masked_select {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MASK: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `matmul(Tensor input, Tensor other) -> Tensor`
pub mod matmul {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `matrix_exp(Tensor input) -> Tensor`
pub mod matrix_exp {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `max(Tensor input) -> Tensor`
pub mod max {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)`
pub mod max_dim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const VALUES: Out = Out::nth(0);
    pub const INDICES: Out = Out::nth(1);
}

/// `max.other(Tensor input, Tensor other) -> Tensor`
pub mod max_other {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `max_pool1d(Tensor input, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> Tensor`
pub mod max_pool1d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const DILATION: At<[i64]> = At::nth(3);
    pub const CEIL_MODE: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `max_pool1d_with_indices(Tensor input, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)`
pub mod max_pool1d_with_indices {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const DILATION: At<[i64]> = At::nth(3);
    pub const CEIL_MODE: At<bool> = At::nth(4);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `max_pool2d(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor`
pub mod max_pool2d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const DILATION: At<[i64]> = At::nth(3);
    pub const CEIL_MODE: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `max_pool2d_with_indices(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)`
pub mod max_pool2d_with_indices {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const DILATION: At<[i64]> = At::nth(3);
    pub const CEIL_MODE: At<bool> = At::nth(4);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `max_pool3d(Tensor input, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor`
pub mod max_pool3d {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const DILATION: At<[i64]> = At::nth(3);
    pub const CEIL_MODE: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `max_pool3d_with_indices(Tensor input, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)`
pub mod max_pool3d_with_indices {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const DILATION: At<[i64]> = At::nth(3);
    pub const CEIL_MODE: At<bool> = At::nth(4);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `max_pool_backward(Tensor grad_output, Tensor indices, int[] input_size) -> Tensor`
pub mod max_pool_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INDICES: In = In::nth(1);
    pub const INPUT_SIZE: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `maximum(Tensor input, Tensor other) -> Tensor`
pub mod maximum {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `mean(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
pub mod mean {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `median(Tensor input) -> Tensor`
pub mod median {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `median.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)`
pub mod median_dim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const VALUES: Out = Out::nth(0);
    pub const INDICES: Out = Out::nth(1);
}

/// `meshgrid(Tensor[] tensors, *, str? indexing=None) -> Tensor[]`
pub mod meshgrid {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const INDEXING: At<str> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `min(Tensor input) -> Tensor`
pub mod min {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)`
pub mod min_dim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const VALUES: Out = Out::nth(0);
    pub const INDICES: Out = Out::nth(1);
}

/// `min.other(Tensor input, Tensor other) -> Tensor`
pub mod min_other {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `minimum(Tensor input, Tensor other) -> Tensor`
pub mod minimum {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `mish(Tensor input) -> Tensor`
pub mod mish {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `mish_backward(Tensor grad_output, Tensor input) -> Tensor`
pub mod mish_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `mm(Tensor input, Tensor mat2) -> Tensor`
pub mod mm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MAT2: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)`
pub mod mode {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const VALUES: Out = Out::nth(0);
    pub const INDICES: Out = Out::nth(1);
}

/// `moveaxis(Tensor(a) input, int[1] source, int[1] destination) -> Tensor(a)`
pub mod moveaxis {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SOURCE: At<[i64]> = At::nth(0);
    pub const DESTINATION: At<[i64]> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `movedim(Tensor(a) input, int[1] source, int[1] destination) -> Tensor(a)`
pub mod movedim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SOURCE: At<[i64]> = At::nth(0);
    pub const DESTINATION: At<[i64]> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `mse_loss(Tensor input, Tensor target, str reduction="mean", Tensor? weight=None) -> Tensor`
pub mod mse_loss {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const REDUCTION: At<str> = At::nth(0);
    pub const WEIGHT: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `msort(Tensor input) -> Tensor`
pub mod msort {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `mul(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod mul {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `multinomial(Tensor input, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor`
pub mod multinomial {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const NUM_SAMPLES: At<i64> = At::nth(0);
    pub const REPLACEMENT: At<bool> = At::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `mv(Tensor input, Tensor vec) -> Tensor`
pub mod mv {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const VEC: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `mvlgamma(Tensor input, int p) -> Tensor`
pub mod mvlgamma {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const P: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `nan_to_num(Tensor input, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor`
pub mod nan_to_num {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const NAN: At<f64> = At::nth(0);
    pub const POSINF: At<f64> = At::nth(1);
    pub const NEGINF: At<f64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `nanmean(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
pub mod nanmean {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `nanmedian(Tensor input) -> Tensor`
pub mod nanmedian {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `nanmedian.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)`
pub mod nanmedian_dim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const VALUES: Out = Out::nth(0);
    pub const INDICES: Out = Out::nth(1);
}

/// `nanquantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor`
pub mod nanquantile {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const Q: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const INTERPOLATION: At<str> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `nanquantile.scalar(Tensor input, float q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor`
pub mod nanquantile_scalar {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const Q: At<f64> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const INTERPOLATION: At<str> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `nansum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
pub mod nansum {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `narrow(Tensor(a) input, int dim, int start, int length) -> Tensor(a)`
pub mod narrow {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const START: At<i64> = At::nth(1);
    pub const LENGTH: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `narrow.tensor(Tensor(a) input, int dim, Tensor start, int length) -> Tensor(a)`
pub mod narrow_tensor {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const START: In = In::nth(1);
    pub const LENGTH: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `narrow_copy(Tensor input, int dim, int start, int length) -> Tensor`
pub mod narrow_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const START: At<i64> = At::nth(1);
    pub const LENGTH: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `native_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float dropout_p, bool is_causal, float scale, int library=0, *, Generator? generator=None) -> (Tensor output, Tensor logsumexp)`
pub mod native_attention {
    use super::*;
    pub const QUERY: In = In::nth(0);
    pub const KEY: In = In::nth(1);
    pub const VALUE: In = In::nth(2);
    pub const ATTN_MASK: In = In::nth(3);
    pub const DROPOUT_P: At<f64> = At::nth(0);
    pub const IS_CAUSAL: At<bool> = At::nth(1);
    pub const SCALE: At<f64> = At::nth(2);
    pub const LIBRARY: At<i64> = At::nth(3);
    pub const GENERATOR: At<Rng> = At::nth(4);
    pub const OUTPUT: Out = Out::nth(0);
    pub const LOGSUMEXP: Out = Out::nth(1);
}

/// `native_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor output, Tensor logsumexp, float dropout_p, bool is_causal, float scale, bool needs_mask, int library=0, *, Generator? generator=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_mask)`
pub mod native_attention_backward {
    use super::*;
    pub const GRAD_OUT: In = In::nth(0);
    pub const QUERY: In = In::nth(1);
    pub const KEY: In = In::nth(2);
    pub const VALUE: In = In::nth(3);
    pub const ATTN_MASK: In = In::nth(4);
    pub const OUTPUT: In = In::nth(5);
    pub const LOGSUMEXP: In = In::nth(6);
    pub const DROPOUT_P: At<f64> = At::nth(0);
    pub const IS_CAUSAL: At<bool> = At::nth(1);
    pub const SCALE: At<f64> = At::nth(2);
    pub const NEEDS_MASK: At<bool> = At::nth(3);
    pub const LIBRARY: At<i64> = At::nth(4);
    pub const GENERATOR: At<Rng> = At::nth(5);
    pub const GRAD_QUERY: Out = Out::nth(0);
    pub const GRAD_KEY: Out = Out::nth(1);
    pub const GRAD_VALUE: Out = Out::nth(2);
    pub const GRAD_MASK: Out = Out::nth(3);
}

/// `native_avg_pool(Tensor input, int[] kernel_size, int[] stride, int[] padding, bool count_include_pad, int divisor, int[] output_size) -> Tensor`
pub mod native_avg_pool {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const COUNT_INCLUDE_PAD: At<bool> = At::nth(3);
    pub const DIVISOR: At<i64> = At::nth(4);
    pub const OUTPUT_SIZE: At<[i64]> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `native_conv(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor`
pub mod native_conv {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<[i64]> = At::nth(1);
    pub const DILATION: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `native_conv_activation(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups, str activation) -> Tensor`
pub mod native_conv_activation {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<[i64]> = At::nth(1);
    pub const DILATION: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const ACTIVATION: At<str> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `native_conv_prepared(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups, str activation, int[] weight_size, bool at_points) -> Tensor`
pub mod native_conv_prepared {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const STRIDE: At<[i64]> = At::nth(0);
    pub const PADDING: At<[i64]> = At::nth(1);
    pub const DILATION: At<[i64]> = At::nth(2);
    pub const GROUPS: At<i64> = At::nth(3);
    pub const ACTIVATION: At<str> = At::nth(4);
    pub const WEIGHT_SIZE: At<[i64]> = At::nth(5);
    pub const AT_POINTS: At<bool> = At::nth(6);
    pub const RESULT: Out = Out::nth(0);
}

/// `native_cross_entropy(Tensor input, Tensor target, Tensor? weight, int ignore_index, float label_smoothing) -> (Tensor loss, Tensor logsumexp)`
pub mod native_cross_entropy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const WEIGHT: In = In::nth(2);
    pub const IGNORE_INDEX: At<i64> = At::nth(0);
    pub const LABEL_SMOOTHING: At<f64> = At::nth(1);
    pub const LOSS: Out = Out::nth(0);
    pub const LOGSUMEXP: Out = Out::nth(1);
}

/// `native_cross_entropy_reduced(Tensor input, Tensor target, Tensor? weight, int ignore_index, float label_smoothing, bool mean) -> (Tensor loss, Tensor logsumexp, Tensor total_weight)`
pub mod native_cross_entropy_reduced {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const WEIGHT: In = In::nth(2);
    pub const IGNORE_INDEX: At<i64> = At::nth(0);
    pub const LABEL_SMOOTHING: At<f64> = At::nth(1);
    pub const MEAN: At<bool> = At::nth(2);
    pub const LOSS: Out = Out::nth(0);
    pub const LOGSUMEXP: Out = Out::nth(1);
    pub const TOTAL_WEIGHT: Out = Out::nth(2);
}

/// `native_ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int max_target_length, int blank, bool zero_infinity) -> (Tensor loss, Tensor log_alpha)`
pub mod native_ctc_loss {
    use super::*;
    pub const LOG_PROBS: In = In::nth(0);
    pub const TARGETS: In = In::nth(1);
    pub const INPUT_LENGTHS: In = In::nth(2);
    pub const TARGET_LENGTHS: In = In::nth(3);
    pub const MAX_TARGET_LENGTH: At<i64> = At::nth(0);
    pub const BLANK: At<i64> = At::nth(1);
    pub const ZERO_INFINITY: At<bool> = At::nth(2);
    pub const LOSS: Out = Out::nth(0);
    pub const LOG_ALPHA: Out = Out::nth(1);
}

/// `native_dropout(Tensor input, float p, *, Generator? generator=None) -> (Tensor output, Tensor mask)`
pub mod native_dropout {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const P: At<f64> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const OUTPUT: Out = Out::nth(0);
    pub const MASK: Out = Out::nth(1);
}

/// `native_embedding_bag(Tensor weight, Tensor indices, Tensor? offsets, Tensor? per_sample_weights, str mode="mean", bool scale_grad_by_freq=False, bool sparse=False, bool include_last_offset=False, int padding_idx=-1, int start=0, int total=-1) -> (Tensor output, Tensor chosen)`
pub mod native_embedding_bag {
    use super::*;
    pub const WEIGHT: In = In::nth(0);
    pub const INDICES: In = In::nth(1);
    pub const OFFSETS: In = In::nth(2);
    pub const PER_SAMPLE_WEIGHTS: In = In::nth(3);
    pub const MODE: At<str> = At::nth(0);
    pub const SCALE_GRAD_BY_FREQ: At<bool> = At::nth(1);
    pub const SPARSE: At<bool> = At::nth(2);
    pub const INCLUDE_LAST_OFFSET: At<bool> = At::nth(3);
    pub const PADDING_IDX: At<i64> = At::nth(4);
    pub const START: At<i64> = At::nth(5);
    pub const TOTAL: At<i64> = At::nth(6);
    pub const OUTPUT: Out = Out::nth(0);
    pub const CHOSEN: Out = Out::nth(1);
}

/// `native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor output, Tensor mean, Tensor rstd)`
pub mod native_layer_norm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const NORMALIZED_SHAPE: At<[i64]> = At::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const BIAS: In = In::nth(2);
    pub const EPS: At<f64> = At::nth(1);
    pub const OUTPUT: Out = Out::nth(0);
    pub const MEAN: Out = Out::nth(1);
    pub const RSTD: Out = Out::nth(2);
}

/// `native_max_pool(Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, int[] output_size) -> (Tensor output, Tensor indices)`
pub mod native_max_pool {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const KERNEL_SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const PADDING: At<[i64]> = At::nth(2);
    pub const DILATION: At<[i64]> = At::nth(3);
    pub const OUTPUT_SIZE: At<[i64]> = At::nth(4);
    pub const OUTPUT: Out = Out::nth(0);
    pub const INDICES: Out = Out::nth(1);
}

/// `native_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float eps) -> (Tensor output, Tensor rstd)`
pub mod native_rms_norm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const NORMALIZED_SHAPE: At<[i64]> = At::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const EPS: At<f64> = At::nth(1);
    pub const OUTPUT: Out = Out::nth(0);
    pub const RSTD: Out = Out::nth(1);
}

/// `ne(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod ne {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `neg(Tensor input) -> Tensor`
pub mod neg {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `new_empty(Tensor input, int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod new_empty {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const DEVICE: At<Device> = At::nth(2);
    pub const REQUIRES_GRAD: At<bool> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `new_empty_strided(Tensor input, int[] size, int[] stride, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod new_empty_strided {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const STRIDE: At<[i64]> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const DEVICE: At<Device> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `new_full(Tensor input, int[] size, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod new_full {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const FILL_VALUE: At<Scalar> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const DEVICE: At<Device> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `new_ones(Tensor input, int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod new_ones {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const DEVICE: At<Device> = At::nth(2);
    pub const REQUIRES_GRAD: At<bool> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `new_zeros(Tensor input, int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod new_zeros {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const DEVICE: At<Device> = At::nth(2);
    pub const REQUIRES_GRAD: At<bool> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `nextafter(Tensor input, Tensor other) -> Tensor`
pub mod nextafter {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `nll_loss(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction="mean") -> Tensor`
pub mod nll_loss {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const WEIGHT: In = In::nth(2);
    pub const IGNORE_INDEX: At<i64> = At::nth(0);
    pub const REDUCTION: At<str> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `nonzero(Tensor input) -> Tensor`
pub mod nonzero {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `nonzero_static(Tensor input, *, int size, int fill_value=-1) -> Tensor`
pub mod nonzero_static {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<i64> = At::nth(0);
    pub const FILL_VALUE: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `nonzero_tuple(Tensor input) -> Tensor[]`
pub mod nonzero_tuple {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `normal(Tensor input, float mean=0, float std=1, *, Generator? generator=None) -> Tensor`
pub mod normal {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const MEAN: At<f64> = At::nth(0);
    pub const STD: At<f64> = At::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor`
pub mod normal_tensor_tensor {
    use super::*;
    pub const MEAN: In = In::nth(0);
    pub const STD: In = In::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor`
pub mod normal_tensor_float {
    use super::*;
    pub const MEAN: In = In::nth(0);
    pub const STD: At<f64> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor`
pub mod normal_float_tensor {
    use super::*;
    pub const MEAN: At<f64> = At::nth(0);
    pub const STD: In = In::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `normal.float_float(float mean, float std, int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod normal_float_float {
    use super::*;
    pub const MEAN: At<f64> = At::nth(0);
    pub const STD: At<f64> = At::nth(1);
    pub const SIZE: At<[i64]> = At::nth(2);
    pub const GENERATOR: At<Rng> = At::nth(3);
    pub const DTYPE: At<DType> = At::nth(4);
    pub const DEVICE: At<Device> = At::nth(5);
    pub const REQUIRES_GRAD: At<bool> = At::nth(6);
    pub const RESULT: Out = Out::nth(0);
}

/// `ones(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod ones {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const DEVICE: At<Device> = At::nth(2);
    pub const REQUIRES_GRAD: At<bool> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `ones_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
pub mod ones_like {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DTYPE: At<DType> = At::nth(0);
    pub const DEVICE: At<Device> = At::nth(1);
    pub const REQUIRES_GRAD: At<bool> = At::nth(2);
    pub const MEMORY_FORMAT: At<str> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `outer(Tensor input, Tensor vec2) -> Tensor`
pub mod outer {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const VEC2: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `pad_nd(Tensor input, int[] widths, str mode, Scalar value=0) -> Tensor`
pub mod pad_nd {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WIDTHS: At<[i64]> = At::nth(0);
    pub const MODE: At<str> = At::nth(1);
    pub const VALUE: At<Scalar> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `pad_nd_backward(Tensor grad_output, int[] sizes, int[] widths, str mode) -> Tensor`
pub mod pad_nd_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const SIZES: At<[i64]> = At::nth(0);
    pub const WIDTHS: At<[i64]> = At::nth(1);
    pub const MODE: At<str> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `pair_distances(Tensor x1, Tensor x2, float p) -> Tensor`
pub mod pair_distances {
    use super::*;
    pub const X1: In = In::nth(0);
    pub const X2: In = In::nth(1);
    pub const P: At<f64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `permute(Tensor(a) input, int[] dims) -> Tensor(a)`
pub mod permute {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIMS: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `permute_copy(Tensor input, int[] dims) -> Tensor`
pub mod permute_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIMS: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `poisson(Tensor input, Generator? generator=None) -> Tensor`
pub mod poisson {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `poisson_doubles(Tensor input, *, Generator? generator=None) -> Tensor`
pub mod poisson_doubles {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `polar(Tensor abs, Tensor angle) -> Tensor`
pub mod polar {
    use super::*;
    pub const ABS: In = In::nth(0);
    pub const ANGLE: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `polygamma(int n, Tensor input) -> Tensor`
pub mod polygamma {
    use super::*;
    pub const N: At<i64> = At::nth(0);
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `positive(Tensor(a) input) -> Tensor(a)`
pub mod positive {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `pow(Tensor input, Tensor|Scalar exponent) -> Tensor`
pub mod pow {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const EXPONENT: In = In::nth(1);
    pub const EXPONENT_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `pow.scalar(Scalar input, Tensor exponent) -> Tensor`
pub mod pow_scalar {
    use super::*;
    pub const INPUT: At<Scalar> = At::nth(0);
    pub const EXPONENT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `prelu(Tensor input, Tensor weight) -> Tensor`
pub mod prelu {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `prelu_kernel(Tensor input, Tensor weight) -> Tensor`
pub mod prelu_kernel {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const WEIGHT: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `prod(Tensor input, int? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
pub mod prod {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor`
pub mod put {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const SOURCE: In = In::nth(2);
    pub const ACCUMULATE: At<bool> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `quantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor`
pub mod quantile {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const Q: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const INTERPOLATION: At<str> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `quantile.scalar(Tensor input, float q, int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor`
pub mod quantile_scalar {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const Q: At<f64> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const INTERPOLATION: At<str> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `rad2deg(Tensor input) -> Tensor`
pub mod rad2deg {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `rand(int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod rand {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const DEVICE: At<Device> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `rand_like(Tensor input, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
pub mod rand_like {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const DEVICE: At<Device> = At::nth(2);
    pub const REQUIRES_GRAD: At<bool> = At::nth(3);
    pub const MEMORY_FORMAT: At<str> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `randint(int high, int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod randint {
    use super::*;
    pub const HIGH: At<i64> = At::nth(0);
    pub const SIZE: At<[i64]> = At::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const DEVICE: At<Device> = At::nth(4);
    pub const REQUIRES_GRAD: At<bool> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `randint.low(int low, int high, int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod randint_low {
    use super::*;
    pub const LOW: At<i64> = At::nth(0);
    pub const HIGH: At<i64> = At::nth(1);
    pub const SIZE: At<[i64]> = At::nth(2);
    pub const GENERATOR: At<Rng> = At::nth(3);
    pub const DTYPE: At<DType> = At::nth(4);
    pub const DEVICE: At<Device> = At::nth(5);
    pub const REQUIRES_GRAD: At<bool> = At::nth(6);
    pub const RESULT: Out = Out::nth(0);
}

/// `randint_like(Tensor input, int high, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
pub mod randint_like {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const HIGH: At<i64> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const DEVICE: At<Device> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const MEMORY_FORMAT: At<str> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `randint_like.low(Tensor input, int low, int high, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
pub mod randint_like_low {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const LOW: At<i64> = At::nth(0);
    pub const HIGH: At<i64> = At::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const DEVICE: At<Device> = At::nth(4);
    pub const REQUIRES_GRAD: At<bool> = At::nth(5);
    pub const MEMORY_FORMAT: At<str> = At::nth(6);
    pub const RESULT: Out = Out::nth(0);
}

/// `randn(int[] size, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod randn {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const DEVICE: At<Device> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `randn_like(Tensor input, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
pub mod randn_like {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const DEVICE: At<Device> = At::nth(2);
    pub const REQUIRES_GRAD: At<bool> = At::nth(3);
    pub const MEMORY_FORMAT: At<str> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `random(Tensor input, *, Generator? generator=None) -> Tensor`
pub mod random {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `random.from(Tensor input, int from, int? to, *, Generator? generator=None) -> Tensor`
pub mod random_from {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const FROM: At<i64> = At::nth(0);
    pub const TO: At<i64> = At::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `random.to(Tensor input, int to, *, Generator? generator=None) -> Tensor`
pub mod random_to {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TO: At<i64> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `randperm(int n, *, Generator? generator=None, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod randperm {
    use super::*;
    pub const N: At<i64> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const DEVICE: At<Device> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `ravel(Tensor(a) input) -> Tensor(a)`
pub mod ravel {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `real(Tensor(a) input) -> Tensor(a)`
pub mod real {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `reciprocal(Tensor input) -> Tensor`
pub mod reciprocal {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `relu(Tensor input) -> Tensor`
pub mod relu {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `remainder(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod remainder {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `remainder.Scalar_Tensor(Scalar input, Tensor other) -> Tensor`
pub mod remainder_scalar_tensor {
    use super::*;
    pub const INPUT: At<Scalar> = At::nth(0);
    pub const OTHER: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `repeat(Tensor input, int[] repeats) -> Tensor`
pub mod repeat {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const REPEATS: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor`
pub mod repeat_interleave_tensor {
    use super::*;
    pub const REPEATS: In = In::nth(0);
    pub const OUTPUT_SIZE: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `repeat_interleave.self_Tensor(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor`
pub mod repeat_interleave_self_tensor {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const REPEATS: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const OUTPUT_SIZE: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `repeat_interleave.self_int(Tensor input, int repeats, int? dim=None, *, int? output_size=None) -> Tensor`
pub mod repeat_interleave_self_int {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const REPEATS: At<i64> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const OUTPUT_SIZE: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `resample(Tensor input, int[] size, str mode, bool align_corners, bool antialias, float[]? scales=None) -> Tensor`
pub mod resample {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const MODE: At<str> = At::nth(1);
    pub const ALIGN_CORNERS: At<bool> = At::nth(2);
    pub const ANTIALIAS: At<bool> = At::nth(3);
    pub const SCALES: At<[f64]> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `resample_backward(Tensor grad_output, int[] size, str mode, bool align_corners, bool antialias, float[]? scales=None) -> Tensor`
pub mod resample_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const MODE: At<str> = At::nth(1);
    pub const ALIGN_CORNERS: At<bool> = At::nth(2);
    pub const ANTIALIAS: At<bool> = At::nth(3);
    pub const SCALES: At<[f64]> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `reshape(Tensor(a) input, int[] shape) -> Tensor(a)`
pub mod reshape {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SHAPE: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `reshape_as(Tensor(a) input, Tensor other) -> Tensor(a)`
pub mod reshape_as {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `rms_norm_backward(Tensor grad_output, Tensor input, Tensor rstd, Tensor? weight, Tensor? residual, int[] normalized_shape, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight)`
pub mod rms_norm_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const RSTD: In = In::nth(2);
    pub const WEIGHT: In = In::nth(3);
    pub const RESIDUAL: In = In::nth(4);
    pub const NORMALIZED_SHAPE: At<[i64]> = At::nth(0);
    pub const AFFINE: At<bool> = At::nth(1);
    pub const EPS: At<f64> = At::nth(2);
    pub const GRAD_INPUT: Out = Out::nth(0);
    pub const GRAD_WEIGHT: Out = Out::nth(1);
}

/// `rnn_layer(Tensor gates_x, Tensor h_0, Tensor? c_0, Tensor w_hh, Tensor? b_hh, Tensor? w_hr, int[] batch_sizes, str mode, bool reverse) -> (Tensor output, Tensor h_n, Tensor c_n, Tensor gates, Tensor cells)`
pub mod rnn_layer {
    use super::*;
    pub const GATES_X: In = In::nth(0);
    pub const H_0: In = In::nth(1);
    pub const C_0: In = In::nth(2);
    pub const W_HH: In = In::nth(3);
    pub const B_HH: In = In::nth(4);
    pub const W_HR: In = In::nth(5);
    pub const BATCH_SIZES: At<[i64]> = At::nth(0);
    pub const MODE: At<str> = At::nth(1);
    pub const REVERSE: At<bool> = At::nth(2);
    pub const OUTPUT: Out = Out::nth(0);
    pub const H_N: Out = Out::nth(1);
    pub const C_N: Out = Out::nth(2);
    pub const GATES: Out = Out::nth(3);
    pub const CELLS: Out = Out::nth(4);
}

/// `rnn_layer_backward(Tensor? grad_output, Tensor? grad_h_n, Tensor? grad_c_n, Tensor gates_x, Tensor h_0, Tensor? c_0, Tensor w_hh, Tensor? b_hh, Tensor? w_hr, Tensor output, Tensor gates, Tensor cells, int[] batch_sizes, str mode, bool reverse) -> (Tensor grad_gates_x, Tensor grad_gates_h, Tensor grad_h_0, Tensor grad_c_0, Tensor grad_h, Tensor projected)`
pub mod rnn_layer_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const GRAD_H_N: In = In::nth(1);
    pub const GRAD_C_N: In = In::nth(2);
    pub const GATES_X: In = In::nth(3);
    pub const H_0: In = In::nth(4);
    pub const C_0: In = In::nth(5);
    pub const W_HH: In = In::nth(6);
    pub const B_HH: In = In::nth(7);
    pub const W_HR: In = In::nth(8);
    pub const OUTPUT: In = In::nth(9);
    pub const GATES: In = In::nth(10);
    pub const CELLS: In = In::nth(11);
    pub const BATCH_SIZES: At<[i64]> = At::nth(0);
    pub const MODE: At<str> = At::nth(1);
    pub const REVERSE: At<bool> = At::nth(2);
    pub const GRAD_GATES_X: Out = Out::nth(0);
    pub const GRAD_GATES_H: Out = Out::nth(1);
    pub const GRAD_H_0: Out = Out::nth(2);
    pub const GRAD_C_0: Out = Out::nth(3);
    pub const GRAD_H: Out = Out::nth(4);
    pub const PROJECTED: Out = Out::nth(5);
}

/// `rnn_stack(Tensor input, Tensor h_0, Tensor? c_0, Tensor weights, int[] batch_sizes, str mode, int hidden, int num_layers, bool bias, bool bidirectional, bool batch_first, bool allow_tf32, int reserve) -> (Tensor output, Tensor h_n, Tensor c_n, Tensor reserved)`
pub mod rnn_stack {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const H_0: In = In::nth(1);
    pub const C_0: In = In::nth(2);
    pub const WEIGHTS: In = In::nth(3);
    pub const BATCH_SIZES: At<[i64]> = At::nth(0);
    pub const MODE: At<str> = At::nth(1);
    pub const HIDDEN: At<i64> = At::nth(2);
    pub const NUM_LAYERS: At<i64> = At::nth(3);
    pub const BIAS: At<bool> = At::nth(4);
    pub const BIDIRECTIONAL: At<bool> = At::nth(5);
    pub const BATCH_FIRST: At<bool> = At::nth(6);
    pub const ALLOW_TF32: At<bool> = At::nth(7);
    pub const RESERVE: At<i64> = At::nth(8);
    pub const OUTPUT: Out = Out::nth(0);
    pub const H_N: Out = Out::nth(1);
    pub const C_N: Out = Out::nth(2);
    pub const RESERVED: Out = Out::nth(3);
}

/// `rnn_stack_backward(Tensor? grad_output, Tensor? grad_h_n, Tensor? grad_c_n, Tensor input, Tensor h_0, Tensor? c_0, Tensor weights, Tensor output, Tensor reserved, int[] batch_sizes, str mode, int hidden, int num_layers, bool bias, bool bidirectional, bool batch_first, bool allow_tf32) -> (Tensor grad_input, Tensor grad_h_0, Tensor grad_c_0, Tensor grad_weights)`
pub mod rnn_stack_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const GRAD_H_N: In = In::nth(1);
    pub const GRAD_C_N: In = In::nth(2);
    pub const INPUT: In = In::nth(3);
    pub const H_0: In = In::nth(4);
    pub const C_0: In = In::nth(5);
    pub const WEIGHTS: In = In::nth(6);
    pub const OUTPUT: In = In::nth(7);
    pub const RESERVED: In = In::nth(8);
    pub const BATCH_SIZES: At<[i64]> = At::nth(0);
    pub const MODE: At<str> = At::nth(1);
    pub const HIDDEN: At<i64> = At::nth(2);
    pub const NUM_LAYERS: At<i64> = At::nth(3);
    pub const BIAS: At<bool> = At::nth(4);
    pub const BIDIRECTIONAL: At<bool> = At::nth(5);
    pub const BATCH_FIRST: At<bool> = At::nth(6);
    pub const ALLOW_TF32: At<bool> = At::nth(7);
    pub const GRAD_INPUT: Out = Out::nth(0);
    pub const GRAD_H_0: Out = Out::nth(1);
    pub const GRAD_C_0: Out = Out::nth(2);
    pub const GRAD_WEIGHTS: Out = Out::nth(3);
}

/// `roll(Tensor input, int[1] shifts, int[1] dims=[]) -> Tensor`
pub mod roll {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SHIFTS: At<[i64]> = At::nth(0);
    pub const DIMS: At<[i64]> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `rot90(Tensor input, int k=1, int[] dims=[0,1]) -> Tensor`
pub mod rot90 {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const K: At<i64> = At::nth(0);
    pub const DIMS: At<[i64]> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `round(Tensor input, *, int decimals=0) -> Tensor`
pub mod round {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DECIMALS: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `row_stack(Tensor[] tensors) -> Tensor`
pub mod row_stack {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const RESULT: Out = Out::nth(0);
}

/// `rsqrt(Tensor input) -> Tensor`
pub mod rsqrt {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `rsub(Tensor input, Tensor|Scalar other, Scalar alpha=1) -> Tensor`
pub mod rsub {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const ALPHA: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `scalar_tensor(Scalar s, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod scalar_tensor {
    use super::*;
    pub const S: At<Scalar> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const DEVICE: At<Device> = At::nth(2);
    pub const REQUIRES_GRAD: At<bool> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor`
pub mod scaled_dot_product_attention {
    use super::*;
    pub const QUERY: In = In::nth(0);
    pub const KEY: In = In::nth(1);
    pub const VALUE: In = In::nth(2);
    pub const ATTN_MASK: In = In::nth(3);
    pub const DROPOUT_P: At<f64> = At::nth(0);
    pub const IS_CAUSAL: At<bool> = At::nth(1);
    pub const SCALE: At<f64> = At::nth(2);
    pub const ENABLE_GQA: At<bool> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `scatter.reduce(Tensor input, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor`
pub mod scatter_reduce {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const SRC: In = In::nth(2);
    pub const REDUCE: At<str> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `scatter.src(Tensor input, int dim, Tensor index, Tensor src) -> Tensor`
pub mod scatter_src {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const SRC: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `scatter.value(Tensor input, int dim, Tensor index, Scalar value) -> Tensor`
pub mod scatter_value {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const VALUE: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `scatter.value_reduce(Tensor input, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor`
pub mod scatter_value_reduce {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const VALUE: At<Scalar> = At::nth(1);
    pub const REDUCE: At<str> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor`
pub mod scatter_add {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const SRC: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `scatter_combine(Tensor input, int dim, Tensor index, Tensor src, str reduce) -> Tensor`
pub mod scatter_combine {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const SRC: In = In::nth(2);
    pub const REDUCE: At<str> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `scatter_reduce.two(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor`
pub mod scatter_reduce_two {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const SRC: In = In::nth(2);
    pub const REDUCE: At<str> = At::nth(1);
    pub const INCLUDE_SELF: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `searchsorted(Tensor sorted_sequence, Tensor input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor`
pub mod searchsorted {
    use super::*;
    pub const SORTED_SEQUENCE: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const OUT_INT32: At<bool> = At::nth(0);
    pub const RIGHT: At<bool> = At::nth(1);
    pub const SIDE: At<str> = At::nth(2);
    pub const SORTER: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `searchsorted.scalar(Tensor sorted_sequence, Scalar input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor`
pub mod searchsorted_scalar {
    use super::*;
    pub const SORTED_SEQUENCE: In = In::nth(0);
    pub const INPUT: At<Scalar> = At::nth(0);
    pub const OUT_INT32: At<bool> = At::nth(1);
    pub const RIGHT: At<bool> = At::nth(2);
    pub const SIDE: At<str> = At::nth(3);
    pub const SORTER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `select(Tensor(a) input, int dim, int index) -> Tensor(a)`
pub mod select {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `select_copy(Tensor input, int dim, int index) -> Tensor`
pub mod select_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `select_scatter(Tensor input, Tensor src, int dim, int index) -> Tensor`
pub mod select_scatter {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SRC: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const INDEX: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `selu(Tensor input) -> Tensor`
pub mod selu {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `sgn(Tensor input) -> Tensor`
pub mod sgn {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `shrink_backward(Tensor grad_output, Tensor input, Scalar lambd) -> Tensor`
pub mod shrink_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const LAMBD: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `sigmoid(Tensor input) -> Tensor`
pub mod sigmoid {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `sign(Tensor input) -> Tensor`
pub mod sign {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `signbit(Tensor input) -> Tensor`
pub mod signbit {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `silu(Tensor input) -> Tensor`
pub mod silu {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `silu_backward(Tensor grad_output, Tensor input) -> Tensor`
pub mod silu_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `sin(Tensor input) -> Tensor`
pub mod sin {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `sinc(Tensor input) -> Tensor`
pub mod sinc {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `sinh(Tensor input) -> Tensor`
pub mod sinh {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `slice(Tensor(a) input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)`
pub mod slice {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const START: At<i64> = At::nth(1);
    pub const END: At<i64> = At::nth(2);
    pub const STEP: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `slice_backward(Tensor grad_output, int[] input_sizes, int dim, int start, int end, int step) -> Tensor`
pub mod slice_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT_SIZES: At<[i64]> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const START: At<i64> = At::nth(2);
    pub const END: At<i64> = At::nth(3);
    pub const STEP: At<i64> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `slice_copy(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor`
pub mod slice_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const START: At<i64> = At::nth(1);
    pub const END: At<i64> = At::nth(2);
    pub const STEP: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor`
pub mod slice_scatter {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SRC: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const START: At<i64> = At::nth(1);
    pub const END: At<i64> = At::nth(2);
    pub const STEP: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `slogdet(Tensor input) -> (Tensor sign, Tensor logabsdet)`
pub mod slogdet {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIGN: Out = Out::nth(0);
    pub const LOGABSDET: Out = Out::nth(1);
}

/// `smooth_absolute_difference(Tensor input, Tensor target, float beta) -> Tensor`
pub mod smooth_absolute_difference {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const BETA: At<f64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `smooth_absolute_difference_backward(Tensor grad_output, Tensor input, Tensor target, float beta) -> Tensor`
pub mod smooth_absolute_difference_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const TARGET: In = In::nth(2);
    pub const BETA: At<f64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `smooth_l1_loss(Tensor input, Tensor target, str reduction="mean", float beta=1.0) -> Tensor`
pub mod smooth_l1_loss {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const REDUCTION: At<str> = At::nth(0);
    pub const BETA: At<f64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `softmax(Tensor input, int dim, DType? dtype=None) -> Tensor`
pub mod softmax {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `softmax_backward(Tensor grad_output, Tensor output, int dim, bool log) -> Tensor`
pub mod softmax_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const OUTPUT: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const LOG: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `softplus(Tensor input, Scalar beta=1, Scalar threshold=20) -> Tensor`
pub mod softplus {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const BETA: At<Scalar> = At::nth(0);
    pub const THRESHOLD: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `softplus_backward(Tensor grad_output, Tensor input, Scalar beta, Scalar threshold) -> Tensor`
pub mod softplus_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const BETA: At<Scalar> = At::nth(0);
    pub const THRESHOLD: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `softshrink(Tensor input, Scalar lambd=0.5) -> Tensor`
pub mod softshrink {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const LAMBD: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `sort(Tensor input, int dim=-1, bool descending=False, *, bool? stable=False) -> (Tensor values, Tensor indices)`
pub mod sort {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const DESCENDING: At<bool> = At::nth(1);
    pub const STABLE: At<bool> = At::nth(2);
    pub const VALUES: Out = Out::nth(0);
    pub const INDICES: Out = Out::nth(1);
}

/// `special_entr(Tensor input) -> Tensor`
pub mod special_entr {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `special_erfcx(Tensor input) -> Tensor`
pub mod special_erfcx {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `special_i0e(Tensor input) -> Tensor`
pub mod special_i0e {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `special_i1(Tensor input) -> Tensor`
pub mod special_i1 {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `special_i1e(Tensor input) -> Tensor`
pub mod special_i1e {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `special_log_ndtr(Tensor input) -> Tensor`
pub mod special_log_ndtr {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `special_ndtr(Tensor input) -> Tensor`
pub mod special_ndtr {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `special_ndtri(Tensor input) -> Tensor`
pub mod special_ndtri {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `special_xlog1py(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod special_xlog1py {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `special_xlog1py.self_scalar(Scalar input, Tensor other) -> Tensor`
pub mod special_xlog1py_self_scalar {
    use super::*;
    pub const INPUT: At<Scalar> = At::nth(0);
    pub const OTHER: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `special_zeta(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod special_zeta {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `special_zeta.self_scalar(Scalar input, Tensor other) -> Tensor`
pub mod special_zeta_self_scalar {
    use super::*;
    pub const INPUT: At<Scalar> = At::nth(0);
    pub const OTHER: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `split(Tensor(a) input, int split_size, int dim=0) -> Tensor(a)[]`
pub mod split {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SPLIT_SIZE: At<i64> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `split.sizes(Tensor(a) input, int[] split_size, int dim=0) -> Tensor(a)[]`
pub mod split_sizes {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SPLIT_SIZE: At<[i64]> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `split_with_sizes(Tensor(a) input, int[] split_sizes, int dim=0) -> Tensor(a)[]`
pub mod split_with_sizes {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SPLIT_SIZES: At<[i64]> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `split_with_sizes_copy(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]`
pub mod split_with_sizes_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SPLIT_SIZES: At<[i64]> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `sqrt(Tensor input) -> Tensor`
pub mod sqrt {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `square(Tensor input) -> Tensor`
pub mod square {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `square_deviations(Tensor input, int[1]? dim=None, bool keepdim=False, float divisor=1, bool root=False) -> Tensor`
pub mod square_deviations {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const DIVISOR: At<f64> = At::nth(2);
    pub const ROOT: At<bool> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `squared_difference(Tensor input, Tensor target) -> Tensor`
pub mod squared_difference {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TARGET: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `squared_difference_backward(Tensor grad_output, Tensor input, Tensor target) -> Tensor`
pub mod squared_difference_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const TARGET: In = In::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `squeeze(Tensor(a) input) -> Tensor(a)`
pub mod squeeze {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `squeeze.dim(Tensor(a) input, int[1] dim) -> Tensor(a)`
pub mod squeeze_dim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `squeeze_copy(Tensor input) -> Tensor`
pub mod squeeze_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `squeeze_copy.dim(Tensor input, int[1] dim) -> Tensor`
pub mod squeeze_copy_dim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `stack(Tensor[] tensors, int dim=0) -> Tensor`
pub mod stack {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `std(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
pub mod std {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const CORRECTION: At<Scalar> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `std.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor`
pub mod std_dim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const UNBIASED: At<bool> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `std.unbiased(Tensor input, bool unbiased) -> Tensor`
pub mod std_unbiased {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const UNBIASED: At<bool> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `std_mean(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)`
pub mod std_mean {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const CORRECTION: At<Scalar> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `std_mean.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)`
pub mod std_mean_dim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const UNBIASED: At<bool> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `std_mean.unbiased(Tensor input, bool unbiased) -> (Tensor, Tensor)`
pub mod std_mean_unbiased {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const UNBIASED: At<bool> = At::nth(0);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `straight(Tensor(a) input) -> Tensor(a)`
pub mod straight {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `sub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`
pub mod sub {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const ALPHA: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
pub mod sum {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const KEEPDIM: At<bool> = At::nth(1);
    pub const DTYPE: At<DType> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `sum_to_size(Tensor input, int[] size) -> Tensor`
pub mod sum_to_size {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `swapaxes(Tensor(a) input, int axis0, int axis1) -> Tensor(a)`
pub mod swapaxes {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const AXIS0: At<i64> = At::nth(0);
    pub const AXIS1: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `swapdims(Tensor(a) input, int dim0, int dim1) -> Tensor(a)`
pub mod swapdims {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM0: At<i64> = At::nth(0);
    pub const DIM1: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `t(Tensor(a) input) -> Tensor(a)`
pub mod t {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `t_copy(Tensor input) -> Tensor`
pub mod t_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `take(Tensor input, Tensor index) -> Tensor`
pub mod take {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const INDEX: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor`
pub mod take_along_dim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const INDICES: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `tan(Tensor input) -> Tensor`
pub mod tan {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `tanh(Tensor input) -> Tensor`
pub mod tanh {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `tensor_split(Tensor(a) input, int sections, int dim=0) -> Tensor(a)[]`
pub mod tensor_split {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SECTIONS: At<i64> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `tensor_split.indices(Tensor(a) input, int[] indices, int dim=0) -> Tensor(a)[]`
pub mod tensor_split_indices {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const INDICES: At<[i64]> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `tensor_split.tensor(Tensor(a) input, Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]`
pub mod tensor_split_tensor {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const TENSOR_INDICES_OR_SECTIONS: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `threshold(Tensor input, Scalar threshold, Scalar value) -> Tensor`
pub mod threshold {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const THRESHOLD: At<Scalar> = At::nth(0);
    pub const VALUE: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `threshold_backward(Tensor grad_output, Tensor input, Scalar threshold) -> Tensor`
pub mod threshold_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const THRESHOLD: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `tile(Tensor input, int[] dims) -> Tensor`
pub mod tile {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIMS: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `to_copy(Tensor input, *, DType? dtype=None, Device? device=None) -> Tensor`
pub mod to_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DTYPE: At<DType> = At::nth(0);
    pub const DEVICE: At<Device> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)`
pub mod topk {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const K: At<i64> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const LARGEST: At<bool> = At::nth(2);
    pub const SORTED: At<bool> = At::nth(3);
    pub const VALUES: Out = Out::nth(0);
    pub const INDICES: Out = Out::nth(1);
}

/// `trace(Tensor input) -> Tensor`
pub mod trace {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `transpose(Tensor(a) input, int dim0, int dim1) -> Tensor(a)`
pub mod transpose {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM0: At<i64> = At::nth(0);
    pub const DIM1: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `transpose_copy(Tensor input, int dim0, int dim1) -> Tensor`
pub mod transpose_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM0: At<i64> = At::nth(0);
    pub const DIM1: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `trapezoid(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor`
pub mod trapezoid {
    use super::*;
    pub const Y: In = In::nth(0);
    pub const DX: At<Scalar> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor`
pub mod trapezoid_x {
    use super::*;
    pub const Y: In = In::nth(0);
    pub const X: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `trapz(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor`
pub mod trapz {
    use super::*;
    pub const Y: In = In::nth(0);
    pub const DX: At<Scalar> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor`
pub mod trapz_x {
    use super::*;
    pub const Y: In = In::nth(0);
    pub const X: In = In::nth(1);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `tril(Tensor input, int diagonal=0) -> Tensor`
pub mod tril {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIAGONAL: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `tril_indices(int row, int col, int offset=0, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod tril_indices {
    use super::*;
    pub const ROW: At<i64> = At::nth(0);
    pub const COL: At<i64> = At::nth(1);
    pub const OFFSET: At<i64> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const DEVICE: At<Device> = At::nth(4);
    pub const REQUIRES_GRAD: At<bool> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `triu(Tensor input, int diagonal=0) -> Tensor`
pub mod triu {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIAGONAL: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `triu_indices(int row, int col, int offset=0, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod triu_indices {
    use super::*;
    pub const ROW: At<i64> = At::nth(0);
    pub const COL: At<i64> = At::nth(1);
    pub const OFFSET: At<i64> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const DEVICE: At<Device> = At::nth(4);
    pub const REQUIRES_GRAD: At<bool> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `trunc(Tensor input) -> Tensor`
pub mod trunc {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `unbind(Tensor(a) input, int dim=0) -> Tensor(a)[]`
pub mod unbind {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `unbind_copy(Tensor input, int dim=0) -> Tensor[]`
pub mod unbind_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `unflatten(Tensor(a) input, int dim, int[] sizes) -> Tensor(a)`
pub mod unflatten {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const SIZES: At<[i64]> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `unfold(Tensor(a) input, int dimension, int size, int step) -> Tensor(a)`
pub mod unfold {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIMENSION: At<i64> = At::nth(0);
    pub const SIZE: At<i64> = At::nth(1);
    pub const STEP: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `unfold_backward(Tensor grad_output, int[] input_sizes, int dim, int size, int step) -> Tensor`
pub mod unfold_backward {
    use super::*;
    pub const GRAD_OUTPUT: In = In::nth(0);
    pub const INPUT_SIZES: At<[i64]> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const SIZE: At<i64> = At::nth(2);
    pub const STEP: At<i64> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `unfold_copy(Tensor input, int dimension, int size, int step) -> Tensor`
pub mod unfold_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIMENSION: At<i64> = At::nth(0);
    pub const SIZE: At<i64> = At::nth(1);
    pub const STEP: At<i64> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `uniform(Tensor input, float from=0, float to=1, *, Generator? generator=None) -> Tensor`
pub mod uniform {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const FROM: At<f64> = At::nth(0);
    pub const TO: At<f64> = At::nth(1);
    pub const GENERATOR: At<Rng> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `unsafe_chunk(Tensor input, int chunks, int dim=0) -> Tensor[]`
pub mod unsafe_chunk {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const CHUNKS: At<i64> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `unsafe_split(Tensor input, int split_size, int dim=0) -> Tensor[]`
pub mod unsafe_split {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SPLIT_SIZE: At<i64> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `unsafe_split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]`
pub mod unsafe_split_with_sizes {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SPLIT_SIZES: At<[i64]> = At::nth(0);
    pub const DIM: At<i64> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `unsqueeze(Tensor(a) input, int dim) -> Tensor(a)`
pub mod unsqueeze {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `unsqueeze_copy(Tensor input, int dim) -> Tensor`
pub mod unsqueeze_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `vander(Tensor x, int? N=None, bool increasing=False) -> Tensor`
pub mod vander {
    use super::*;
    pub const X: In = In::nth(0);
    pub const N: At<i64> = At::nth(0);
    pub const INCREASING: At<bool> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `var(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor`
pub mod var {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const CORRECTION: At<Scalar> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `var.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor`
pub mod var_dim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const UNBIASED: At<bool> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `var.unbiased(Tensor input, bool unbiased) -> Tensor`
pub mod var_unbiased {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const UNBIASED: At<bool> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `var_mean(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)`
pub mod var_mean {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const CORRECTION: At<Scalar> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `var_mean.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)`
pub mod var_mean_dim {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DIM: At<[i64]> = At::nth(0);
    pub const UNBIASED: At<bool> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `var_mean.unbiased(Tensor input, bool unbiased) -> (Tensor, Tensor)`
pub mod var_mean_unbiased {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const UNBIASED: At<bool> = At::nth(0);
    pub const RESULT_0: Out = Out::nth(0);
    pub const RESULT_1: Out = Out::nth(1);
}

/// `vdot(Tensor input, Tensor other) -> Tensor`
pub mod vdot {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `vector_norm(Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor`
pub mod vector_norm {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const ORD: At<Scalar> = At::nth(0);
    pub const DIM: At<[i64]> = At::nth(1);
    pub const KEEPDIM: At<bool> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `view(Tensor(a) input, int[] size) -> Tensor(a)`
pub mod view {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `view.dtype(Tensor(a) input, DType dtype) -> Tensor(a)`
pub mod view_dtype {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DTYPE: At<DType> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `view_as(Tensor(a) input, Tensor other) -> Tensor(a)`
pub mod view_as {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `view_as_complex(Tensor(a) input) -> Tensor(a)`
pub mod view_as_complex {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `view_as_real(Tensor(a) input) -> Tensor(a)`
pub mod view_as_real {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `view_copy(Tensor input, int[] size) -> Tensor`
pub mod view_copy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `vsplit(Tensor(a) input, int sections) -> Tensor(a)[]`
pub mod vsplit {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const SECTIONS: At<i64> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `vsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]`
pub mod vsplit_array {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const INDICES: At<[i64]> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `vstack(Tensor[] tensors) -> Tensor`
pub mod vstack {
    use super::*;
    pub const TENSORS: Ins = Ins::new(0, 0, 0);
    pub const RESULT: Out = Out::nth(0);
}

/// `where(Tensor condition, Tensor|Scalar input, Tensor|Scalar other) -> Tensor`
pub mod where_ {
    use super::*;
    pub const CONDITION: In = In::nth(0);
    pub const INPUT: In = In::nth(1);
    pub const INPUT_SCALAR: At<Scalar> = At::nth(0);
    pub const OTHER: In = In::nth(2);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `where.places(Tensor condition) -> Tensor[]`
pub mod where_places {
    use super::*;
    pub const CONDITION: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `xlog1py_pair(Tensor input, Tensor other) -> Tensor`
pub mod xlog1py_pair {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `xlogy(Tensor input, Tensor|Scalar other) -> Tensor`
pub mod xlogy {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const OTHER_SCALAR: At<Scalar> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `xlogy.Scalar_Self(Scalar input, Tensor other) -> Tensor`
pub mod xlogy_scalar_self {
    use super::*;
    pub const INPUT: At<Scalar> = At::nth(0);
    pub const OTHER: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `xlogy_pair(Tensor input, Tensor other) -> Tensor`
pub mod xlogy_pair {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}

/// `zero(Tensor input) -> Tensor`
pub mod zero {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `zeros(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor`
pub mod zeros {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const DTYPE: At<DType> = At::nth(1);
    pub const DEVICE: At<Device> = At::nth(2);
    pub const REQUIRES_GRAD: At<bool> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `zeros_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor`
pub mod zeros_like {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const DTYPE: At<DType> = At::nth(0);
    pub const DEVICE: At<Device> = At::nth(1);
    pub const REQUIRES_GRAD: At<bool> = At::nth(2);
    pub const MEMORY_FORMAT: At<str> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `zeta_pair(Tensor input, Tensor other) -> Tensor`
pub mod zeta_pair {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OTHER: In = In::nth(1);
    pub const RESULT: Out = Out::nth(0);
}
