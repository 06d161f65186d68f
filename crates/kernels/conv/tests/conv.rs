//! Convolutions against the sum they are defined by, for every dtype, layout and instruction set.

use oneflow_base::DType;
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::*;

/// One geometry: [n, c, o, groups], then (in, kernel, stride, padding, dilation) a dimension.
struct Case {
    n: i64,
    c: i64,
    o: i64,
    groups: i64,
    dims: Vec<[i64; 5]>,
}

impl Case {
    fn out(&self, d: usize) -> i64 {
        let [i, k, s, p, l] = self.dims[d];
        (i + 2 * p - l * (k - 1) - 1) / s + 1
    }
    fn sizes(&self, first: [i64; 2], f: impl Fn(usize) -> i64) -> Vec<i64> {
        first.into_iter().chain((0..self.dims.len()).map(f)).collect()
    }
    fn x(&self) -> Vec<i64> {
        self.sizes([self.n, self.c], |d| self.dims[d][0])
    }
    fn w(&self) -> Vec<i64> {
        self.sizes([self.o, self.c / self.groups], |d| self.dims[d][1])
    }
    fn y(&self) -> Vec<i64> {
        self.sizes([self.n, self.o], |d| self.out(d))
    }
    fn params(&self) -> Vec<Word> {
        let mut p = vec![Word::from(self.dims.len() as i64), Word::from(self.groups)];
        self.dims.iter().for_each(|d| p.extend([d[2], d[3], d[4]].map(Word::from)));
        p
    }
    /// Calls `f(x, w, y)` with the linear positions of every product.
    fn products(&self, mut f: impl FnMut(usize, usize, usize)) {
        let (xs, ws, ys) = (self.x(), self.w(), self.y());
        let per_group = self.o / self.groups;
        let taps: Vec<Vec<usize>> =
            (0..ws[2..].iter().product::<i64>() as usize).map(|k| coords(k, &ws[2..])).collect();
        let (planes, positions) = (xs[2..].iter().product::<i64>() as usize, taps.len());
        for y in 0..ys.iter().product::<i64>() as usize {
            let yc = coords(y, &ys);
            let g = (yc[1] as i64 / per_group * ws[1]) as usize;
            for (k, tap) in taps.iter().enumerate() {
                let mut at = Some(0);
                for d in 0..self.dims.len() {
                    let [_, _, s, p, l] = self.dims[d];
                    let i = yc[2 + d] as i64 * s - p + tap[d] as i64 * l;
                    at = at.filter(|_| (0..xs[2 + d]).contains(&i)).map(|a| a * xs[2 + d] as usize + i as usize);
                }
                let Some(at) = at else { continue };
                for c in 0..ws[1] as usize {
                    let x = (yc[0] * xs[1] as usize + g + c) * planes + at;
                    f(x, (yc[1] * ws[1] as usize + c) * positions + k, y);
                }
            }
        }
    }
}

/// Channels side by side.
fn channels_last(dtype: DType, sizes: &[i64]) -> Buf {
    let mut b = Buf::new(dtype, sizes, Lay::Plain);
    let mut step = 1;
    for d in std::iter::once(1).chain((2..sizes.len()).rev()).chain([0]) {
        b.strides[d] = step;
        step *= sizes[d];
    }
    b
}

const ACTIVATIONS: [Activation; 4] = [Activation::Relu, Activation::Silu, Activation::Hardswish, Activation::Relu6];

