//! The vocabulary between ops and devices: raw strided views, launches, primitives and elementwise expressions.
//!
//! A primitive is one kernel family's entry. Every provider puts its implementation into the primitive's slot of its
//! device type; a new provider is a crate that fills slots, not edits here. Knows no tensor and no op.

pub mod activations;
mod expr;
mod float;
mod lanes;
mod launch;
pub mod mt19937;
pub mod pad;
mod params;
pub mod philox;
pub mod precision;
mod primitives;
pub mod rows;
mod update;
mod view;

pub use expr::{
    Bits, Complex, ComplexFormula, Expr, Formula, IntFormula, MAX_INPUTS, MAX_PARAMS, NumFormula, Tile, register_expr,
};
pub use float::{Acc, Float, Reg};
pub use lanes::special;
#[cfg(target_arch = "x86_64")]
pub use lanes::{Avx2, Avx512, F32x8, F32x16, F64x4, F64x8};
pub use lanes::{
    Baseline, Cx, HalfRegister, I32, I64, IntLane, Ints, Isa, Lanes, Num, Register, Simd, Sym, U8, U16, WithSimd,
    dispatch, isa,
};
pub use launch::{Elements, Extras, KernelFn, Launch, Params, Primitive, QuestionFn, Word, declines, provide_question};
pub use params::*;
pub use primitives::*;
pub use update::{MAX_HYPER, MAX_NUMBERS, MAX_SCALARS, MAX_STATES, Rule, UpdateFormula, UpdateTile, register_rule};
pub use view::View;
