//! Matrix products, softmax, normalisation and the loss, by their definitions in f64.

use crate::cells::{Args, Cells, Val, each, each_line};
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::{Activation, CrossEntropyParams, Lanes, LayerNormParams, MatmulParams, SoftmaxParams};

fn activate(act: Activation, x: f64) -> f64 {
    match act {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => 0.5 * x * (1.0 + Lanes::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        }
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Hardswish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
        Activation::Relu6 => x.clamp(0.0, 6.0),
    }
}

pub fn matmul(a: &Args) -> Result<()> {
    let (x, y, out) = (a.input(0)?, a.input(1)?, a.output(0)?);
    let (bias, residual) = (a.opt_input(2)?, a.opt_input(3)?);
    let MatmulParams { activation: act, alpha } = a.read()?;
    let is_float = out.dtype.is_float();
    each(&out.sizes, |i| {
        let (batch, row, column) = (&i[..i.len() - 2], i[i.len() - 2], i[i.len() - 1]);
        let mut sum = if is_float { Val::F(0.0) } else { Val::I(0) };
        for k in 0..x.sizes[x.sizes.len() - 1] {
            sum = sum.plus(x.get(&[batch, &[row, k]].concat()).times(y.get(&[batch, &[k, column]].concat())));
        }
        if is_float {
            let bias = bias.as_ref().map_or(0.0, |b| b.get(i).f());
            sum = Val::F(activate(act, alpha * sum.f() + bias));
        } else {
            sum = sum.times(Val::I(alpha as i64)).plus(bias.as_ref().map_or(Val::I(0), |b| b.get(i)));
        }
        out.set(i, residual.as_ref().map_or(sum, |r| sum.plus(r.get(i))));
    });
    Ok(())
}

/// Writes `f` of the lines of the inputs along a dimension.
fn by_lines<const N: usize>(a: &Args, dim: usize, f: impl Fn([Vec<f64>; N]) -> Vec<f64>) -> Result<()> {
    let out = a.output(0)?.with_a_dim();
    let ins = (0..N).map(|k| Ok(a.input(k)?.with_a_dim())).collect::<Result<Vec<_>>>()?;
    each_line(&out.sizes, dim, |i| {
        let lines = std::array::from_fn(|k| ins[k].line(i, dim).into_iter().map(Val::f).collect());
        out.write_line(i, dim, f(lines).into_iter().map(Val::F));
    });
    Ok(())
}

fn log_sum_exp(x: &[f64]) -> f64 {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max.is_infinite() { max } else { max + x.iter().map(|v| (v - max).exp()).sum::<f64>().ln() }
}

pub fn softmax(a: &Args) -> Result<()> {
    let SoftmaxParams { dim, log } = a.read()?;
    by_lines(a, dim, |[x]| {
        let total = log_sum_exp(&x);
        x.iter().map(|v| if log { v - total } else { (v - total).exp() }).collect()
    })
}

pub fn softmax_backward(a: &Args) -> Result<()> {
    let SoftmaxParams { dim, log } = a.read()?;
    by_lines(a, dim, |[g, y]| {
        if log {
            let sum: f64 = g.iter().sum();
            return g.iter().zip(&y).map(|(g, y)| g - y.exp() * sum).collect();
        }
        let dot: f64 = g.iter().zip(&y).map(|(g, y)| g * y).sum();
        g.iter().zip(&y).map(|(g, y)| y * (g - dot)).collect()
    })
}

fn mean(x: impl Iterator<Item = f64>, n: usize) -> f64 {
    x.sum::<f64>() / n as f64
}

/// Elements of a normalised row.
fn row_len(x: &Cells, normalized_dims: usize) -> usize {
    x.sizes[x.sizes.len() - normalized_dims..].iter().product::<i64>() as usize
}

pub fn layer_norm(a: &Args) -> Result<()> {
    let (x, LayerNormParams { normalized_dims, eps, rms }) = (a.input(0)?, a.read()?);
    let n = row_len(&x, normalized_dims);
    let weight = a.opt_input(1)?.map_or(vec![1.0; n], |w| w.floats());
    let bias = a.opt_input(2)?.map_or(vec![0.0; n], |b| b.floats());
    let (mut y, mut means, mut rstds) = (Vec::new(), Vec::new(), Vec::new());
    for row in x.floats().chunks(n.max(1)) {
        let m = if rms { 0.0 } else { mean(row.iter().copied(), n) };
        let rstd = 1.0 / (mean(row.iter().map(|v| (v - m) * (v - m)), n) + eps).sqrt();
        y.extend(row.iter().zip(weight.iter().zip(&bias)).map(|(v, (w, b))| (v - m) * rstd * w + b));
        means.push(m);
        rstds.push(rstd);
    }
    a.output(0)?.write_floats(y);
    for (i, stat) in [(1, means), (2, rstds)] {
        if let Some(o) = a.opt_output(i)? {
            o.write_floats(stat);
        }
    }
    Ok(())
}