fn check(case: &Case, dtype: DType, last: bool, lay: Lay) {
    let make = |sizes: &[i64], salt: u64| {
        let mut b = if last { channels_last(dtype, sizes) } else { Buf::new(dtype, sizes, lay) };
        let f = noise(salt);
        (0..b.len()).for_each(|i| b.set(i, f(i)));
        b
    };
    let (x, w, g) = (make(&case.x(), 1), make(&case.w(), 2), make(&case.y(), 3));
    let (bo, bc) = (Buf::of(dtype, &[case.o], lay, noise(4)), Buf::of(dtype, &[case.c], lay, noise(5)));
    let (y, gx, gw) = (make(&case.y(), 6), make(&case.x(), 7), make(&case.w(), 8));
    let params = case.params();
    run(&CONV, &[Some(&y)], &[Some(&x), Some(&w), Some(&bo)], &params).unwrap();
    run(&CONV_BACKWARD_INPUT, &[Some(&gx)], &[Some(&g), Some(&w), Some(&bc)], &params).unwrap();
    run(&CONV_BACKWARD_WEIGHT, &[Some(&gw)], &[Some(&g), Some(&x)], &params).unwrap();

    let activated = ACTIVATIONS.map(|activation| {
        let (to, mut with) = (make(&case.y(), 9), vec![Word::from(activation as u64)]);
        with.extend(&params);
        run(&CONV_ACTIVATION, &[Some(&to)], &[Some(&x), Some(&w), Some(&bo)], &with).unwrap();
        (activation, to)
    });

    let (xv, wv, gv) = (x.values(), w.values(), g.values());
    let bias = |b: &Buf, sizes: &[i64]| -> Vec<f64> {
        let n = sizes.iter().product::<i64>() as usize;
        (0..n).map(|i| b.get(coords(i, sizes)[1])).collect()
    };
    let (mut ey, mut ex, mut ew) = (bias(&bo, &case.y()), bias(&bc, &case.x()), vec![0.0; w.len()]);
    case.products(|i, j, k| {
        ey[k] += xv[i] * wv[j];
        ex[i] += gv[k] * wv[j];
        ew[j] += gv[k] * xv[i];
    });
    let what = format!("{dtype:?} last {last} {lay:?} {:?} {:?} {:?}", case.x(), case.w(), case.dims);
    // Rounding grows with the number of products; Winograd's transforms, for the windows they fit, at most quintuple it.
    let winograd = case.dims.len() > 1 && case.dims.iter().rev().take(2).all(|d| (2..6).contains(&d[1]) && d[4] == 1);
    let tol = |n: usize| (40.0 + n as f64 / 4.0) * if winograd { 5.0 } else { 1.0 };
    let (taps, positions) = (w.len() / case.o as usize, y.len() / case.o as usize);
    close(&y, &ey, tol(taps), &format!("forward {what}"));
    for (activation, to) in &activated {
        // What a result of the dtype would hold goes through the activation, whose slope is at most 1.5.
        let want: Vec<f64> = y.values().iter().map(|v| activations::activate(*activation, *v)).collect();
        close(to, &want, 1.5 * tol(taps), &format!("{activation:?} {what}"));
    }
    close(&gx, &ex, tol(taps * case.o as usize / case.c as usize), &format!("backward input {what}"));
    close(&gw, &ew, tol(positions), &format!("backward weight {what}"));
}

