//! From sums to stored elements: what was in C, bias, activation, residual and the cast to C's type.

use crate::args::{Epilogue, Mat};
use oneflow_kernels_prim::activations::activate;
use oneflow_kernels_prim::{Acc, Activation, Float, Isa, Lanes, Reg, Register, Simd, WithSimd, dispatch};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Where finished elements go and what is done on the way. Pointers are those of element (0, 0).
#[derive(Clone, Copy)]
pub(crate) struct Post<C> {
    pub c: Operand<C>,
    pub bias: Option<Operand<C>>,
    pub activation: Activation,
    pub residual: Option<Operand<C>>,
    pub kept: Option<Operand<C>>,
}

/// A typed [`Mat`].
#[derive(Clone, Copy)]
pub(crate) struct Operand<C> {
    pub ptr: *mut C,
    pub rs: isize,
    pub cs: isize,
}

impl<C> Operand<C> {
    /// The matrix `offset` elements further.
    pub fn new(mat: Mat, offset: isize) -> Self {
        Operand { ptr: mat.ptr.cast::<C>().wrapping_offset(offset), rs: mat.rs, cs: mat.cs }
    }
    #[inline(always)]
    pub fn at(&self, row: usize, col: usize) -> *mut C {
        self.ptr.wrapping_offset(row as isize * self.rs + col as isize * self.cs)
    }
}

impl<C: Float> Operand<C> {
    /// The `n` elements from (row, col) along the row.
    #[inline(always)]
    unsafe fn load<S: Simd>(&self, row: usize, col: usize, n: usize) -> Reg<S, C> {
        // SAFETY: the caller's elements lie in the matrix.
        unsafe {
            match self.cs {
                1 if n == Reg::<S, C>::WIDTH => C::load::<S>(self.at(row, col)),
                1 => C::load_partial::<S>(self.at(row, col), n),
                0 => Reg::<S, C>::all_of((*self.at(row, col)).widen()),
                stride => C::gather::<S>(self.at(row, col), stride, n),
            }
        }
    }
    /// As `load`, the other way.
    #[inline(always)]
    unsafe fn store<S: Simd>(&self, v: Reg<S, C>, row: usize, col: usize, n: usize) {
        // SAFETY: the caller's elements lie in the matrix.
        unsafe {
            match self.cs {
                1 if n == Reg::<S, C>::WIDTH => C::store::<S>(v, self.at(row, col)),
                1 => C::store_partial::<S>(v, self.at(row, col), n),
                stride => C::scatter::<S>(v, self.at(row, col), stride, n),
            }
        }
    }
}

impl<C: Copy> Post<C> {
    /// The same for the transposed product.
    pub fn turned(&self) -> Self {
        let turned = |m: Operand<C>| Operand { ptr: m.ptr, rs: m.cs, cs: m.rs };
        Post {
            c: turned(self.c),
            bias: self.bias.map(turned),
            activation: self.activation,
            residual: self.residual.map(turned),
            kept: self.kept.map(turned),
        }
    }
}

impl<C> Post<C> {
    pub fn new(c: Operand<C>, epilogue: &Epilogue, (bias, residual, kept): (isize, isize, isize)) -> Self {
        Post {
            c,
            bias: epilogue.bias.map(|mat| Operand::new(mat, bias)),
            activation: epilogue.activation,
            residual: epilogue.residual.map(|mat| Operand::new(mat, residual)),
            kept: epilogue.kept.map(|mat| Operand::new(mat, kept)),
        }
    }
}

/// A tile of sums and its place in C. Rows of sums are readable in whole registers.
#[derive(Clone, Copy)]
pub(crate) struct Sums<A> {
    pub ptr: *const A,
    pub rs: isize,
    pub row: usize,
    pub col: usize,
    pub rows: usize,
    pub cols: usize,
    /// C is added with this factor; it is not read when that is zero.
    pub beta: A,
    /// Apply bias, activation and residual.
    pub last: bool,
}

