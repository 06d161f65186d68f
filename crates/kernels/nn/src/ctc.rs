//! CTC_LOSS and its backward: the forward-backward recursion over blanks and labels, in logarithms, a sample a task.
//!
//! The gradient is the one of the softmax's input, given log probabilities: `exp(log_probs)` minus the expected occupation.
//! (Graves et al., "Connectionist Temporal Classification", 2006.)

use oneflow_base::{Error, Result, by_float};
use oneflow_kernels_prim::rows::{Shared, split};
use oneflow_kernels_prim::{Acc, CtcLossBackwardParams, CtcLossParams, Float, Launch, View};

/// Labels with blanks around them: 0, l1, 0, l2, 0.
struct Labels {
    at: Vec<i64>,
    blank: i64,
}

impl Labels {
    fn states(&self) -> usize {
        2 * self.at.len() + 1
    }
    /// The class of a state.
    fn class(&self, s: usize) -> usize {
        (if s.is_multiple_of(2) { self.blank } else { self.at[s / 2] }) as usize
    }
    /// Whether a path may come to this state over the blank before it.
    fn skips(&self, s: usize) -> bool {
        s % 2 == 1 && s >= 3 && self.at[s / 2] != self.at[s / 2 - 1]
    }
}

/// A batch, with every length and label checked.
struct Batch {
    labels: Vec<Labels>,
    times: Vec<usize>,
}

fn strides<const N: usize>(v: &View) -> [isize; N] {
    std::array::from_fn(|d| v.strides.get(d).map_or(0, |s| *s as isize))
}

impl Batch {
    /// # Safety
    /// The views are valid for reads.
    unsafe fn new(
        log_probs: &View,
        targets: &View,
        times: &View,
        lengths: &View,
        blank: i64,
        most: usize,
    ) -> Result<Batch> {
        let (t, n, c) = (log_probs.sizes[0], log_probs.sizes[1] as usize, log_probs.sizes[2]);
        // SAFETY: the index is inside a 1-D view of int64.
        let read = |v: &View, i: usize| unsafe { *v.ptr.cast::<i64>().offset(i as isize * strides::<1>(v)[0]) };
        let (padded, [down, across]) = (targets.ndim() == 2, strides::<2>(targets));
        let (mut batch, mut from) = (Batch { labels: vec![], times: vec![] }, 0);
        for i in 0..n {
            let (time, length) = (read(times, i), read(lengths, i));
            if !(0..=t).contains(&time) {
                return Err(Error::runtime(format!(
                    "Expected input_lengths to have value at most {t}, but got value {time} (while checking arguments for ctc_loss)"
                )));
            }
            let room = if padded { targets.sizes[1] } else { targets.numel() as i64 - from };
            if length < 0 || length > room || length as usize > most {
                return Err(Error::runtime(format!(
                    "Expected tensor to have size at least {length} at dimension 1, but got size {room} for argument targets (while checking arguments for ctc_loss)"
                )));
            }
            let at = (0..length).map(|j| {
                let o = if padded { i as isize * down + j as isize * across } else { (from + j) as isize * down };
                // SAFETY: the position is inside the targets.
                unsafe { *targets.ptr.cast::<i64>().offset(o) }
            });
            let at: Vec<i64> = at.collect();
            if let Some(bad) = at.iter().find(|l| !(0..c).contains(l)) {
                return Err(Error::runtime(format!("ctc_loss: target {bad} is outside the {c} classes")));
            }
            from += length;
            batch.times.push(time as usize);
            batch.labels.push(Labels { at, blank });
        }
        Ok(batch)
    }
}

fn log_add(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + values.iter().map(|v| (v - most).exp()).sum::<f64>().ln()
}

pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let x = l.input(0)?;
    // SAFETY: the views are valid by the launch's contract.
    by_float!("ctc_loss", x.dtype, T => unsafe { forward_of::<T>(l, &x) })
}

