//! Which operand of a product is packed and which is read where it lies: a product of much packing is computed as its
//! transpose, or by dot products. Decided by shapes and strides alone.

use crate::args::GemmArgs;
use crate::few_rows;
use crate::kernel::Kernels;
use crate::pack::Mode;
use crate::product::{Sum, is_near};

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
pub(crate) fn turned<M: Mode>(args: &GemmArgs, kernels: &Kernels<M::P, Sum<M>>) -> bool {
    if args.packed.is_some() || by_dots::<M>(args) {
        return false;
    }
    let [rows, cols] =
        [Side { contiguous: args.a.cs == 1, len: args.m }, Side { contiguous: args.b.rs == 1, len: args.n }];
    let streamed = |side: Side, other: Side| side.is_streamed::<M>(args.k, other, kernels.mr);
    streamed(cols, rows) || wide_side_is_rows(args, kernels.lanes) && !streamed(rows, cols)
}

/// Rows of A or columns of B.
#[derive(Clone, Copy)]
struct Side {
    /// Each is contiguous in memory.
    contiguous: bool,
    len: usize,
}

/// The other side of a streamed operand stays in the second cache.
const MOST_BESIDE: usize = 256;
/// Sums of fewer steps are not worth turning tiles of C.
const LEAST_STEPS: usize = 256;

impl Side {
    /// Whether this side is better read once, in order, where it lies, than packed: it is large and the other is small.
    fn is_streamed<M: Mode>(self, k: usize, other: Side, mr: usize) -> bool {
        // With no more than a tile's rows a packed panel is read while it is in the first cache.
        let small = other.len > mr && other.len <= MOST_BESIDE;
        M::DIRECT && self.contiguous && small && k >= LEAST_STEPS && !is_near::<M>(k * self.len)
    }
}

/// Whether the padding of the columns to whole registers costs more than storing C across its rows.
fn wide_side_is_rows(args: &GemmArgs, lanes: usize) -> bool {
    let padding = |n: usize| n.next_multiple_of(lanes) - n;
    args.m > 1 && args.n > 1 && padding(args.n) * args.k > 2 * lanes * args.n && 16 * padding(args.m) < args.m
}
