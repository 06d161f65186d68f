//! Sorting lines.

use crate::cells::{Args, Val, each_line};
use oneflow_base::Result;
use oneflow_kernels_prim::{SortParams, TopkParams};

/// The first `k` of every sorted line, and where they stood.
fn sorted(a: &Args, dim: usize, descending: bool, k: Option<usize>) -> Result<()> {
    let (x, values, indices) = (a.input(0)?.with_a_dim(), a.output(0)?.with_a_dim(), a.output(1)?.with_a_dim());
    each_line(&x.sizes, dim, |i| {
        let mut line: Vec<(usize, Val)> = x.line(i, dim).into_iter().enumerate().collect();
        line.sort_by(|a, b| if descending { b.1.order(a.1) } else { a.1.order(b.1) });
        line.truncate(k.unwrap_or(line.len()));
        values.write_line(i, dim, line.iter().map(|(_, v)| *v));
        indices.write_line(i, dim, line.iter().map(|(p, _)| Val::I(*p as i64)));
    });
    Ok(())
}

pub fn sort(a: &Args) -> Result<()> {
    let SortParams { dim, descending } = a.read()?;
    sorted(a, dim, descending, None)
}

pub fn topk(a: &Args) -> Result<()> {
    let TopkParams { k, dim, largest, .. } = a.read()?;
    sorted(a, dim, largest, Some(k))
}
