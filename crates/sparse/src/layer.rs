//! The layer: the sparse forms of ops. The op table defines which one an op has (`OpDef::sparse`).

use crate::calls::{in_dtype, new_values, refused, scaled};
use crate::compressed::{compressed, to_coo};
use crate::convert::to_dense;
use crate::coo::{Coo, add_into, coalesce, entries, gather, make, parts};
use crate::products::{matrix_product, transposed};
use crate::{compressed_ops, structure};
use oneflow_base::{Arg, DType, Error, Result, Scalar, wrap_dim};
use oneflow_core::{AnyArg, At, Call, Dest, In, Outs, Sparse, Tensor, bit, dispatch};
use oneflow_ops::{TensorOps, f};
use smallvec::SmallVec;

pub(crate) fn sparse(c: &Call<'_>, _below: u32, outs: &mut Outs) -> Result<()> {
    let Dest::Into(dest) = c.dest else { return run(c, outs) };
    let [d] = dest else { return Err(refused(c)) };
    // The one write into a dense tensor: what an optimizer does with a sparse gradient.
    if let (Some(x), Some(y)) = (c.opt(In::nth(0)), c.opt(In::nth(1)))
        && x.same(d)
        && !x.has_key(bit::SPARSE)
        && let Sparse::Add(sign) = c.op.sparse
    {
        add_into(d, &to_coo(y)?, scaled(c.arg(AnyArg::nth(1)), sign))?;
        outs.clear();
        outs.give((*d).clone());
        return Ok(());
    }
    run(&Call { dest: Dest::Fresh, ..*c }, outs)?;
    let made = outs.tensors().first().cloned().ok_or_else(|| refused(c))?;
    match (d.has_key(bit::SPARSE), made.has_key(bit::SPARSE)) {
        (true, true) => {
            if made.dtype().category() > d.dtype().category() {
                return Err(Error::runtime(format!(
                    "{}_(): result type {} can't be cast to the desired output type {}",
                    c.name(),
                    made.dtype().scalar_type_name(),
                    d.dtype().scalar_type_name()
                )));
            }
            let made = if made.dtype() == d.dtype() { made } else { made.to_copy_with(Some(d.dtype()), None)? };
            // SAFETY: the language's global lock is held, or the engine alone uses the gradient; no borrow is kept.
            unsafe { d.set_body_from(&made) };
            d.bump_version();
        }
        (false, false) => d.copy_(&made, false)?,
        _ => return Err(refused(c)),
    }
    outs.clear();
    outs.give((*d).clone());
    Ok(())
}

fn run(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    if c.ins.iter().flatten().any(|t| compressed(t).is_some()) {
        return compressed_ops::run(c, outs);
    }
    let x = c.t(In::nth(0))?;
    let made = match c.op.sparse {
        Sparse::Add(sign) => sum_of(c, x, sign)?,
        Sparse::Product => product(c, x)?,
        Sparse::Quotient => quotient(c, x)?,
        Sparse::Clone => like(x, |coo| Ok((coo.indices.clone_contiguous()?, coo.values.clone_contiguous()?)))?,
        Sparse::Same => x.clone(),
        Sparse::Cast => {
            let coo = entries(c, x)?;
            let dtype = c.arg(AnyArg::nth(0)).dtype();
            let device = match c.arg(AnyArg::nth(1)) {
                Arg::Device(d) => Some(d),
                _ => None,
            };
            let indices = coo.indices.to_copy_with(None, device)?;
            make(&indices, &coo.values.to_copy_with(dtype, device)?, x.sizes(), coo.coalesced)?
        }
        Sparse::Places => return Err(refused(c)),
        Sparse::New => {
            let (coo, sizes) = (entries(c, x)?, c.ints(At::nth(0))?);
            let values = new_values(c, &coo.values, &[0])?;
            let indices = coo.indices.new_zeros_with(&[sizes.len() as i64, 0], None, Some(values.device()), false)?;
            make(&indices, &values, sizes, true)?
        }
        Sparse::Zeros | Sparse::Empty => {
            let coo = entries(c, x)?;
            let values = in_dtype(c, coo.values.narrow(0, 0, 0)?)?;
            make(&coo.indices.narrow(1, 0, 0)?, &values, x.sizes(), true)?
        }
        Sparse::Copy => {
            let src = c.t(In::nth(1))?;
            entries(c, src)?;
            if parts(x).is_none() { to_dense(src)? } else { src.clone_contiguous()? }
        }
        Sparse::Sum => sum(c, x)?,
        Sparse::MatrixProduct => matrix_product(c, x, c.t(In::nth(1))?)?,
        Sparse::Transpose => {
            let (a, b) = if c.args.is_empty() { (0, 1) } else { (c.int(At::nth(0))?, c.int(At::nth(1))?) };
            transposed(c, x, a, b)?
        }
        Sparse::AllValues => {
            if c.args.iter().any(|a| a.ints().is_some_and(|dims| !dims.is_empty())) {
                return Err(refused(c));
            }
            let unique = coalesce(x)?;
            let values = entries(c, &unique)?.values.reshape(&[-1])?;
            return again(c, &values, outs);
        }
        Sparse::LinearValues => on_values(c, x)?,
        Sparse::Values => on_values(c, &coalesce(x)?)?,
        Sparse::Power => power(c, x)?,
        Sparse::Cat => structure::cat(c)?,
        Sparse::Select => structure::select(c, x, c.int(At::nth(0))?, c.int(At::nth(1))?)?,
        Sparse::Slice => structure::slice(c, x)?,
        Sparse::Unsqueeze => structure::unsqueeze(c, x)?,
        Sparse::Permute => structure::permute(c, x, c.ints(At::nth(0))?)?,
        Sparse::IndexSelect => structure::index_select(c, x)?,
        Sparse::Unbind => {
            structure::unbind(c, x)?.into_iter().for_each(|t| outs.give(t));
            return Ok(());
        }
        Sparse::Compose => match c.op.compose {
            Some(compose) => return compose(c, outs),
            None => return Err(refused(c)),
        },
    };
    outs.give(made);
    Ok(())
}

