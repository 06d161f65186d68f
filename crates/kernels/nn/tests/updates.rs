//! EMBEDDING, DROPOUT, ADAM and SGD against plain f64 loops.

mod common;
use common::*;
use oneflow_base::{DType, ErrorKind};
use oneflow_kernels_prim::philox::{packed, window_words};
use oneflow_kernels_prim::*;

#[test]
fn embedding_and_backward() {
    oneflow_kernels_nn::register();
    let (v, d) = (11i64, 19i64);
    for dtype in FLOATS {
        for lay in LAYS {
            for (start, total) in [(0, v), (5, 20)] {
                for shape in [&[][..], &[7], &[4, 6]] {
                    let what = format!("{dtype} {lay:?} {start} {shape:?}");
                    let f = |i: usize| ((i * 7 + 3) as i64 % total) as f64;
                    let index = Buf::of(if start == 0 { DType::I64 } else { DType::I32 }, shape, lay, f);
                    let weight = Buf::of(dtype, &[v, d], lay, noise(1));
                    let os = [shape, &[d]].concat();
                    let out = Buf::new(dtype, &os, lay);
                    run(&EMBEDDING, &[Some(&out)], &[Some(&weight), Some(&index)], words![start, total]).unwrap();
                    let row = |i: usize| (index.get(i) as i64 - start) as usize;
                    for i in 0..out.len() {
                        let (p, j) = (i / d as usize, i % d as usize);
                        let want = if row(p) < v as usize { weight.get(row(p) * d as usize + j) } else { 0.0 };
                        assert_eq!(out.get(i), want, "{what}");
                    }
                    for padding in [-1i64, 10] {
                        let g = Buf::of(dtype, &os, lay, noise(2));
                        let gw = Buf::new(dtype, &[v, d], lay);
                        let params = words![start, total, padding];
                        run(&EMBEDDING_BACKWARD, &[Some(&gw)], &[Some(&g), Some(&index)], params).unwrap();
                        let mut want = vec![0.0; (v * d) as usize];
                        for i in 0..g.len() {
                            let (p, j) = (i / d as usize, i % d as usize);
                            if row(p) < v as usize && index.get(p) as i64 != padding {
                                want[row(p) * d as usize + j] += g.get(i);
                            }
                        }
                        close(&gw, &want, 8.0, &format!("backward {what} {padding}"));
                    }
                }
            }
        }
    }
    let weight = Buf::of(DType::F32, &[3, 2], Lay::Plain, noise(1));
    let out = Buf::from(DType::F32, &[1, 2], &[9.0, 9.0]);
    let e =
        run(&EMBEDDING, &[Some(&out)], &[Some(&weight), Some(&Buf::ints(&[1], &[3]))], words![0i64, 3i64]).unwrap_err();
    assert_eq!((e.kind(), e.text()), (ErrorKind::Index, "index 3 is out of bounds for dimension 0 with size 3"));
    assert_eq!(out.get(0), 9.0);
}

#[test]
fn dropout() {
    oneflow_kernels_nn::register();
    let global = [4, 37, 6];
    for dtype in FLOATS {
        for p in [0.0, 0.25, 0.5, 1.0] {
            for lay in LAYS {
                let (sizes, starts) = ([2, 30, 5], [1i64, 7, 1]);
                for (sizes, window) in [(&global[..], vec![]), (&sizes[..], window_words(&global, &starts).to_vec())] {
                    let x = Buf::of(dtype, sizes, lay, noise(1));
                    let (y, mask) = (Buf::new(dtype, sizes, lay), Buf::new(DType::Bool, sizes, Lay::Plain));
                    let params = [words![p, 3i64, 8i64], &window[..]].concat();
                    run(&DROPOUT, &[Some(&y), Some(&mask)], &[Some(&x)], &params).unwrap();
                    let mut want = vec![];
                    for i in 0..x.len() {
                        let mut c = coords(i, sizes);
                        if !window.is_empty() {
                            c.iter_mut().zip(starts).for_each(|(c, s)| *c += s as usize);
                        }
                        let u = (packed(3, 8, linear(&c, &global) as u64) >> 8) as f64 / 16_777_216.0;
                        assert_eq!(mask.get(i), (u >= p) as i64 as f64);
                        want.push(if u >= p { x.get(i) / (1.0 - p) } else { 0.0 });
                    }
                    close(&y, &want, 2.0, &format!("{dtype} {p} {lay:?}"));
                }
            }
        }
    }
}

struct Case {
    params: Vec<Buf>,
    grads: Vec<Buf>,
    states: Vec<Buf>,
}

fn case(p: DType, g: DType, s: DType, lay: Lay) -> Case {
    let shapes: [&[i64]; 6] = [&[3], &[], &[0, 4], &[33, 7], &[20_001], &[5, 3]];
    let of = |d: DType, salt: u64, f: fn(f64) -> f64| -> Vec<Buf> {
        let lays = shapes.iter().map(|s| if s.len() > 1 { lay } else { Lay::Plain });
        shapes.iter().zip(lays).map(|(s, l)| Buf::of(d, s, l, |i| f(noise(salt + s.len() as u64)(i)))).collect()
    };
    let mut states = of(s, 30, |v| 0.1 * v);
    states.extend(of(s, 40, |v| 0.01 * v.abs()));
    Case { params: of(p, 10, |v| v), grads: of(g, 20, |v| v), states }
}