/// Stores a tile.
///
/// # Safety
/// The tile lies inside C, and the sums are readable.
pub(crate) unsafe fn finish<C: Float>(isa: Isa, sums: Sums<C::Acc>, post: &Post<C>) {
    let f = Finish { sums, post };
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx512Bf16
        && std::any::TypeId::of::<C>() == std::any::TypeId::of::<oneflow_base::bf16>()
        && let Some(bias) = f.plain(16)
    {
        // SAFETY: the tier is there, C is bf16 and so its sums are f32; the tile lies in C.
        return unsafe { round_to_bf16(f.sums, f.sums.ptr.cast(), bias.cast(), post) };
    }
    dispatch(isa.lanes(), f)
}

/// Rows of whole registers, and a bias where there is one, by the instruction that rounds as `vdpbf16ps` sums: denormals
/// are zeros.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn round_to_bf16<C: Float>(s: Sums<C::Acc>, from: *const f32, bias: *const __m256i, post: &Post<C>) {
    for row in 0..s.rows {
        let (from, to) = (from.wrapping_offset(row as isize * s.rs), post.c.at(s.row + row, s.col));
        for i in 0..s.cols / 16 {
            // SAFETY: by the caller.
            unsafe {
                let mut v = _mm512_loadu_ps(from.add(16 * i));
                if !bias.is_null() {
                    let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(bias.add(i)));
                    v = _mm512_add_ps(v, _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits)));
                }
                let rounded: __m256i = std::mem::transmute(_mm512_cvtneps_pbh(v));
                _mm256_storeu_si256(to.add(16 * i).cast(), rounded);
            }
        }
    }
}

struct Finish<'a, C: Float> {
    sums: Sums<C::Acc>,
    post: &'a Post<C>,
}

impl<C: Float> WithSimd for Finish<'_, C> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let s = self.sums;
        let width = Reg::<S, C>::WIDTH;
        match self.plain(width) {
            // SAFETY: the tile lies in C, by the contract of `finish`.
            Some(bias) if bias.is_null() => return unsafe { self.registers::<S, false>(bias) },
            // SAFETY: as above.
            Some(bias) => return unsafe { self.registers::<S, true>(bias) },
            None => {}
        }
        let post = self.post;
        let simple = post.c.cs == 1 && s.cols.is_multiple_of(width);
        let plain_bias = post.bias.as_ref().is_none_or(|b| b.rs == 0 && b.cs == 1);
        let in_rows = [&post.residual, &post.kept].into_iter().flatten().all(|m| m.cs == 1);
        if simple && s.last && plain_bias && in_rows {
            // SAFETY: the tile lies in C, by the contract of `finish`.
            return unsafe {
                match post.activation {
                    Activation::None => self.activated::<S>(|v| v),
                    Activation::Relu => self.activated::<S>(|v| activate(Activation::Relu, v)),
                    Activation::Gelu => self.activated::<S>(|v| activate(Activation::Gelu, v)),
                    Activation::GeluTanh => self.activated::<S>(|v| activate(Activation::GeluTanh, v)),
                    Activation::Silu => self.activated::<S>(|v| activate(Activation::Silu, v)),
                    Activation::Hardswish => self.activated::<S>(|v| activate(Activation::Hardswish, v)),
                    Activation::Relu6 => self.activated::<S>(|v| activate(Activation::Relu6, v)),
                }
            };
        }
        for row in 0..s.rows {
            for col in (0..s.cols).step_by(width) {
                // SAFETY: the tile lies in C, by the contract of `finish`.
                unsafe { self.register::<S>(row, col, width.min(s.cols - col)) }
            }
        }
    }
}

