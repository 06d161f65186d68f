//! Convolutions by prepared weights against the same by the weights as they are; operands that do not fit are refused.

use oneflow_base::DType;
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::*;

/// [n, c, o, height, width, kernel, stride, padding, dilation], and whether at points too.
const CASES: [([i64; 9], bool); 13] = [
    ([1, 32, 40, 20, 18, 3, 1, 1, 1], true),
    ([2, 17, 33, 9, 11, 3, 1, 0, 1], true),
    ([1, 64, 130, 5, 5, 3, 1, 1, 1], true),
    ([1, 20, 35, 12, 13, 5, 1, 2, 1], true),
    ([1, 16, 48, 8, 8, 2, 1, 0, 1], true),
    ([2, 16, 31, 9, 9, 3, 2, 1, 1], false),
    ([1, 24, 40, 14, 9, 3, 1, 2, 2], false),
    ([1, 40, 64, 12, 12, 1, 1, 0, 1], false),
    ([3, 72, 100, 7, 7, 1, 2, 0, 1], false),
    ([1, 9, 5, 1, 1, 1, 1, 0, 1], false),
    // Small images, whose borders see few taps; long sums in passes.
    ([1, 96, 72, 7, 7, 3, 1, 1, 1], true),
    ([1, 64, 48, 6, 7, 5, 1, 2, 1], true),
    ([2, 530, 40, 5, 4, 3, 2, 1, 1], false),
];

fn channels_last(sizes: &[i64]) -> Buf {
    let mut b = Buf::new(DType::F32, sizes, Lay::Plain);
    let mut step = 1;
    for d in [1, 3, 2, 0] {
        b.strides[d] = step;
        step *= sizes[d];
    }
    b
}

fn filled(mut b: Buf, salt: u64) -> Buf {
    let f = noise(salt);
    (0..b.len()).for_each(|i| b.set(i, f(i)));
    b
}

fn check([n, c, o, height, width, k, stride, padding, dilation]: [i64; 9], at_points: bool, last: bool) {
    let out = |size: i64| (size + 2 * padding - dilation * (k - 1) - 1) / stride + 1;
    let (xs, ws, ys) = ([n, c, height, width], [o, c, k, k], [n, o, out(height), out(width)]);
    let make = |sizes: &[i64], salt| match last {
        true => filled(channels_last(sizes), salt),
        false => filled(Buf::new(DType::F32, sizes, Lay::Plain), salt),
    };
    let (x, w, b) = (make(&xs, 1), make(&ws, 2), filled(Buf::new(DType::F32, &[o], Lay::Plain), 3));
    let conv = words![2i64, 1i64, stride, padding, dilation, stride, padding, dilation];
    let weight = PreparedWeight { sizes: ws, at_points };
    let prepared = Buf::new(DType::F32, &[weight.numbers().unwrap()], Lay::Plain);
    run(&CONV_PREPARE, &[Some(&prepared)], &[Some(&w)], words![at_points as i64]).unwrap();
    let mut params = vec![Word::from(0i64)];
    params.extend(ws.map(Word::from));
    params.push(Word::from(at_points as i64));
    params.extend(conv);
    for bias in [Some(&b), None] {
        let want = make(&ys, 4);
        run(&CONV, &[Some(&want)], &[Some(&x), Some(&w), bias], conv).unwrap();
        let what = format!("{xs:?} by {ws:?}, stride {stride}, at points {at_points}, last {last}");
        let got = same_for_any_threads(&what, || {
            let y = make(&ys, 5);
            run(&CONV_PREPARED, &[Some(&y)], &[Some(&x), Some(&prepared), bias], &params).unwrap();
            vec![y]
        });
        let y = Buf::from(DType::F32, &ys, &got[0]);
        // Both round, and Winograd's algorithm up to five times as much as the sum.
        close(&y, &want.values(), 10.0 * (40.0 + (c * k * k) as f64 / 4.0), &what);
    }
}

#[test]
fn results_are_those_of_the_weight() {
    oneflow_kernels_conv::register();
    for (case, points) in CASES {
        for last in [false, true] {
            check(case, false, last);
            if points {
                check(case, true, last);
            }
        }
    }
    again_on_other_isas();
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    oneflow_kernels_conv::register();
    let plain = |sizes: &[i64]| Buf::new(DType::F32, sizes, Lay::Plain);
    let (x, y, w) = (plain(&[1, 8, 6, 6]), plain(&[1, 16, 6, 6]), plain(&[16, 8, 3, 3]));
    let n = PreparedWeight { sizes: [16, 8, 3, 3], at_points: false }.numbers().unwrap();
    assert_eq!(n, 16 * 8 * 9);
    assert!(run(&CONV_PREPARE, &[Some(&plain(&[n - 1]))], &[Some(&w)], words![0i64]).is_err());
    assert!(run(&CONV_PREPARE, &[Some(&plain(&[n]))], &[Some(&w)], words![1i64]).is_err());
    let params = |weight: [i64; 4], points: i64, groups: i64, stride: i64| {
        let mut p = vec![Word::from(0i64)];
        p.extend(weight.map(Word::from));
        p.extend([points, 2, groups, stride, 1, 1, stride, 1, 1].map(Word::from));
        p
    };
    let refused = |len: i64, params: Vec<Word>| {
        run(&CONV_PREPARED, &[Some(&y)], &[Some(&x), Some(&plain(&[len])), None], &params).is_err()
    };
    assert!(!refused(n, params([16, 8, 3, 3], 0, 1, 1)));
    assert!(refused(n - 1, params([16, 8, 3, 3], 0, 1, 1)));
    assert!(refused(n, params([16, 8, 3, 3], 1, 1, 1)));
    assert!(refused(n, params([16, 16, 3, 3], 0, 1, 1)));
    assert!(refused(n, params([16, 8, 3, 3], 0, 2, 1)));
    assert!(refused(n, params([16, -8, 3, -3], 0, 1, 1)));
    assert!(refused(n, params([i64::MAX, 8, 3, 3], 0, 1, 1)));
    assert!(refused(16 * 8 * 36, params([16, 8, 3, 3], 1, 1, 2)));
}
