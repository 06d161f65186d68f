//! PAD and its adjoint: a row of the output is at most three pieces of one row of the input.

use crate::num::{Complex, Num, by_size};
use oneflow_base::{DType, DeviceType, Dims, Result, by_dtype, no_kernel_for};
use oneflow_kernels_prim::pad::{Piece, pieces};
use oneflow_kernels_prim::rows::{Shared, split};
use oneflow_kernels_prim::{
    FILL, FillParams, Launch, PadBackwardParams, PadMode, PadParams, Simd, View, WithSimd, dispatch, isa, words,
};
use smallvec::SmallVec;
use std::ops::Range;

/// A dimension of the padded side and of the other one, with the strides of the operand that is written and of the other.
#[derive(Clone, Copy)]
struct Dim {
    padded: i64,
    n: i64,
    before: i64,
    /// Some of its elements lie elsewhere than in the other operand.
    moves: bool,
    to: isize,
    from: isize,
}

impl Dim {
    fn pieces(&self, mode: PadMode) -> SmallVec<[Piece; 3]> {
        pieces(mode, self.n, self.before, self.padded)
    }
}

/// The dimensions, the widest steps of what is written first.
fn dims(padded: &[i64], n: &[i64], widths: &[i64], to: &[i64], from: &[i64]) -> SmallVec<[Dim; 6]> {
    let mut all: SmallVec<[Dim; 6]> = (0..n.len())
        .map(|d| Dim {
            padded: padded[d],
            n: n[d],
            before: widths[2 * d],
            moves: widths[2 * d..2 * d + 2] != [0, 0],
            to: to[d] as isize,
            from: from[d] as isize,
        })
        .filter(|d| d.moves || d.n != 1)
        .collect();
    all.sort_by_key(|d| std::cmp::Reverse(d.to));
    all
}

/// Dimensions that are walked as one.
fn merged(mode: PadMode, all: SmallVec<[Dim; 6]>) -> SmallVec<[Dim; 6]> {
    let mut merged = SmallVec::<[Dim; 6]>::new();
    // Whole runs of elements are moved as the elements are, but where their order turns.
    let runs = matches!(mode, PadMode::Constant | PadMode::Circular | PadMode::Roll);
    for d in all {
        match merged.last_mut() {
            Some(outer)
                if !d.moves
                    && (runs || !outer.moves)
                    && outer.to == d.to * d.n as isize
                    && outer.from == d.from * d.n as isize =>
            {
                let n = d.n;
                *outer = Dim {
                    padded: outer.padded * n,
                    n: outer.n * n,
                    before: outer.before * n,
                    moves: outer.moves,
                    to: d.to,
                    from: d.from,
                };
            }
            _ => merged.push(d),
        }
    }
    merged
}

/// Places along an outer dimension: the offset of the other operand for each, `BEYOND` where it has none.
enum Places {
    Step(isize),
    Table(Vec<isize>),
}

const BEYOND: isize = isize::MIN;

impl Places {
    fn new(mode: PadMode, d: &Dim) -> Places {
        if !d.moves {
            return Places::Step(d.from);
        }
        let mut table = vec![BEYOND; d.padded as usize];
        for p in d.pieces(mode) {
            if let Some((from, step)) = p.source {
                (0..p.len).for_each(|i| table[(p.at + i) as usize] = (from + i * step) as isize * d.from);
            }
        }
        Places::Table(table)
    }
    #[inline(always)]
    fn at(&self, i: i64) -> isize {
        match self {
            Places::Step(step) => i as isize * step,
            Places::Table(table) => table[i as usize],
        }
    }
}

/// Calls `f` with the indices of rows, the last index fastest.
fn each_row(rows: Range<usize>, sizes: &[i64], mut f: impl FnMut(&[i64])) {
    let mut at = Dims::from_elem(0, sizes.len());
    let mut rest = rows.start as i64;
    for d in (0..sizes.len()).rev() {
        (at[d], rest) = (rest % sizes[d], rest / sizes[d]);
    }
    for _ in rows {
        f(&at);
        for d in (0..sizes.len()).rev() {
            at[d] += 1;
            if at[d] < sizes[d] {
                break;
            }
            at[d] = 0;
        }
    }
}