fn cases() -> Vec<Case> {
    let case = |[n, c, o, groups]: [i64; 4], dims: &[[i64; 5]]| Case { n, c, o, groups, dims: dims.to_vec() };
    vec![
        case([2, 3, 5, 1], &[[7, 3, 1, 1, 1], [6, 3, 1, 1, 1]]),
        case([1, 17, 33, 1], &[[9, 3, 1, 1, 1], [18, 3, 1, 1, 1]]),
        case([2, 40, 20, 1], &[[8, 1, 1, 0, 1], [8, 1, 1, 0, 1]]),
        case([2, 20, 33, 1], &[[17, 1, 1, 0, 1], [18, 1, 1, 0, 1]]),
        case([3, 36, 24, 2], &[[17, 1, 1, 0, 1], [16, 1, 1, 0, 1]]),
        case([2, 12, 20, 1], &[[9, 1, 2, 0, 1], [10, 1, 3, 0, 1]]),
        case([2, 4, 6, 2], &[[9, 3, 2, 1, 1], [11, 3, 2, 1, 1]]),
        case([1, 20, 36, 1], &[[9, 3, 2, 1, 1], [10, 2, 3, 0, 2]]),
        case([2, 6, 6, 6], &[[8, 3, 1, 1, 1], [8, 3, 1, 1, 1]]),
        case([1, 3, 4, 1], &[[23, 7, 2, 3, 1], [23, 7, 2, 3, 1]]),
        case([3, 5, 4, 1], &[[30, 4, 2, 3, 2]]),
        // Planes: rows in sevens, bands of rows, one of fewer rows, several outputs a group, first layers.
        case([2, 5, 5, 5], &[[7, 3, 1, 1, 1], [7, 3, 1, 1, 1]]),
        case([1, 2, 4, 2], &[[21, 5, 1, 2, 1], [14, 5, 1, 2, 1]]),
        case([2, 24, 12, 2], &[[14, 3, 2, 1, 1], [9, 3, 2, 1, 1]]),
        case([1, 6, 10, 2], &[[37, 3, 1, 2, 2], [19, 3, 1, 2, 2]]),
        case([1, 2, 2, 2], &[[197, 3, 1, 1, 1], [181, 3, 1, 1, 1]]),
        case([1, 3, 9, 1], &[[43, 3, 2, 1, 1], [30, 3, 2, 1, 1]]),
        case([2, 3, 4, 1], &[[5, 3, 1, 1, 1], [4, 2, 1, 1, 1], [9, 1, 1, 0, 1]]),
        // Single taps of several small images: runs of columns, and every so many positions.
        case([3, 20, 18, 1], &[[7, 1, 1, 0, 1], [7, 1, 1, 0, 1]]),
        case([5, 33, 40, 1], &[[3, 1, 1, 0, 1], [3, 1, 1, 0, 1]]),
        case([2, 800, 12, 1], &[[5, 1, 1, 0, 1], [4, 1, 1, 0, 1]]),
        case([3, 20, 18, 1], &[[14, 1, 2, 0, 1], [13, 1, 2, 0, 1]]),
        case([2, 9, 20, 1], &[[6, 1, 3, 0, 1], [7, 1, 1, 0, 1], [3, 1, 2, 0, 1]]),
        case([1, 1, 1, 1], &[[5, 5, 1, 0, 1]]),
        case([2, 2, 3, 1], &[[4, 2, 1, 1, 1], [5, 3, 2, 1, 1], [6, 2, 1, 0, 2]]),
        case([3, 48, 16, 1], &[[4, 3, 1, 1, 1], [4, 3, 1, 1, 1]]),
        case([1, 2, 2, 1], &[[3, 1, 3, 0, 1], [4, 1, 2, 0, 1]]),
        case([0, 2, 2, 1], &[[3, 3, 1, 1, 1], [4, 3, 1, 1, 1]]),
    ]
}

#[test]
fn sums() {
    oneflow_kernels_conv::register();
    for case in &cases() {
        for dtype in FLOATS {
            check(case, dtype, false, Lay::Plain);
            check(case, dtype, true, Lay::Plain);
        }
        check(case, DType::F32, false, Lay::Gaps);
        check(case, DType::F32, false, Lay::Reversed);
    }
}

#[test]
fn long_sums_take_several_passes() {
    oneflow_kernels_conv::register();
    check(
        &Case { n: 1, c: 130, o: 70, groups: 1, dims: vec![[20, 3, 1, 1, 1], [20, 3, 1, 1, 1]] },
        DType::F32,
        false,
        Lay::Plain,
    );
    check(&Case { n: 1, c: 2, o: 3, groups: 1, dims: vec![[3000, 5, 1, 2, 1]] }, DType::F32, false, Lay::Plain);
}

