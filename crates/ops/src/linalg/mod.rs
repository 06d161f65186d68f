//! Linear algebra: the decompositions, each an op with torch's gradient formula. What is made of them without a rule of its
//! own (norms of matrices, pseudo-inverses, least squares) is composed in Python.

pub mod cholesky;
pub mod cholesky_solve;
pub mod eig;
pub mod eigh;
pub mod inv;
pub mod lu;
pub mod matrix_exp;
pub mod pair_distances;
pub mod pinv;
pub mod qr;
pub mod slogdet;
pub mod solve;
pub mod solve_triangular;
pub mod svd;
pub mod vector_norm;

use crate::named::linalg_lu_factor_ex as at;
use crate::prelude::*;

/// Checks that a tensor holds matrices of a dtype with decompositions; `(rows, columns)`.
pub fn matrix(name: &str, a: &Tensor) -> Result<(i64, i64)> {
    let &[.., m, n] = a.sizes() else {
        return Err(Error::runtime(format!(
            "{name}: The input tensor A must have at least 2 dimensions, but it is {:?}",
            a.sizes()
        )));
    };
    if !a.dtype().is_differentiable() {
        return Err(Error::not_implemented(format!(
            "{name}: Expected a floating point or complex tensor as input. Got {}",
            a.dtype().scalar_type_name()
        )));
    }
    if a.dtype().size() < 4 {
        return Err(Error::not_implemented(format!(
            "{name}: Low precision dtypes not supported. Got {}",
            a.dtype().scalar_type_name()
        )));
    }
    Ok((m, n))
}

/// [`matrix`] of as many rows as columns.
pub fn square(name: &str, a: &Tensor) -> Result<i64> {
    let &[.., m, n] = a.sizes() else {
        return matrix(name, a).map(|(m, _)| m);
    };
    if m != n {
        return Err(Error::runtime(format!(
            "{name}: A must be batches of square matrices, but they are {m} by {n} matrices"
        )));
    }
    matrix(name, a).map(|_| n)
}

/// The batch dimensions of matrices.
pub fn lead(a: &Tensor) -> &[i64] {
    &a.sizes()[..a.ndim().saturating_sub(2)]
}

/// Batch dimensions and more.
pub fn joined(lead: &[i64], rest: &[i64]) -> Dims {
    lead.iter().chain(rest).copied().collect()
}

/// Pushes matrices with contiguous columns, as LAPACK leaves them.
pub fn push_columns(outs: &mut Outs, like: &Tensor, dtype: DType, sizes: Dims) -> Result<()> {
    let n = sizes.len();
    let mut turned = sizes.clone();
    turned.swap(n - 2, n - 1);
    let mut strides = contiguous_strides(&turned);
    strides.swap(n - 2, n - 1);
    outs.push_strided(dtype, like.device(), sizes, strides)
}

/// The dtype of magnitudes.
pub fn real_dtype(d: DType) -> DType {
    match d {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        other => other,
    }
}

pub fn complex_dtype(d: DType) -> DType {
    match d {
        DType::F32 => DType::C64,
        DType::F64 => DType::C128,
        other => other,
    }
}

/// Any batch dimension may be split, where all inputs and outputs have the same ones.
pub fn batch_rows(c: &Call<'_>, n_outs: usize, rows: &mut Vec<Row>) -> Result<()> {
    let batch = lead(c.t(at::INPUT)?);
    if c.ins.iter().flatten().any(|t| t.ndim() < batch.len() || !t.sizes().starts_with(batch)) {
        return Ok(());
    }
    for i in 0..batch.len() {
        let split = Sbp::S(i as u8);
        rows.push(Row {
            ins: c.ins.iter().flatten().map(|_| split).collect(),
            outs: SmallVec::from_elem(split, n_outs),
        });
    }
    Ok(())
}

/// Gradients of outputs, absent where nothing came back.
pub fn gradient<'a>(c: &GradCall<'a>, i: usize) -> Option<&'a Tensor> {
    c.outs_grad.get(i).and_then(Option::as_ref)
}

/// The main diagonals.
pub fn diagonal(a: &Tensor) -> Result<Tensor> {
    a.diagonal(0, -2, -1)
}

/// Diagonal matrices.
pub fn diag_embed(v: &Tensor) -> Result<Tensor> {
    v.diag_embed(0, -2, -1)
}

/// True on the main diagonal of `n` by `n`, on the tensor's device.
pub fn on_diagonal(like: &Tensor, n: i64) -> Result<Tensor> {
    diag_embed(&like.new_ones_with(&[n], Some(DType::F32), None, false)?)?.ne(0.0)
}

/// `inverse(a) @ b` for triangular `a`.
pub fn solve_left(a: &Tensor, b: &Tensor, upper: bool) -> Result<Tensor> {
    a.linalg_solve_triangular_with(b, upper, true, false)
}

/// `b @ inverse(a)` for triangular `a`.
pub fn solve_right(a: &Tensor, b: &Tensor, upper: bool) -> Result<Tensor> {
    a.linalg_solve_triangular_with(b, upper, false, false)
}

/// The same matrices with contiguous columns.
pub fn columns(t: &Tensor) -> Result<Tensor> {
    t.transpose(-2, -1)?.clone_contiguous()?.transpose(-2, -1)
}

/// What the definitions of this family share. On devices without these kernels they raise: no composition of other ops can
/// factorise.
pub const LINALG: OpDef = OpDef { faces: Faces::PRIVATE, amp: Amp::FLOAT32, cost, ..OpDef::BASE };

/// A few multiply-adds for each element and column.
fn cost(c: &Call<'_>, outs: &[Meta]) -> Cost {
    let mut cost = Cost::bytes_only(c, outs);
    let n = c.opt(at::INPUT).and_then(|a| a.sizes().last().copied()).unwrap_or(0);
    cost.flops = 2.0 * n as f64 * c.opt(at::INPUT).map_or(0.0, |a| a.numel() as f64);
    cost
}
