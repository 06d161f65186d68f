//! SOFTMAX, LAYER_NORM and CROSS_ENTROPY with their backwards against plain f64 loops.

use oneflow_base::{DType, ErrorKind};
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::*;

/// Rows of every length around the registers' widths.
const LENGTHS: [i64; 9] = [1, 2, 7, 8, 15, 17, 33, 64, 131];

fn acc(dtype: DType) -> DType {
    dtype.compute()
}

fn softmax_row(x: &[f64], log: bool) -> Vec<f64> {
    let max = x.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
    let sum: f64 = x.iter().map(|v| (v - max).exp()).sum();
    x.iter().map(|v| if log { v - max - sum.ln() } else { (v - max).exp() / sum }).collect()
}

/// Calls `f` with the linear positions of every row along `dim`.
fn each_row(sizes: &[i64], dim: usize, mut f: impl FnMut(&[usize])) {
    let n: i64 = sizes.iter().product();
    for i in 0..n as usize {
        let mut c = coords(i, sizes);
        if c.get(dim).copied().unwrap_or(0) == 0 {
            let len = sizes.get(dim).copied().unwrap_or(1) as usize;
            let row: Vec<usize> = (0..len)
                .map(|j| {
                    if !c.is_empty() {
                        c[dim] = j;
                    }
                    linear(&c, sizes)
                })
                .collect();
            f(&row);
        }
    }
}

#[test]
fn softmax_and_backward() {
    oneflow_kernels_nn::register();
    for dtype in FLOATS {
        for len in LENGTHS {
            for (sizes, dim) in [
                (vec![3, 2, len], 2),
                (vec![3, len, 2], 1),
                (vec![len, 5], 0),
                (vec![2, len, 37], 1),
                (vec![len], 0),
                (vec![], 0),
            ] {
                for lay in LAYS {
                    for log in [false, true] {
                        let what = format!("{dtype} {sizes:?} {dim} {lay:?} log {log}");
                        let x = Buf::of(dtype, &sizes, lay, |i| 4.0 * noise(1)(i));
                        let y = Buf::new(dtype, &sizes, lay);
                        run(&SOFTMAX, &[Some(&y)], &[Some(&x)], words![dim as i64, log]).unwrap();
                        let mut want = vec![0.0; x.len()];
                        each_row(&sizes, dim, |row| {
                            let v: Vec<f64> = row.iter().map(|i| x.get(*i)).collect();
                            row.iter().zip(softmax_row(&v, log)).for_each(|(i, v)| want[*i] = v);
                        });
                        close(&y, &want, 8.0, &what);

                        let g = Buf::of(dtype, &sizes, Lay::Plain, noise(2));
                        let gx = Buf::new(dtype, &sizes, lay);
                        run(&SOFTMAX_BACKWARD, &[Some(&gx)], &[Some(&g), Some(&y)], words![dim as i64, log]).unwrap();
                        each_row(&sizes, dim, |row| {
                            let dot: f64 = row.iter().map(|i| g.get(*i) * if log { 1.0 } else { y.get(*i) }).sum();
                            for i in row {
                                let (g, y) = (g.get(*i), y.get(*i));
                                want[*i] = if log { g - y.exp() * dot } else { (g - dot) * y };
                            }
                        });
                        close(&gx, &want, 20.0, &format!("backward {what}"));
                    }
                }
            }
        }
    }
}