/// A sum over dimensions has entries where some of them are left that have indices; sums of all of those are dense.
fn sum(c: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    let coo = entries(c, x)?;
    let own = coo.values.dtype();
    let dtype = c.arg(AnyArg::nth(2)).dtype().unwrap_or(if own.is_differentiable() { own } else { DType::I64 });
    let dims = match c.arg(AnyArg::nth(0)).ints() {
        Some(dims) if !dims.is_empty() => dims,
        _ => {
            let all = coo.values.sum_with(None::<&[i64]>, false, Some(dtype))?;
            return if c.bool(At::nth(1)) { all.reshape(&vec![1; x.ndim()]) } else { Ok(all) };
        }
    };
    let n = coo.sparse_dim();
    let mut gone = vec![false; x.ndim()];
    for d in dims {
        let d = wrap_dim(*d, x.ndim())?;
        if std::mem::replace(&mut gone[d], true) {
            return Err(Error::runtime(format!("dim {d} appears multiple times in the list of dims")));
        }
    }
    let within: Vec<i64> = (n..x.ndim()).filter(|&d| gone[d]).map(|d| (d - n + 1) as i64).collect();
    let values = match within.is_empty() {
        true => coo.values.to_copy_with(Some(dtype), None)?,
        false => coo.values.sum_with(&within[..], false, Some(dtype))?,
    };
    let rows = (0..n).filter(|&d| !gone[d]).map(|d| coo.indices.select(0, d as i64)).collect::<Result<Vec<_>>>()?;
    let mut made = if rows.is_empty() {
        values.sum(&[0i64][..], false)?
    } else {
        let sizes: SmallVec<[i64; 6]> = (0..x.ndim()).filter(|&d| !gone[d]).map(|d| x.sizes()[d]).collect();
        coalesce(&make(&f::stack(&rows, 0)?, &values, &sizes, coo.coalesced && rows.len() == n)?)?
    };
    if c.bool(At::nth(1)) {
        for d in (0..x.ndim()).filter(|&d| gone[d]) {
            made = made.unsqueeze(d as i64)?;
        }
    }
    Ok(made)
}

fn like(x: &Tensor, f: impl FnOnce(&Coo) -> Result<(Tensor, Tensor)>) -> Result<Tensor> {
    let coo = parts(x).ok_or_else(|| crate::coo::not_sparse("a copy of the entries"))?;
    let (indices, values) = f(coo)?;
    make(&indices, &values, x.sizes(), coo.coalesced)
}

/// The same call on other values of the first input.
fn again(c: &Call<'_>, values: &Tensor, outs: &mut Outs) -> Result<()> {
    let mut ins: SmallVec<[Option<&Tensor>; 4]> = SmallVec::from_slice(c.ins);
    ins[0] = Some(values);
    dispatch(&Call { ins: &ins, ..*c }, outs)
}

fn on_values(c: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    let coo = entries(c, x)?;
    // Other operands than numbers would have to lie as the values do.
    if c.ins.iter().skip(1).flatten().any(|t| t.ndim() > 0) {
        return Err(refused(c));
    }
    let mut outs = Outs::new();
    again(c, &coo.values, &mut outs)?;
    let values = outs.into_tensors().pop().ok_or_else(|| refused(c))?;
    make(&coo.indices, &values, x.sizes(), coo.coalesced)
}