const DTYPES: [(DType, DType, DType); 6] = [
    (DType::F32, DType::F32, DType::F32),
    (DType::F64, DType::F64, DType::F64),
    (DType::BF16, DType::BF16, DType::BF16),
    (DType::F16, DType::F16, DType::F32),
    (DType::F32, DType::BF16, DType::F32),
    (DType::F64, DType::F32, DType::F32),
];

#[test]
fn adam() {
    oneflow_kernels_nn::register();
    let (beta1, beta2, eps, lr, step) = (0.9, 0.99, 1e-8, 0.01, 3.0);
    for (p, g, s) in DTYPES {
        for lay in LAYS {
            for (decay, maximize, decoupled, scale) in
                [(0.0, false, true, None), (0.1, true, true, Some(4.0)), (0.1, false, false, None)]
            {
                let what = format!("{p} {g} {s} {lay:?} {decay} {maximize} {decoupled}");
                let Case { params, grads, states } = case(p, g, s, lay);
                let before: Vec<Vec<f64>> = params.iter().chain(&states).map(|b| b.values()).collect();
                let outs: Vec<_> = params.iter().chain(&states).map(Some).collect();
                let number = |d, v| Buf::from(d, &[], &[v]);
                let (lr_in, step_in) = (number(DType::F64, lr), number(DType::F32, step));
                let scale_in = scale.map(|v| number(DType::F32, v));
                for found in [1.0, 0.0] {
                    let found_inf = number(DType::F32, found);
                    let mut ins: Vec<_> = grads.iter().map(Some).collect();
                    ins.extend([Some(&lr_in), Some(&step_in), scale_in.as_ref(), Some(&found_inf)]);
                    let words = words![6i64, beta1, beta2, decay, eps, maximize, decoupled];
                    run(&ADAM, &outs, &ins, words).unwrap();
                    for (b, v) in outs.iter().zip(&before).filter(|_| found == 1.0) {
                        assert_eq!(&b.unwrap().values(), v, "skipped");
                    }
                }
                for t in 0..6 {
                    let (mut wp, mut wm, mut wv) = (vec![], vec![], vec![]);
                    for (i, p) in before[t].iter().enumerate() {
                        let (mut p, mut m, mut v) = (*p, before[6 + t][i], before[12 + t][i]);
                        let mut g = grads[t].get(i) / scale.unwrap_or(1.0) * if maximize { -1.0 } else { 1.0 };
                        if decoupled {
                            p *= 1.0 - lr * decay;
                        } else {
                            g += decay * p;
                        }
                        m += (1.0 - beta1) * (g - m);
                        v = v * beta2 + (1.0 - beta2) * g * g;
                        let denom = v.sqrt() / (1.0 - f64::powf(beta2, step)).sqrt() + eps;
                        p -= lr / (1.0 - f64::powf(beta1, step)) * m / denom;
                        wp.push(p);
                        wm.push(m);
                        wv.push(v);
                    }
                    // Where a parameter is wider than its states, their rounding does not reach it.
                    close(&params[t], &wp, 8.0, &what);
                    close(&states[t], &wm, 4.0, &what);
                    close(&states[6 + t], &wv, 4.0, &what);
                }
            }
        }
    }
}

#[test]
fn sgd() {
    oneflow_kernels_nn::register();
    let lr = 0.1;
    for (p, g, s) in DTYPES {
        for lay in LAYS {
            for (momentum, dampening, decay, nesterov, maximize, first) in [
                (0.0, 0.0, 0.0, false, false, false),
                (0.0, 0.0, 0.2, false, true, true),
                (0.9, 0.0, 0.1, true, false, true),
                (0.9, 0.0, 0.1, true, false, false),
                (0.9, 0.5, 0.0, false, false, true),
                (0.9, 0.5, 0.0, false, true, false),
            ] {
                let what = format!("{p} {g} {s} {lay:?} {momentum} {dampening} {decay} {nesterov} {first}");
                let Case { params, grads, mut states } = case(p, g, s, lay);
                states.truncate(6);
                if first {
                    // The first step must not read the buffers.
                    states.iter_mut().for_each(|b| (0..b.len()).for_each(|i| b.set(i, f64::NAN)));
                }
                let before: Vec<Vec<f64>> = params.iter().chain(&states).map(|b| b.values()).collect();
                let mut outs: Vec<_> = params.iter().map(Some).collect();
                outs.extend(states.iter().map(|b| (momentum != 0.0).then_some(b)));
                let lr_in = Buf::from(DType::F32, &[], &[lr]);
                let mut ins: Vec<_> = grads.iter().map(Some).collect();
                ins.push(Some(&lr_in));
                let words = words![6i64, momentum, dampening, decay, nesterov, maximize, first];
                run(&SGD, &outs, &ins, words).unwrap();
                for t in 0..6 {
                    let (mut wp, mut wb) = (vec![], vec![]);
                    for (i, p) in before[t].iter().enumerate() {
                        let mut b = before[6 + t][i];
                        let mut g = grads[t].get(i) * if maximize { -1.0 } else { 1.0 } + decay * p;
                        if momentum != 0.0 {
                            b = if first { g } else { momentum * b + (1.0 - dampening) * g };
                            g = if nesterov { g + momentum * b } else { b };
                        }
                        wp.push(p - lr_in.get(0) * g);
                        wb.push(b);
                    }
                    close(&params[t], &wp, 8.0, &what);
                    if momentum != 0.0 {
                        close(&states[t], &wb, 4.0, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn other_instruction_sets() {
    again_on_other_isas();
}