/// Large outputs are stored past the caches: the same values as in small pieces.
#[test]
fn streamed_rows() {
    oneflow_kernels_nn::register();
    let (rows, n) = (8300i64, 1024i64);
    let x = Buf::of(DType::F32, &[rows, n], Lay::Plain, noise(1));
    let t = Buf::of(DType::I64, &[rows], Lay::Plain, |i| (i % 1024) as f64);
    let big = || Buf::new(DType::F32, &[rows, n], Lay::Plain);
    let (y, gx, gl, lse) = (big(), big(), big(), Buf::of(DType::F32, &[rows], Lay::Plain, |_| 7.0));
    let (ln, gln) = (big(), big());
    let all = |x: &Buf, t: &Buf, [y, gx, gl, ln, gln]: [&Buf; 5], lse: &Buf| {
        run(&SOFTMAX, &[Some(y)], &[Some(x)], words![1i64, false]).unwrap();
        run(&SOFTMAX_BACKWARD, &[Some(gx)], &[Some(x), Some(y)], words![1i64, false]).unwrap();
        let ins = [Some(lse), Some(x), Some(t), None, Some(lse)];
        run(&CROSS_ENTROPY_BACKWARD, &[Some(gl)], &ins, words![-100i64, 0.0]).unwrap();
        run(&LAYER_NORM, &[Some(ln), None, None], &[Some(x), None, None], words![1i64, 1e-5, false]).unwrap();
        let ins = [Some(y), Some(x), None, Some(lse), None];
        run(&LAYER_NORM_BACKWARD, &[Some(gln), None, None], &ins, words![1i64, 1e-5, true]).unwrap();
    };
    all(&x, &t, [&y, &gx, &gl, &ln, &gln], &lse);
    for r in [0, 17, 8299usize] {
        let part = Buf::of(DType::F32, &[1, n], Lay::Plain, |i| x.get(r * 1024 + i));
        let small = || Buf::new(DType::F32, &[1, n], Lay::Plain);
        let parts = [small(), small(), small(), small(), small()];
        let t = Buf::ints(&[1], &[t.get(r) as i64]);
        all(&part, &t, parts.each_ref(), &Buf::from(DType::F32, &[1], &[7.0]));
        for (big, small) in [&y, &gx, &gl, &ln, &gln].into_iter().zip(&parts) {
            assert!((0..1024).all(|i| big.get(r * 1024 + i) == small.get(i)), "row {r}");
        }
    }
}

#[test]
fn softmax_of_infinities() {
    oneflow_kernels_nn::register();
    let inf = f64::INFINITY;
    let y = Buf::new(DType::F32, &[4, 3], Lay::Plain);
    let rows = [-inf, 0.0, 0.0, -inf, -inf, -inf, 1.0, f64::NAN, 0.0, 1e30, -1e30, -inf];
    let x = Buf::from(DType::F32, &[4, 3], &rows);
    run(&SOFTMAX, &[Some(&y)], &[Some(&x)], words![1i64, false]).unwrap();
    let nan = f64::NAN;
    close(&y, &[0.0, 0.5, 0.5, nan, nan, nan, nan, nan, nan, 1.0, 0.0, 0.0], 1.0, "infinities");
    let empty = Buf::new(DType::F32, &[4, 0], Lay::Plain);
    run(&SOFTMAX, &[Some(&empty)], &[Some(&empty)], words![1i64, false]).unwrap();
    let e = run(&SOFTMAX, &[Some(&y)], &[Some(&Buf::new(DType::I64, &[4, 3], Lay::Plain))], words![1i64, false]);
    assert_eq!(e.unwrap_err().kind(), ErrorKind::NotImplemented);
}

