//! Matrix products: the rules they share.

pub mod addbmm;
pub mod addmm;
pub mod addmv;
pub mod addr;
pub mod baddbmm;
pub mod bmm;
pub mod cross;
pub mod dot;
pub mod inner;
pub mod int_mm;
pub mod kron;
pub mod linear;
pub mod linear_accumulate;
pub mod linear_backward_parameters;
pub mod linear_backward_weight;
#[allow(clippy::module_inception)]
pub mod matmul;
pub mod mm;
pub mod mv;
pub mod outer;
pub mod vdot;

use crate::named::matmul as at;
use crate::prelude::*;

/// Sizes of `a @ b` with torch's rules for vectors and batches, and the common batch sizes.
pub fn product_sizes(name: &str, a: &Tensor, b: &Tensor) -> Result<(Dims, Dims)> {
    let (x, y) = (a.sizes(), b.sizes());
    if x.is_empty() || y.is_empty() {
        return Err(Error::runtime(format!(
            "{name}(): both arguments to matmul need to be at least 1D, but they are {}D and {}D",
            x.len(),
            y.len()
        )));
    }
    let k = x[x.len() - 1];
    let k2 = if y.len() == 1 { y[0] } else { y[y.len() - 2] };
    if k != k2 {
        return Err(Error::runtime(format!(
            "{name}(): mat1 and mat2 shapes cannot be multiplied ({x:?} and {y:?}: inner sizes {k} and {k2})"
        )));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "{name}(): expected m1 and m2 to have the same dtype, but got: {} != {}",
            a.dtype().scalar_type_name(),
            b.dtype().scalar_type_name()
        )));
    }
    let batch = broadcast_shapes(&x[..x.len().saturating_sub(2)], &y[..y.len().saturating_sub(2)])
        .map_err(|e| e.context(format_args!("{name}(): batch dimensions: ")))?;
    let mut out = batch.clone();
    if x.len() > 1 {
        out.push(x[x.len() - 2]);
    }
    if y.len() > 1 {
        out.push(y[y.len() - 1]);
    }
    Ok((out, batch))
}

/// Operand layouts for MATMUL: matrices with the output's batch dims.
pub fn lower_product(l: &mut Lowered, a: &Tensor, b: &Tensor, out: &Tensor, batch: &[i64]) -> Result<()> {
    let (m, n) = (
        if a.ndim() > 1 { a.sizes()[a.ndim() - 2] } else { 1 },
        if b.ndim() > 1 { b.sizes()[b.ndim() - 1] } else { 1 },
    );
    let k = a.sizes()[a.ndim() - 1];
    // Many rows against one matrix are one product: leading dims of a contiguous `a` are rows.
    if b.ndim() == 2 && a.ndim() > 2 && a.is_contiguous() && out.is_contiguous() {
        let rows = batch.iter().product::<i64>() * m;
        l.input_as(at::INPUT, Dims::from_slice(&[rows, k]), Dims::from_slice(&[k, 1]), a.offset());
        l.input(at::OTHER);
        l.output_as(at::RESULT, Dims::from_slice(&[rows, n]), Dims::from_slice(&[n, 1]), out.offset());
        return Ok(());
    }
    let lead = |t: &Tensor, rows: i64, cols: i64, rs: i64, cs: i64| -> (Dims, Dims) {
        let own = t.ndim().saturating_sub(2);
        let mut sizes = Dims::from_slice(batch);
        let mut strides: Dims = SmallVec::from_elem(0, batch.len());
        for i in 0..own {
            let at = batch.len() - own + i;
            if t.sizes()[i] == batch[at] {
                strides[at] = t.strides()[i];
            }
        }
        sizes.extend([rows, cols]);
        strides.extend([rs, cs]);
        (sizes, strides)
    };
    let (s, t) = match a.ndim() {
        1 => lead(a, 1, k, 0, a.strides()[0]),
        d => lead(a, m, k, a.strides()[d - 2], a.strides()[d - 1]),
    };
    l.input_as(at::INPUT, s, t, a.offset());
    let (s, t) = match b.ndim() {
        1 => lead(b, k, 1, b.strides()[0], 0),
        d => lead(b, k, n, b.strides()[d - 2], b.strides()[d - 1]),
    };
    l.input_as(at::OTHER, s, t, b.offset());
    let mut sizes = Dims::from_slice(batch);
    sizes.extend([m, n]);
    let strides = contiguous_strides(&sizes);
    l.output_as(at::RESULT, sizes, strides, out.offset());
    Ok(())
}

/// The rule of what an epilogue adds: the result's meta, lying as the result does.
pub fn check_residual(c: &Call<'_>, residual: &Tensor, out: &Tensor) -> Result<()> {
    if residual.sizes() == out.sizes() && residual.dtype() == out.dtype() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{}(): residual is {}{:?}, the product {}{:?}",
        c.name(),
        residual.dtype(),
        residual.sizes(),
        out.dtype(),
        out.sizes()
    )))
}

/// An input as what MATMUL's epilogue adds: in the layout of the lowered output.
pub fn lower_residual(l: &mut Lowered, at: In, residual: &Tensor) -> Result<()> {
    if !residual.is_contiguous() || residual.dtype().is_complex() || !residual.dtype().is_float() {
        return Err(Error::not_implemented("an epilogue adds contiguous floats"));
    }
    let layout = l.outs.first().and_then(Option::as_ref).and_then(|o| o.layout.clone());
    let Some((sizes, strides, _)) = layout else {
        return Err(Error::not_implemented("an epilogue adds in the output's layout"));
    };
    l.input_as(at, sizes, strides, residual.offset());
    Ok(())
}

/// The conjugate; a real tensor is its own.
pub fn conj(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_complex() { t.conj() } else { Ok(t.clone()) }
}

/// A tensor as a matrix: all but the last dimension are rows.
pub fn as_rows(t: &Tensor) -> Result<Tensor> {
    let (last, lead) = t.sizes().split_last().ok_or_else(|| Error::runtime("a scalar has no rows"))?;
    t.reshape(&[lead.iter().product(), *last])
}

/// Two operations a multiply-add.
pub fn cost(c: &Call<'_>, outs: &[Meta]) -> Cost {
    product_cost(c, at::INPUT, outs)
}

/// The cost of a product by its left factor.
pub fn product_cost(c: &Call<'_>, left: In, outs: &[Meta]) -> Cost {
    let k = c.opt(left).and_then(|t| t.sizes().last().copied()).unwrap_or(0);
    let mut cost = Cost::bytes_only(c, outs);
    cost.flops = 2.0 * k as f64 * outs.first().map_or(0.0, |m| m.numel() as f64);
    cost.products = true;
    cost
}
