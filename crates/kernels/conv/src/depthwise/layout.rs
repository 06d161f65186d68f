//! A plane copied with what pads it, every stride-th element side by side: then a tap is a shifted load.

use super::rows::{copy_row, every_other};
use crate::algorithm::reach;
use crate::geometry::Three;
use oneflow_kernels_gemm::micro::GemmFloat;
use oneflow_kernels_prim::Simd;

/// Taps of a column, at most.
pub const TAPS: usize = 7;

/// Rows of outputs that are computed together.
#[derive(Clone, Copy)]
pub enum Rows {
    Eight,
    /// Planes of images often have a multiple of seven.
    Seven,
    Four,
    One,
}

impl Rows {
    pub const MOST: usize = 8;

    /// What `n` rows are cut into.
    pub fn of(n: usize) -> Rows {
        match n {
            n if n >= 7 && n.is_multiple_of(7) && !n.is_multiple_of(8) => Rows::Seven,
            8.. => Rows::Eight,
            4.. => Rows::Four,
            _ => Rows::One,
        }
    }
}

/// A padded plane in memory: for every remainder by the step the positions that have it.
#[derive(Clone)]
pub struct Layout {
    step: [usize; 3],
    /// The first position, which may lie outside.
    start: Three,
    /// What taps reach from there.
    reach: Three,
    /// Positions of a remainder along each dimension.
    pub len: [usize; 3],
    pub outputs: [usize; 3],
    inputs: [usize; 3],
    /// Where the taps read, seen from the first position, and in memory.
    at: Vec<[usize; 3]>,
    pub shifts: Vec<usize>,
    /// The lines of each remainder.
    edges: Vec<Edge>,
}

/// What a line has of a row: from position `before` to `end` elements of the row, `first` the first one of them.
#[derive(Clone)]
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
        let mut this = Layout { step, start, reach, len, outputs, inputs, at: vec![], shifts: vec![], edges };
        this.at = shifts.iter().map(|s| std::array::from_fn(|d| (s[d] - start[d]) as usize)).collect();
        this.shifts = this.at.iter().map(|at| this.place(*at)).collect();
        this
    }

    /// The layout of fewer outputs along depth and height.
    pub fn band(&self, outputs: [usize; 3]) -> Layout {
        let mut this = Layout { outputs, ..self.clone() };
        this.len = std::array::from_fn(|d| outputs[d] + self.reach[d] as usize / self.step[d]);
        this.shifts = this.at.iter().map(|at| this.place(*at)).collect();
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

    /// Numbers behind the planes: what is read there, and from `SLACK` on a row that `fill` widens.
    pub fn spare(&self) -> usize {
        self.inputs[2] + 2 * super::SLACK
    }

    /// Whether a padded plane is of the size of the planes it stands for.
    pub fn is_small(&self) -> bool {
        let product = |n: [usize; 3]| n.iter().map(|n| *n as f64).product::<f64>();
        let padded: f64 = (0..3).map(|d| self.step[d] as f64 * self.len[d] as f64).product();
        padded < 8.0 * (product(self.inputs) + product(self.outputs)) + 65536.0
    }

    /// The parts of rows that a plane is copied from, where its first row is that which output `first` reads. What they leave out
    /// is padding.
    pub fn rows(&self, strides: Three, first: usize) -> Vec<Row> {
        let start_h = self.start[1] + (first * self.step[1]) as isize;
        let ([sd, sh, sw], [ld, lh, lw]) = (self.step, self.len);
        let (phase_len, mut rows) = (ld * lh * lw, Vec::new());
        for (i_d, i_h) in (0..ld * sd).flat_map(|d| (0..lh * sh).map(move |h| (d, h))) {
            let (id, ih) = (i_d as isize + self.start[0], i_h as isize + start_h);
            if !(0..self.inputs[0] as isize).contains(&id) || !(0..self.inputs[1] as isize).contains(&ih) {
                continue;
            }
            let line = (i_d % sd * sh + i_h % sh) * sw * phase_len + (i_d / sd * lh + i_h / sh) * lw;
            for (phase, Edge { first, before, end }) in self.edges.iter().enumerate().filter(|(_, e)| e.before < e.end)
            {
                rows.push(Row {
                    from: id * strides[0] + ih * strides[1] + first * strides[2],
                    to: line + phase * phase_len + before,
                    n: end - before,
                    room: lw - before,
                });
            }
        }
        rows
    }

    /// Copies a plane into what is zero where it is padded; a row's positions lie `step` apart.
    ///
    /// # Safety
    /// The plane lies in memory; `dst` has room for `n_elements` and a register, `wide` for a row of the plane.
    #[inline(always)]
    pub unsafe fn fill<T: GemmFloat, S: Simd>(
        &self,
        rows: &[Row],
        (src, step): (*const T, isize),
        (dst, wide): (*mut T::Acc, *mut T::Acc),
    ) {
        let every = self.step[2] as isize * step;
        for Row { from, to, n, room } in rows {
            let (from, to, n) = (src.wrapping_offset(*from), dst.wrapping_add(*to), *n);
            // SAFETY: only positions inside the plane are read; the rows lie in the buffer.
            unsafe {
                match (every, step) {
                    (1, _) => copy_row::<T, S>(from, n, to, *room),
                    (2, 1) => every_other::<T, S>(from, n, to, wide),
                    _ => (0..n).for_each(|i| *to.add(i) = (*from.offset(i as isize * every)).widen()),
                }
            }
        }
    }
}

/// A part of a row of a plane and its place in the copy.
pub struct Row {
    from: isize,
    to: usize,
    n: usize,
    /// Numbers that may be written from there on.
    room: usize,
}