pub unsafe fn pad(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    let PadParams { mode, widths, value } = l.read()?;
    if out.numel() == 0 {
        return Ok(());
    }
    let value = match mode {
        PadMode::Constant => element(l, out.dtype, &value)?,
        _ => [0; 2],
    };
    // SAFETY: the launch's contract; the value has the bytes of an element.
    by_size!(out.dtype, T => unsafe { fill_rows(&x, &out, mode, &widths, value.as_ptr().cast::<T>().read_unaligned()) });
    Ok(())
}

/// The bytes of a number as an element of the dtype.
fn element(l: &Launch<'_>, dtype: DType, value: &FillParams) -> Result<[u64; 2]> {
    let mut bytes = [0u64; 2];
    let out = View { ptr: bytes.as_mut_ptr().cast(), dtype, sizes: &[], strides: &[] };
    let launch = Launch { outs: &[Some(out)], ins: &[], params: &words(value), expr: None, queue: l.queue };
    // SAFETY: one element of at most sixteen bytes.
    unsafe { FILL.on(DeviceType::CPU)?(&launch)? };
    Ok(bytes)
}

unsafe fn fill_rows<T: Copy + Send + Sync>(x: &View<'_>, out: &View<'_>, mode: PadMode, widths: &[i64], value: T) {
    const BLOCK: i64 = 16 << 10;
    let mut dims = merged(mode, dims(out.sizes, x.sizes, widths, out.strides, x.strides));
    let one = Dim { padded: 1, n: 1, before: 0, moves: false, to: 0, from: 0 };
    let inner = dims.pop().unwrap_or(one);
    let row = Row { pieces: inner.pieces(mode), to: inner.to, from: inner.from, value };
    let down = dims.pop().unwrap_or(one);
    let (down_places, height) = (Places::new(mode, &down), down.padded);
    let places: SmallVec<[Places; 6]> = dims.iter().map(|d| Places::new(mode, d)).collect();
    let sizes: Dims = dims.iter().map(|d| d.padded).collect();
    let rows = (sizes.iter().product::<i64>() * height) as usize;
    let blocks = (inner.padded / BLOCK).max(1);
    let (to, from) = (Shared::<T>::new(out.ptr), Shared::<T>::new(x.ptr));
    let base = |plane: i64| {
        let (mut o, mut s, mut rest) = (0, 0, plane);
        for (d, place) in dims.iter().zip(&places).rev() {
            let (up, at) = (rest / d.padded, rest % d.padded);
            o += at as isize * d.to;
            s = if s == BEYOND || place.at(at) == BEYOND { BEYOND } else { s + place.at(at) };
            rest = up;
        }
        (o, s)
    };
    let isa = isa();
    // Rows that are written together, a piece after the other.
    let together = (ROWS_BYTES / (inner.padded as usize * size_of::<T>()).max(1)).max(1) as i64;
    let ns = 4.0 + 0.05 * size_of::<T>() as f64 * (inner.padded / blocks) as f64;
    split(rows * blocks as usize, ns, &|r| {
        let (mut i, last) = (r.start as i64, r.end as i64);
        while i < last {
            let plane = i / blocks / height;
            let (o, s) = base(plane);
            let end = last.min((plane + 1) * height * blocks);
            let (to, from) = (to.at(o), if s == BEYOND { None } else { Some(from.at(s).cast_const()) });
            while i < end {
                let y = (i / blocks) % height;
                // SAFETY: the pieces lie in the output's rows and their sources in the input's; tasks write disjoint ones.
                unsafe {
                    if blocks == 1 {
                        let n = together.min(end - i);
                        dispatch(isa, Rows { row: &row, to, from, rows: y..y + n, down: &down, places: &down_places });
                        i += n;
                    } else {
                        let block = i % blocks;
                        let end = if block + 1 == blocks { inner.padded } else { (block + 1) * BLOCK };
                        row.part(&(block * BLOCK..end)).write(to, from, y..y + 1, &down, &down_places);
                        i += 1;
                    }
                }
            }
        }
    });
}

/// Bytes of rows that stay in the first cache.
const ROWS_BYTES: usize = 8 << 10;

/// What a row of the output is made of.
struct Row<T> {
    pieces: SmallVec<[Piece; 3]>,
    to: isize,
    from: isize,
    value: T,
}

