//! Forms of ops for compressed sparse tensors. What keeps the places runs on the values; products of matrices sum rows of the dense
//! one; the rest goes by coordinates and back.

use crate::calls::{in_dtype, new_values, refused, scaled};
use crate::compressed::{Compressed, Layout, compressed, from_coo, in_any_order, to_coo, values_at};
use crate::convert::to_dense;
use crate::coo::{add_into, parts};
use crate::products::{fit_bags, matrix_product};
use oneflow_base::{Arg, Dims, Error, Result, Scalar, wrap_dim};
use oneflow_core::{AnyArg, At, Call, In, Outs, Sparse, Tensor, bit, dispatch};
use oneflow_ops::TensorOps;
use oneflow_ops::nn::embedding_bag::weighted_sums;
use smallvec::SmallVec;

pub(crate) fn run(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let x = c.t(In::nth(0))?;
    let made = match c.op.sparse {
        Sparse::Values | Sparse::LinearValues | Sparse::Power | Sparse::Places | Sparse::Empty => on_values(c)?,
        Sparse::New => without_entries(c, entries(c, x)?)?,
        Sparse::Add(sign) => sum_of(c, x, sign)?,
        Sparse::Product => product(c, x)?,
        Sparse::Quotient if c.ins.iter().skip(1).flatten().all(|t| t.ndim() == 0) => on_values(c)?,
        Sparse::Clone => {
            let p = entries(c, x)?;
            let copy = |t: &Tensor| t.clone_contiguous();
            crate::make_compressed(p.layout, &copy(&p.compressed)?, &copy(&p.plain)?, &copy(&p.values)?, x.sizes())?
        }
        Sparse::Same => x.clone(),
        Sparse::Cast => {
            let p = entries(c, x)?;
            let dtype = c.arg(AnyArg::nth(0)).dtype();
            let device = match c.arg(AnyArg::nth(1)) {
                Arg::Device(d) => Some(d),
                _ => None,
            };
            let indices = |t: &Tensor| t.to_copy_with(None, device);
            let values = p.values.to_copy_with(dtype, device)?;
            crate::make_compressed(p.layout, &indices(&p.compressed)?, &indices(&p.plain)?, &values, x.sizes())?
        }
        Sparse::Zeros => {
            let p = entries(c, x)?;
            let nb = p.n_batch() as i64;
            let (plain, values) = (p.plain.narrow(nb, 0, 0)?, in_dtype(c, p.values.narrow(nb, 0, 0)?)?);
            crate::make_compressed(p.layout, &p.compressed.zeros_like()?, &plain, &values, x.sizes())?
        }
        Sparse::Copy => copy(c, x, c.t(In::nth(1))?)?,
        Sparse::Sum => sum(c, x)?,
        Sparse::MatrixProduct => product_of_matrices(c, x, c.t(In::nth(1))?)?,
        Sparse::Transpose => {
            let (a, b) = if c.args.is_empty() { (0, 1) } else { (c.int(At::nth(0))?, c.int(At::nth(1))?) };
            let mut order: SmallVec<[i64; 4]> = (0..x.ndim() as i64).collect();
            order.swap(wrap_dim(a, x.ndim())?, wrap_dim(b, x.ndim())?);
            permute(c, x, &order)?
        }
        Sparse::Permute => permute(c, x, c.ints(At::nth(0))?)?,
        Sparse::AllValues => {
            if c.args.iter().any(|a| a.ints().is_some_and(|dims| !dims.is_empty())) {
                return Err(refused(c));
            }
            let values = entries(c, x)?.values.reshape(&[-1])?;
            let mut ins: SmallVec<[Option<&Tensor>; 4]> = SmallVec::from_slice(c.ins);
            ins[0] = Some(&values);
            return dispatch(&Call { ins: &ins, ..*c }, outs);
        }
        Sparse::Select => select(c, x, c.int(At::nth(0))?, c.int(At::nth(1))?)?,
        Sparse::Unbind => {
            let dim = wrap_dim(c.int(At::nth(0))?, x.ndim())?;
            for i in 0..x.sizes()[dim] {
                outs.give(select(c, x, dim as i64, i)?);
            }
            return Ok(());
        }
        Sparse::Compose => match c.op.compose {
            Some(compose) => return compose(c, outs),
            None => return Err(refused(c)),
        },
        Sparse::Quotient | Sparse::Cat | Sparse::Slice | Sparse::Unsqueeze | Sparse::IndexSelect => {
            return Err(refused(c));
        }
    };
    outs.give(made);
    Ok(())
}

