//! The kernels: each walks its batch, and says in torch's words what was wrong with an item.

use crate::matrices::{Batch, Status, for_each, with_item};
use oneflow_base::{Error, Result};
use oneflow_kernels_decompose::{Failure, Item};
use oneflow_kernels_prim::{CholeskyParams, EighParams, Launch, LuFactorParams, SingularCheck, TriangularSolveParams};

macro_rules! kernels {
    ($($name:ident = $text:literal: $of:ident;)*) => {$(
        /// # Safety
        /// The contract of `prim::KernelFn`.
        pub(crate) unsafe fn $name(l: &Launch<'_>) -> Result<()> {
            with_item!($text, l.input(0)?.dtype, T => $of::<T>(l))
        }
    )*};
}

kernels! {
    cholesky = "cholesky": cholesky_of;
    lu_factor = "lu_factor": lu_of;
    triangular_solve = "triangular_solve": triangular_of;
    geqrf = "geqrf": geqrf_of;
    householder_product = "householder_product": product_of;
    eigh = "eigh": eigh_of;
    eig = "eig": eig_of;
    svd = "svd": svd_of;
    matrix_exp = "matrix_exp": matrix_exp_of;
}

fn cholesky_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let (a, out) = (Batch::<T>::matrices(l.input(0)?)?, Batch::<T>::matrices(l.output(0)?)?);
    let info = Batch::<i32>::scalars(l.output(1)?);
    let CholeskyParams { upper, check } = l.read()?;
    let status = Status::new(a.len());
    for_each(a.len(), (a.rows * a.rows * a.rows) as f64 / 3.0, &|i| {
        // SAFETY: each task has its own items, and outputs overlap no input.
        let (a, out, mut info) = unsafe { (a.get(i), out.get_mut(i), info.get_mut(i)) };
        let failed = T::cholesky(a, out, upper);
        info[(0, 0)] = failed;
        status.set(i, failed);
    });
    let failure = status.failure(a.ndim_lead(), |order| {
        format!(
            "The factorization could not be completed because the input is not positive-definite (the leading minor of order {order} is not positive-definite)."
        )
    });
    match failure {
        Some(text) if check => Err(Error::linalg(format!("linalg.cholesky: {text}"))),
        _ => Ok(()),
    }
}

fn lu_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let (a, out) = (Batch::<T>::matrices(l.input(0)?)?, Batch::<T>::matrices(l.output(0)?)?);
    let (pivots, info) = (Batch::<i32>::vectors(l.output(1)?)?, Batch::<i32>::scalars(l.output(2)?));
    let LuFactorParams { pivot: pivoting, check } = l.read()?;
    let (m, n) = (a.rows, a.cols);
    let status = Status::new(a.len());
    for_each(a.len(), (m * n * m.min(n)) as f64, &|i| {
        // SAFETY: each task has its own items, and outputs overlap no input.
        let (a, mut lu, mut pivots, mut info) =
            unsafe { (a.get(i), out.get_mut(i), pivots.get_mut(i), info.get_mut(i)) };
        (0..n).for_each(|j| (0..m).for_each(|i| lu[(i, j)] = a[(i, j)]));
        let mut exchange = vec![0usize; m.min(n)];
        T::lu(lu.as_mut(), &mut exchange, pivoting);
        for (k, &row) in exchange.iter().enumerate() {
            pivots[(k, 0)] = row as i32 + 1;
        }
        let zero = (0..m.min(n)).find(|&k| lu[(k, k)] == T::ZERO);
        info[(0, 0)] = zero.map_or(0, |k| k as i32 + 1);
        status.set(i, info[(0, 0)]);
    });
    let words = |prefix: &str, text: fn(i32) -> String| {
        status.failure(a.ndim_lead(), text).map(|text| format!("{prefix}: {text}"))
    };
    let failure = match check {
        SingularCheck::None => None,
        SingularCheck::LuFactor => {
            return words("torch.linalg.lu_factor", |k| {
                format!(
                    "U[{k},{k}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
                )
            })
            .map_or(Ok(()), |text| Err(Error::runtime(text)));
        }
        SingularCheck::Inv => words("linalg.inv", |k| {
            format!(
                "The diagonal element {k} is zero, the inversion could not be completed because the input matrix is singular."
            )
        }),
        SingularCheck::Solve => {
            words("torch.linalg.solve", |_| "The solver failed because the input matrix is singular.".to_owned())
        }
    };
    failure.map_or(Ok(()), |text| Err(Error::linalg(text)))
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub(crate) unsafe fn lu_permutation(l: &Launch<'_>) -> Result<()> {
    let (pivots, out) = (Batch::<i32>::vectors(l.input(0)?)?, Batch::<i64>::vectors(l.output(0)?)?);
    let m = out.rows;
    for item in 0..out.len() {
        // SAFETY: the views hold their items.
        let (pivots, mut out) = unsafe { (pivots.get(item), out.get_mut(item)) };
        (0..m).for_each(|i| out[(i, 0)] = i as i64);
        for k in 0..pivots.nrows() {
            let row = pivots[(k, 0)] as i64 - 1;
            if row < 0 || row >= m as i64 || k >= m {
                return Err(Error::runtime(format!("lu_unpack: LU_pivots[{k}] is {}, of {m} rows", row + 1)));
            }
            let (x, y) = (out[(k, 0)], out[(row as usize, 0)]);
            out[(k, 0)] = y;
            out[(row as usize, 0)] = x;
        }
    }
    Ok(())
}

