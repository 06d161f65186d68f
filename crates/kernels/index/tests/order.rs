//! SORT, TOPK, COUNT_NONZERO, NONZERO and RANDOM.

use oneflow_base::DType;
use oneflow_kernels_prim::philox::{block, window_words};
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::*;
use std::cmp::Ordering;

const REALS: [DType; 10] = [
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

/// torch's order: NaN is the greatest, zeros are equal.
fn order(a: f64, b: f64) -> Ordering {
    a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(&b).unwrap_or(Ordering::Equal))
}

fn with_nan(dtype: DType, sizes: &[i64], lay: Lay) -> Buf {
    let f = noise(3);
    Buf::of(dtype, sizes, lay, |i| match i % 11 {
        3 if dtype.is_float() => f64::NAN,
        5 => -0.0,
        6 => 0.0,
        _ if dtype == DType::Bool => (f(i) > 0.0) as i64 as f64,
        _ if dtype == DType::U8 => (f(i).abs() * 20.0).floor(),
        _ => (f(i) * 20.0).floor(),
    })
}

fn ordered_row(x: &Buf, c: &[usize], dim: usize, descending: bool) -> Vec<usize> {
    let at = |j: usize| {
        let mut c = c.to_vec();
        c[dim] = j;
        x.get(linear(&c, &x.sizes))
    };
    let mut p: Vec<usize> = (0..x.sizes[dim] as usize).collect();
    p.sort_by(|a, b| if descending { order(at(*b), at(*a)) } else { order(at(*a), at(*b)) });
    p
}