/// x + alpha y, one of them sparse.
fn sum_of(c: &Call<'_>, x: &Tensor, sign: i64) -> Result<Tensor> {
    let (Some(y), alpha) = (c.opt(In::nth(1)), scaled(c.arg(AnyArg::nth(1)), sign)) else { return Err(refused(c)) };
    if x.sizes() != y.sizes() {
        return Err(Error::runtime(format!(
            "{}(): expected 'self' and 'other' to have same sizes, but self has size {:?} while other has size {:?} (sparse tensors do not broadcast)",
            c.name(),
            x.sizes(),
            y.sizes()
        )));
    }
    match (parts(x), parts(y)) {
        (Some(a), Some(b)) => {
            let indices = f::cat([&a.indices, &b.indices], 1)?;
            let scaled = if alpha == Scalar::Int(1) { b.values.clone() } else { b.values.mul(alpha)? };
            let sum = make(&indices, &f::cat([&a.values, &scaled], 0)?, x.sizes(), false)?;
            if a.coalesced && b.coalesced { coalesce(&sum) } else { Ok(sum) }
        }
        (None, Some(_)) => {
            let sum = x.clone_contiguous()?;
            add_into(&sum, y, alpha)?;
            Ok(sum)
        }
        _ => {
            let sum = if alpha == Scalar::Int(1) { y.clone_contiguous()? } else { y.mul(alpha)? };
            add_into(&sum, x, Scalar::Int(1))?;
            Ok(sum)
        }
    }
}

fn product(c: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    let Some(y) = c.opt(In::nth(1)) else { return on_values(c, x) };
    match (parts(x), parts(y)) {
        (Some(a), None) if y.ndim() == 0 => make(&a.indices, &a.values.mul(y)?, x.sizes(), a.coalesced),
        (None, Some(b)) if x.ndim() == 0 => make(&b.indices, &b.values.mul(x)?, y.sizes(), b.coalesced),
        (Some(a), None) if x.sizes() == y.sizes() => {
            make(&a.indices, &a.values.mul(&gather(y, a)?)?, x.sizes(), a.coalesced)
        }
        (None, Some(b)) if x.sizes() == y.sizes() => {
            make(&b.indices, &b.values.mul(&gather(x, b)?)?, x.sizes(), b.coalesced)
        }
        // A dense tensor that broadcasts to the sparse one.
        (Some(a), None) if oneflow_base::broadcast_shapes(x.sizes(), y.sizes())?.as_slice() == x.sizes() => {
            make(&a.indices, &a.values.mul(&gather(&y.expand(x.sizes())?, a)?)?, x.sizes(), a.coalesced)
        }
        (None, Some(b)) if oneflow_base::broadcast_shapes(x.sizes(), y.sizes())?.as_slice() == y.sizes() => {
            make(&b.indices, &b.values.mul(&gather(&x.expand(y.sizes())?, b)?)?, y.sizes(), b.coalesced)
        }
        (Some(_), Some(_)) if x.sizes() == y.sizes() => {
            let (x, y) = (coalesce(x)?, coalesce(y)?);
            let (a, b) = (entries(c, &x)?, entries(c, &y)?);
            if a.sparse_dim() != b.sparse_dim() {
                return make(&a.indices, &a.values.mul(&gather(&to_dense(&y)?, a)?)?, x.sizes(), true);
            }
            let (of_a, of_b) = structure::shared(a, b, x.sizes())?;
            let values = a.values.index_select(0, &of_a)?.mul(&b.values.index_select(0, &of_b)?)?;
            make(&a.indices.index_select(1, &of_a)?, &values, x.sizes(), true)
        }
        _ => Err(refused(c)),
    }
}

/// A power of each value, which keeps the zeros.
fn power(c: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    match c.arg(AnyArg::nth(0)).scalar() {
        Some(exponent) if exponent.parts() != (0.0, 0.0) => on_values(c, &coalesce(x)?),
        Some(_) => Err(Error::runtime(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense",
        )),
        None => Err(refused(c)),
    }
}

fn quotient(c: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    match (parts(x), c.opt(In::nth(1))) {
        (Some(_), None) => on_values(c, x),
        (Some(a), Some(y)) if y.ndim() == 0 && parts(y).is_none() => {
            make(&a.indices, &a.values.div(y)?, x.sizes(), a.coalesced)
        }
        _ => Err(refused(c)),
    }
}
