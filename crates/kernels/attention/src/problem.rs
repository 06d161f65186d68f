//! What a launch asks for, typed: the heads' matrices, the mask, the dropout.

use oneflow_base::{DType, Error, Result};
use oneflow_kernels_gemm::micro::Matrix;
use oneflow_kernels_prim::philox::{Window, packed, packed_words, threshold};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{Acc, AttentionParams, Launch, View, mt19937};

/// A [batch, head, row, column] tensor.
#[derive(Clone, Copy)]
pub struct Heads<T> {
    ptr: Shared<T>,
    strides: [isize; 4],
}

impl<T: Copy> Heads<T> {
    pub fn new(v: &View) -> Heads<T> {
        let mut strides = [0; 4];
        for (to, from) in strides.iter_mut().zip(v.strides) {
            *to = *from as isize;
        }
        Heads { ptr: Shared::new(v.ptr), strides }
    }
    /// The matrix of one head: its first element, and the distances between rows and columns.
    pub fn matrix(&self, batch: usize, head: usize) -> Matrix<T> {
        let at = batch as isize * self.strides[0] + head as isize * self.strides[1];
        Matrix { ptr: self.ptr.at(at), rs: self.strides[2], cs: self.strides[3] }
    }
}

/// What hides keys from rows or biases their scores.
#[derive(Clone, Copy)]
pub enum Mask<T> {
    None,
    Bool(Heads<u8>),
    Same(Heads<T>),
    F32(Heads<f32>),
}

/// Which weights are dropped, by their index in the whole [batch, head, row, key].
#[derive(Clone, Copy)]
pub struct Dropout {
    seed: u64,
    offset: u64,
    first: u64,
    strides: [u64; 4],
    bound: u32,
    pub scale: f64,
}

impl Dropout {
    /// Fills `factors[..n]` with what weights (batch, head, row, key..) are multiplied by: zero or the scale.
    pub fn factors<A: Acc>(&self, at: [usize; 4], factors: &mut [A]) {
        let first = (0..4).fold(self.first, |i, d| i.wrapping_add(at[d] as u64 * self.strides[d]));
        let scale = A::of(self.scale);
        let factor = |w: u32| if w >> 8 >= self.bound { scale } else { A::ZERO };
        let n = factors.len();
        let mut i = 0;
        while i < n {
            let index = first.wrapping_add(i as u64);
            if index % 4 == 0 && i + 64 <= n {
                let w = packed_words(self.seed, self.offset, index / 4);
                for (f, w) in factors[i..i + 64].iter_mut().zip(w) {
                    *f = factor(w);
                }
                i += 64;
            } else {
                factors[i] = factor(packed(self.seed, self.offset, index));
                i += 1;
            }
        }
    }
}

/// One launch, forward or backward.
pub struct Problem<T> {
    pub batch: usize,
    /// Heads of the query, and of key and value.
    pub heads: usize,
    pub kv_heads: usize,
    /// Rows of the query, and of key and value.
    pub rows: usize,
    pub keys: usize,
    /// Columns of query and key, and of value.
    pub width: usize,
    pub value_width: usize,
    pub scale: f64,
    pub causal: bool,
    pub query: Heads<T>,
    pub key: Heads<T>,
    pub value: Heads<T>,
    pub mask: Mask<T>,
    pub dropout: Option<Dropout>,
}

impl<T: Copy> Problem<T> {
    /// Reads query, key, value and mask from input `at` on.
    pub fn new(l: &Launch<'_>, at: usize) -> Result<Problem<T>> {
        let (q, k, v, m) = (l.input(at)?, l.input(at + 1)?, l.input(at + 2)?, l.opt_input(at + 3));
        for view in [Some(q), Some(k), Some(v), m].into_iter().flatten() {
            if view.ndim() != 4 {
                return Err(Error::runtime(format!("attention: four dimensions are needed, got {:?}", view.sizes)));
            }
        }
        let AttentionParams { scale, causal, p, seed, offset, shard, .. } = l.read()?;
        let size = |v: &View, d: usize| v.sizes[d] as usize;
        let mask = match m {
            None => Mask::None,
            Some(m) if m.dtype == DType::Bool => Mask::Bool(Heads::new(&m)),
            Some(m) if m.dtype == q.dtype => Mask::Same(Heads::new(&m)),
            Some(m) if m.dtype == DType::F32 => Mask::F32(Heads::new(&m)),
            Some(m) => {
                return Err(Error::not_implemented(format!("attention: a {} mask for {}", m.dtype, q.dtype)));
            }
        };
        let scores = [q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]];
        let dropout = if p > 0.0 {
            let window = Window::new(&shard, &scores)?;
            let strides = std::array::from_fn(|d| window.strides()[d] as u64);
            let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
            if offset == mt19937::IN_ORDER {
                return Err(mt19937::only_in_order("attention", "a fused kernel"));
            }
            let first = window.first();
            Some(Dropout { seed, offset, first, strides, bound: threshold(p), scale })
        } else {
            None
        };
        Ok(Problem {
            batch: size(&q, 0),
            heads: size(&q, 1),
            kv_heads: size(&k, 1),
            rows: size(&q, 2),
            keys: size(&k, 2),
            width: size(&q, 3),
            value_width: size(&v, 3),
            scale,
            causal,
            query: Heads::new(&q),
            key: Heads::new(&k),
            value: Heads::new(&v),
            mask,
            dropout,
        })
    }

    /// Query heads that read one head of key and value.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads.max(1)
    }

    /// How many of the keys from `first` on, at most `n`, row `row` sees.
    #[inline(always)]
    pub fn visible(&self, row: usize, first: usize, n: usize) -> usize {
        if self.causal { (row + 1).saturating_sub(first).min(n) } else { n }
    }

    /// How many of the `n` keys from `key` on there are up to the last that any of `height` rows may see: what lies behind it
    /// need not be computed. Masks of truth values are looked at, others may hide nothing.
    #[inline]
    pub fn seen(&self, [batch, head, row, key]: [usize; 4], height: usize, n: usize) -> usize {
        let n = self.visible(row + height - 1, key, n);
        let Mask::Bool(m) = &self.mask else { return n };
        let m = m.matrix(batch, head);
        if m.cs != 1 {
            return n;
        }
        let rows = if m.rs == 0 { 1 } else { height };
        (row..row + rows).fold(0, |seen, row| {
            // SAFETY: the mask covers every score, and its keys lie side by side.
            let shown = unsafe { std::slice::from_raw_parts(m.at(row, key), n) };
            seen + without_zeros(&shown[seen..])
        })
    }
}

/// Length without the zeros at the end.
fn without_zeros(bytes: &[u8]) -> usize {
    let mut n = bytes.len();
    // Eight at a time while they are zeros.
    while let Some(eight) = bytes[..n].last_chunk::<8>()
        && *eight == [0; 8]
    {
        n -= 8;
    }
    bytes[..n].iter().rposition(|b| *b != 0).map_or(0, |last| last + 1)
}