#[test]
fn layer_norm_and_backward() {
    oneflow_kernels_nn::register();
    let eps = 1e-5;
    for dtype in FLOATS {
        for len in LENGTHS {
            for shape in [vec![len], vec![3, len]] {
                for lay in LAYS {
                    for (rms, affine) in [(false, true), (false, false), (true, true), (true, false)] {
                        let what = format!("{dtype} {shape:?} {lay:?} rms {rms} affine {affine}");
                        let sizes = [&[2, 11][..], &shape].concat();
                        let n: usize = shape.iter().product::<i64>() as usize;
                        let x = Buf::of(dtype, &sizes, lay, |i| 2.0 * noise(3)(i) + 0.5);
                        let w = Buf::of(dtype, &shape, Lay::Plain, noise(4));
                        let b = Buf::of(DType::F32, &shape, Lay::Plain, noise(5));
                        let params = words![shape.len() as i64, eps, rms];
                        let y = Buf::new(dtype, &sizes, lay);
                        let (mean, rstd) =
                            (Buf::new(acc(dtype), &[22], Lay::Plain), Buf::new(acc(dtype), &[22], Lay::Plain));
                        let (wi, bi) = (affine.then_some(&w), affine.then_some(&b));
                        let mi = (!rms).then_some(&mean);
                        run(&LAYER_NORM, &[Some(&y), mi, Some(&rstd)], &[Some(&x), wi, bi], params).unwrap();
                        let (mut want, mut means, mut rstds) = (vec![], vec![], vec![]);
                        for r in 0..22 {
                            let row: Vec<f64> = (0..n).map(|j| x.get(r * n + j)).collect();
                            let m = if rms { 0.0 } else { row.iter().sum::<f64>() / n as f64 };
                            let var = row.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / n as f64;
                            let s = 1.0 / (var + eps).sqrt();
                            (0..n).for_each(|j| {
                                let v = (row[j] - m) * s;
                                want.push(if affine { v * w.get(j) + b.get(j) } else { v });
                            });
                            means.push(m);
                            rstds.push(s);
                        }
                        // A row of one has variance zero: 1 / sqrt(eps) enlarges the mean's rounding.
                        let tol = if n == 1 { 400.0 } else { 40.0 };
                        close(&y, &want, tol, &what);
                        close(&rstd, &rstds, 40.0, &what);
                        if !rms {
                            close(&mean, &means, 8.0, &what);
                        }

                        // With a residual: the norm of the sum, bit for bit.
                        let r = Buf::of(dtype, &sizes, Lay::Plain, noise(9));
                        let plain = || Buf::new(dtype, &sizes, Lay::Plain);
                        let (sum, y_of_sum, want) = (plain(), plain(), plain());
                        let outs = [Some(&y_of_sum), mi, Some(&rstd), Some(&sum)];
                        run(&LAYER_NORM, &outs, &[Some(&x), wi, bi, Some(&r)], params).unwrap();
                        run(&LAYER_NORM, &[Some(&want), None, None], &[Some(&sum), wi, bi], params).unwrap();
                        assert_eq!(y_of_sum.values(), want.values(), "with a residual, {what}");
                        let added = Buf::of(dtype, &sizes, Lay::Plain, |i| x.get(i) + r.get(i));
                        close(&sum, &added.values(), 0.0, &format!("sum with a residual, {what}"));
                        run(&LAYER_NORM, &[Some(&y), mi, Some(&rstd)], &[Some(&x), wi, bi], params).unwrap();

                        let g = Buf::of(dtype, &sizes, Lay::Plain, noise(6));
                        let (gx, gw) = (Buf::new(dtype, &sizes, lay), Buf::new(dtype, &shape, Lay::Plain));
                        let gb = Buf::new(dtype, &shape, Lay::Plain);
                        let outs = [Some(&gx), affine.then_some(&gw), affine.then_some(&gb)];
                        let ins = [Some(&g), Some(&x), mi, Some(&rstd), wi];
                        run(&LAYER_NORM_BACKWARD, &outs, &ins, params).unwrap();
                        let (mut wx, mut ww, mut wb) = (vec![], vec![0.0; n], vec![0.0; n]);
                        for r in 0..22 {
                            // The saved statistics are what the gradient is made with.
                            let m = if rms { 0.0 } else { mean.get(r) };
                            let s = rstd.get(r);
                            let hat: Vec<f64> = (0..n).map(|j| (x.get(r * n + j) - m) * s).collect();
                            let gv = |j: usize| g.get(r * n + j) * if affine { w.get(j) } else { 1.0 };
                            let a = if rms { 0.0 } else { (0..n).map(gv).sum::<f64>() / n as f64 };
                            let b = (0..n).map(|j| gv(j) * hat[j]).sum::<f64>() / n as f64;
                            for j in 0..n {
                                wx.push(s * (gv(j) - a - hat[j] * b));
                                ww[j] += g.get(r * n + j) * hat[j];
                                wb[j] += g.get(r * n + j);
                            }
                        }
                        close(&gx, &wx, if n == 1 { 4000.0 } else { 60.0 }, &format!("backward {what}"));
                        if affine {
                            close(&gw, &ww, 60.0, &format!("weight {what}"));
                            close(&gb, &wb, 60.0, &format!("bias {what}"));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn cross_entropy_and_backward() {
    oneflow_kernels_nn::register();
    for dtype in FLOATS {
        for c in [1, 2, 7, 17, 64, 131, 9001] {
            let lays: &[Lay] = if c > 1000 { &[Lay::Plain] } else { &LAYS };
            for &lay in lays {
                for (smooth, weighted) in [(0.0, false), (0.0, true), (0.1, false), (0.3, true)] {
                    let what = format!("{dtype} {c} {lay:?} smoothing {smooth} weighted {weighted}");
                    let (n, ignore) = (6usize, -100i64);
                    let x = Buf::of(dtype, &[n as i64, c], lay, |i| 5.0 * noise(7)(i));
                    let t = Buf::of(DType::I64, &[n as i64], lay, |i| {
                        if i == 2 { ignore as f64 } else { (i as i64 * 5 % c) as f64 }
                    });
                    let w = Buf::of(dtype, &[c], Lay::Plain, |i| 1.0 + 0.5 * noise(8)(i));
                    let (loss, lse) =
                        (Buf::new(dtype, &[n as i64], lay), Buf::new(acc(dtype), &[n as i64], Lay::Plain));
                    let params = words![ignore, smooth];
                    let wi = weighted.then_some(&w);
                    run(&CROSS_ENTROPY, &[Some(&loss), Some(&lse)], &[Some(&x), Some(&t), wi], params).unwrap();
                    let mut g = Buf::of(dtype, &[n as i64], Lay::Plain, |_| 0.25);
                    g.strides = vec![0];
                    let gx = Buf::new(dtype, &[n as i64, c], lay);
                    let ins = [Some(&g), Some(&x), Some(&t), wi, Some(&lse)];
                    run(&CROSS_ENTROPY_BACKWARD, &[Some(&gx)], &ins, params).unwrap();

                    let wc = |j: usize| if weighted { w.get(j) } else { 1.0 };
                    let (mut want, mut grads) = (vec![], vec![]);
                    for r in 0..n {
                        let row: Vec<f64> = (0..c as usize).map(|j| x.get(r * c as usize + j)).collect();
                        let t = t.get(r);
                        if t == ignore as f64 {
                            want.push(0.0);
                            grads.extend(vec![0.0; c as usize]);
                            continue;
                        }
                        let (t, lp) = (t as usize, softmax_row(&row, true));
                        let even = |j: usize| smooth / c as f64 * wc(j);
                        let share = |j: usize| even(j) + if j == t { (1.0 - smooth) * wc(t) } else { 0.0 };
                        want.push(-(0..c as usize).map(|j| share(j) * lp[j]).sum::<f64>());
                        let all: f64 = (0..c as usize).map(share).sum();
                        grads.extend((0..c as usize).map(|j| 0.25 * (all * lp[j].exp() - share(j))));
                    }
                    // The reference adds 9001 terms one after another.
                    close(&loss, &want, if c > 1000 { 200.0 } else { 20.0 }, &what);
                    close(&gx, &grads, 20.0, &format!("backward {what}"));
                }
            }
        }
    }
}

#[test]
fn wrong_targets_are_index_errors() {
    oneflow_kernels_nn::register();
    let x = Buf::of(DType::F32, &[2, 5], Lay::Plain, noise(1));
    let (loss, lse) = (Buf::from(DType::F32, &[2], &[9.0, 9.0]), Buf::new(DType::F32, &[2], Lay::Plain));
    for bad in [7, -1] {
        let t = Buf::ints(&[2], &[0, bad]);
        let outs = [Some(&loss), Some(&lse)];
        let e = run(&CROSS_ENTROPY, &outs, &[Some(&x), Some(&t), None], words![-100i64, 0.0]).unwrap_err();
        assert_eq!((e.kind(), e.text()), (ErrorKind::Index, format!("Target {bad} is out of bounds.").as_str()));
    }
    assert_eq!(loss.values(), [9.0, 9.0]);
    // Masked logits, also a whole chunk of them.
    let inf = f64::INFINITY;
    let x = Buf::of(DType::F32, &[1, 9000], Lay::Plain, |i| if i < 5000 { -inf } else { 0.0 });
    let (loss, lse) = (Buf::new(DType::F32, &[1], Lay::Plain), Buf::new(DType::F32, &[1], Lay::Plain));
    run(
        &CROSS_ENTROPY,
        &[Some(&loss), Some(&lse)],
        &[Some(&x), Some(&Buf::ints(&[1], &[6000])), None],
        words![-100i64, 0.0],
    )
    .unwrap();
    close(&loss, &[4000f64.ln()], 4.0, "masked");
}

#[test]
fn other_instruction_sets() {
    again_on_other_isas();
}
