//! Convolutions, poolings and resampling on the emulated device against the CPU's.

mod common;

use common::*;
use oneflow_base::DType;
use oneflow_kernels_prim as prim;
use oneflow_kernels_prim::Word;

fn w<T: Into<Word>>(v: T) -> Word {
    v.into()
}

/// [n, c, o, groups], then (in, kernel, stride, padding, dilation) a dimension.
struct Conv {
    n: i64,
    c: i64,
    o: i64,
    groups: i64,
    dims: Vec<[i64; 5]>,
}

impl Conv {
    fn sizes(&self, first: [i64; 2], f: impl Fn([i64; 5]) -> i64) -> Vec<i64> {
        first.into_iter().chain(self.dims.iter().map(|d| f(*d))).collect()
    }

    fn check(&self, d: DType, lay: Lay, tolerance: f64) {
        let x = self.sizes([self.n, self.c], |d| d[0]);
        let weight = self.sizes([self.o, self.c / self.groups], |d| d[1]);
        let y = self.sizes([self.n, self.o], |[i, k, s, p, l]| (i + 2 * p - l * (k - 1) - 1) / s + 1);
        let mut params = vec![w(self.dims.len() as i64), w(self.groups)];
        self.dims.iter().for_each(|d| params.extend([d[2], d[3], d[4]].map(w)));
        let arr = |sizes: &[i64], seed| match lay {
            Lay::Reversed => channels_last(Arr::random(d, sizes, Lay::Rows, seed)),
            _ => Arr::random(d, sizes, lay, seed),
        };
        let empty = |sizes: &[i64]| vec![arr(sizes, 9)];
        let name = |part| format!("{part} {d} {lay:?} {x:?} {weight:?} {:?}", self.dims);
        let bias = |n| Arr::random(d, &[n], Lay::Stepped, 4);
        let ins = vec![arr(&x, 1), arr(&weight, 2), bias(self.o)];
        Case::new(&prim::CONV, empty(&y), ins, &params).within(tolerance).named(name("forward")).check();
        let ins = vec![arr(&y, 3), arr(&weight, 2), bias(self.c)];
        Case::new(&prim::CONV_BACKWARD_INPUT, empty(&x), ins, &params).within(tolerance).named(name("input")).check();
        let ins = vec![arr(&y, 3), arr(&x, 1)];
        let c = Case::new(&prim::CONV_BACKWARD_WEIGHT, empty(&weight), ins, &params);
        c.within(tolerance * 2.0).named(name("weight")).check();
    }
}

/// By cuDNN, where the emulated one takes them, and by this crate's own kernels.
#[test]
fn convolutions() {
    if !emulator::start() {
        return;
    }
    for enabled in [true, false] {
        oneflow_kernels_cuda::conv_cudnn::set(enabled, false);
        all_convolutions();
    }
    oneflow_kernels_cuda::conv_cudnn::set(true, false);
}

fn all_convolutions() {
    let case = |[n, c, o, groups]: [i64; 4], dims: &[[i64; 5]]| Conv { n, c, o, groups, dims: dims.to_vec() };
    for conv in [
        case([2, 3, 5, 1], &[[7, 3, 1, 1, 1], [6, 3, 1, 1, 1]]),
        case([1, 17, 70, 1], &[[9, 3, 1, 1, 1], [8, 3, 1, 1, 1]]),
        case([2, 12, 20, 1], &[[8, 1, 1, 0, 1], [8, 1, 1, 0, 1]]),
        case([2, 8, 20, 2], &[[9, 1, 2, 0, 1], [10, 1, 3, 0, 1]]),
        case([2, 8, 12, 2], &[[9, 3, 2, 1, 1], [11, 3, 2, 1, 1]]),
        case([1, 20, 36, 1], &[[9, 3, 2, 1, 1], [10, 2, 3, 0, 2]]),
        case([2, 6, 6, 6], &[[8, 3, 1, 1, 1], [8, 3, 2, 1, 1]]),
        case([1, 4, 8, 4], &[[8, 3, 1, 2, 2], [8, 3, 1, 1, 1]]),
        case([3, 5, 4, 1], &[[30, 4, 2, 3, 2]]),
        case([2, 8, 8, 1], &[[40, 5, 4, 2, 2]]),
        case([2, 4, 5, 1], &[[4, 2, 1, 1, 1], [5, 3, 2, 1, 1], [6, 2, 1, 0, 2]]),
        case([1, 2, 2, 1], &[[3, 1, 3, 0, 1], [4, 1, 2, 0, 1]]),
        case([0, 4, 4, 1], &[[3, 3, 1, 1, 1], [4, 3, 1, 1, 1]]),
    ] {
        for lay in [Lay::Rows, Lay::Reversed, Lay::Stepped] {
            // The transforms of Winograd's algorithm round on the CPU.
            conv.check(F32, lay, 1e-4);
        }
        conv.check(F64, Lay::Rows, 1e-12);
        conv.check(BF16, Lay::Reversed, 3e-2);
        conv.check(F16, Lay::Rows, 4e-3);
    }
    // Sums over positions in parts.
    case([4, 5, 6, 1], &[[33, 3, 1, 1, 1], [31, 3, 1, 1, 1]]).check(F32, Lay::Rows, 1e-4);
}