/// `Row::write` in the widest instructions that there are.
struct Rows<'a, T> {
    row: &'a Row<T>,
    to: *mut T,
    from: Option<*const T>,
    rows: Range<i64>,
    down: &'a Dim,
    places: &'a Places,
}

impl<T: Copy> WithSimd for Rows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: by whoever makes it.
        unsafe { self.row.write(self.to, self.from, self.rows, self.down, self.places) }
    }
}

impl<T: Copy> Row<T> {
    fn part(&self, range: &Range<i64>) -> Row<T> {
        Row { pieces: self.pieces.iter().map(|p| p.within(range)).collect(), ..*self }
    }

    /// Rows of a plane of the output, from a plane of the input; without one all of it is the constant.
    ///
    /// # Safety
    /// The planes hold the rows' pieces and their sources.
    #[inline(always)]
    unsafe fn write(&self, to: *mut T, from: Option<*const T>, rows: Range<i64>, down: &Dim, places: &Places) {
        for p in &self.pieces {
            let n = p.len as usize;
            let start = to.wrapping_offset(p.at as isize * self.to);
            let constant = |y: i64| {
                let start = start.wrapping_offset(y as isize * down.to);
                // SAFETY: by the caller.
                (0..n as isize).for_each(|i| unsafe { start.offset(i * self.to).write_unaligned(self.value) });
            };
            let (Some(from), Some((first, step))) = (from, p.source) else {
                rows.clone().for_each(constant);
                continue;
            };
            let from = from.wrapping_offset(first as isize * self.from);
            let step = step as isize * self.from;
            for y in rows.clone() {
                let place = places.at(y);
                if place == BEYOND {
                    constant(y);
                    continue;
                }
                let (from, to) = (from.wrapping_offset(place), start.wrapping_offset(y as isize * down.to));
                // SAFETY: by the caller.
                unsafe { place_run(from, step, to, self.to, n) };
            }
        }
    }
}

/// `to[i] = from[i]` with their steps.
#[inline(always)]
unsafe fn place_run<T: Copy>(from: *const T, step: isize, to: *mut T, to_step: isize, n: usize) {
    // SAFETY: the caller's.
    unsafe {
        if to_step == 1 && step == 1 {
            let (from, to, bytes) = (from.cast::<u8>(), to.cast::<u8>(), n * size_of::<T>());
            match bytes {
                0..16 => {}
                16..32 => return lumps::<16>(from, to, bytes),
                32..=1024 => return lumps::<32>(from, to, bytes),
                _ => return from.copy_to_nonoverlapping(to, bytes),
            }
        }
        let (mut from, mut to) = (from, to);
        for _ in 0..n {
            to.write_unaligned(from.read_unaligned());
            (from, to) = (from.wrapping_offset(step), to.wrapping_offset(to_step));
        }
    }
}

/// Bytes by so many at once; the last ones may be written twice.
#[inline(always)]
unsafe fn lumps<const N: usize>(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: every lump lies in the run.
    let lump = |at: usize| unsafe {
        to.add(at).cast::<[u8; N]>().write_unaligned(from.add(at).cast::<[u8; N]>().read_unaligned());
    };
    (0..bytes / N).for_each(|i| lump(i * N));
    lump(bytes - N);
}

pub unsafe fn pad_backward(l: &Launch<'_>) -> Result<()> {
    let (g, out) = (l.input(0)?, l.output(0)?);
    let PadBackwardParams { mode, widths } = l.read()?;
    if out.numel() == 0 {
        return Ok(());
    }
    // SAFETY: the launch's contract.
    unsafe {
        match out.dtype {
            DType::C64 => sum_rows(&g, &out, mode, &widths, Complex(0f32, 0.0)),
            DType::C128 => sum_rows(&g, &out, mode, &widths, Complex(0f64, 0.0)),
            dtype => {
                by_dtype!(dtype, reals, T => sum_rows(&g, &out, mode, &widths, <T as crate::num::Real>::of_i64(0)),
                other => return Err(no_kernel_for("pad_backward", other)))
            }
        }
    }
    Ok(())
}

/// Where the elements of a dimension were put: offsets in the padded operand, those of element i from `starts[i]` on.
struct Copies {
    starts: Vec<usize>,
    offsets: Vec<isize>,
}

