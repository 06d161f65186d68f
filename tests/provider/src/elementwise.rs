//! Expressions by their references, copies and fills.

use crate::cells::{Args, Val, each};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::{ArangeParams, Expr, FillParams, TriangleParams, Word};

/// One value of an expression, computed in `dtype`.
fn eval(e: &Expr, dtype: DType, x: &[Val], p: &[Word]) -> Result<Val> {
    let v = match dtype {
        DType::F32 => {
            // Integers are rounded once.
            let x: Vec<f32> = x.iter().map(|v| if let Val::I(i) = v { *i as f32 } else { v.f() as f32 }).collect();
            let p: Vec<f32> = p.iter().map(|w| w.f64() as f32).collect();
            e.eval_f32(&x, &p).map(|v| Val::F(v as f64))
        }
        DType::F64 => {
            let x: Vec<f64> = x.iter().map(|v| v.f()).collect();
            let p: Vec<f64> = p.iter().map(|w| w.f64()).collect();
            e.eval_f64(&x, &p).map(Val::F)
        }
        _ => {
            let x: Vec<i64> = x.iter().map(|v| v.i()).collect();
            if e.nonzero.is_some_and(|k| x.get(k) == Some(&0)) {
                return Err(Error::runtime("ZeroDivisionError"));
            }
            let p: Vec<i64> = p.iter().map(|w| w.i64()).collect();
            e.eval_i64(&x, &p).map(Val::I)
        }
    };
    v.ok_or_else(|| Error::not_implemented(format!("{}: has no meaning in {dtype}", e.name)))
}

pub fn elementwise(a: &Args) -> Result<()> {
    let e = a.launch.expr.ok_or_else(|| Error::runtime("elementwise: no expression"))?;
    let (out, (dtype, scalars)) = (a.output(0)?, a.launch.scalars()?);
    let ins = (0..a.launch.ins.len()).map(|i| Ok(a.input(i)?.vals())).collect::<Result<Vec<_>>>()?;
    let n = out.numel();
    let value = |i: usize| eval(e, dtype, &ins.iter().map(|x| x[i]).collect::<Vec<_>>(), scalars);
    out.write((0..n).map(value).collect::<Result<Vec<_>>>()?);
    Ok(())
}

pub fn copy(a: &Args) -> Result<()> {
    let x = a.input(0)?;
    let truth = a.output(0)?.dtype == DType::Bool;
    a.output(0)?.write(x.vals().into_iter().map(|v| if truth { Val::I(v.is_true() as i64) } else { v }));
    Ok(())
}

fn number(is_float: bool, word: Word) -> Val {
    if is_float { Val::F(word.f64()) } else { Val::I(word.i64()) }
}

pub fn fill(a: &Args) -> Result<()> {
    let FillParams { is_float, value, .. } = a.read()?;
    let v = number(is_float, value);
    a.output(0)?.write(std::iter::repeat(v));
    Ok(())
}

pub fn arange(a: &Args) -> Result<()> {
    let ArangeParams { is_float, start, step } = a.read()?;
    let (start, step) = (number(is_float, start), number(is_float, step));
    a.output(0)?.write((0..).map(|i| start.plus(step.times(Val::I(i)))));
    Ok(())
}

pub fn triangle(a: &Args) -> Result<()> {
    let (x, out, TriangleParams { diagonal, upper }) = (a.input(0)?, a.output(0)?, a.read()?);
    each(&x.sizes, |i| {
        let along = i[i.len() - 1] as i128 - i[i.len() - 2] as i128;
        let keep = if upper { along >= diagonal as i128 } else { along <= diagonal as i128 };
        out.set(i, if keep { x.get(i) } else { Val::I(0) });
    });
    Ok(())
}
