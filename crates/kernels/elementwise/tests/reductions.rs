//! Reductions, extremes with indices and scans against f64, over every set of dimensions and many layouts.

mod common;
use common::*;
use oneflow_base::DType::{self, BF16, Bool, F32, F64, I32, I64};
use oneflow_ep::cpu;
use oneflow_kernels_prim::*;

const KINDS: [ReduceKind; 8] = {
    use ReduceKind::*;
    [Sum, Prod, Max, Min, Mean, Any, All, NanSum]
};

fn expected(kind: ReduceKind, v: &[f64]) -> f64 {
    let nan = v.iter().any(|x| x.is_nan());
    match kind {
        ReduceKind::Sum => v.iter().sum(),
        ReduceKind::NanSum => v.iter().filter(|x| !x.is_nan()).sum(),
        ReduceKind::Mean => v.iter().sum::<f64>() / v.len() as f64,
        ReduceKind::Prod => v.iter().product(),
        ReduceKind::Max if nan => f64::NAN,
        ReduceKind::Min if nan => f64::NAN,
        ReduceKind::Max => v.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ReduceKind::Min => v.iter().copied().fold(f64::INFINITY, f64::min),
        ReduceKind::Any => v.iter().any(|x| *x != 0.0) as u8 as f64,
        ReduceKind::All => v.iter().all(|x| *x != 0.0) as u8 as f64,
    }
}

/// The elements of `x` that go into each output of a reduction over the dimensions in a bit mask.
fn groups(x: &Arr, mask: usize) -> (Vec<i64>, Vec<Vec<f64>>) {
    let sizes: Vec<i64> = x.sizes.iter().enumerate().map(|(d, n)| if mask >> d & 1 == 1 { 1 } else { *n }).collect();
    let mut all = vec![vec![]; sizes.iter().product::<i64>() as usize];
    for i in 0..x.numel() {
        let (mut rest, mut at, mut scale) = (i as i64, 0, 1);
        for d in (0..sizes.len()).rev() {
            let k = rest % x.sizes[d];
            rest /= x.sizes[d];
            if sizes[d] != 1 || x.sizes[d] == 1 {
                at += k * scale;
            }
            scale *= sizes[d];
        }
        all[at as usize].push(x.get(i));
    }
    (sizes, all)
}

fn check(x: &Arr, kind: ReduceKind, out_dtype: DType, tolerance: f64) {
    for mask in 0..1usize << x.sizes.len() {
        let (sizes, all) = groups(x, mask);
        let n: i64 = sizes.iter().product();
        if all.first().is_some_and(|g| g.is_empty()) && matches!(kind, ReduceKind::Max | ReduceKind::Min) {
            continue;
        }
        let out = Arr::new(out_dtype, &sizes, |_| 55.0);
        launch(&REDUCE, &[Some(&out)], &[Some(x)], &[Word::from(kind as u64)], None).unwrap();
        assert_eq!(n as usize, all.len());
        compare(
            &out,
            |i| expected(kind, &all[i]),
            tolerance,
            &format!("{kind:?} {mask:b} of {:?} {:?} {}", x.sizes, x.strides, x.dtype),
        );
    }
}

#[test]
fn every_layout_kind_and_set_of_dimensions() {
    for sizes in [
        &[] as &[i64],
        &[0],
        &[1],
        &[9],
        &[6000],
        &[7, 40],
        &[40, 7],
        &[3, 0, 4],
        &[5, 6, 70],
        &[300, 3],
        &[2, 3, 4, 5],
    ] {
        for x in layouts(sizes, &|s| Arr::noise(F32, s, 11)) {
            for kind in KINDS {
                let out = if matches!(kind, ReduceKind::Any | ReduceKind::All) { Bool } else { F32 };
                check(&x, kind, out, 2e-6);
            }
        }
    }
}

