//! What a caller describes: three strided matrices, the batch around them and what happens to a finished element.

use crate::packed_b::PackedB;
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::Activation;
use smallvec::SmallVec;

/// A strided matrix in memory. Strides count elements and may be zero or negative.
#[derive(Clone, Copy, Debug)]
pub struct Mat {
    pub ptr: *mut u8,
    /// Distance between rows.
    pub rs: isize,
    /// Distance between columns.
    pub cs: isize,
}

impl Mat {
    pub fn new<T>(ptr: *const T, rs: isize, cs: isize) -> Mat {
        Mat { ptr: ptr as *mut u8, rs, cs }
    }

    fn transposed(self) -> Mat {
        Mat { rs: self.cs, cs: self.rs, ..self }
    }
}

/// One batch dimension around the matrices, with the distance between items of each; zero repeats an operand.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchDim {
    pub size: usize,
    pub a: isize,
    pub b: isize,
    pub c: isize,
    pub bias: isize,
    pub residual: isize,
    pub kept: isize,
}

/// Batch dimensions of one call.
pub(crate) type Batch = SmallVec<[BatchDim; 4]>;

/// What happens to an element between the sum and its store. The matrices have C's dtype and shape, any strides:
/// a bias of one value per column has a row stride of zero.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue {
    /// Added before the activation.
    pub bias: Option<Mat>,
    pub activation: Activation,
    /// Added after the activation; may be C itself.
    pub residual: Option<Mat>,
    /// Gets what the activation was given.
    pub kept: Option<Mat>,
}

impl Default for Epilogue {
    fn default() -> Self {
        Epilogue { bias: None, activation: Activation::None, residual: None, kept: None }
    }
}

impl Epilogue {
    pub(crate) fn is_none(&self) -> bool {
        self.bias.is_none() && self.activation == Activation::None && self.residual.is_none() && self.kept.is_none()
    }

    /// Whether it only adds: a bias of one value per column, rows of neighbours, both, or a bias of one value per row.
    pub(crate) fn adds(&self) -> bool {
        let sum = self.activation == Activation::None && self.kept.is_none();
        let fits = |b: Mat| b.rs == 0 && b.cs == 1 || b.cs == 0 && self.residual.is_none();
        sum && self.bias.is_none_or(fits) && self.residual.is_none_or(|r| r.cs == 1)
    }
}

/// `C = activation(alpha * A @ B + beta * C + bias) + residual`, with A `m x k`, B `k x n` and C `m x n`.
///
/// A and B share `dtype`. Half types accumulate in f32. `dtype_c` is `dtype`, f32 where `dtype` is a half type, or i32 where
/// it is a byte.
/// With `beta == 0`, C is not read.
#[derive(Clone, Copy)]
pub struct GemmArgs<'a> {
    pub dtype: DType,
    pub dtype_c: DType,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: Mat,
    pub b: Mat,
    pub c: Mat,
    /// Outermost first; empty for one product.
    pub batch: &'a [BatchDim],
    pub alpha: f64,
    pub beta: f64,
    pub epilogue: Epilogue,
    /// B, packed before; then `b` is not read.
    pub packed: Option<&'a PackedB>,
    /// Float32 operands may be rounded to bfloat16, where that is faster: sums and what follows them stay float32.
    pub rounded: bool,
}

impl<'a> GemmArgs<'a> {
    /// A plain product `C = A @ B`.
    pub fn new(dtype: DType, (m, n, k): (usize, usize, usize), a: Mat, b: Mat, c: Mat) -> GemmArgs<'a> {
        let epilogue = Epilogue::default();
        let (batch, alpha, beta, packed) = (&[], 1.0, 0.0, None);
        GemmArgs { dtype, dtype_c: dtype, m, n, k, a, b, c, batch, alpha, beta, epilogue, packed, rounded: false }
    }

    #[cold]
    pub(crate) fn unsupported(&self) -> Result<()> {
        Err(Error::not_implemented(format!(
            "matmul: no CPU kernel multiplies {} into {}{}",
            self.dtype.name(),
            self.dtype_c.name(),
            if self.epilogue.is_none() { "" } else { " with a bias, an activation or a residual" }
        )))
    }

    /// The problem of `C^T = B^T A^T`; `swapped` receives its batch dimensions.
    pub(crate) fn transposed<'b>(&self, swapped: &'b mut Batch) -> GemmArgs<'b> {
        *swapped = self.batch.iter().map(|d| BatchDim { a: d.b, b: d.a, ..*d }).collect();
        let Epilogue { bias, activation, residual, kept } = self.epilogue;
        let turned = |mat: Option<Mat>| mat.map(Mat::transposed);
        GemmArgs {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            c: self.c.transposed(),
            epilogue: Epilogue { bias: turned(bias), activation, residual: turned(residual), kept: turned(kept) },
            batch: swapped,
            packed: None,
            ..*self
        }
    }

    /// Where the last panel of a large product would have one column: the product without it, and with it alone, which is read
    /// once over A and fills its registers along k.
    pub(crate) fn without_last_column(&self, nr: Option<usize>) -> Option<[GemmArgs<'a>; 2]> {
        let (n, large) = (self.n.wrapping_sub(1), self.m >= 32 && self.k >= 128);
        let fits = large && self.packed.is_none() && self.batch.is_empty() && self.a.cs == 1;
        if !fits || nr.is_none_or(|nr| n < nr || !n.is_multiple_of(nr)) {
            return None;
        }
        let size = self.dtype.size() as isize;
        let from = |mat: Mat| Mat { ptr: mat.ptr.wrapping_offset(n as isize * mat.cs * size), ..mat };
        let Epilogue { bias, activation, residual, kept } = self.epilogue;
        let epilogue =
            Epilogue { bias: bias.map(from), activation, residual: residual.map(from), kept: kept.map(from) };
        let last = GemmArgs { n: 1, b: from(self.b), c: from(self.c), epilogue, ..*self };
        Some([GemmArgs { n, ..*self }, last])
    }

    /// Makes inner batch dimensions more rows of A where B is the same for all of them.
    pub(crate) fn fold_batch(&mut self) {
        while let Some((dim, rest)) = self.batch.split_last() {
            if self.m == 1 {
                // The distance between rows of a single row is free.
                let bias = self.epilogue.bias.as_mut().map(|mat| (mat, dim.bias));
                let residual = self.epilogue.residual.as_mut().map(|mat| (mat, dim.residual));
                let kept = self.epilogue.kept.as_mut().map(|mat| (mat, dim.kept));
                let own = [(&mut self.a, dim.a), (&mut self.c, dim.c)];
                own.into_iter().chain(bias).chain(residual).chain(kept).for_each(|(mat, stride)| mat.rs = stride);
            }
            let m = self.m as isize;
            let follows = |mat: Option<Mat>, stride| mat.is_none_or(|mat| stride == m * mat.rs);
            let adjoining = dim.b == 0
                && follows(Some(self.a), dim.a)
                && follows(Some(self.c), dim.c)
                && follows(self.epilogue.bias, dim.bias)
                && follows(self.epilogue.residual, dim.residual)
                && follows(self.epilogue.kept, dim.kept);
            if dim.size != 1 && !adjoining {
                break;
            }
            self.m *= dim.size;
            self.batch = rest;
        }
    }
}
