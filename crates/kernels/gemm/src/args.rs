//! What a caller describes: three strided matrices, the batch around them and what happens to a finished element.

use oneflow_base::{DType, Error, Result};

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
}

/// One batch dimension around the matrices; a stride of zero repeats an operand.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchDim {
    pub size: usize,
    pub a: isize,
    pub b: isize,
    pub c: isize,
    /// Of the residual, where there is one.
    pub residual: isize,
}

/// A vector added before the activation, in C's dtype, with its stride in elements.
#[derive(Clone, Copy, Debug, Default)]
pub enum Bias {
    #[default]
    None,
    /// One value per column of C (`nn.Linear`).
    PerColumn(*const u8, isize),
    /// One value per row of C (convolution).
    PerRow(*const u8, isize),
}

/// The activation applied to `alpha * A @ B + beta * C + bias`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    #[default]
    None,
    Relu,
    /// `x * Phi(x)`.
    GeluErf,
    /// The tanh approximation of GELU.
    GeluTanh,
    /// `x * sigmoid(x)`.
    Silu,
}

/// `scale * mat`, added after the activation; `mat` has C's dtype and shape, any strides.
#[derive(Clone, Copy, Debug)]
pub struct Residual {
    pub mat: Mat,
    pub scale: f64,
}

/// What happens to an element between the sum and its store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue {
    pub bias: Bias,
    pub activation: Activation,
    pub residual: Option<Residual>,
}

impl Epilogue {
    pub(crate) fn is_none(&self) -> bool {
        matches!(self.bias, Bias::None) && self.activation == Activation::None && self.residual.is_none()
    }

    /// The same epilogue for the transposed C.
    pub(crate) fn transposed(self) -> Epilogue {
        let bias = match self.bias {
            Bias::None => Bias::None,
            Bias::PerColumn(ptr, stride) => Bias::PerRow(ptr, stride),
            Bias::PerRow(ptr, stride) => Bias::PerColumn(ptr, stride),
        };
        let residual = self.residual.map(|r| Residual { mat: Mat { rs: r.mat.cs, cs: r.mat.rs, ..r.mat }, ..r });
        Epilogue { bias, residual, ..self }
    }
}

/// `C = activation(alpha * A @ B + beta * C + bias) + scale * residual`, with A `m x k`, B `k x n` and C `m x n`.
///
/// A and B share `dtype`. Half types accumulate in f32. `dtype_c` is `dtype`, or f32 where `dtype` is a half type.
/// With `beta == 0`, C is not read. C must not overlap an input, except a residual that is C itself.
#[derive(Clone, Copy, Debug)]
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
}

impl<'a> GemmArgs<'a> {
    /// A plain product `C = A @ B`.
    pub fn new(dtype: DType, (m, n, k): (usize, usize, usize), a: Mat, b: Mat, c: Mat) -> GemmArgs<'a> {
        let epilogue = Epilogue::default();
        GemmArgs { dtype, dtype_c: dtype, m, n, k, a, b, c, batch: &[], alpha: 1.0, beta: 0.0, epilogue }
    }

    pub(crate) fn unsupported(&self) -> Result<()> {
        Err(Error::not_implemented(format!(
            "matmul: no CPU kernel multiplies {} into {}{}",
            self.dtype.name(),
            self.dtype_c.name(),
            if self.epilogue.is_none() { "" } else { " with an epilogue" }
        )))
    }

    /// The problem of `C^T = B^T A^T`; `batch` receives the swapped batch dimensions.
    pub(crate) fn transposed<'b>(&self, batch: &'b [BatchDim]) -> GemmArgs<'b> {
        let t = |m: Mat| Mat { rs: m.cs, cs: m.rs, ..m };
        GemmArgs {
            m: self.n,
            n: self.m,
            a: t(self.b),
            b: t(self.a),
            c: t(self.c),
            epilogue: self.epilogue.transposed(),
            batch,
            ..*self
        }
    }
}