impl Copies {
    fn new(mode: PadMode, d: &Dim) -> Copies {
        let mut all: Vec<(i64, i64)> = Vec::with_capacity(d.padded as usize);
        for p in d.pieces(mode) {
            if let Some((first, step)) = p.source {
                all.extend((0..p.len).map(|i| (first + i * step, p.at + i)));
            }
        }
        // Those that were kept come first.
        all.sort_by_key(|(element, _)| *element);
        let mut starts = vec![0; d.n as usize + 1];
        all.iter().for_each(|(element, _)| starts[*element as usize + 1] += 1);
        (0..d.n as usize).for_each(|i| starts[i + 1] += starts[i]);
        Copies { starts, offsets: all.into_iter().map(|(_, at)| at as isize * d.from).collect() }
    }
    fn of(&self, i: i64) -> &[isize] {
        &self.offsets[self.starts[i as usize]..self.starts[i as usize + 1]]
    }
}

unsafe fn sum_rows<T: Num>(g: &View<'_>, out: &View<'_>, mode: PadMode, widths: &[i64], zero: T) {
    let mut dims = merged(mode, dims(g.sizes, out.sizes, widths, out.strides, g.strides));
    let one = Dim { padded: 1, n: 1, before: 0, moves: false, to: 1, from: 1 };
    let inner = dims.pop().unwrap_or(one);
    let pieces = inner.pieces(mode);
    let is_whole = pieces.first().is_some_and(|p| p.source == Some((0, 1)) && p.len == inner.n);
    let copies: SmallVec<[Option<Copies>; 6]> = dims.iter().map(|d| d.moves.then(|| Copies::new(mode, d))).collect();
    let sizes: Dims = dims.iter().map(|d| d.n).collect();
    let rows = sizes.iter().product::<i64>() as usize;
    let (to, from) = (Shared::<T>::new(out.ptr), Shared::<T>::new(g.ptr));
    let ns = 8.0 + 0.1 * size_of::<T>() as f64 * inner.padded as f64;
    split(rows, ns, &|r| {
        each_row(r, &sizes, |at| {
            let (mut o, mut s) = (0, 0);
            let mut lists: SmallVec<[&[isize]; 4]> = SmallVec::new();
            for (d, i) in at.iter().enumerate() {
                o += *i as isize * dims[d].to;
                match &copies[d] {
                    Some(copies) => lists.push(copies.of(*i)),
                    None => s += *i as isize * dims[d].from,
                }
            }
            let row = to.at(o);
            // SAFETY: pieces lie in the gradient's rows and their sources in the output's; a task has its own rows.
            unsafe {
                if !is_whole || lists.iter().any(|l| l.is_empty()) {
                    (0..inner.n as isize).for_each(|i| *row.offset(i * inner.to) = zero);
                }
                let mut is_first = is_whole;
                each_sum(&lists, s, &mut |s| {
                    for p in &pieces {
                        let Some((first, step)) = p.source else { continue };
                        let row = row.offset(first as isize * inner.to);
                        let g = from.at(s + p.at as isize * inner.from).cast_const();
                        let (step, n) = (step as isize * inner.to, p.len as usize);
                        if is_first {
                            place_run(g, inner.from, row, step, n);
                            is_first = false;
                        } else {
                            add_run(g, inner.from, row, step, n);
                        }
                    }
                });
            }
        });
    });
}

/// Calls `f` with every sum of `start` and one number of each list.
fn each_sum(lists: &[&[isize]], start: isize, f: &mut dyn FnMut(isize)) {
    match lists {
        [] => f(start),
        [last] => last.iter().for_each(|v| f(start + v)),
        [first, rest @ ..] => first.iter().for_each(|v| each_sum(rest, start + v, f)),
    }
}

/// `to[i] += from[i]` with their steps.
#[inline(always)]
unsafe fn add_run<T: Num>(from: *const T, step: isize, to: *mut T, to_step: isize, n: usize) {
    // SAFETY: the caller's.
    unsafe {
        if to_step == 1 && step == 1 {
            return (0..n).for_each(|i| *to.add(i) = (*to.add(i)).add(*from.add(i)));
        }
        for i in 0..n as isize {
            let to = to.offset(i * to_step);
            *to = (*to).add(*from.offset(i * step));
        }
    }
}