#[test]
fn every_dtype() {
    for d in REAL {
        for sizes in [&[13i64, 150] as &[i64], &[3, 4, 5]] {
            let x = Arr::small(d, sizes);
            let wide = if d.is_float() { d } else { I64 };
            let tolerance = if d.size() == 2 && d.is_float() { 1e-2 } else { 1e-6 };
            check(&x, ReduceKind::Sum, wide, tolerance);
            check(&x, ReduceKind::Max, d, 0.0);
            check(&x, ReduceKind::Min, d, 0.0);
            check(&x, ReduceKind::Any, Bool, 0.0);
            check(&x, ReduceKind::All, Bool, 0.0);
            check(&x, ReduceKind::Sum, F64, 1e-6);
        }
    }
}

#[test]
fn nan_goes_through() {
    let x = Arr::new(F32, &[4, 50], |i| if i == 77 { f64::NAN } else { i as f64 });
    for kind in KINDS {
        let out = if matches!(kind, ReduceKind::Any | ReduceKind::All) { Bool } else { F32 };
        if kind != ReduceKind::Prod {
            check(&x, kind, out, 1e-6);
        }
    }
    let x = Arr::new(F32, &[30], |i| if i < 29 { 0.0 } else { f64::NAN });
    check(&x, ReduceKind::Any, Bool, 0.0);
}

#[test]
fn large_sums_are_accurate_and_do_not_depend_on_threads() {
    for (sizes, mask) in [
        (&[3_000_000i64] as &[i64], 1),
        (&[30_000, 100], 1),
        (&[100, 30_000], 2),
        (&[8, 500_000], 2),
        (&[3000, 1000], 3),
    ] {
        for d in [F32, F64, BF16] {
            let x = Arr::new(d, sizes, |i| ((i * 2654435761) % 1000) as f64 / 1000.0);
            let (out_sizes, all) = groups(&x, mask);
            let before = cpu::num_threads();
            let mut results = vec![];
            for threads in [1, 2, 4] {
                cpu::set_num_threads(threads);
                let out = Arr::new(F64, &out_sizes, |_| 0.0);
                let narrow = Arr::new(if d == BF16 { F32 } else { d }, &out_sizes, |_| 0.0);
                launch(&REDUCE, &[Some(&narrow)], &[Some(&x)], &[Word::from(0i64)], None).unwrap();
                launch(&REDUCE, &[Some(&out)], &[Some(&x)], &[Word::from(0i64)], None).unwrap();
                let tolerance = if d == F64 { 1e-12 } else { 1e-6 };
                compare(&narrow, |i| expected(ReduceKind::Sum, &all[i]), tolerance, "sum");
                results.push((out.values(), narrow.values()));
            }
            cpu::set_num_threads(before);
            assert!(results.windows(2).all(|w| w[0] == w[1]), "{sizes:?} {d}");
        }
    }
}

#[test]
fn extremes_with_their_index() {
    for sizes in [&[] as &[i64], &[1], &[9], &[5000], &[7, 40], &[40, 7], &[3, 5, 300], &[300, 3]] {
        for d in [F32, F64, BF16, I32, Bool] {
            for x in layouts(sizes, &|s| Arr::small(d, s)) {
                for dim in 0..sizes.len().max(1) {
                    for is_max in [false, true] {
                        let (out_sizes, all) = groups(&x, if sizes.is_empty() { 0 } else { 1 << dim });
                        let (values, indices) = (Arr::small(d, &out_sizes), Arr::small(I64, &out_sizes));
                        let params = [Word::from(is_max), Word::from(dim as i64)];
                        launch(&ARG_REDUCE, &[Some(&values), Some(&indices)], &[Some(&x)], &params, None).unwrap();
                        let kind = if is_max { ReduceKind::Max } else { ReduceKind::Min };
                        compare(&values, |i| expected(kind, &all[i]), 0.0, "extreme");
                        let first =
                            |i: usize| all[i].iter().position(|v| *v == expected(kind, &all[i])).unwrap() as f64;
                        compare(&indices, first, 0.0, &format!("index along {dim} of {:?} {:?}", x.sizes, x.strides));
                    }
                }
            }
        }
    }
    let x = Arr::new(F32, &[2, 200], |i| if i == 90 || i == 140 || i == 203 { f64::NAN } else { i as f64 });
    for (x, dim) in [(x.clone(), 1), (x.permute(&[1, 0]), 0)] {
        let sizes = if dim == 1 { [2, 1] } else { [1, 2] };
        let indices = Arr::small(I64, &sizes);
        launch(&ARG_REDUCE, &[None, Some(&indices)], &[Some(&x)], &[Word::from(true), Word::from(dim as i64)], None)
            .unwrap();
        compare(&indices, |i| [90.0, 3.0][i], 0.0, "the first NaN");
    }
    let empty = Arr::small(F32, &[2, 0]);
    let out = Arr::small(F32, &[2, 1]);
    assert!(
        launch(&ARG_REDUCE, &[Some(&out), None], &[Some(&empty)], &[Word::from(true), Word::from(1i64)], None).is_err()
    );
}

