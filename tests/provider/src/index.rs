//! Reading and writing at indices. Every index is checked before anything is written.

use crate::cells::{Args, Cells, Val, each, replaced};
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::ScatterKind;
use oneflow_kernels_prim::{
    DimParams, EmbeddingBackwardParams, EmbeddingParams, IndexParams, IndexPutParams, ScatterParams,
};

fn checked(i: i64, dim: usize, size: i64) -> Result<i64> {
    match (i as u64) < size as u64 {
        true => Ok(i),
        false => Err(Error::index(format!("index {i} is out of bounds for dimension {dim} with size {size}"))),
    }
}

/// Row of the local part of the table by position; none where another part holds it.
fn rows(a: &Args, table: &Cells, EmbeddingParams { start, total }: EmbeddingParams) -> Result<Vec<Option<i64>>> {
    let local = |i: i64| Ok(Some(checked(i, 0, total)? - start).filter(|r| (*r as u64) < table.sizes[0] as u64));
    a.input(1)?.ints().into_iter().map(local).collect()
}

pub fn embedding(a: &Args) -> Result<()> {
    let table = a.input(0)?;
    let d = table.sizes[1];
    let of_row = |r: Option<i64>| (0..d).map(move |k| (r, k));
    let cells = rows(a, &table, a.read()?)?.into_iter().flat_map(of_row);
    a.output(0)?.write(cells.map(|(r, k)| r.map_or(Val::I(0), |r| table.get(&[r, k]))));
    Ok(())
}

pub fn embedding_backward(a: &Args) -> Result<()> {
    let (g, out) = (a.input(0)?.floats(), a.output(0)?);
    let EmbeddingBackwardParams { start, total, padding: skipped } = a.read()?;
    let (rows, d) = (rows(a, &out, EmbeddingParams { start, total })?, out.sizes[1] as usize);
    let mut sums = vec![0.0; out.numel()];
    for (p, r) in rows.into_iter().enumerate() {
        if let Some(r) = r.filter(|r| r + start != skipped || skipped < 0) {
            (0..d).for_each(|k| sums[r as usize * d + k] += g[p * d + k]);
        }
    }
    out.write_floats(sums);
    Ok(())
}

/// `out[i] = x[i with dim replaced by pick(i)]`.
fn take(a: &Args, pick: impl Fn(&[i64], &Cells, usize) -> i64) -> Result<()> {
    let (x, index, out, DimParams { dim }) =
        (a.input(0)?.with_a_dim(), a.input(1)?.with_a_dim(), a.output(0)?, a.read()?);
    let mut vals = Ok(Vec::new());
    each(&out.clone().with_a_dim().sizes, |i| {
        if let Ok(v) = &mut vals {
            match checked(pick(i, &index, dim), dim, x.sizes[dim]) {
                Ok(k) => v.push(x.get(&replaced(i, dim, k))),
                Err(e) => vals = Err(e),
            }
        }
    });
    out.write(vals?);
    Ok(())
}

pub fn index_select(a: &Args) -> Result<()> {
    take(a, |i, index, dim| index.get(&[i[dim]]).i())
}

pub fn gather(a: &Args) -> Result<()> {
    take(a, |i, index, _| index.get(i).i())
}

pub fn scatter(a: &Args) -> Result<()> {
    let (index, src, out) = (a.input(0)?.with_a_dim(), a.input(1)?.with_a_dim(), a.output(0)?.with_a_dim());
    let ScatterParams { dim, kind } = a.read()?;
    for i in index.ints() {
        checked(i, dim, out.sizes[dim])?;
    }
    each(&index.sizes, |i| {
        let at = replaced(i, dim, index.get(i).i());
        let (old, new) = (out.get(&at), src.get(i));
        let is = |k: ScatterKind| kind == k;
        let v = if is(ScatterKind::Add) {
            old.plus(new)
        } else if is(ScatterKind::Mul) {
            old.times(new)
        } else if is(ScatterKind::Max) || is(ScatterKind::Min) {
            if new.beats(old, is(ScatterKind::Max)) { new } else { old }
        } else {
            new
        };
        out.set(&at, v);
    });
    Ok(())
}

/// For every index of `picked` the place in `x` that the index tensors `a.ins[1..]` name.
fn places(a: &Args, x: &Cells, picked: &Cells, params: IndexParams) -> Result<Vec<Vec<i64>>> {
    let IndexParams { position, n_dims } = params;
    let tensors = (0..x.sizes.len()).map(|d| a.opt_input(1 + d)).collect::<Result<Vec<_>>>()?;
    let mut all = Ok(Vec::new());
    each(&picked.sizes, |i| {
        let mut rest = (0..i.len()).filter(|d| !(position..position + n_dims).contains(d));
        let place = tensors.iter().enumerate().map(|(d, t)| match t {
            None => Ok(rest.next().map_or(0, |r| i[r])),
            Some(t) => {
                let (raw, size) = (t.get(&i[position..position + n_dims]).i(), x.sizes[d]);
                checked(if raw < 0 { raw + size } else { raw }, d, size)
            }
        });
        match (place.collect::<Result<Vec<i64>>>(), &mut all) {
            (Ok(p), Ok(all)) => all.push(p),
            (Err(e), Ok(_)) => all = Err(e),
            (_, Err(_)) => {}
        }
    });
    all
}

pub fn index(a: &Args) -> Result<()> {
    let (x, out) = (a.input(0)?, a.output(0)?);
    out.write(places(a, &x, &out, a.read()?)?.into_iter().map(|p| x.get(&p)));
    Ok(())
}

pub fn index_put(a: &Args) -> Result<()> {
    let (values, out) = (a.input(0)?, a.output(0)?);
    let IndexPutParams { index, accumulate } = a.read()?;
    for (p, v) in places(a, &out, &values, index)?.into_iter().zip(values.vals()) {
        out.set(&p, if accumulate { out.get(&p).plus(v) } else { v });
    }
    Ok(())
}

pub fn concat(a: &Args) -> Result<()> {
    let (out, DimParams { dim }) = (a.output(0)?, a.read()?);
    let mut from = 0;
    for k in 0..a.launch.ins.len() {
        let Some(x) = a.opt_input(k)?.filter(|x| x.numel() > 0) else { continue };
        each(&x.sizes, |i| out.set(&replaced(i, dim, i[dim] + from), x.get(i)));
        from += x.sizes[dim];
    }
    Ok(())
}