impl<C: Float> Finish<'_, C> {
    /// What almost every tile asks for, whole registers of the sums as they are or with one bias a column: that bias of
    /// the tile's first column, or null for none.
    #[inline(always)]
    fn plain(&self, width: usize) -> Option<*const C> {
        let (s, post) = (&self.sums, self.post);
        let as_they_are = post.activation == Activation::None && post.residual.is_none() && post.kept.is_none();
        if post.c.cs != 1 || s.beta != C::Acc::ZERO || !s.cols.is_multiple_of(width) || s.last && !as_they_are {
            return None;
        }
        match &post.bias {
            Some(bias) if s.last => (bias.rs == 0 && bias.cs == 1).then(|| bias.at(0, s.col).cast_const()),
            _ => Some(std::ptr::null()),
        }
    }

    /// Whole registers, with a bias or none.
    #[inline(always)]
    unsafe fn registers<S: Simd, const BIAS: bool>(&self, bias: *const C) {
        let (s, width) = (&self.sums, Reg::<S, C>::WIDTH);
        for row in 0..s.rows {
            let (from, to) = (s.ptr.wrapping_offset(row as isize * s.rs), self.post.c.at(s.row + row, s.col));
            for col in (0..s.cols).step_by(width) {
                // SAFETY: the tile lies in C, the bias has its columns.
                unsafe {
                    let mut v = Reg::<S, C>::load(from.add(col));
                    if BIAS {
                        v = v + C::load::<S>(bias.add(col));
                    }
                    C::store::<S>(v, to.add(col));
                }
            }
        }
    }

    /// Whole registers with an activation and a residual, and what the activation was given where that is kept.
    #[inline(always)]
    unsafe fn activated<S: Simd>(&self, f: impl Fn(Reg<S, C>) -> Reg<S, C>) {
        let (s, post, width) = (&self.sums, self.post, Reg::<S, C>::WIDTH);
        let (adds_c, beta) = (s.beta != C::Acc::ZERO, Reg::<S, C>::all_of(s.beta));
        let bias = post.bias.as_ref().map(|b| b.at(0, s.col).cast_const());
        for row in 0..s.rows {
            let (from, to) = (s.ptr.wrapping_offset(row as isize * s.rs), post.c.at(s.row + row, s.col));
            let kept = post.kept.as_ref().map(|k| k.at(s.row + row, s.col));
            let residual = post.residual.as_ref().map(|r| r.at(s.row + row, s.col).cast_const());
            for col in (0..s.cols).step_by(width) {
                // SAFETY: the tile lies in C, in the residual and in what is kept, the bias has its columns.
                unsafe {
                    let mut v = Reg::<S, C>::load(from.add(col));
                    if adds_c {
                        v = beta.fma(C::load::<S>(to.add(col)), v);
                    }
                    if let Some(bias) = bias {
                        v = v + C::load::<S>(bias.add(col));
                    }
                    if let Some(kept) = kept {
                        C::store::<S>(v, kept.add(col));
                    }
                    v = f(C::rounded::<S>(v));
                    if let Some(residual) = residual {
                        v = C::rounded::<S>(v) + C::load::<S>(residual.add(col));
                    }
                    C::store::<S>(v, to.add(col));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn register<S: Simd>(&self, row: usize, col: usize, n: usize) {
        let (s, post) = (&self.sums, self.post);
        let (i, j) = (s.row + row, s.col + col);
        // SAFETY: `n` elements from (i, j) lie in a row of C and of every operand of its shape.
        unsafe {
            let mut v = Reg::<S, C>::load(s.ptr.offset(row as isize * s.rs + col as isize));
            if s.beta != C::Acc::ZERO {
                v = Reg::<S, C>::all_of(s.beta).fma(post.c.load::<S>(i, j, n), v);
            }
            if s.last {
                if let Some(bias) = &post.bias {
                    v = v + bias.load::<S>(i, j, n);
                }
                if let Some(kept) = &post.kept {
                    kept.store::<S>(v, i, j, n);
                }
                if post.activation != Activation::None {
                    v = activate(post.activation, C::rounded::<S>(v));
                }
                if let Some(residual) = &post.residual {
                    v = C::rounded::<S>(v) + residual.load::<S>(i, j, n);
                }
            }
            post.c.store::<S>(v, i, j, n);
        }
    }
}
