//! A plane copied with what pads it, every stride-th element side by side: then a tap is a shifted load.

use super::rows::{copy_row, every_other};
use crate::algorithm::reach;
use crate::geometry::Three;
use oneflow_kernels_gemm::micro::GemmFloat;
use oneflow_kernels_prim::{Reg, Register, Simd};

/// Rows of outputs computed together, at most.
pub const ROWS: usize = 8;
/// Taps of a column, at most.
pub const TAPS: usize = 7;

/// A padded plane in memory: for every remainder by the step the positions that have it.
pub struct Layout {
    step: [usize; 3],
    /// The first position, which may lie outside.
    start: Three,
    /// Positions of a remainder along each dimension.
    pub len: [usize; 3],
    pub outputs: [usize; 3],
    inputs: [usize; 3],
    /// Where the taps read for the first output.
    pub shifts: Vec<usize>,
    /// The lines of each remainder.
    edges: Vec<Edge>,
}

/// What a line has of a row: from position `before` to `end` elements of the row, `first` the first one of them.
struct Edge {
    first: isize,
    before: usize,
    end: usize,
}

/// Taps that read rows of the plane that follow each other, from one place on.
pub struct Column {
    pub place: usize,
    pub taps: Vec<usize>,
}

impl Layout {
    pub fn of(shifts: &[Three], step: Three, outputs: [usize; 3], inputs: [usize; 3]) -> Layout {
        let (start, reach) = reach(shifts.iter().copied());
        let step = step.map(|s| s as usize);
        let len: [usize; 3] = std::array::from_fn(|d| outputs[d] + reach[d] as usize / step[d]);
        let edge = |phase: usize| {
            // Position i of the line is element `first + i * step` of the row.
            let first = phase as isize + start[2];
            let before = ((-first).max(0) as usize).div_ceil(step[2]).min(len[2]);
            let end = ((inputs[2] as isize - first).max(0) as usize).div_ceil(step[2]).clamp(before, len[2]);
            Edge { first: first + (before * step[2]) as isize, before, end }
        };
        let edges = (0..step[2]).map(edge).collect();
        let mut this = Layout { step, start, len, outputs, inputs, shifts: vec![], edges };
        this.shifts = shifts.iter().map(|s| this.place(std::array::from_fn(|d| (s[d] - start[d]) as usize))).collect();
        this
    }

    /// Where a position relative to the first lies.
    fn place(&self, at: [usize; 3]) -> usize {
        let (mut phase, mut within) = (0, 0);
        for d in 0..3 {
            phase = phase * self.step[d] + at[d] % self.step[d];
            within = within * self.len[d] + at[d] / self.step[d];
        }
        phase * self.len.iter().product::<usize>() + within
    }

    /// Some taps by columns of as many as are computed at once.
    pub fn columns(&self, taps: std::ops::Range<usize>) -> Vec<Column> {
        let (lw, mut columns) = (self.len[2], Vec::<Column>::new());
        for t in taps {
            let next = |c: &&mut Column| c.place + c.taps.len() * lw == self.shifts[t];
            match columns.iter_mut().find(next) {
                Some(column) => column.taps.push(t),
                None => columns.push(Column { place: self.shifts[t], taps: vec![t] }),
            }
        }
        let mut parts = Vec::new();
        for Column { mut place, taps } in columns {
            let mut taps = &taps[..];
            while !taps.is_empty() {
                let n = [TAPS, 5, 3, 2, 1].into_iter().find(|n| *n <= taps.len()).unwrap_or(1);
                parts.push(Column { place, taps: taps[..n].to_vec() });
                place += n * lw;
                taps = &taps[n..];
            }
        }
        parts
    }

    pub fn n_elements(&self) -> usize {
        (0..3).map(|d| self.step[d] * self.len[d]).product()
    }

    /// Numbers behind the plane: what is read there, and a row that `fill` widens.
    pub fn spare(&self) -> usize {
        self.inputs[2] + 2 * super::SLACK
    }

    /// Whether a padded plane is of the size of the planes it stands for.
    pub fn is_small(&self) -> bool {
        let product = |n: [usize; 3]| n.iter().map(|n| *n as f64).product::<f64>();
        let padded: f64 = (0..3).map(|d| self.step[d] as f64 * self.len[d] as f64).product();
        padded < 8.0 * (product(self.inputs) + product(self.outputs)) + 65536.0
    }

    /// Copies a plane.
    ///
    /// # Safety
    /// The plane lies in memory; `dst` has room for `n_elements` and `spare`.
    #[inline(always)]
    pub unsafe fn fill<T: GemmFloat, S: Simd>(&self, src: *const T, strides: [isize; 3], dst: *mut T::Acc) {
        let ([sd, sh, sw], [ld, lh, lw]) = (self.step, self.len);
        let (wide, phase_len) = (dst.wrapping_add(self.n_elements() + super::SLACK), ld * lh * lw);
        // Without a division a line: there are many short ones.
        for (i_d, p_d) in (0..ld).flat_map(|i| (0..sd).map(move |p| (i, p))) {
            let id = (i_d * sd + p_d) as isize + self.start[0];
            for (i_h, p_h) in (0..lh).flat_map(|i| (0..sh).map(move |p| (i, p))) {
                let ih = (i_h * sh + p_h) as isize + self.start[1];
                let inside = (0..self.inputs[0] as isize).contains(&id) && (0..self.inputs[1] as isize).contains(&ih);
                let row = src.wrapping_offset(id * strides[0] + ih * strides[1]);
                let line = (p_d * sh + p_h) * sw * phase_len + (i_d * lh + i_h) * lw;
                for (phase, Edge { first, before, end }) in self.edges.iter().enumerate() {
                    let line = dst.wrapping_add(line + phase * phase_len);
                    // SAFETY: only positions inside the plane are read; the lines lie in the buffer.
                    unsafe {
                        if !inside || before == end {
                            zeros::<Reg<S, T>>(line, lw);
                            continue;
                        }
                        zeros::<Reg<S, T>>(line, *before);
                        zeros::<Reg<S, T>>(line.add(*end), lw - end);
                        let from = row.wrapping_offset(first * strides[2]);
                        let (n, to) = (end - before, line.add(*before));
                        match (sw as isize * strides[2], strides[2]) {
                            (1, _) => copy_row::<T, S>(from, n, to),
                            (2, 1) => every_other::<T, S>(from, n, to, wide),
                            (step, _) => (0..n).for_each(|i| *to.add(i) = (*from.offset(i as isize * step)).widen()),
                        }
                    }
                }
            }
        }
    }
}

/// # Safety
/// There are `n` numbers.
#[inline(always)]
unsafe fn zeros<R: Register>(to: *mut R::Elem, n: usize) {
    for i in (0..n).step_by(R::WIDTH) {
        // SAFETY: by the caller.
        unsafe { R::splat(0.0).store_partial(to.add(i), R::WIDTH.min(n - i)) };
    }
}