pub fn layer_norm_backward(a: &Args) -> Result<()> {
    let (g, x) = (a.input(0)?.floats(), a.input(1)?);
    let LayerNormParams { normalized_dims, rms, .. } = a.read()?;
    let n = row_len(&x, normalized_dims);
    let rows = x.numel() / n.max(1);
    let means = a.opt_input(2)?.map_or(vec![0.0; rows], |m| m.floats());
    let rstds = a.input(3)?.floats();
    let weight = a.opt_input(4)?.map_or(vec![1.0; n], |w| w.floats());
    let (mut gx, mut gw, mut gb) = (Vec::new(), vec![0.0; n], vec![0.0; n]);
    for (r, (x, g)) in x.floats().chunks(n.max(1)).zip(g.chunks(n.max(1))).enumerate() {
        let normed: Vec<f64> = x.iter().map(|v| (v - means[r]) * rstds[r]).collect();
        let gy: Vec<f64> = g.iter().zip(&weight).map(|(g, w)| g * w).collect();
        let even = if rms { 0.0 } else { mean(gy.iter().copied(), n) };
        let along = mean(gy.iter().zip(&normed).map(|(g, v)| g * v), n);
        for k in 0..n {
            gx.push(rstds[r] * (gy[k] - even - normed[k] * along));
            gw[k] += g[k] * normed[k];
            gb[k] += g[k];
        }
    }
    for (i, grad) in [(0, gx), (1, gw), (2, gb)] {
        if let Some(o) = a.opt_output(i)? {
            o.write_floats(grad);
        }
    }
    Ok(())
}

/// The loss's constants: what both directions read.
struct Loss {
    logits: Vec<Vec<f64>>,
    /// None where the row is ignored.
    targets: Vec<Option<usize>>,
    weight: Vec<f64>,
    smoothing: f64,
}

impl Loss {
    /// `first` is the logits' input; target and weight follow.
    fn new(a: &Args, first: usize) -> Result<Loss> {
        let logits = a.input(first)?;
        let CrossEntropyParams { ignore_index: ignored, label_smoothing } = a.read()?;
        let c = logits.sizes[1] as usize;
        let mut targets = Vec::new();
        for t in a.input(first + 1)?.ints() {
            targets.push(match t {
                t if t == ignored => None,
                t if (t as u64) < c as u64 => Some(t as usize),
                t => return Err(Error::index(format!("Target {t} is out of bounds."))),
            });
        }
        let weight = a.opt_input(first + 2)?.map_or(vec![1.0; c], |w| w.floats());
        let logits = logits.floats().chunks(c.max(1)).map(<[f64]>::to_vec).collect();
        Ok(Loss { logits, targets, weight, smoothing: label_smoothing })
    }
    /// What the term of class `k` weighs in the loss of a row with target `t`.
    fn share(&self, t: usize, k: usize) -> f64 {
        let even = self.smoothing / self.weight.len() as f64;
        self.weight[k] * (even + if k == t { 1.0 - self.smoothing } else { 0.0 })
    }
}

pub fn cross_entropy(a: &Args) -> Result<()> {
    let loss = Loss::new(a, 0)?;
    let (mut losses, mut totals) = (Vec::new(), Vec::new());
    for (x, t) in loss.logits.iter().zip(&loss.targets) {
        let total = t.map_or(0.0, |_| log_sum_exp(x));
        losses.push(t.map_or(0.0, |t| (0..x.len()).map(|k| loss.share(t, k) * (total - x[k])).sum()));
        totals.push(total);
    }
    a.output(0)?.write_floats(losses);
    a.output(1)?.write_floats(totals);
    Ok(())
}

pub fn cross_entropy_backward(a: &Args) -> Result<()> {
    let (g, loss, totals) = (a.input(0)?.floats(), Loss::new(a, 1)?, a.input(4)?.floats());
    let mut gx = Vec::new();
    for (r, (x, t)) in loss.logits.iter().zip(&loss.targets).enumerate() {
        let all: f64 = t.map_or(0.0, |t| (0..x.len()).map(|k| loss.share(t, k)).sum());
        gx.extend((0..x.len()).map(|k| t.map_or(0.0, |t| g[r] * (all * (x[k] - totals[r]).exp() - loss.share(t, k)))));
    }
    a.output(0)?.write_floats(gx);
    Ok(())
}
