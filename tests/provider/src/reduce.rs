//! Reductions, scans and the search for what is not zero.

use crate::cells::{Args, Val, each, each_line};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::ReduceKind;
use oneflow_kernels_prim::{ArgReduceParams, ReduceParams, ScanParams};

/// How two values become one.
fn join(kind: ReduceKind, a: Val, b: Val) -> Val {
    match kind {
        ReduceKind::Sum | ReduceKind::Mean | ReduceKind::NanSum => a.plus(b),
        ReduceKind::Prod => a.times(b),
        ReduceKind::Max | ReduceKind::Min => match b.beats(a, kind == ReduceKind::Max) {
            true => b,
            false => a,
        },
        ReduceKind::Any => Val::I((a.is_true() || b.is_true()) as i64),
        ReduceKind::All => Val::I((a.is_true() && b.is_true()) as i64),
    }
}

pub fn reduce(a: &Args) -> Result<()> {
    let (x, out, ReduceParams { kind }) = (a.input(0)?, a.output(0)?, a.read()?);
    let logic = matches!(kind, ReduceKind::Any | ReduceKind::All);
    let compute = if logic { DType::Bool } else { out.dtype };
    let start = Val::I(matches!(kind, ReduceKind::Prod | ReduceKind::All) as i64).of(compute);
    each(&out.sizes, |o| {
        // Reduced dimensions are those where the output has one element.
        let span: Vec<i64> = x.sizes.iter().zip(&out.sizes).map(|(n, m)| if *m == 1 { *n } else { 1 }).collect();
        let mut sum: Option<Val> = None;
        each(&span, |s| {
            let at: Vec<i64> = o.iter().zip(s).map(|(o, s)| o + s).collect();
            let v = x.get(&at);
            let v = match v {
                Val::F(f) if kind == ReduceKind::NanSum && f.is_nan() => Val::F(0.0),
                v if logic => Val::I(v.is_true() as i64),
                v => v.of(compute),
            };
            sum = Some(sum.map_or(v, |s| join(kind, s, v)));
        });
        let sum = sum.unwrap_or(start);
        let n = span.iter().product::<i64>() as f64;
        out.set(o, if kind == ReduceKind::Mean { Val::F(sum.f() / n) } else { sum });
    });
    Ok(())
}

pub fn arg_reduce(a: &Args) -> Result<()> {
    let x = a.input(0)?.with_a_dim();
    let ArgReduceParams { is_max, dim } = a.read()?;
    let (values, indices) = (a.opt_output(0)?.map(|o| o.with_a_dim()), a.opt_output(1)?.map(|o| o.with_a_dim()));
    if x.sizes.get(dim).is_none_or(|n| *n == 0) {
        return Err(Error::index(format!("dimension {dim} of shape {:?} has no elements to compare", x.sizes)));
    }
    each_line(&x.sizes, dim, |i| {
        let line = x.line(i, dim);
        let best = (1..line.len()).fold(0, |best, k| if line[k].beats(line[best], is_max) { k } else { best });
        if let Some(o) = &values {
            o.set(i, line[best]);
        }
        if let Some(o) = &indices {
            o.set(i, Val::I(best as i64));
        }
    });
    Ok(())
}

pub fn scan(a: &Args) -> Result<()> {
    let (x, out) = (a.input(0)?.with_a_dim(), a.output(0)?.with_a_dim());
    let ScanParams { kind, dim } = a.read()?;
    each_line(&x.sizes, dim, |i| {
        let mut sum: Option<Val> = None;
        let sums = x.line(i, dim).into_iter().map(|v| {
            let v = v.of(out.dtype);
            let s = sum.map_or(v, |s| join(kind, s, v));
            sum = Some(s);
            s
        });
        out.write_line(i, dim, sums);
    });
    Ok(())
}

pub fn count_nonzero(a: &Args) -> Result<()> {
    let n = a.input(0)?.vals().into_iter().filter(|v| v.is_true()).count();
    a.output(0)?.set(&[], Val::I(n as i64));
    Ok(())
}

pub fn nonzero(a: &Args) -> Result<()> {
    let x = a.input(0)?;
    let mut found = Vec::new();
    each(&x.sizes, |i| {
        if x.get(i).is_true() {
            found.extend(i.iter().map(|k| Val::I(*k)));
        }
    });
    a.output(0)?.write(found);
    Ok(())
}
