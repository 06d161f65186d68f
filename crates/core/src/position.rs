//! Positions of a signature's parameters and results, with a type for each kind.
//!
//! Codegen writes one constant for each parameter and result of each op (`oneflow_ops::named`), so a definition reads
//! `c.float(at::EPS)?` and a wrong kind or a bare number does not compile. `nth` creates positions for code that serves any op;
//! a definition has no use for it.

use oneflow_base::{Arg, Args};
use std::marker::PhantomData;
use std::ops::Range;

/// A tensor input: one of `Call::ins`. The signature defines whether it may be absent: `Call::t` requires it, `Call::opt`
/// takes it as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct In(u16);

/// A tensor input after a list, counted from the end of `Call::ins`; `Call::place` finds it in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastIn(u8);

/// A list of tensor inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ins {
    /// Inputs before the first list.
    fixed: u8,
    /// The arguments that hold the lengths of the first list and of this one; lists stand next to each other.
    first: u8,
    len: u8,
}

/// An argument whose type in the signature is `T`: one of `Call::args`.
pub struct At<T: ?Sized>(u8, PhantomData<fn(&T)>);

/// An argument of any type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyArg(u8);

/// The state of a random generator, as the type of an argument.
pub struct Rng;

/// A result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Out(u8);

/// A set of inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InMask(u32);

/// A set of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutMask(u32);

impl In {
    #[inline(always)]
    pub const fn nth(i: usize) -> In {
        In(i as u16)
    }
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl LastIn {
    pub const fn nth_from_end(i: usize) -> LastIn {
        LastIn(i as u8)
    }
    /// The position among so many inputs.
    #[inline]
    pub fn of(self, n_inputs: usize) -> In {
        In::nth(n_inputs.saturating_sub(self.0 as usize))
    }
}

impl Ins {
    pub const fn new(fixed: usize, first: usize, len: usize) -> Ins {
        Ins { fixed: fixed as u8, first: first as u8, len: len as u8 }
    }
    /// The number of tensors in a call with these arguments.
    #[inline]
    pub fn len(self, args: Args<'_>) -> usize {
        len_at(args, self.len as usize)
    }
    /// Their positions among the inputs.
    #[inline]
    pub fn range(self, args: Args<'_>) -> Range<usize> {
        let before: usize = (self.first..self.len).map(|i| len_at(args, i as usize)).sum();
        let start = self.fixed as usize + before;
        start..start + self.len(args)
    }
    /// Its tensors, one by one.
    pub fn all(self, args: Args<'_>) -> impl Iterator<Item = In> {
        self.range(args).map(In::nth)
    }
    /// Tensor `k` of the list.
    #[inline]
    pub fn nth(self, args: Args<'_>, k: usize) -> In {
        In::nth(self.range(args).start + k)
    }
    /// The input that an only list begins at.
    pub const fn first(self) -> In {
        In(self.fixed as u16)
    }
}

fn len_at(args: Args<'_>, i: usize) -> usize {
    match args.get(i) {
        Some(Arg::Len(n)) => *n as usize,
        _ => 0,
    }
}

impl<T: ?Sized> At<T> {
    #[inline(always)]
    pub const fn nth(i: usize) -> At<T> {
        At(i as u8, PhantomData)
    }
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// The same without its type.
    #[inline(always)]
    pub const fn any(self) -> AnyArg {
        AnyArg(self.0)
    }
}

impl<T: ?Sized> Clone for At<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for At<T> {}
impl<T: ?Sized> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T: ?Sized> Eq for At<T> {}
impl<T: ?Sized> std::fmt::Debug for At<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "At({})", self.0)
    }
}

impl<T: ?Sized> From<At<T>> for AnyArg {
    #[inline(always)]
    fn from(at: At<T>) -> AnyArg {
        at.any()
    }
}

impl AnyArg {
    #[inline(always)]
    pub const fn nth(i: usize) -> AnyArg {
        AnyArg(i as u8)
    }
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Out {
    #[inline(always)]
    pub const fn nth(i: usize) -> Out {
        Out(i as u8)
    }
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl InMask {
    pub const NONE: InMask = InMask(0);
    /// Every input, those of lists included.
    pub const ALL: InMask = InMask(u32::MAX);

    pub const fn of(inputs: &[In]) -> InMask {
        let mut mask = 0;
        let mut i = 0;
        while i < inputs.len() {
            mask |= 1 << inputs[i].index();
            i += 1;
        }
        InMask(mask)
    }
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl OutMask {
    pub const ALL: OutMask = OutMask(u32::MAX);

    pub const fn of(outputs: &[Out]) -> OutMask {
        let mut mask = 0;
        let mut i = 0;
        while i < outputs.len() {
            mask |= 1 << outputs[i].index();
            i += 1;
        }
        OutMask(mask)
    }
    /// Returns true if result `i` is in it; all beyond the 31st share the last bit.
    #[inline]
    pub fn has(self, i: usize) -> bool {
        self.0 >> i.min(31) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_what_follows_them_are_found() {
        // f(Tensor a, Tensor[] xs, Tensor[] ys, Tensor z)
        let args = [Arg::Len(2), Arg::Len(3)];
        let (xs, ys, z) = (Ins::new(1, 0, 0), Ins::new(1, 0, 1), LastIn::nth_from_end(1));
        assert_eq!((xs.range(&args), ys.range(&args)), (1..3, 3..6));
        assert_eq!((ys.nth(&args, 2), z.of(7)), (In::nth(5), In::nth(6)));
    }

    #[test]
    fn masks_name_members() {
        assert_eq!(InMask::of(&[In::nth(0), In::nth(3)]).bits(), 0b1001);
        let mask = OutMask::of(&[Out::nth(0), Out::nth(2)]);
        assert_eq!([0, 1, 2, 40].map(|i| mask.has(i)), [true, false, true, false]);
        assert!(OutMask::ALL.has(40));
    }
}