unsafe fn forward_of<T: Float>(l: &Launch<'_>, x: &View) -> Result<()> {
    let (loss, alpha) = (l.output(0)?, l.output(1)?);
    let CtcLossParams { blank } = l.read()?;
    // SAFETY: by the launch's contract.
    let batch =
        unsafe { Batch::new(x, &l.input(1)?, &l.input(2)?, &l.input(3)?, blank, (alpha.sizes[2] as usize - 1) / 2)? };
    let ([xt, xn, xc], [an, at, a_s]) = (strides::<3>(x), strides::<3>(&alpha));
    let states = alpha.sizes[2] as isize;
    let steps = alpha.sizes[1] as isize;
    let [loss_step] = strides::<1>(&loss);
    let (x, alpha, loss) = (Shared::<T>::new(x.ptr), Shared::<T>::new(alpha.ptr), Shared::<T>::new(loss.ptr));
    split(batch.times.len(), 40.0 * (states * steps) as f64, &|r| {
        for n in r {
            let (labels, time) = (&batch.labels[n], batch.times[n]);
            let n = n as isize;
            // SAFETY: samples, times, states and classes are inside; a sample belongs to one task.
            unsafe {
                let p = |t: usize, s: usize| {
                    (*x.at(t as isize * xt + n * xn + labels.class(s) as isize * xc)).widen().to_f64()
                };
                let put = |t: isize, s: isize, v: f64| {
                    *alpha.at(n * an + t * at + s * a_s) = T::narrow(T::Acc::of(v));
                };
                let (mut now, mut before) = (vec![f64::NEG_INFINITY; labels.states()], vec![]);
                for t in 0..steps {
                    for s in 0..states {
                        put(t, s, f64::NEG_INFINITY);
                    }
                }
                for t in 0..time {
                    if t == 0 {
                        for (s, v) in now.iter_mut().enumerate().take(2) {
                            *v = p(0, s);
                        }
                    } else {
                        before.clone_from(&now);
                        for (s, v) in now.iter_mut().enumerate() {
                            let one = if s > 0 { before[s - 1] } else { f64::NEG_INFINITY };
                            let two = if labels.skips(s) { before[s - 2] } else { f64::NEG_INFINITY };
                            *v = log_add(&[before[s], one, two]) + p(t, s);
                        }
                    }
                    now.iter().enumerate().for_each(|(s, v)| put(t as isize, s as isize, *v));
                }
                let end = labels.states();
                let likelihood = match (time, end) {
                    (0, 1) => 0.0,
                    (0, _) => f64::NEG_INFINITY,
                    (_, 1) => now[0],
                    _ => log_add(&now[end - 2..]),
                };
                *loss.at(n * loss_step) = T::narrow(T::Acc::of(-likelihood));
            }
        }
    });
    Ok(())
}

pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let x = l.input(1)?;
    // SAFETY: the views are valid by the launch's contract.
    by_float!("ctc_loss_backward", x.dtype, T => unsafe { backward_of::<T>(l, &x) })
}

unsafe fn backward_of<T: Float>(l: &Launch<'_>, x: &View) -> Result<()> {
    let (g, loss, alpha, gx) = (l.input(0)?, l.input(5)?, l.input(6)?, l.output(0)?);
    let CtcLossBackwardParams { blank, zero_infinity } = l.read()?;
    // SAFETY: by the launch's contract.
    let batch =
        unsafe { Batch::new(x, &l.input(2)?, &l.input(3)?, &l.input(4)?, blank, (alpha.sizes[2] as usize - 1) / 2)? };
    let ([xt, xn, xc], [an, at, a_s], [gt, gn, gc]) = (strides::<3>(x), strides::<3>(&alpha), strides::<3>(&gx));
    let ([g_step], [loss_step]) = (strides::<1>(&g), strides::<1>(&loss));
    let (steps, classes) = (x.sizes[0] as usize, x.sizes[2] as usize);
    let work = 60.0 * (steps * (classes + alpha.sizes[2] as usize)) as f64;
    let (x, alpha, gx) = (Shared::<T>::new(x.ptr), Shared::<T>::new(alpha.ptr), Shared::<T>::new(gx.ptr));
    let (g, loss) = (Shared::<T>::new(g.ptr), Shared::<T>::new(loss.ptr));
    split(batch.times.len(), work, &|r| {
        for n in r {
            let (labels, time) = (&batch.labels[n], batch.times[n]);
            let n = n as isize;
            // SAFETY: samples, times, states and classes are inside; a sample belongs to one task.
            unsafe {
                let p = |t: usize, c: usize| (*x.at(t as isize * xt + n * xn + c as isize * xc)).widen().to_f64();
                let put = |t: usize, c: usize, v: f64| {
                    *gx.at(t as isize * gt + n * gn + c as isize * gc) = T::narrow(T::Acc::of(v));
                };
                let (g, nll) = ((*g.at(n * g_step)).widen().to_f64(), (*loss.at(n * loss_step)).widen().to_f64());
                let impossible = zero_infinity && nll == f64::INFINITY;
                let end = labels.states();
                let (mut beta, mut after) = (vec![f64::NEG_INFINITY; end], vec![]);
                for t in (0..steps).rev() {
                    if t >= time || impossible {
                        (0..classes).for_each(|c| put(t, c, 0.0));
                        continue;
                    }
                    if t + 1 == time {
                        for s in end.saturating_sub(2)..end {
                            beta[s] = p(t, labels.class(s));
                        }
                    } else {
                        after.clone_from(&beta);
                        for (s, v) in beta.iter_mut().enumerate() {
                            let one = after.get(s + 1).copied().unwrap_or(f64::NEG_INFINITY);
                            let two = if s + 2 < end && labels.skips(s + 2) { after[s + 2] } else { f64::NEG_INFINITY };
                            *v = log_add(&[after[s], one, two]) + p(t, labels.class(s));
                        }
                    }
                    // The logarithm of what passes through each class at this time.
                    let mut through = vec![f64::NEG_INFINITY; classes];
                    for (s, b) in beta.iter().enumerate() {
                        let a = (*alpha.at(n * an + t as isize * at + s as isize * a_s)).widen().to_f64();
                        let c = labels.class(s);
                        through[c] = log_add(&[through[c], a + b]);
                    }
                    for (c, v) in through.iter().enumerate() {
                        let lp = p(t, c);
                        put(t, c, g * (lp.exp() - (v + nll - lp).exp()));
                    }
                }
            }
        }
    });
    Ok(())
}
