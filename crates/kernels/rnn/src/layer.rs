//! The parts of a launch: sequences, states and weights as the kernels walk them.

use oneflow_base::{Error, Result};
use oneflow_ep::cpu;
use oneflow_kernels_gemm::micro::{GemmFloat, Kit, Matrix, Packed};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{Launch, RnnMode, RnnParams, View};
use std::ops::Range;

/// A float that is computed in as it is stored.
pub trait Real: GemmFloat<Acc = Self> + oneflow_kernels_prim::Acc {}
impl Real for f32 {}
impl Real for f64 {}

/// What a launch says beside its tensors.
pub struct Layer {
    pub mode: RnnMode,
    reverse: bool,
    /// Rows of each step.
    pub rows: Vec<usize>,
    /// Row number of each step's first row in a packed sequence.
    offsets: Option<Vec<usize>>,
    pub batch: usize,
    pub hidden: usize,
    /// Width of h: `hidden`, unless it is projected.
    pub out: usize,
}

impl Layer {
    /// From the launch, a sequence of it, its first state and its weights.
    pub fn new(l: &Launch<'_>, seq: &View, h_0: &View, w_hh: &View) -> Result<Layer> {
        let RnnParams { mode, reverse, packed } = l.read()?;
        let packed: Vec<usize> = packed.0.iter().map(|n| *n as usize).collect();
        let (batch, out) = (h_0.sizes[0] as usize, h_0.sizes[1] as usize);
        let hidden = w_hh.sizes[0] as usize / mode.n_gates();
        let (rows, offsets) = match seq.ndim() {
            3 => (vec![seq.sizes[1] as usize; seq.sizes[0] as usize], None),
            _ => {
                let starts = packed.iter().scan(0, |at, n| {
                    *at += n;
                    Some(*at - n)
                });
                let offsets = starts.collect();
                (packed, Some(offsets))
            }
        };
        let n: usize = rows.iter().sum();
        let expected = if seq.ndim() == 3 { n } else { seq.sizes[0] as usize };
        if n != expected || rows.windows(2).any(|w| w[1] > w[0]) || rows.first().is_some_and(|r| *r > batch) {
            return Err(Error::runtime(format!("rnn: steps of {rows:?} rows do not make a sequence {:?}", seq.sizes)));
        }
        Ok(Layer { mode, reverse, rows, offsets, batch, hidden, out })
    }

    pub fn n_steps(&self) -> usize {
        self.rows.len()
    }
    /// The step computed `i`-th.
    pub fn step(&self, i: usize) -> usize {
        if self.reverse { self.n_steps() - 1 - i } else { i }
    }
    /// How many of some rows of the batch a step has.
    pub fn active(&self, step: usize, rows: &Range<usize>) -> usize {
        self.rows[step].min(rows.end).saturating_sub(rows.start)
    }

    /// A tensor of rows a step.
    pub fn seq<T: Copy>(&self, v: &View) -> Result<Seq<'_, T>> {
        let stride = |d: usize| v.strides.get(d).map_or(0, |s| *s as isize);
        let n = v.ndim();
        let (step, row) = if n == 3 { (stride(0), stride(1)) } else { (0, stride(0)) };
        Ok(Seq { ptr: Shared::new(v.ptr), step, row, cs: stride(n - 1), offsets: self.offsets.as_deref() })
    }

    /// A sequence whose columns are neighbours.
    pub fn dense<T: Copy>(&self, v: &View) -> Result<Seq<'_, T>> {
        let seq = self.seq(v)?;
        if seq.cs != 1 && v.sizes.last() != Some(&1) {
            return Err(Error::not_implemented(format!(
                "rnn: columns of a sequence {:?} with strides {:?} are no neighbours",
                v.sizes, v.strides
            )));
        }
        Ok(seq)
    }

    /// Runs `f` on parts of the batch, on several threads where that pays.
    pub fn split(&self, f: &(dyn Fn(Range<usize>) + Sync)) {
        let gates = self.mode.n_gates();
        let work = self.rows.iter().sum::<usize>() as f64 * (gates * self.hidden * self.out) as f64;
        let threads = if work < 1e6 { 1 } else { cpu::num_threads() };
        // A part reads all weights at every step: it should not be too small.
        let parts = (self.batch / 4).clamp(1, threads);
        if parts == 1 {
            return f(0..self.batch);
        }
        cpu::parallel_for(parts, &|i| f(i * self.batch / parts..(i + 1) * self.batch / parts));
    }
}

