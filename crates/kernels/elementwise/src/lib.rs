//! The CPU kernels that walk elements: expressions and chains of them, copies and casts, fills, reductions and scans.
//!
//! Each file is one primitive's shell. What an op computes comes from its `Expr`; nothing here knows an op by name.
//! Matrix products, norms and everything indexed live in the sibling crates.

mod arg_reduce;
mod chain;
mod complex;
mod copy;
mod deviations;
mod fill;
mod io;
mod limited;
mod map;
mod nest;
mod reduce;
mod scan;
mod tiles;
mod transpose;
mod triangle;
mod vector;

pub use chain::{MAX_TEMPORARIES, run_chain};
pub use tiles::{MAX_INS as MAX_CHAIN_INS, MAX_OUTS as MAX_CHAIN_OUTS};

use oneflow_base::DeviceType;
use oneflow_kernels_prim as prim;

/// Puts this crate's kernels into the CPU slots of their primitives.
pub fn register() {
    let cpu = DeviceType::CPU;
    prim::ELEMENTWISE.provide(cpu, map::elementwise);
    prim::ELEMENTWISE_CHAIN.provide(cpu, chain::elementwise_chain);
    prim::COPY.provide(cpu, copy::copy);
    prim::FILL.provide(cpu, fill::fill);
    prim::ARANGE.provide(cpu, fill::arange);
    prim::LINSPACE.provide(cpu, fill::linspace);
    prim::REDUCE.provide(cpu, reduce::reduce);
    prim::SQUARE_DEVIATIONS.provide(cpu, deviations::square_deviations);
    prim::ARG_REDUCE.provide(cpu, arg_reduce::arg_reduce);
    prim::SCAN.provide(cpu, scan::scan);
    prim::TRIANGLE.provide(cpu, triangle::triangle);
}