#[test]
fn sort_and_topk() {
    oneflow_kernels_index::register();
    let sizes = [3, 40, 5];
    for dtype in REALS {
        for lay in LAYS {
            let x = with_nan(dtype, &sizes, lay);
            for dim in 0..3 {
                for down in [false, true] {
                    for k in [sizes[dim], 2, 0] {
                        let mut os = sizes;
                        os[dim] = k;
                        let (values, indices) = (Buf::new(dtype, &os, lay), Buf::new(DType::I64, &os, Lay::Plain));
                        let outs = [Some(&values), Some(&indices)];
                        let full = k == sizes[dim];
                        if full {
                            run(&SORT, &outs, &[Some(&x)], words![dim as i64, down]).unwrap();
                        } else {
                            run(&TOPK, &outs, &[Some(&x)], words![k, dim as i64, down, true]).unwrap();
                        }
                        for i in 0..values.len() {
                            let mut c = coords(i, &os);
                            let p = ordered_row(&x, &c, dim, down)[c[dim]];
                            assert_eq!(indices.get(i), p as f64, "{dtype} {lay:?} {dim} {down} {k}");
                            c[dim] = p;
                            let want = x.get(linear(&c, &sizes));
                            assert_eq!(values.get(i).to_bits() << 1, want.to_bits() << 1, "{dtype} {lay:?} {dim}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn long_rows() {
    oneflow_kernels_index::register();
    for dtype in REALS {
        let x = with_nan(dtype, &[1, 20_000], Lay::Plain);
        let want = ordered_row(&x, &[0, 0], 1, true);
        let (values, indices) =
            (Buf::new(dtype, &[1, 20_000], Lay::Plain), Buf::new(DType::I64, &[1, 20_000], Lay::Plain));
        run(&SORT, &[Some(&values), Some(&indices)], &[Some(&x)], words![1i64, true]).unwrap();
        assert_eq!(indices.values(), want.iter().map(|p| *p as f64).collect::<Vec<_>>());
        let (values, indices) = (Buf::new(dtype, &[1, 50], Lay::Plain), Buf::new(DType::I64, &[1, 50], Lay::Plain));
        run(&TOPK, &[Some(&values), Some(&indices)], &[Some(&x)], words![50i64, 1i64, true, true]).unwrap();
        assert_eq!(indices.values(), want[..50].iter().map(|p| *p as f64).collect::<Vec<_>>());
    }
    // A 0-dim tensor is one element.
    let x = Buf::from(DType::F32, &[], &[4.0]);
    let (values, indices) = (Buf::new(DType::F32, &[], Lay::Plain), Buf::new(DType::I64, &[], Lay::Plain));
    run(&SORT, &[Some(&values), Some(&indices)], &[Some(&x)], words![0i64, false]).unwrap();
    assert_eq!((values.get(0), indices.get(0)), (4.0, 0.0));
}

#[test]
fn nonzero() {
    oneflow_kernels_index::register();
    for dtype in DType::ALL.into_iter().filter(|d| !d.is_limited()) {
        for sizes in [&[][..], &[9], &[3, 4, 5], &[0, 2], &[5000]] {
            for lay in LAYS {
                let x = with_nan(dtype, sizes, lay);
                let count = Buf::new(DType::I64, &[], Lay::Plain);
                run(&COUNT_NONZERO, &[Some(&count)], &[Some(&x)], &[]).unwrap();
                let want: Vec<usize> = (0..x.len()).filter(|i| x.get(*i) != 0.0).collect();
                assert_eq!(count.get(0), want.len() as f64, "{dtype} {sizes:?} {lay:?}");
                let out = Buf::new(DType::I64, &[want.len() as i64, sizes.len() as i64], Lay::Reversed);
                run(&NONZERO, &[Some(&out)], &[Some(&x)], &[]).unwrap();
                let want: Vec<f64> = want.iter().flat_map(|i| coords(*i, sizes)).map(|c| c as f64).collect();
                assert_eq!(out.values(), want, "{dtype} {sizes:?} {lay:?}");
            }
        }
    }
}

fn draw(dtype: DType, sizes: &[i64], lay: Lay, kind: RandomKind, a: Word, b: Word, window: &[Word]) -> Buf {
    let out = Buf::new(dtype, sizes, lay);
    let mut params = vec![Word(kind as u64), Word(42), Word(7), a, b];
    params.extend_from_slice(window);
    run(&RANDOM, &[Some(&out)], &[], &params).unwrap();
    out
}

#[test]
fn random_values_depend_on_the_global_index_alone() {
    oneflow_kernels_index::register();
    use RandomKind::*;
    let f = |v: f64| Word::from(v);
    let cases = [
        (Uniform, f(-1.0), f(3.0)),
        (Normal, f(2.0), f(0.5)),
        (Bernoulli, f(0.3), f(0.0)),
        (Exponential, f(2.0), f(0.0)),
        (Integers, Word::from(-5i64), Word::from(90i64)),
    ];
    let global = [4, 37, 6];
    for (kind, a, b) in cases {
        for dtype in FLOATS {
            let whole = draw(dtype, &global, Lay::Plain, kind, a, b, words![0i64]);
            for lay in LAYS {
                let same = draw(dtype, &global, lay, kind, a, b, &[]);
                assert_eq!(same.values(), whole.values(), "{kind:?} {dtype} {lay:?}");
                let (sizes, starts) = ([2, 30, 5], [1i64, 7, 1]);
                let part = draw(dtype, &sizes, lay, kind, a, b, &window_words(&global, &starts));
                for i in 0..part.len() {
                    let c: Vec<usize> = coords(i, &sizes).iter().zip(starts).map(|(c, s)| c + s as usize).collect();
                    assert_eq!(part.get(i), whole.get(linear(&c, &global)), "{kind:?} {dtype} {lay:?}");
                }
            }
        }
    }
    let u = draw(DType::F32, &[1000], Lay::Plain, Uniform, f(0.0), f(1.0), &[]);
    assert!((0..1000).all(|i| u.get(i) == (block(42, 7, i as u64)[0] >> 8) as f64 / 16_777_216.0));
}

#[test]
fn random_moments_and_ranges() {
    oneflow_kernels_index::register();
    use RandomKind::*;
    let n = 200_000usize;
    let f = |v: f64| Word::from(v);
    for dtype in FLOATS {
        for (kind, a, b, mean, var) in [
            (Uniform, 0.0, 1.0, 0.5, 1.0 / 12.0),
            (Normal, 1.0, 2.0, 1.0, 4.0),
            (Bernoulli, 0.3, 0.0, 0.3, 0.21),
            (Exponential, 2.0, 0.0, 0.5, 0.25),
        ] {
            let v = draw(dtype, &[n as i64], Lay::Plain, kind, f(a), f(b), &[]).values();
            let m = v.iter().sum::<f64>() / n as f64;
            let s = v.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n as f64;
            // Four standard errors, plus what rounding to eight bits moves.
            assert!((m - mean).abs() < 4.0 * (var / n as f64).sqrt() + 2e-3, "{kind:?} {dtype}: mean {m}");
            assert!((s / var - 1.0).abs() < 0.03, "{kind:?} {dtype}: variance {s}");
            if kind == Uniform {
                assert!(v.iter().all(|x| (0.0..1.0).contains(x)), "{dtype}");
            }
        }
    }
    for dtype in [DType::I64, DType::I32, DType::U8, DType::Bool] {
        let high = if dtype == DType::Bool { 2 } else { 7 };
        let v = draw(dtype, &[n as i64], Lay::Plain, Integers, Word::from(0i64), Word::from(high as i64), &[]).values();
        for k in 0..high {
            let share = v.iter().filter(|x| **x == k as f64).count() as f64 / n as f64;
            assert!((share * high as f64 - 1.0).abs() < 0.03, "{dtype}: {k} has {share}");
        }
        assert!(v.iter().all(|x| *x < high as f64));
    }
}
