//! Updates of parameters, one element after the other, by the rule's reference.

use crate::cells::{Args, Cells, Val};
use oneflow_base::Result;
use oneflow_kernels_prim::{MAX_HYPER, MAX_NUMBERS, MAX_STATES, Rule, UnscaleParams, UpdateParams};

pub fn update(a: &Args) -> Result<()> {
    let UpdateParams { rule, n, maximize, hyper: given } = a.read()?;
    let rule = Rule::by_id(rule)?;
    let (mut hyper, mut numbers) = ([0.0; MAX_HYPER], [0.0; MAX_NUMBERS]);
    hyper.iter_mut().zip(&given.0).for_each(|(h, v)| *h = *v);
    for (k, x) in numbers.iter_mut().take(rule.n_numbers).enumerate() {
        *x = a.number(n + k)?.unwrap_or(0.0);
    }
    let scaling = n + rule.n_numbers;
    if let Some(live) = a.opt_input(scaling + 2)? {
        hyper.iter_mut().zip(live.floats()).for_each(|(h, v)| *h = v);
    }
    if a.number(scaling + 1)?.is_some_and(|v| v != 0.0) {
        return Ok(());
    }
    let factor = if maximize { -1.0 } else { 1.0 } / a.number(scaling)?.unwrap_or(1.0);
    let c = (rule.scalars)(&hyper, &numbers);
    for k in 0..n {
        let outs: Vec<Cells> = (0..=rule.n_states).map(|s| a.output(s * n + k)).collect::<Result<_>>()?;
        let mut values: Vec<Vec<f64>> = outs.iter().map(|o| o.floats()).collect();
        for (i, g) in a.input(k)?.floats().into_iter().enumerate() {
            let mut s = [0.0; MAX_STATES];
            (0..rule.n_states).for_each(|j| s[j] = values[1 + j][i]);
            let (p, s) = (rule.step)(values[0][i], g * factor, s, &c);
            values[0][i] = p;
            (0..rule.n_states).for_each(|j| values[1 + j][i] = s[j]);
        }
        outs.iter().zip(values).for_each(|(o, v)| o.write_floats(v));
    }
    Ok(())
}

pub fn unscale(a: &Args) -> Result<()> {
    let (UnscaleParams { n }, factor) = (a.read()?, a.number(0)?.unwrap_or(1.0));
    for k in 0..n {
        let values = a.output(k)?.floats();
        if values.iter().any(|v| !v.is_finite()) {
            a.output(n)?.write([Val::F(1.0)]);
        }
        a.output(k)?.write_floats(values.into_iter().map(|v| v * factor));
    }
    Ok(())
}
