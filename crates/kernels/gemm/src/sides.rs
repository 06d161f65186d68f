//! Which operand of a product is packed and which is read where it lies: a product of much packing is computed as its
//! transpose, or by dot products. Decided by shapes and strides alone.

use crate::args::GemmArgs;
use crate::few_rows;
use crate::pack::Mode;
use crate::product::Sum;

/// Whether dot products along k are faster than tiles: few rows, columns of B that are contiguous, and steps enough for
/// adding up the lanes of every sum at the end.
pub(crate) fn by_dots<M: Mode>(args: &GemmArgs) -> bool {
    let few = (2..=few_rows::MOST).contains(&args.m) && args.k >= LEAST_STEPS_A_ROW * args.m;
    // Half types are widened as they are read.
    let read = M::DIRECT || size_of::<M::S>() < size_of::<Sum<M>>();
    read && few && args.b.rs == 1 && args.packed.is_none()
}

const LEAST_STEPS_A_ROW: usize = 32;

/// Whether the transposed problem is faster.
pub(crate) fn turned<M: Mode>(args: &GemmArgs, lanes: usize) -> bool {
    args.packed.is_none() && !by_dots::<M>(args) && wide_side_is_rows(args, lanes)
}

/// Whether the padding of the columns to whole registers costs more than storing C across its rows.
fn wide_side_is_rows(args: &GemmArgs, lanes: usize) -> bool {
    let padding = |n: usize| n.next_multiple_of(lanes) - n;
    args.m > 1 && args.n > 1 && padding(args.n) * args.k > 2 * lanes * args.n && 16 * padding(args.m) < args.m
}
