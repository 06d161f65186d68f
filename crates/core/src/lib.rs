//! Tensors, op definitions, the layer stack and the local interpreter.
//!
//! Knows no op: the op table is filled by the crates above. Does not know how gradients, global tensors or traces work
//! either; those are layers that register themselves here.

mod bound;
mod call;
mod conventions;
mod default_dtype;
mod generator;
mod grad;
mod interceptors;
mod layers;
mod limited;
mod local;
mod lower;
pub mod narrow_operands;
mod op;
mod outs;
mod overlap;
mod position;
pub mod promote;
mod release;
mod sbp_rule;
mod sig;
mod sparse_maker;
mod storage;
mod table;
mod tensor;
mod transfer;
mod warning;
mod watch;
mod writes;

pub use bound::{BoundSample, Wanted};
pub use call::{Call, Dest};
pub use conventions::{oneflow_conventions, set_oneflow_conventions};
pub use default_dtype::{default_dtype, set_default_dtype};
pub use generator::{Generator, default_generator, set_thread_generator, use_in_order};
pub use grad::{Destinations, Fix, Grad, GradCall, Grads, Save};
pub use interceptors::{Interceptor, pop_interceptor, push_interceptor};
pub use layers::{Guard, LayerFn, Tls, bit, dispatch, dispatch_one, layer, redispatch, register_layer, tls, with_tls};
pub use limited::{Composition, elementwise_takes, instead, set_widen};
pub use local::{
    check_reads_disjoint, copy_into, copy_to_host, follow_device, is_at_hand, run_lowered, set_read_whole,
};
pub use lower::{Lowered, Operand, Slot};
pub use oneflow_base as base;
pub use oneflow_ep as ep;
pub use oneflow_kernels_prim as kernels;
pub use op::{
    Amp, AmpCast, Batching, Cost, Faces, Kernel, Limited, OpDef, Sample, SampleArg, ShapeOf, Sparse, Traits, no_keys,
};
pub use outs::Outs;
pub use overlap::{Overlap, has_internal_overlap, overlap, overlaps};
pub use position::{AnyArg, At, In, InMask, Ins, LastIn, Out, OutMask, Rng};
pub use release::{LONG_WORK, MayRelease, may_release, set_release, without_lock};
pub use sbp_rule::{DimGroup, Localize, Mesh, Row, Rows, SbpRule};
pub use sig::{Param, Return, Sig, Ty};
pub use sparse_maker::{make_sparse, set_sparse_maker};
pub use storage::{Pin, Storage, WeakStorage, reserve_from, start_generation};
pub use table::{op_by_name, ops, overloads, register_ops};
pub use tensor::{Ext, PyHooks, Tensor, TensorSlot, check_aligned, set_py_hooks};
pub use transfer::{Transfers, TransfersGuard, with_transfers};
pub use warning::{set_warn, warn};
pub use watch::{Span, SpanKind, Watcher, is_watching, set_watcher, set_watching, watch_link, watch_span};
pub use writes::{BeforeWrite, refuse_writes_before, set_before_write};