/// One channel a group: strides, dilation, windows wider than the image, lines, volumes, channels that fill no register.
#[test]
fn depthwise() {
    oneflow_kernels_conv::register();
    let case = |n: i64, c: i64, dims: &[[i64; 5]]| Case { n, c, o: c, groups: c, dims: dims.to_vec() };
    for case in [
        case(2, 20, &[[9, 3, 1, 1, 1], [35, 3, 1, 1, 1]]),
        case(2, 17, &[[11, 3, 2, 1, 1], [14, 5, 3, 2, 1]]),
        case(1, 33, &[[7, 7, 1, 3, 1], [7, 7, 1, 3, 1]]),
        case(3, 5, &[[12, 2, 1, 0, 3], [9, 3, 2, 2, 2]]),
        case(2, 18, &[[40, 9, 2, 4, 1]]),
        case(1, 3, &[[4, 2, 1, 1, 1], [5, 3, 2, 1, 1], [6, 2, 1, 0, 2]]),
        case(1, 2, &[[3, 1, 3, 0, 1], [4, 1, 2, 0, 1]]),
        case(0, 4, &[[3, 3, 1, 1, 1], [4, 3, 1, 1, 1]]),
        case(2, 150, &[[5, 3, 1, 1, 1], [13, 3, 1, 1, 1]]),
        case(1, 40, &[[6, 5, 1, 2, 1], [21, 9, 2, 4, 1]]),
        // Lines shorter than the window, and of all numbers of positions that go together.
        case(2, 35, &[[5, 7, 1, 3, 1], [3, 7, 1, 3, 1]]),
        case(2, 35, &[[4, 5, 2, 2, 1], [13, 5, 2, 2, 1]]),
        case(1, 16, &[[3, 3, 1, 1, 1], [4, 3, 1, 2, 1]]),
    ] {
        for dtype in FLOATS {
            check(&case, dtype, false, Lay::Plain);
            check(&case, dtype, true, Lay::Plain);
        }
        check(&case, DType::F32, false, Lay::Gaps);
        check(&case, DType::F32, false, Lay::Backward);
    }
    // Few channels a group.
    let case = |[n, c, o, groups]: [i64; 4], dims: &[[i64; 5]]| Case { n, c, o, groups, dims: dims.to_vec() };
    for case in [
        case([2, 12, 12, 3], &[[9, 3, 1, 1, 1], [19, 3, 1, 1, 1]]),
        case([1, 5, 10, 5], &[[11, 3, 2, 1, 1], [8, 4, 1, 2, 1]]),
        case([2, 10, 5, 5], &[[7, 3, 1, 0, 2], [9, 3, 3, 1, 1]]),
        case([2, 32, 64, 8], &[[9, 3, 1, 1, 1], [8, 3, 1, 1, 1]]),
        case([1, 24, 24, 12], &[[9, 3, 2, 1, 1], [8, 3, 2, 1, 1]]),
    ] {
        for dtype in FLOATS {
            check(&case, dtype, false, Lay::Plain);
            check(&case, dtype, true, Lay::Plain);
        }
    }
}

/// Large enough for Winograd's algorithm: whole and cut tiles, channels that fill no register, groups, no padding, volumes.
#[test]
fn tiles() {
    oneflow_kernels_conv::register();
    let case = |[n, c, o, groups]: [i64; 4], dims: &[[i64; 5]]| Case { n, c, o, groups, dims: dims.to_vec() };
    let near = |n: i64, p: i64| [n, 3, 1, p, 1];
    for case in [
        case([2, 32, 48, 1], &[near(12, 1), near(20, 1)]),
        case([3, 40, 70, 1], &[near(13, 1), near(11, 1)]),
        case([1, 64, 32, 2], &[near(17, 0), near(10, 2)]),
        case([9, 33, 130, 1], &[near(4, 1), near(4, 1)]),
        case([1, 32, 32, 1], &[[3, 1, 1, 0, 1], near(9, 1), near(8, 1)]),
        // Groups enough to be tasks.
        case([2, 192, 160, 8], &[near(14, 1), near(13, 1)]),
        case([1, 160, 256, 8], &[near(7, 1), near(7, 1)]),
        // Other squares, and the four of a stride of two.
        case([2, 64, 40, 1], &[[12, 5, 1, 2, 1], [17, 5, 1, 2, 1]]),
        case([2, 64, 64, 1], &[[13, 4, 1, 1, 1], [16, 4, 1, 2, 1]]),
        case([1, 96, 64, 1], &[[21, 2, 1, 1, 1], [18, 2, 1, 0, 1]]),
        case([1, 64, 64, 1], &[[20, 4, 2, 1, 1], [22, 4, 2, 1, 1]]),
    ] {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            check(&case, dtype, false, Lay::Plain);
            check(&case, dtype, true, Lay::Plain);
        }
        check(&case, DType::F32, false, Lay::Gaps);
    }
}

