//! The loop nest of kernels that index one axis: rest x axis x lanes.

use oneflow_ep::cpu;
use oneflow_kernels_prim::rows::{Grid, split};
use std::ops::Range;

/// An axis of `n` positions walked by table or step, with the other dimensions around it: the innermost of them as
/// `lanes` inside the axis where that is the shorter stride of operand 0, the rest outside.
pub struct Lines<const K: usize> {
    rest: Grid<K>,
    pub n: usize,
    pub step: [isize; K],
    pub lanes: usize,
    pub lane_step: [isize; K],
}

/// Where axis position `i` lies.
#[derive(Clone, Copy)]
pub enum Axis<'a> {
    Step(isize),
    Table(&'a [i64]),
}

impl Axis<'_> {
    #[inline(always)]
    pub fn at(self, i: usize) -> isize {
        match self {
            Axis::Step(s) => i as isize * s,
            Axis::Table(t) => t[i] as isize,
        }
    }
}

impl<const K: usize> Lines<K> {
    /// The nest around dimension `dim`; a 0-dim tensor counts as one element along it.
    pub fn new(sizes: &[i64], strides: [&[i64]; K], dim: usize) -> Self {
        if sizes.is_empty() {
            return Self::around(Grid::new(&[], strides), 1, [0; K]);
        }
        Self::around(Grid::without(sizes, strides, dim), sizes[dim] as usize, strides.map(|s| s[dim] as isize))
    }

    pub fn around(mut rest: Grid<K>, n: usize, step: [isize; K]) -> Self {
        let (m, inner) = rest.inner();
        let inside = m > 1 && (n == 1 || step[0] == 0 || inner[0].abs() <= step[0].abs());
        let (lanes, lane_step) = if inside { rest.pop_inner() } else { (1, [0; K]) };
        Lines { rest, n, step, lanes, lane_step }
    }

    /// Calls `f(offsets of the rest, axis range, lane range)` over the whole nest. With `in_order` one call holds the
    /// whole axis of its lanes, in order: what writes to places that indices choose needs it.
    pub fn each(&self, ns: f64, in_order: bool, f: &(dyn Fn([isize; K], Range<usize>, Range<usize>) + Sync)) {
        let (n, m) = (self.n, self.lanes);
        let total = self.rest.len() * n * m;
        if total == 0 {
            return;
        }
        let threads = cpu::num_threads();
        let longest = if in_order { m.div_ceil(32) } else { n };
        let parts = if threads == 1 { 1 } else { longest.min((4 * threads).div_ceil(self.rest.len())) };
        let units = self.rest.len() * parts;
        let cut = |len: usize, p: usize| p * len / parts..(p + 1) * len / parts;
        split(units, ns * total as f64 / units as f64, &|r| {
            if parts == 1 {
                return self.rest.each(r, |_, off| f(off, 0..n, 0..m));
            }
            for u in r {
                let (row, p) = (u / parts, u % parts);
                let (axis, lanes) = if in_order { (0..n, cut(m, p)) } else { (cut(n, p), 0..m) };
                self.rest.each(row..row + 1, |_, off| f(off, axis.clone(), lanes.clone()));
            }
        });
    }
}
