//! Products with one A whose columns lie in runs, taken as one product: images as planes, by the weight of a 1x1 convolution.
//!
//! Panels and tiles then do not end where an image does. Knows where columns lie; packs and multiplies nothing.

use crate::args::GemmArgs;
use crate::epilogue::{Operand, Post};

/// How the columns of B and C lie: runs of neighbours, one an item of the batch.
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    pub items: usize,
    /// Columns of a run.
    pub width: usize,
    /// From run to run of B, and of C.
    pub b: isize,
    pub c: isize,
}

/// Runs of so many columns and more lose nothing at their ends.
const WIDE: usize = 512;

impl Runs {
    /// If all items of the batch have one A, and panels of their columns would not be whole.
    pub fn of(args: &GemmArgs, nr: usize) -> Option<Runs> {
        let [dim] = args.batch else { return None };
        let in_rows = args.b.cs == 1 && args.c.cs == 1;
        let epilogue = &args.epilogue;
        let alike = epilogue.bias.is_none_or(|bias| bias.cs == 0 && dim.bias == 0);
        let plain = epilogue.residual.is_none() && epilogue.kept.is_none();
        let shared = dim.size > 1 && dim.a == 0 && args.m > 1 && args.n > 1 && args.packed.is_none();
        let cut = args.n < WIDE && !args.n.is_multiple_of(nr);
        let fits = shared && in_rows && alike && plain && cut;
        fits.then_some(Runs { items: dim.size, width: args.n, b: dim.b, c: dim.c })
    }

    /// Columns from `col` to the end of its run.
    #[inline(always)]
    pub fn left(&self, col: usize) -> usize {
        self.width - col % self.width
    }

    /// How far column `col` lies from where it would, were the columns neighbours; runs lie `next` apart.
    #[inline(always)]
    pub fn shift(&self, col: usize, next: isize) -> isize {
        (col / self.width) as isize * (next - self.width as isize)
    }

    /// What happens to elements of the run of column `col`.
    #[inline(always)]
    pub fn post<C: Copy>(&self, post: &Post<C>, col: usize) -> Post<C> {
        let ptr = post.c.ptr.wrapping_offset(self.shift(col, self.c));
        Post { c: Operand { ptr, ..post.c }, ..*post }
    }

    /// Calls `f(first column, seen from `col`, number)` for the parts of `width` columns that lie in one run.
    #[inline(always)]
    pub fn pieces(&self, col: usize, width: usize, mut f: impl FnMut(usize, usize)) {
        let mut at = 0;
        while at < width {
            let n = self.left(col + at).min(width - at);
            f(at, n);
            at += n;
        }
    }
}