#[test]
fn scans() {
    for sizes in [&[] as &[i64], &[0], &[1], &[3000], &[7, 40], &[40, 7], &[3, 5, 300], &[300, 3]] {
        for (d, out_dtype) in [(F32, F32), (F64, F64), (I32, I64), (Bool, I64), (BF16, BF16)] {
            for x in layouts(sizes, &|s| Arr::small(d, s)) {
                for dim in 0..sizes.len().max(1) {
                    for kind in [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min] {
                        let out = Arr::small(out_dtype, sizes);
                        let params = [Word::from(kind as u64), Word::from(dim as i64)];
                        launch(&SCAN, &[Some(&out)], &[Some(&x)], &params, None).unwrap();
                        let inner: usize = sizes.iter().skip(dim + 1).product::<i64>() as usize;
                        let n = sizes.get(dim).copied().unwrap_or(1) as usize;
                        let want = |i: usize| {
                            let k = i / inner % n;
                            expected(kind, &(0..=k).map(|j| x.get(i - (k - j) * inner)).collect::<Vec<_>>())
                        };
                        if x.numel() > 1000 && kind == ReduceKind::Min {
                            continue;
                        }
                        compare(
                            &out,
                            want,
                            if d == BF16 { 2e-2 } else { 1e-6 },
                            &format!("{kind:?} along {dim} of {:?} {:?}", x.sizes, x.strides),
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn square_deviations_are_accurate_far_from_zero_and_do_not_depend_on_threads() {
    for (sizes, mask) in
        [(&[700_001i64] as &[i64], 1), (&[3, 1030], 2), (&[40, 7], 2), (&[30, 3000], 3), (&[2, 5, 6], 6)]
    {
        for (d, far, tolerance) in [(F32, 0.0, 1e-6), (F32, 300.0, 1e-4), (F64, 1e6, 1e-8)] {
            let x = Arr::new(d, sizes, |i| far + ((i * 2654435761) % 1000) as f64 / 1000.0);
            let (out_sizes, all) = groups(&x, mask);
            let before = cpu::num_threads();
            let mut results = vec![];
            for threads in [1, 3] {
                cpu::set_num_threads(threads);
                let out = Arr::new(d, &out_sizes, |_| 0.0);
                launch(&SQUARE_DEVIATIONS, &[Some(&out)], &[Some(&x)], &[Word::from(1.0), Word::from(false)], None)
                    .unwrap();
                let wanted = |i: usize| {
                    let mean = all[i].iter().sum::<f64>() / all[i].len() as f64;
                    all[i].iter().map(|v| (v - mean) * (v - mean)).sum()
                };
                compare(&out, wanted, tolerance, "square_deviations");
                results.push(out.values());
            }
            cpu::set_num_threads(before);
            assert_eq!(results[0], results[1]);
        }
    }
    // By columns it is somebody else's.
    let (x, out) = (Arr::small(F32, &[40, 7]), Arr::small(F32, &[1, 7]));
    let declined = launch(&SQUARE_DEVIATIONS, &[Some(&out)], &[Some(&x)], &[Word::from(1.0), Word::from(false)], None)
        .unwrap_err();
    assert_eq!(declined.kind(), oneflow_base::ErrorKind::NotImplemented);
}
