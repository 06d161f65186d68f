//! Written by `cargo xtask codegen` from the signatures of the ops; edit those. Names of what an op takes and gives.
#![allow(dead_code)]

use oneflow_base::{DType, NdSbpId, PlacementId, Scalar};
use oneflow_core::{At, In, Ins, Out, Rng};

/// `_assemble(Tensor input, Placement placement, Sbp sbp, int[] sizes) -> Tensor`
pub mod _assemble {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(0);
    pub const SBP: At<NdSbpId> = At::nth(1);
    pub const SIZES: At<[i64]> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `_box(Tensor input, Placement placement, Sbp sbp, Placement source, Sbp? grad_sbp, bool copy) -> Tensor`
pub mod _box {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(0);
    pub const SBP: At<NdSbpId> = At::nth(1);
    pub const SOURCE: At<PlacementId> = At::nth(2);
    pub const GRAD_SBP: At<NdSbpId> = At::nth(3);
    pub const COPY: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `_box_axes(Tensor[] inputs, int[] out_sizes, int[] sizes, int axis, int source, int target, int placement, int world) -> Tensor[]`
pub mod _box_axes {
    use super::*;
    pub const INPUTS: Ins = Ins::new(0, 0, 0);
    pub const OUT_SIZES: At<[i64]> = At::nth(1);
    pub const SIZES: At<[i64]> = At::nth(2);
    pub const AXIS: At<i64> = At::nth(3);
    pub const SOURCE: At<i64> = At::nth(4);
    pub const TARGET: At<i64> = At::nth(5);
    pub const PLACEMENT: At<i64> = At::nth(6);
    pub const WORLD: At<i64> = At::nth(7);
    pub const RESULT: Out = Out::nth(0);
}

/// `_box_axis(Tensor input, int[] out_sizes, int[] sizes, int axis, int source, int target, int placement, int world) -> Tensor`
pub mod _box_axis {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OUT_SIZES: At<[i64]> = At::nth(0);
    pub const SIZES: At<[i64]> = At::nth(1);
    pub const AXIS: At<i64> = At::nth(2);
    pub const SOURCE: At<i64> = At::nth(3);
    pub const TARGET: At<i64> = At::nth(4);
    pub const PLACEMENT: At<i64> = At::nth(5);
    pub const WORLD: At<i64> = At::nth(6);
    pub const RESULT: Out = Out::nth(0);
}

/// `_cross_receive(Tensor? input, int[] out_sizes, int[] sizes, int source, int source_sbp, int target, int target_sbp, DType dtype, int number, int world) -> Tensor`
pub mod _cross_receive {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OUT_SIZES: At<[i64]> = At::nth(0);
    pub const SIZES: At<[i64]> = At::nth(1);
    pub const SOURCE: At<i64> = At::nth(2);
    pub const SOURCE_SBP: At<i64> = At::nth(3);
    pub const TARGET: At<i64> = At::nth(4);
    pub const TARGET_SBP: At<i64> = At::nth(5);
    pub const DTYPE: At<DType> = At::nth(6);
    pub const NUMBER: At<i64> = At::nth(7);
    pub const WORLD: At<i64> = At::nth(8);
    pub const RESULT: Out = Out::nth(0);
}

/// `_cross_send(Tensor? input, int[] out_sizes, int[] sizes, int source, int source_sbp, int target, int target_sbp, DType dtype, int number, int world) -> Tensor`
pub mod _cross_send {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const OUT_SIZES: At<[i64]> = At::nth(0);
    pub const SIZES: At<[i64]> = At::nth(1);
    pub const SOURCE: At<i64> = At::nth(2);
    pub const SOURCE_SBP: At<i64> = At::nth(3);
    pub const TARGET: At<i64> = At::nth(4);
    pub const TARGET_SBP: At<i64> = At::nth(5);
    pub const DTYPE: At<DType> = At::nth(6);
    pub const NUMBER: At<i64> = At::nth(7);
    pub const WORLD: At<i64> = At::nth(8);
    pub const RESULT: Out = Out::nth(0);
}

/// `_enter(Tensor input, Placement placement, Sbp sbp, bool check, bool copy) -> Tensor`
pub mod _enter {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(0);
    pub const SBP: At<NdSbpId> = At::nth(1);
    pub const CHECK: At<bool> = At::nth(2);
    pub const COPY: At<bool> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `_replica(Tensor input, Placement placement) -> Tensor`
pub mod _replica {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `_replicate(Tensor input, Placement placement) -> Tensor`
pub mod _replicate {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `_shard(Tensor input, Placement placement, Sbp sbp, bool copy) -> Tensor`
pub mod _shard {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(0);
    pub const SBP: At<NdSbpId> = At::nth(1);
    pub const COPY: At<bool> = At::nth(2);
    pub const RESULT: Out = Out::nth(0);
}

/// `empty.global(int[] size, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor`
pub mod empty_global {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(1);
    pub const SBP: At<NdSbpId> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `full.global(int[] size, Scalar fill_value, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor`
pub mod full_global {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const FILL_VALUE: At<Scalar> = At::nth(1);
    pub const PLACEMENT: At<PlacementId> = At::nth(2);
    pub const SBP: At<NdSbpId> = At::nth(3);
    pub const DTYPE: At<DType> = At::nth(4);
    pub const REQUIRES_GRAD: At<bool> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `global_to_global(Tensor(a) input, Placement? placement=None, Sbp? sbp=None, *, Sbp? grad_sbp=None, bool? check_meta=None, bool copy=False) -> Tensor(a)`
pub mod global_to_global {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(0);
    pub const SBP: At<NdSbpId> = At::nth(1);
    pub const GRAD_SBP: At<NdSbpId> = At::nth(2);
    pub const CHECK_META: At<bool> = At::nth(3);
    pub const COPY: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `local_to_global(Tensor(a) input, Placement placement, Sbp sbp, *, bool? check_meta=None, bool copy=False) -> Tensor(a)`
pub mod local_to_global {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(0);
    pub const SBP: At<NdSbpId> = At::nth(1);
    pub const CHECK_META: At<bool> = At::nth(2);
    pub const COPY: At<bool> = At::nth(3);
    pub const RESULT: Out = Out::nth(0);
}

/// `ones.global(int[] size, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor`
pub mod ones_global {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(1);
    pub const SBP: At<NdSbpId> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `rand.global(int[] size, *, Generator? generator=None, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor`
pub mod rand_global {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const PLACEMENT: At<PlacementId> = At::nth(2);
    pub const SBP: At<NdSbpId> = At::nth(3);
    pub const DTYPE: At<DType> = At::nth(4);
    pub const REQUIRES_GRAD: At<bool> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `randint.global(int low, int high, int[] size, *, Generator? generator=None, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor`
pub mod randint_global {
    use super::*;
    pub const LOW: At<i64> = At::nth(0);
    pub const HIGH: At<i64> = At::nth(1);
    pub const SIZE: At<[i64]> = At::nth(2);
    pub const GENERATOR: At<Rng> = At::nth(3);
    pub const PLACEMENT: At<PlacementId> = At::nth(4);
    pub const SBP: At<NdSbpId> = At::nth(5);
    pub const DTYPE: At<DType> = At::nth(6);
    pub const REQUIRES_GRAD: At<bool> = At::nth(7);
    pub const RESULT: Out = Out::nth(0);
}

/// `randn.global(int[] size, *, Generator? generator=None, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor`
pub mod randn_global {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const GENERATOR: At<Rng> = At::nth(1);
    pub const PLACEMENT: At<PlacementId> = At::nth(2);
    pub const SBP: At<NdSbpId> = At::nth(3);
    pub const DTYPE: At<DType> = At::nth(4);
    pub const REQUIRES_GRAD: At<bool> = At::nth(5);
    pub const RESULT: Out = Out::nth(0);
}

/// `to_global(Tensor(a) input, Placement? placement=None, Sbp? sbp=None, *, Sbp? grad_sbp=None, bool? check_meta=None, bool copy=False) -> Tensor(a)`
pub mod to_global {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(0);
    pub const SBP: At<NdSbpId> = At::nth(1);
    pub const GRAD_SBP: At<NdSbpId> = At::nth(2);
    pub const CHECK_META: At<bool> = At::nth(3);
    pub const COPY: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}

/// `to_local(Tensor(a) input, *, bool copy=False) -> Tensor(a)`
pub mod to_local {
    use super::*;
    pub const INPUT: In = In::nth(0);
    pub const COPY: At<bool> = At::nth(0);
    pub const RESULT: Out = Out::nth(0);
}

/// `zeros.global(int[] size, *, Placement placement, Sbp sbp, DType? dtype=None, bool requires_grad=False) -> Tensor`
pub mod zeros_global {
    use super::*;
    pub const SIZE: At<[i64]> = At::nth(0);
    pub const PLACEMENT: At<PlacementId> = At::nth(1);
    pub const SBP: At<NdSbpId> = At::nth(2);
    pub const DTYPE: At<DType> = At::nth(3);
    pub const REQUIRES_GRAD: At<bool> = At::nth(4);
    pub const RESULT: Out = Out::nth(0);
}
