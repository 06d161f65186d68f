//! A device of its own: what a provider outside the framework has to write, and nothing of the framework is edited for it.
//!
//! It registers a device type, its memory and one plain loop a primitive. Speed is no aim, strictness is: the host cannot
//! read its addresses, fresh memory is poisoned, blocks stand between guards, and a kernel refuses a view that is not
//! inside one living block. `ELEMENTWISE_CHAIN` has no kernel here, as a provider may leave out what it likes.

pub mod cells;
mod elementwise;
mod index;
mod memory;
mod nn;
mod optimizer;
mod order;
mod random;
mod reduce;

pub use memory::Toy;

use cells::Args;
use oneflow_base::{DeviceType, Result};
use oneflow_kernels_prim as prim;
use oneflow_kernels_prim::{KernelFn, Launch, Primitive};

macro_rules! table {
    ($($primitive:ident => $kernel:path,)*) => {
        /// The kernels, by primitive.
        pub fn kernels() -> Vec<(&'static Primitive, KernelFn)> {
            vec![$((&prim::$primitive, {
                unsafe fn kernel(l: &Launch<'_>) -> Result<()> {
                    // SAFETY: the launch's contract is the one of `Args`.
                    $kernel(&unsafe { Args::new(l) })
                }
                kernel
            })),*]
        }
    };
}

table! {
    ELEMENTWISE => elementwise::elementwise,
    COPY => elementwise::copy,
    FILL => elementwise::fill,
    ARANGE => elementwise::arange,
    TRIANGLE => elementwise::triangle,
    REDUCE => reduce::reduce,
    ARG_REDUCE => reduce::arg_reduce,
    SCAN => reduce::scan,
    COUNT_NONZERO => reduce::count_nonzero,
    NONZERO => reduce::nonzero,
    MATMUL => nn::matmul,
    SOFTMAX => nn::softmax,
    SOFTMAX_BACKWARD => nn::softmax_backward,
    LAYER_NORM => nn::layer_norm,
    LAYER_NORM_BACKWARD => nn::layer_norm_backward,
    CROSS_ENTROPY => nn::cross_entropy,
    CROSS_ENTROPY_BACKWARD => nn::cross_entropy_backward,
    EMBEDDING => index::embedding,
    EMBEDDING_BACKWARD => index::embedding_backward,
    INDEX_SELECT => index::index_select,
    GATHER => index::gather,
    SCATTER => index::scatter,
    INDEX => index::index,
    INDEX_PUT => index::index_put,
    CONCAT => index::concat,
    SORT => order::sort,
    TOPK => order::topk,
    RANDOM => random::random,
    DROPOUT => random::dropout,
    UPDATE => optimizer::update,
    UNSCALE => optimizer::unscale,
}

/// Registers a device type of this kind with these kernels (all of them: `kernels()`), once a name.
pub fn register(name: &'static str, kernels: Vec<(&'static Primitive, KernelFn)>) -> Result<DeviceType> {
    let kind = Toy::register(name)?;
    for (primitive, f) in kernels {
        primitive.provide(kind, f);
    }
    Ok(kind)
}
