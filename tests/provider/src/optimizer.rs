//! Updates of parameters, one tensor after the other.

use crate::cells::Args;
use oneflow_base::Result;

/// What the gradients are multiplied by; none where the step is skipped.
fn factor(a: &Args, scale: usize, maximize: bool) -> Result<Option<f64>> {
    if a.number(scale + 1)?.is_some_and(|v| v != 0.0) {
        return Ok(None);
    }
    Ok(Some(if maximize { -1.0 } else { 1.0 } / a.number(scale)?.unwrap_or(1.0)))
}

pub fn adam(a: &Args) -> Result<()> {
    let n = a.index(0)?;
    let (beta1, beta2, decay, eps, decoupled) = (a.float(1)?, a.float(2)?, a.float(3)?, a.float(4)?, a.bool(6)?);
    let (lr, step) = (a.number(n)?.unwrap_or(0.0), a.number(n + 1)?.unwrap_or(1.0));
    let Some(factor) = factor(a, n + 2, a.bool(5)?)? else { return Ok(()) };
    for k in 0..n {
        let (param, mean, square) = (a.output(k)?, a.output(n + k)?, a.output(2 * n + k)?);
        let (mut p, mut m, mut v) = (param.floats(), mean.floats(), square.floats());
        for (i, g) in a.input(k)?.floats().into_iter().enumerate() {
            let g = g * factor + if decoupled { 0.0 } else { decay * p[i] };
            p[i] *= if decoupled { 1.0 - lr * decay } else { 1.0 };
            m[i] = beta1 * m[i] + (1.0 - beta1) * g;
            v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
            let denominator = (v[i] / (1.0 - beta2.powf(step))).sqrt() + eps;
            p[i] -= lr / (1.0 - beta1.powf(step)) * m[i] / denominator;
        }
        param.write_floats(p);
        mean.write_floats(m);
        square.write_floats(v);
    }
    Ok(())
}

pub fn sgd(a: &Args) -> Result<()> {
    let n = a.index(0)?;
    let (momentum, dampening, decay, nesterov, first) = (a.float(1)?, a.float(2)?, a.float(3)?, a.bool(4)?, a.bool(6)?);
    let lr = a.number(n)?.unwrap_or(0.0);
    let Some(factor) = factor(a, n + 1, a.bool(5)?)? else { return Ok(()) };
    for k in 0..n {
        let param = a.output(k)?;
        let buffer = if momentum != 0.0 { Some(a.output(n + k)?) } else { None };
        let (mut p, mut b) = (param.floats(), buffer.as_ref().map_or(Vec::new(), |b| b.floats()));
        for (i, g) in a.input(k)?.floats().into_iter().enumerate() {
            let mut g = g * factor + decay * p[i];
            if let Some(b) = b.get_mut(i) {
                *b = if first { g } else { momentum * *b + (1.0 - dampening) * g };
                g = if nesterov { g + momentum * *b } else { *b };
            }
            p[i] -= lr * g;
        }
        param.write_floats(p);
        if let Some(o) = buffer {
            o.write_floats(b);
        }
    }
    Ok(())
}