/// Few positions beside their weights: strides, dilation, padding on one side alone, several images, lines and volumes.
#[test]
fn columns() {
    oneflow_kernels_conv::register();
    let case = |[n, c, o]: [i64; 3], dims: &[[i64; 5]]| Case { n, c, o, groups: 1, dims: dims.to_vec() };
    for case in [
        case([1, 60, 260], &[[7, 3, 1, 1, 1], [7, 3, 1, 1, 1]]),
        case([1, 70, 250], &[[12, 3, 2, 1, 1], [11, 3, 2, 1, 1]]),
        case([2, 130, 300], &[[3, 2, 1, 0, 1], [5, 3, 1, 0, 2]]),
        case([3, 200, 400], &[[9, 5, 3, 2, 1]]),
        case([1, 40, 320], &[[3, 3, 1, 1, 1], [4, 3, 2, 1, 1], [5, 3, 2, 1, 1]]),
    ] {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            check(&case, dtype, false, Lay::Plain);
            check(&case, dtype, true, Lay::Plain);
        }
        check(&case, DType::F32, false, Lay::Gaps);
        check(&case, DType::F32, false, Lay::Reversed);
    }
}

/// Images of few channels: windows that overlap, touch or leave gaps, lines shorter and longer than a panel, groups, volumes.
#[test]
fn few_channels() {
    oneflow_kernels_conv::register();
    let case = |[n, c, o, groups]: [i64; 4], dims: &[[i64; 5]]| Case { n, c, o, groups, dims: dims.to_vec() };
    for case in [
        case([2, 3, 24, 1], &[[23, 7, 2, 3, 1], [25, 7, 2, 3, 1]]),
        case([2, 3, 20, 1], &[[9, 3, 1, 1, 1], [41, 3, 1, 1, 1]]),
        case([2, 3, 34, 1], &[[20, 7, 2, 3, 1], [60, 7, 2, 3, 1]]),
        case([1, 4, 9, 1], &[[17, 4, 4, 0, 1], [18, 4, 4, 0, 1]]),
        case([2, 1, 8, 1], &[[11, 2, 3, 1, 1], [12, 3, 4, 1, 2]]),
        case([2, 4, 20, 2], &[[7, 3, 1, 0, 2], [9, 3, 3, 1, 1]]),
        case([1, 2, 8, 1], &[[5, 2, 1, 1, 1], [5, 3, 2, 1, 1], [6, 2, 1, 0, 2]]),
        case([1, 2, 16, 1], &[[70, 9, 2, 4, 1]]),
    ] {
        for dtype in FLOATS {
            check(&case, dtype, false, Lay::Plain);
            check(&case, dtype, true, Lay::Plain);
        }
        check(&case, DType::F32, false, Lay::Gaps);
        check(&case, DType::F32, false, Lay::Backward);
    }
}

