//! An elementwise expression: one formula, instantiated for every target.

use crate::Lanes;

/// What an op's file contributes: its meaning.
pub trait Formula<const N: usize> {
    fn eval<L: Lanes>(x: [L; N], p: &[L]) -> L;
}

/// A formula compiled for every ISA and compute dtype, and as a symbol.
pub struct Expr {
    pub name: &'static str,
    pub arity: usize,
}
