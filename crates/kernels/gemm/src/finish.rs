//! From sums to stored elements: what was in C, bias, activation, residual and the cast to C's type.

use crate::args::{Activation, Bias, Epilogue};
use crate::elem::{Acc, Elem};
use crate::isa::{Isa, for_isa};

/// Where finished elements go and what is done on the way. Pointers are those of C's element (0, 0).
pub(crate) struct Post<C: Elem> {
    pub c: *mut C,
    pub rs: isize,
    pub cs: isize,
    pub bias: Bias,
    pub activation: Activation,
    /// Pointer, strides and scale.
    pub residual: Option<(*const C, isize, isize, C::Acc)>,
}

impl<C: Elem> Post<C> {
    pub fn new(c: *mut C, rs: isize, cs: isize, epilogue: &Epilogue, residual_offset: isize) -> Self {
        let residual = epilogue.residual.map(|r| {
            ((r.mat.ptr as *const C).wrapping_offset(residual_offset), r.mat.rs, r.mat.cs, C::Acc::of(r.scale))
        });
        Post { c, rs, cs, bias: epilogue.bias, activation: epilogue.activation, residual }
    }
}

/// A tile of sums and its place in C.
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
pub(crate) unsafe fn finish<C: Elem>(isa: Isa, sums: Sums<C::Acc>, post: &Post<C>) {
    // SAFETY: the tier is available and the contract the same.
    unsafe { for_isa!(isa, fn run<C: Elem>(sums: Sums<<C as Elem>::Acc>, post: &Post<C>) = finish_tile)(sums, post) }
}

#[inline(always)]
unsafe fn finish_tile<C: Elem>(s: Sums<C::Acc>, post: &Post<C>) {
    // SAFETY: the caller's contract.
    unsafe {
        match if s.last { post.activation } else { Activation::None } {
            Activation::None => rows(s, post, |x| x),
            Activation::Relu => rows(s, post, Acc::relu),
            Activation::GeluErf => rows(s, post, Acc::gelu_erf),
            Activation::GeluTanh => rows(s, post, Acc::gelu_tanh),
            Activation::Silu => rows(s, post, Acc::silu),
        }
    }
}

/// Elements handled together: a tile's width on the widest tier.
const CHUNK: usize = 32;

#[inline(always)]
unsafe fn rows<C: Elem>(s: Sums<C::Acc>, post: &Post<C>, activation: impl Fn(C::Acc) -> C::Acc) {
    for row in 0..s.rows {
        let mut col = 0;
        while col < s.cols {
            let n = CHUNK.min(s.cols - col);
            // SAFETY: the caller's tile covers the row.
            unsafe {
                // A constant length lets the compiler keep the whole chunk in registers.
                if n == CHUNK {
                    chunk(s, post, row, col, CHUNK, &activation)
                } else {
                    chunk(s, post, row, col, n, &activation)
                }
            }
            col += n;
        }
    }
}

#[inline(always)]
unsafe fn chunk<C: Elem>(
    s: Sums<C::Acc>,
    post: &Post<C>,
    row: usize,
    col: usize,
    n: usize,
    activation: &impl Fn(C::Acc) -> C::Acc,
) {
    let (i, j) = ((s.row + row) as isize, (s.col + col) as isize);
    let mut v = [C::Acc::ZERO; CHUNK];
    // SAFETY: every pointer below is to element (i, j) of an operand that covers C's shape, and n stays in its row.
    unsafe {
        let sums = s.ptr.offset(row as isize * s.rs + col as isize);
        for (x, v) in v[..n].iter_mut().enumerate() {
            *v = *sums.add(x);
        }
        let c = post.c.offset(i * post.rs + j * post.cs);
        if s.beta != C::Acc::ZERO {
            let beta = s.beta;
            with_row(c, post.cs, n, &mut v, |v, c| v + beta * c);
        }
        if s.last {
            match post.bias {
                Bias::None => {}
                Bias::PerColumn(ptr, stride) => {
                    with_row(ptr.cast::<C>().offset(j * stride), stride, n, &mut v, |v, b| v + b)
                }
                Bias::PerRow(ptr, stride) => with_row(ptr.cast::<C>().offset(i * stride), 0, n, &mut v, |v, b| v + b),
            }
            for v in &mut v {
                *v = activation(*v);
            }
            if let Some((ptr, rs, cs, scale)) = post.residual {
                with_row(ptr.offset(i * rs + j * cs), cs, n, &mut v, |v, r| v + scale * r);
            }
        }
        if post.cs == 1 {
            for (x, &v) in v[..n].iter().enumerate() {
                *c.add(x) = C::narrow(v);
            }
        } else {
            for (x, &v) in v[..n].iter().enumerate() {
                *c.offset(x as isize * post.cs) = C::narrow(v);
            }
        }
    }
}

/// Combines `v` with `n` elements from `src`, `stride` apart.
#[inline(always)]
unsafe fn with_row<C: Elem>(
    src: *const C,
    stride: isize,
    n: usize,
    v: &mut [C::Acc; CHUNK],
    f: impl Fn(C::Acc, C::Acc) -> C::Acc,
) {
    // SAFETY: the caller's pointer covers n elements.
    unsafe {
        if stride == 1 {
            for (x, v) in v[..n].iter_mut().enumerate() {
                *v = f(*v, (*src.add(x)).widen());
            }
        } else {
            for (x, v) in v[..n].iter_mut().enumerate() {
                *v = f(*v, (*src.offset(x as isize * stride)).widen());
            }
        }
    }
}
