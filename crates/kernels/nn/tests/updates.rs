//! EMBEDDING, DROPOUT, UPDATE and UNSCALE against plain f64 loops.

use oneflow_base::{DType, ErrorKind};
use oneflow_kernels_prim::philox::{packed, window_words};
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::*;

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
fn embedding_bags() {
    oneflow_kernels_nn::register();
    let v = 11i64;
    for dtype in FLOATS {
        for (lay, d) in LAYS.into_iter().zip([19i64, 64, 5, 33]).chain([(Lay::Plain, 87)]) {
            for (mode, padding, even) in (0..3u64).flat_map(|m| [(m, -1i64, true), (m, 3, true), (m, 3, false)]) {
                let what = format!("{dtype} {lay:?} {d} {mode} {padding} {even}");
                let shape: &[i64] = if even { &[4, 3] } else { &[12] };
                let index = Buf::of(DType::I64, shape, lay, |i| ((i * 7 + 3) % 11) as f64);
                let ends = if even { vec![0, 3, 6, 9, 12] } else { vec![0, 2, 2, 7, 12] };
                let offsets = Buf::from(DType::I32, &[4], &ends[..4].iter().map(|o| *o as f64).collect::<Vec<_>>());
                let weight = Buf::of(dtype, &[v, d], lay, noise(1));
                let factors = (mode == 0).then(|| Buf::of(dtype, shape, lay, noise(2)));
                let (out, chosen) = (Buf::new(dtype, &[4, d], lay), Buf::new(DType::I64, &[4, d], lay));
                let ins = [Some(&weight), Some(&index), (!even).then_some(&offsets), factors.as_ref()];
                let params = words![mode as i64, padding, false, 0i64, v];
                run(&EMBEDDING_BAG, &[Some(&out), Some(&chosen)], &ins, params).unwrap();
                let mut want = vec![];
                for (i, j) in (0..4).flat_map(|i| (0..d as usize).map(move |j| (i, j))) {
                    let used = (ends[i]..ends[i + 1]).filter(|p| index.get(*p) as i64 != padding);
                    let at = |p: usize| weight.get(index.get(p) as usize * d as usize + j);
                    let scaled = |p: usize| at(p) * factors.as_ref().map_or(1.0, |f| f.get(p));
                    let n = used.clone().count().max(1) as f64;
                    want.push(match mode {
                        2 => used.clone().map(at).fold(f64::NEG_INFINITY, f64::max),
                        _ => used.clone().map(scaled).sum::<f64>() / if mode == 1 { n } else { 1.0 },
                    });
                    if mode == 2 {
                        let best = used.clone().find(|p| at(*p) == want[i * d as usize + j]);
                        assert_eq!(chosen.get(i * d as usize + j), best.map_or(-1.0, |p| index.get(p)), "{what}");
                        if best.is_none() {
                            want[i * d as usize + j] = 0.0;
                        }
                    }
                }
                close(&out, &want, 4.0, &what);
            }
        }
    }
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

/// Adam with the greatest second moment: all states, constants made of numbers, a square root and a maximum.
static RULE: Rule = {
    struct F;
    impl UpdateFormula for F {
        #[inline(always)]
        fn scalars<L: Lanes>(h: &[L], x: &[L]) -> [L; MAX_SCALARS] {
            let mut c = [L::splat(0.0); MAX_SCALARS];
            (c[0], c[1], c[2]) = (h[0], h[1], -x[0] / (L::splat(1.0) - h[0].pow(x[1])));
            c
        }
        #[inline(always)]
        fn step<L: Lanes>(p: L, g: L, [m, v, top]: [L; MAX_STATES], c: &[L]) -> (L, [L; MAX_STATES]) {
            let one = L::splat(1.0);
            let m = (one - c[0]).fma(g - m, m);
            let v = v * c[1] + (one - c[1]) * g * g;
            let top = top.maximum(v);
            (c[2].fma(m / (top.sqrt() + L::splat(1e-3)), p), [m, v, top])
        }
    }
    Rule::new::<F>("test rule", 3, 2, 2)
};

#[test]
fn update() {
    oneflow_kernels_nn::register();
    register_rule(&RULE);
    let number = |d, v| Buf::from(d, &[], &[v]);
    for (p, g, s) in DTYPES {
        for lay in LAYS {
            for (maximize, scale) in [(false, None), (true, Some(4.0))] {
                let what = format!("{p} {g} {s} {lay:?} {maximize}");
                let Case { params, grads, mut states } = case(p, g, s, lay);
                states.extend(case(p, g, s, lay).states.split_off(6));
                let before: Vec<Vec<f64>> = params.iter().chain(&states).map(|b| b.values()).collect();
                let outs: Vec<_> = params.iter().chain(&states).map(Some).collect();
                let (lr, step) = (number(DType::F64, 0.01), number(DType::F32, 3.0));
                let scale_in = scale.map(|v| number(DType::F32, v));
                for found in [1.0, 0.0] {
                    let found_inf = number(DType::F32, found);
                    let mut ins: Vec<_> = grads.iter().map(Some).collect();
                    ins.extend([Some(&lr), Some(&step), scale_in.as_ref(), Some(&found_inf)]);
                    run(&UPDATE, &outs, &ins, words![RULE.id(), 6i64, maximize, 0.9, 0.99]).unwrap();
                    for (b, v) in outs.iter().zip(&before).filter(|_| found == 1.0) {
                        assert_eq!(&b.unwrap().values(), v, "skipped");
                    }
                }
                let mut hyper = [0.0; MAX_HYPER];
                hyper[..2].copy_from_slice(&[0.9, 0.99]);
                let c = (RULE.scalars)(&hyper, &[0.01, 3.0, 0.0, 0.0]);
                let factor = if maximize { -1.0 } else { 1.0 } / scale.unwrap_or(1.0);
                for t in 0..6 {
                    let mut want: [Vec<f64>; 4] = Default::default();
                    for i in 0..before[t].len() {
                        let old = [1, 2, 3].map(|k| before[6 * k + t][i]);
                        let (p, s) = (RULE.step)(before[t][i], grads[t].get(i) * factor, old, &c);
                        [p, s[0], s[1], s[2]].into_iter().zip(&mut want).for_each(|(v, w)| w.push(v));
                    }
                    // Where a parameter is wider than its states, their rounding does not reach it.
                    close(&params[t], &want[0], 8.0, &what);
                    (0..3).for_each(|k| close(&states[6 * k + t], &want[k + 1], 4.0, &what));
                }
            }
        }
    }
}

#[test]
fn unscale() {
    oneflow_kernels_nn::register();
    for dtype in FLOATS {
        for lay in LAYS {
            for bad in [None, Some(f64::INFINITY), Some(f64::NAN), Some(f64::NEG_INFINITY)] {
                let Case { mut params, .. } = case(dtype, dtype, dtype, lay);
                if let Some(v) = bad {
                    params[4].set(20_000, v);
                }
                let before: Vec<Vec<f64>> = params.iter().map(|b| b.values()).collect();
                let (factor, found) = (Buf::from(DType::F32, &[], &[0.25]), Buf::from(DType::F32, &[], &[0.0]));
                let outs: Vec<_> = params.iter().chain([&found]).map(Some).collect();
                run(&UNSCALE, &outs, &[Some(&factor)], words![6i64]).unwrap();
                assert_eq!(found.get(0), bad.is_some() as u8 as f64, "{dtype} {lay:?} {bad:?}");
                for t in 0..4 {
                    let want: Vec<f64> = before[t].iter().map(|v| v * 0.25).collect();
                    close(&params[t], &want, 2.0, &format!("{dtype} {lay:?}"));
                }
            }
        }
    }
}

#[test]
fn other_instruction_sets() {
    again_on_other_isas();
}