/// Windows along each dimension: (in, kernel, stride, padding, dilation).
#[test]
fn poolings() {
    if !emulator::start() {
        return;
    }
    let out = |[i, k, s, p, l]: [i64; 5]| if k == 0 { s } else { (i + 2 * p - l * (k - 1) - 1) / s + 1 };
    for dims in [
        &[[9i64, 3, 2, 1, 1], [7, 2, 1, 0, 1]][..],
        &[[12, 3, 2, 1, 2]],
        &[[5, 2, 2, 1, 1], [6, 3, 1, 1, 1], [7, 3, 2, 0, 1]],
        // Adaptive: the third number is the output's size.
        &[[7, 0, 3, 0, 1], [10, 0, 4, 0, 1]],
    ] {
        let sizes = |f: &dyn Fn([i64; 5]) -> i64| [2i64, 3].into_iter().chain(dims.iter().map(|d| f(*d))).collect();
        let (x, y): (Vec<i64>, Vec<i64>) = (sizes(&|d| d[0]), sizes(&out));
        for lay in [Lay::Rows, Lay::Reversed, Lay::Stepped] {
            for (d, tolerance) in [(F32, 1e-5), (F64, 1e-13), (BF16, 2e-2), (I64, 0.0)] {
                let arr = |sizes: &[i64], seed| match lay {
                    Lay::Reversed => channels_last(Arr::random(d, sizes, Lay::Rows, seed)),
                    _ => Arr::random(d, sizes, lay, seed),
                };
                let mut from = arr(&x, 1);
                if d != I64 {
                    from.set(5, f64::NAN);
                    from.set(6, f64::NEG_INFINITY);
                }
                let mut params = vec![w(dims.len() as i64)];
                dims.iter().for_each(|d| params.extend([d[1], d[2], d[3], d[4]].map(w)));
                let outs = vec![arr(&y, 2), Arr::empty(I64, &y, Lay::Stepped)];
                let name = format!("{d} {lay:?} {dims:?}");
                Case::new(&prim::MAX_POOL, outs, vec![from], &params).named(&name).check();
                if d == I64 {
                    continue;
                }
                let plane: i64 = x[2..].iter().product();
                let indices = Arr::indices(&y, Lay::Reversed, plane, 5);
                let c = Case::new(&prim::MAX_POOL_BACKWARD, vec![arr(&x, 3)], vec![arr(&y, 4), indices], &[]);
                c.within(tolerance).named(&name).check();
                if dims.iter().any(|d| d[4] != 1) {
                    continue;
                }
                for (padded, divisor) in [(true, 0i64), (false, 0), (false, 5)] {
                    let mut params = vec![w(dims.len() as i64), w(padded), w(divisor)];
                    dims.iter().for_each(|d| params.extend([d[1], d[2], d[3]].map(w)));
                    let c = Case::new(&prim::AVG_POOL, vec![arr(&y, 2)], vec![arr(&x, 1)], &params);
                    c.within(tolerance).named(&name).check();
                    let c = Case::new(&prim::AVG_POOL_BACKWARD, vec![arr(&x, 2)], vec![arr(&y, 1)], &params);
                    c.within(tolerance).named(&name).check();
                }
            }
        }
    }
}