/// A tensor of rows a step.
#[derive(Clone, Copy)]
pub struct Seq<'a, T> {
    ptr: Shared<T>,
    step: isize,
    pub row: isize,
    pub cs: isize,
    offsets: Option<&'a [usize]>,
}

impl<T: Copy> Seq<'_, T> {
    /// The first element of a row of a step.
    #[inline(always)]
    pub fn at(&self, step: usize, row: usize) -> *mut T {
        match self.offsets {
            Some(o) => self.ptr.at((o[step] + row) as isize * self.row),
            None => self.ptr.at(step as isize * self.step + row as isize * self.row),
        }
    }
}

/// A matrix argument.
pub fn matrix<T>(v: &View) -> Matrix<T> {
    Matrix { ptr: v.ptr.cast(), rs: v.strides[0] as isize, cs: v.strides[1] as isize }
}

/// A matrix that tasks share.
#[derive(Clone, Copy)]
pub struct SharedMatrix<T> {
    ptr: Shared<T>,
    rs: isize,
    cs: isize,
}

impl<T: Copy> SharedMatrix<T> {
    pub fn new(v: &View) -> SharedMatrix<T> {
        SharedMatrix { ptr: Shared::new(v.ptr), rs: v.strides[0] as isize, cs: v.strides[1] as isize }
    }
    #[inline(always)]
    pub fn at(&self, row: usize, col: usize) -> *mut T {
        self.ptr.at(row as isize * self.rs + col as isize * self.cs)
    }
    /// Copies the rows into neighbours at `to`, `stride` apart.
    ///
    /// # Safety
    /// The rows lie in the matrix, and in `to`.
    pub unsafe fn read(&self, rows: Range<usize>, width: usize, to: *mut T, stride: usize) {
        for (i, row) in rows.enumerate() {
            for col in 0..width {
                // SAFETY: by the caller.
                unsafe { *to.add(i * stride + col) = *self.at(row, col) };
            }
        }
    }
    /// Copies neighbours at `from`, `stride` apart, into the rows.
    ///
    /// # Safety
    /// As `read`.
    pub unsafe fn write(&self, rows: Range<usize>, width: usize, from: *const T, stride: usize) {
        for (i, row) in rows.enumerate() {
            for col in 0..width {
                // SAFETY: by the caller.
                unsafe { *self.at(row, col) = *from.add(i * stride + col) };
            }
        }
    }
}

/// Packed weights, read by all tasks.
pub struct Weights<T> {
    room: Vec<T>,
    rows: usize,
    width: usize,
}

impl<T: Real> Weights<T> {
    /// Packs the transpose of `rows` rows of `width` columns.
    ///
    /// # Safety
    /// The matrix lies in memory.
    pub unsafe fn new(kit: &Kit<T>, m: Matrix<T>, rows: usize, width: usize) -> Weights<T> {
        let mut room = vec![T::default(); kit.packed_len(rows, width)];
        // SAFETY: by the caller; the room is as long as asked for.
        unsafe { kit.pack_transposed(m, rows, width, room.as_mut_ptr()) };
        Weights { room, rows, width }
    }
    pub fn panels(&self, kit: &Kit<T>) -> Packed<T> {
        kit.packed(self.room.as_ptr(), self.rows, self.width)
    }
}

/// `n` rows in tiles of at most `max`, all but equal.
pub fn tiles(n: usize, max: usize) -> impl Iterator<Item = (usize, usize)> {
    let parts = n.div_ceil(max).max(1);
    (0..if n == 0 { 0 } else { parts }).map(move |i| (i * n / parts, (i + 1) * n / parts - i * n / parts))
}