/// A number that is not finite stays in its group.
#[test]
fn groups_are_apart() {
    oneflow_kernels_conv::register();
    let case = Case { n: 2, c: 24, o: 24, groups: 12, dims: vec![[9, 3, 1, 1, 1], [8, 3, 1, 1, 1]] };
    for (dtype, last) in FLOATS.into_iter().flat_map(|d| [(d, false), (d, true)]) {
        let of = |sizes: &[i64], salt| {
            let mut b = if last { channels_last(dtype, sizes) } else { Buf::new(dtype, sizes, Lay::Plain) };
            let f = noise(salt);
            (0..b.len()).for_each(|i| b.set(i, f(i)));
            b
        };
        let (mut x, w, mut g) = (of(&case.x(), 1), of(&case.w(), 2), of(&case.y(), 3));
        let plane = 9 * 8;
        x.set(5 * plane + 30, f64::INFINITY);
        g.set(5 * plane + 30, f64::NAN);
        let (y, gx, gw) = (g.clone(), x.clone(), w.clone());
        let params = case.params();
        run(&CONV, &[Some(&y)], &[Some(&x), Some(&w), None], &params).unwrap();
        run(&CONV_BACKWARD_INPUT, &[Some(&gx)], &[Some(&g), Some(&w), None], &params).unwrap();
        run(&CONV_BACKWARD_WEIGHT, &[Some(&gw)], &[Some(&g), Some(&x)], &params).unwrap();
        for (b, per_channel, channels) in [(&y, plane, 24), (&gx, plane, 24), (&gw, 18, 24)] {
            for (i, v) in b.values().into_iter().enumerate() {
                let group = i / per_channel % channels / 2;
                assert!(group == 2 || v.is_finite(), "{dtype:?} last {last}: element {i} is {v}");
            }
        }
    }
}

#[test]
fn threads() {
    oneflow_kernels_conv::register();
    let case =
        |c: i64, o: i64, groups: i64, [k, s, p]: [i64; 3]| Case { n: 4, c, o, groups, dims: vec![[18, k, s, p, 1]; 2] };
    for case in [
        // Winograd by tiles and by outputs, rows gathered, products, channel by channel.
        case(40, 70, 1, [3, 1, 1]),
        case(64, 256, 1, [3, 1, 0]),
        case(40, 70, 1, [3, 2, 1]),
        case(40, 70, 1, [1, 1, 0]),
        case(48, 48, 48, [5, 1, 2]),
        case(3, 16, 1, [5, 2, 2]),
        case(32, 16, 8, [3, 1, 1]),
        case(160, 192, 8, [3, 1, 1]),
        case(128, 128, 8, [3, 2, 1]),
    ] {
        same_bits(&case);
    }
    // Winograd by outputs in panels of other widths, and columns.
    same_bits(&Case { n: 1, c: 64, o: 128, groups: 1, dims: vec![[28, 3, 1, 1, 1]; 2] });
    same_bits(&Case { n: 1, c: 80, o: 256, groups: 1, dims: vec![[7, 3, 1, 1, 1]; 2] });
}

fn same_bits(case: &Case) {
    same_for_any_threads(&format!("{:?} {:?}", case.w(), case.dims), || {
        let of = |sizes: &[i64], salt| Buf::of(DType::F32, sizes, Lay::Plain, noise(salt));
        let (x, w, g) = (of(&case.x(), 1), of(&case.w(), 2), of(&case.y(), 3));
        let (y, gx, gw) = (g.clone(), x.clone(), w.clone());
        let params = case.params();
        run(&CONV, &[Some(&y)], &[Some(&x), Some(&w), None], &params).unwrap();
        run(&CONV_BACKWARD_INPUT, &[Some(&gx)], &[Some(&g), Some(&w), None], &params).unwrap();
        run(&CONV_BACKWARD_WEIGHT, &[Some(&gw)], &[Some(&g), Some(&x)], &params).unwrap();
        vec![y, gx, gw]
    });
}

#[test]
fn other_isas() {
    again_on_other_isas();
}