fn entries<'a>(c: &Call<'_>, x: &'a Tensor) -> Result<&'a Compressed> {
    compressed(x).ok_or_else(|| refused(c))
}

/// The same call on the values of every compressed input; all have their entries at the same places, other inputs are numbers.
fn on_values(c: &Call<'_>) -> Result<Tensor> {
    let first = c.ins.iter().flatten().find(|t| compressed(t).is_some()).ok_or_else(|| refused(c))?;
    let p = entries(c, first)?;
    let mut ins: SmallVec<[Option<&Tensor>; 4]> = SmallVec::from_slice(c.ins);
    for t in ins.iter_mut().flatten() {
        match compressed(t) {
            Some(q) if p.same_places(q)? => *t = &q.values,
            None if t.ndim() == 0 => {}
            _ => return Err(refused(c)),
        }
    }
    let mut made = Outs::new();
    dispatch(&Call { ins: &ins, ..*c }, &mut made)?;
    let values = made.into_tensors().pop().ok_or_else(|| refused(c))?;
    p.with_values(&values, first.sizes())
}

/// A tensor of other sizes, with batches before the two dimensions that have indices.
fn without_entries(c: &Call<'_>, like: &Compressed) -> Result<Tensor> {
    let sizes = c.ints(At::nth(0))?;
    if sizes.len() < 2 || like.layout.in_blocks() {
        return Err(Error::runtime(format!(
            "{}(): a tensor in {} layout without entries has two dimensions or more and no blocks, but got size {sizes:?}",
            c.name(),
            like.layout.name()
        )));
    }
    let (batches, matrix) = sizes.split_at(sizes.len() - 2);
    let of_batches = |n: i64| batches.iter().copied().chain([n]).collect::<Dims>();
    let values = new_values(c, &like.values, &of_batches(0))?;
    let indices = |n: i64| like.plain.new_zeros_with(&of_batches(n), None, Some(values.device()), false);
    let n = matrix[usize::from(!like.layout.by_row())];
    crate::make_compressed(like.layout, &indices(n + 1)?, &indices(0)?, &values, sizes)
}

/// A tensor by coordinates in the layout of `like`.
fn back(t: &Tensor, like: &Compressed) -> Result<Tensor> {
    from_coo(t, like.layout, like.block())
}

fn copy(c: &Call<'_>, x: &Tensor, source: &Tensor) -> Result<Tensor> {
    match (compressed(x), source.has_key(bit::SPARSE)) {
        (Some(p), true) => match compressed(source) {
            Some(q) if p.layout == q.layout && p.block() == q.block() => source.clone_contiguous(),
            _ => back(&to_coo(source)?, p),
        },
        (None, true) if !x.has_key(bit::SPARSE) => to_dense(source),
        _ => Err(refused(c)),
    }
}

