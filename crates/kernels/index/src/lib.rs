//! CPU kernels that move elements by index, order them, count them or draw them at random.
//!
//! Movement is instantiated by element size, arithmetic and order by dtype. Indices are checked before anything is
//! written; a gather's piece by piece. No result depends on the number of threads. Knows no tensor and no op.

mod advanced;
mod check;
mod concat;
mod lines;
mod logcumsumexp;
mod member;
mod nonzero;
mod num;
mod pad;
mod random;
mod random_by;
mod random_in_order;
mod running_extreme;
mod search;
mod select;
mod sort;

/// What tests try by itself; not for other crates.
#[doc(hidden)]
pub mod parts {
    pub use crate::num::Real;
    pub use crate::random::{Draw, Fill};
    pub use crate::random_by::{Stream, binomial, gamma, poisson};
}

use oneflow_base::DeviceType;
use oneflow_kernels_prim as prim;

/// Puts the CPU implementations into their primitives' slots.
pub fn register() {
    let table: [(&prim::Primitive, prim::KernelFn); 18] = [
        (&prim::RANDOM, random::random),
        (&prim::RANDOM_BY, random_by::random_by),
        (&prim::INDEX_SELECT, select::index_select),
        (&prim::GATHER, select::gather),
        (&prim::SCATTER, select::scatter),
        (&prim::INDEX, advanced::index),
        (&prim::INDEX_PUT, advanced::index_put),
        (&prim::CONCAT, concat::concat),
        (&prim::PAD, pad::pad),
        (&prim::PAD_BACKWARD, pad::pad_backward),
        (&prim::SORT, sort::sort),
        (&prim::TOPK, sort::topk),
        (&prim::COUNT_NONZERO, nonzero::count_nonzero),
        (&prim::NONZERO, nonzero::nonzero),
        (&prim::SEARCHSORTED, search::searchsorted),
        (&prim::IS_MEMBER, member::is_member),
        (&prim::RUNNING_EXTREME, running_extreme::running_extreme),
        (&prim::LOGCUMSUMEXP, logcumsumexp::logcumsumexp),
    ];
    for (primitive, f) in table {
        primitive.provide(DeviceType::CPU, f);
    }
}