fn triangular_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let (a, b) = (Batch::<T>::matrices(l.input(0)?)?, Batch::<T>::matrices(l.input(1)?)?);
    let out = Batch::<T>::matrices(l.output(0)?)?;
    let TriangularSolveParams { upper, unitriangular: unit } = l.read()?;
    for_each(out.len(), (a.rows * a.rows * out.cols) as f64, &|i| {
        // SAFETY: each task has its own items, and the output overlaps no input.
        let (a, b, mut out) = unsafe { (a.get(i), b.get(i), out.get_mut(i)) };
        (0..b.ncols()).for_each(|j| (0..b.nrows()).for_each(|i| out[(i, j)] = b[(i, j)]));
        T::triangular_solve(a, out, upper, unit);
    });
    Ok(())
}

fn geqrf_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let (a, out) = (Batch::<T>::matrices(l.input(0)?)?, Batch::<T>::matrices(l.output(0)?)?);
    let tau = Batch::<T>::vectors(l.output(1)?)?;
    let (m, n) = (a.rows, a.cols);
    for_each(a.len(), 2.0 * (m * n * m.min(n)) as f64, &|i| {
        // SAFETY: each task has its own items, and outputs overlap no input.
        let (a, mut out, tau) = unsafe { (a.get(i), out.get_mut(i), tau.get_mut(i)) };
        (0..n).for_each(|j| (0..m).for_each(|i| out[(i, j)] = a[(i, j)]));
        T::geqrf(out, tau);
    });
    Ok(())
}

fn product_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let (v, tau) = (Batch::<T>::matrices(l.input(0)?)?, Batch::<T>::vectors(l.input(1)?)?);
    let out = Batch::<T>::matrices(l.output(0)?)?;
    for_each(out.len(), 4.0 * (out.rows * out.cols * tau.rows) as f64, &|i| {
        // SAFETY: each task has its own items, and the output overlaps no input.
        let (v, tau, out) = unsafe { (v.get(i), tau.get(i), out.get_mut(i)) };
        T::householder_product(v, tau, out);
    });
    Ok(())
}

/// The words for a decomposition that failed.
fn unsolved(status: &Status, ndim_lead: usize, op: &str, n: usize) -> Result<()> {
    let failure = status.failure(ndim_lead, |code| match code {
        1 if op == "svd" => {
            "The algorithm failed to converge because the input matrix contained non-finite values.".to_owned()
        }
        _ => format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated {} values (error code: {n}).",
            if op == "svd" { "singular" } else { "eigen" }
        )
        .replace("eigen values", "eigenvalues"),
    });
    failure.map_or(Ok(()), |text| Err(Error::linalg(format!("linalg.{op}: {text}"))))
}

fn code(result: std::result::Result<(), Failure>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(Failure::NotFinite) => 1,
        Err(Failure::NoConvergence) => 2,
    }
}

fn eigh_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let a = Batch::<T>::matrices(l.input(0)?)?;
    let w = Batch::<T::Real>::vectors(l.output(0)?)?;
    let v = l.opt_output(1).map(Batch::<T>::matrices).transpose()?;
    let EighParams { upper } = l.read()?;
    let status = Status::new(a.len());
    for_each(a.len(), 9.0 * (a.rows * a.rows * a.rows) as f64, &|i| {
        // SAFETY: each task has its own items, and outputs overlap no input.
        let (a, w, v) = unsafe { (a.get(i), w.get_mut(i), v.map(|v| v.get_mut(i))) };
        status.set(i, code(T::eigh(a, w, v, upper)));
    });
    unsolved(&status, a.ndim_lead(), "eigh", a.rows)
}

fn eig_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let a = Batch::<T>::matrices(l.input(0)?)?;
    let w = Batch::vectors(l.output(0)?)?;
    let v = l.opt_output(1).map(Batch::matrices).transpose()?;
    let status = Status::new(a.len());
    for_each(a.len(), 25.0 * (a.rows * a.rows * a.rows) as f64, &|i| {
        // SAFETY: each task has its own items, and outputs overlap no input.
        let (a, w, v) = unsafe { (a.get(i), w.get_mut(i), v.map(|v| v.get_mut(i))) };
        status.set(i, code(T::eig(a, w, v)));
    });
    if status.failure(0, |code| code.to_string()).is_some_and(|code| code == "1") {
        return Err(Error::runtime("torch.linalg.eig: input tensor should not contain infs or NaNs."));
    }
    unsolved(&status, a.ndim_lead(), "eig", a.rows)
}

fn svd_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let a = Batch::<T>::matrices(l.input(0)?)?;
    let u = l.opt_output(0).map(Batch::<T>::matrices).transpose()?;
    let s = Batch::<T::Real>::vectors(l.output(1)?)?;
    let vh = l.opt_output(2).map(Batch::<T>::matrices).transpose()?;
    let k = a.rows.min(a.cols);
    let status = Status::new(a.len());
    for_each(a.len(), 20.0 * (a.rows * a.cols * k) as f64, &|i| {
        // SAFETY: each task has its own items, and outputs overlap no input.
        let (a, u, s, vh) = unsafe { (a.get(i), u.map(|u| u.get_mut(i)), s.get_mut(i), vh.map(|v| v.get_mut(i))) };
        status.set(i, code(T::svd(a, u, s, vh)));
    });
    unsolved(&status, a.ndim_lead(), "svd", k)
}

fn matrix_exp_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let (a, out) = (Batch::<T>::matrices(l.input(0)?)?, Batch::<T>::matrices(l.output(0)?)?);
    for_each(a.len(), 30.0 * (a.rows * a.rows * a.rows) as f64, &|i| {
        // SAFETY: each task has its own items, and the output overlaps no input.
        let (a, out) = unsafe { (a.get(i), out.get_mut(i)) };
        T::matrix_exp(a, out);
    });
    Ok(())
}