/// x + alpha y, one of them compressed.
fn sum_of(c: &Call<'_>, x: &Tensor, sign: i64) -> Result<Tensor> {
    let (Some(y), alpha) = (c.opt(In::nth(1)), scaled(c.arg(AnyArg::nth(1)), sign)) else { return Err(refused(c)) };
    if x.sizes() != y.sizes() {
        return Err(Error::runtime(format!(
            "{}(): expected sizes of 'self' and 'other' to match, but {:?} != {:?} (sparse tensors do not broadcast)",
            c.name(),
            x.sizes(),
            y.sizes()
        )));
    }
    if let (Some(a), Some(b)) = (compressed(x), compressed(y))
        && a.same_places(b)?
    {
        let scaled = if alpha == Scalar::Int(1) { b.values.clone() } else { b.values.mul(alpha)? };
        return a.with_values(&a.values.add(&scaled)?, x.sizes());
    }
    match (x.has_key(bit::SPARSE), y.has_key(bit::SPARSE)) {
        (true, true) => {
            let like = compressed(x).or(compressed(y)).ok_or_else(|| refused(c))?;
            let y = to_coo(y)?;
            let y = if alpha == Scalar::Int(1) { y } else { y.mul(alpha)? };
            back(&to_coo(x)?.add(&y)?, like)
        }
        (false, _) => {
            let sum = x.clone_contiguous()?;
            add_into(&sum, &to_coo(y)?, alpha)?;
            Ok(sum)
        }
        (true, false) => {
            let sum = if alpha == Scalar::Int(1) { y.clone_contiguous()? } else { y.mul(alpha)? };
            add_into(&sum, &to_coo(x)?, Scalar::Int(1))?;
            Ok(sum)
        }
    }
}

/// x y: by a number, or element by element at the places of the compressed one.
fn product(c: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    let Some(y) = c.opt(In::nth(1)) else { return on_values(c) };
    if x.ndim() == 0 || y.ndim() == 0 {
        return on_values(c);
    }
    if oneflow_base::broadcast_shapes(x.sizes(), y.sizes())?.as_slice()
        != (if compressed(x).is_some() { x } else { y }).sizes()
    {
        return Err(refused(c));
    }
    match (compressed(x), compressed(y)) {
        (Some(a), Some(b)) if a.same_places(b)? => a.with_values(&a.values.mul(&b.values)?, x.sizes()),
        (Some(a), _) if y.has_key(bit::SPARSE) => back(&to_coo(x)?.mul(&to_coo(y)?)?, a),
        (_, Some(b)) if x.has_key(bit::SPARSE) => back(&to_coo(x)?.mul(&to_coo(y)?)?, b),
        (Some(a), _) => a.with_values(&a.values.mul(&values_at(&y.expand(x.sizes())?, x)?)?, x.sizes()),
        (_, Some(b)) => b.with_values(&values_at(&x.expand(y.sizes())?, y)?.mul(&b.values)?, y.sizes()),
        _ => Err(refused(c)),
    }
}

/// All elements, or each row or column: those keep their dimension, of size one.
fn sum(c: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    let p = entries(c, x)?;
    let dims = match c.arg(AnyArg::nth(0)) {
        Arg::None => return p.values.sum(None::<&[i64]>, false),
        _ => c.ints(At::nth(0))?,
    };
    if !c.bool(At::nth(1)) {
        return Err(Error::runtime(format!(
            "{}(): reduction of a tensor in {} layout over dimensions needs keepdim=True",
            c.name(),
            p.layout.name()
        )));
    }
    if p.n_batch() > 0 || x.ndim() != 2 || p.layout.in_blocks() {
        return Err(refused(c));
    }
    let by_coordinates = to_coo(x)?;
    let coo = parts(&by_coordinates).ok_or_else(|| refused(c))?;
    let (mut sizes, mut gone) = (Dims::from_slice(x.sizes()), [dims.is_empty(); 2]);
    for d in dims {
        gone[wrap_dim(*d, 2)?] = true;
    }
    let mut rows = vec![];
    for d in 0..2 {
        let row = coo.indices.select(0, d as i64)?;
        rows.push(if gone[d] { row.zeros_like()? } else { row });
        sizes[d] = if gone[d] { 1 } else { sizes[d] };
    }
    back(&crate::make(&oneflow_ops::f::stack(&rows, 0)?, &coo.values, &sizes, false)?, p)
}

/// Swaps rows and columns: the same parts in the other layout.
fn permute(c: &Call<'_>, x: &Tensor, order: &[i64]) -> Result<Tensor> {
    let (p, n) = (entries(c, x)?, x.ndim());
    let order: SmallVec<[usize; 4]> = order.iter().map(|d| wrap_dim(*d, n)).collect::<Result<_>>()?;
    if order.iter().enumerate().all(|(i, d)| i == *d) {
        return Ok(x.clone());
    }
    let nb = p.n_batch();
    let swapped = |i: usize| {
        if i == nb {
            nb + 1
        } else if i == nb + 1 {
            nb
        } else {
            i
        }
    };
    if order.len() != n || order.iter().enumerate().any(|(i, d)| swapped(i) != *d) {
        return Err(Error::runtime(format!(
            "{}(): a tensor in {} layout can swap its rows and columns (dimensions {nb} and {}), nothing else",
            c.name(),
            p.layout.name(),
            nb + 1
        )));
    }
    let mut sizes = Dims::from_slice(x.sizes());
    sizes.swap(nb, nb + 1);
    let values = match p.layout.in_blocks() {
        true => p.values.transpose(nb as i64 + 1, nb as i64 + 2)?.clone_contiguous()?,
        false => p.values.clone(),
    };
    crate::make_compressed(p.layout.flipped(), &p.compressed, &p.plain, &values, &sizes)
}

/// One matrix of a batch, or one row or column by coordinates.
fn select(c: &Call<'_>, x: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let (p, dim) = (entries(c, x)?, wrap_dim(dim, x.ndim())?);
    if p.n_batch() == 0 {
        return to_coo(x)?.select(dim as i64, index);
    }
    if dim >= p.n_batch() {
        return Err(Error::runtime(format!(
            "{}(): selecting rows or columns is not implemented for batched tensors in {} layout",
            c.name(),
            p.layout.name()
        )));
    }
    let mut sizes = Dims::from_slice(x.sizes());
    sizes.remove(dim);
    let one = |t: &Tensor| t.select(dim as i64, index);
    crate::make_compressed(p.layout, &one(&p.compressed)?, &one(&p.plain)?, &one(&p.values)?, &sizes)
}

/// A matrix times a matrix or vector, one of them compressed. Of two sparse ones the product has the layout of the first.
fn product_of_matrices(c: &Call<'_>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if [x, y].iter().any(|t| compressed(t).is_some_and(|p| p.n_batch() > 0 || t.ndim() != 2)) {
        return Err(refused(c));
    }
    let like = compressed(x).or(compressed(y)).ok_or_else(|| refused(c))?;
    let made = match (compressed(x), y.has_key(bit::SPARSE)) {
        (Some(a), false) if x.sizes()[1] == y.sizes()[0] && (1..=2).contains(&y.ndim()) => {
            let columns = if y.ndim() == 2 { y.clone() } else { y.unsqueeze(1)? };
            let made = match a.layout == Layout::Csr && fit_bags(&a.values, &columns) {
                true => weighted_sums(&columns, &a.compressed, &a.plain, &a.values)?,
                false => matrix_product(c, &in_any_order(x)?, &columns)?,
            };
            if y.ndim() == 2 { made } else { made.squeeze_dim(&[1])? }
        }
        (None, _) if !x.has_key(bit::SPARSE) && x.ndim() == 2 && x.sizes()[1] == y.sizes()[0] => {
            let flipped = permute(c, y, &[1, 0])?;
            product_of_matrices(c, &flipped, &x.transpose(0, 1)?)?.transpose(0, 1)?
        }
        _ => matrix_product(c, &to_coo(x)?, &to_coo(y)?)?,
    };
    match made.has_key(bit::SPARSE) {
        false => Ok(made),
        true if like.layout.in_blocks() => {
            let height = compressed(x).map_or(1, |p| p.block()[0]);
            let width = compressed(y).map_or(1, |p| p.block()[1]);
            from_coo(&made, like.layout, [height, width])
        }
        true => from_coo(&made, like.layout, [1, 1]),
    }
}
