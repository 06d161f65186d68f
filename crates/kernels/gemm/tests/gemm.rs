//! Every dtype, layout and instruction set against a plain f64 sum.

use oneflow_base::{DType, bf16, f16};
use oneflow_kernels_gemm::*;

/// Two threads, to show that they change nothing.
struct Two;
impl Parallel for Two {
    fn threads(&self) -> usize {
        2
    }
    fn run(&self, n_tasks: usize, f: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|s| {
            s.spawn(|| (0..n_tasks).step_by(2).for_each(f));
            (1..n_tasks).step_by(2).for_each(f);
        });
    }
}

trait Num: Copy + PartialEq + std::fmt::Debug + Sync {
    const DTYPE: DType;
    /// Relative error of one rounding of the result, and of the sum.
    const EPS: f64;
    fn of(v: f64) -> Self;
    fn to(self) -> f64;
}
macro_rules! num {
    ($t:ty, $d:ident, $eps:expr) => {
        impl Num for $t {
            const DTYPE: DType = DType::$d;
            const EPS: f64 = $eps;
            fn of(v: f64) -> Self {
                v as $t
            }
            fn to(self) -> f64 {
                self as f64
            }
        }
    };
    (half $t:ty, $d:ident, $eps:expr) => {
        impl Num for $t {
            const DTYPE: DType = DType::$d;
            const EPS: f64 = $eps;
            fn of(v: f64) -> Self {
                <$t>::from_f64(v)
            }
            fn to(self) -> f64 {
                self.to_f64()
            }
        }
    };
}
num!(f32, F32, 1e-6);
num!(f64, F64, 1e-15);
num!(half bf16, BF16, 4e-3);
num!(half f16, F16, 5e-4);
num!(i64, I64, 0.0);
num!(i32, I32, 0.0);
num!(u8, U8, 0.0);
num!(i8, I8, 0.0);

/// Numbers in (-1, 1), or small integers, the same every run.
fn numbers<T: Num>(n: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    (0..n).map(|_| if T::EPS == 0.0 { T::of((next() * 5.0).floor()) } else { T::of(next() * 2.0 - 1.0) }).collect()
}

fn doubles<T: Num>(of: &[T]) -> Vec<f64> {
    of.iter().map(|v| v.to()).collect()
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Rows,
    Columns,
    /// Neither stride is one.
    Gaps,
}

impl Order {
    fn strides(self, rows: usize, cols: usize) -> (isize, isize) {
        match self {
            Order::Rows => (cols as isize, 1),
            Order::Columns => (1, rows as isize),
            Order::Gaps => (2 * cols as isize + 1, 2),
        }
    }
}

const ORDERS: [Order; 3] = [Order::Rows, Order::Columns, Order::Gaps];

#[derive(Clone, Copy, Debug)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    orders: [Order; 3],
    alpha: f64,
    beta: f64,
}

fn size(rows: usize, cols: usize) -> usize {
    (2 * cols + 1) * rows.max(1) + 2 * cols.max(1) + rows
}

fn check<T: Num, C: Num>(case: Case, isa: Isa) {
    let Case { m, n, k, orders, alpha, beta } = case;
    let (a, b, c0) = (numbers::<T>(size(m, k), 1), numbers::<T>(size(k, n), 2), numbers::<C>(size(m, n), 3));
    let (sa, sb, sc) = (orders[0].strides(m, k), orders[1].strides(k, n), orders[2].strides(m, n));
    let at = |s: (isize, isize), i: usize, j: usize| (i as isize * s.0 + j as isize * s.1) as usize;
    let mut results = vec![];
    for par in [&Serial as &dyn Parallel, &Two] {
        let mut c = c0.clone();
        let mut args = GemmArgs::new(
            T::DTYPE,
            (m, n, k),
            Mat::new(a.as_ptr(), sa.0, sa.1),
            Mat::new(b.as_ptr(), sb.0, sb.1),
            Mat::new(c.as_mut_ptr(), sc.0, sc.1),
        );
        (args.dtype_c, args.alpha, args.beta) = (C::DTYPE, alpha, beta);
        // SAFETY: every vector holds `size` elements, more than any order reaches.
        unsafe { gemm_with_isa(&args, par, isa) }.unwrap();
        results.push(c);
    }
    assert!(results[0] == results[1], "threads change the result of {case:?} {isa:?} {}", T::DTYPE.name());
    // Converted once: a half number takes long.
    let (a, b) = (doubles(&a), doubles(&b));
    let mut want = c0.clone();
    let mut touched = vec![false; c0.len()];
    for i in 0..m {
        for j in 0..n {
            let (mut sum, mut size) = (0.0, 0.0);
            for p in 0..k {
                let term = a[at(sa, i, p)] * b[at(sb, p, j)];
                sum += term;
                size += term.abs();
            }
            let old = c0[at(sc, i, j)].to();
            let value = alpha * sum + if beta == 0.0 { 0.0 } else { beta * old };
            let got = results[0][at(sc, i, j)].to();
            // A half result is rounded once; a sum of k terms loses at most about sqrt(k) roundings of f32 or f64.
            let sum_eps = if T::DTYPE == DType::F64 { 1e-15 } else { 2e-7 };
            let bound = C::EPS * value.abs()
                + sum_eps * (k as f64).sqrt().max(1.0) * (alpha.abs() * size + old.abs() * beta.abs());
            let wrapped = if C::DTYPE == DType::U8 { value.rem_euclid(256.0) } else { value };
            assert!(
                (got - wrapped).abs() <= bound,
                "{case:?} {isa:?} {}: ({i},{j}) {got} want {value}",
                T::DTYPE.name()
            );
            touched[at(sc, i, j)] = true;
            want[at(sc, i, j)] = results[0][at(sc, i, j)];
        }
    }
    for (i, touched) in touched.iter().enumerate() {
        assert!(*touched || results[0][i] == c0[i], "{case:?} {isa:?}: wrote outside C at {i}");
    }
}

fn sweep<T: Num, C: Num>() {
    let shapes = [
        (0, 3, 4),
        (3, 0, 4),
        (3, 4, 0),
        (1, 1, 1),
        (1, 65, 33),
        (65, 1, 33),
        (5, 7, 3),
        (14, 32, 16),
        (15, 33, 17),
        (6, 16, 8),
        (29, 31, 30),
        (64, 65, 63),
        (1, 300, 500),
        (300, 1, 500),
        (100, 130, 401),
        (3, 200, 900),
        (130, 97, 1000),
        (96, 65, 300),
        (64, 5, 600),
        // Few rows, by dot products along k.
        (2, 51, 130),
        (5, 49, 161),
        (8, 97, 300),
        // A large operand that is read in place beside a small one.
        (20, 421, 262),
        (421, 18, 262),
    ];
    for &isa in Isa::available() {
        for (x, (m, n, k)) in shapes.into_iter().enumerate() {
            for y in 0..27 {
                // Larger shapes take fewer of the orders each.
                let every = if m * n * k > 1_000_000 {
                    9
                } else if m * n * k > 20_000 {
                    3
                } else {
                    1
                };
                if (x + y) % every != 0 {
                    continue;
                }
                let orders = [ORDERS[y % 3], ORDERS[y / 3 % 3], ORDERS[y / 9]];
                let (alpha, beta) = [(1.0, 0.0), (1.0, 1.0), (2.0, -3.0)][(x + y / 3) % 3];
                check::<T, C>(Case { m, n, k, orders, alpha, beta }, isa);
            }
        }
    }
}

#[test]
fn f32_matches() {
    sweep::<f32, f32>();
}
#[test]
fn f64_matches() {
    sweep::<f64, f64>();
}
#[test]
fn bf16_matches() {
    sweep::<bf16, bf16>();
    sweep::<bf16, f32>();
}
#[test]
fn f16_matches() {
    sweep::<f16, f16>();
    sweep::<f16, f32>();
}
#[test]
fn sums_outside_c_are_kept_in_parts() {
    for &isa in Isa::available() {
        let case = Case { m: 1030, n: 20, k: 1100, orders: [Order::Rows; 3], alpha: 1.0, beta: 1.0 };
        check::<bf16, bf16>(case, isa);
        check::<f32, f32>(Case { orders: [Order::Rows, Order::Columns, Order::Gaps], ..case }, isa);
    }
}

#[test]
fn integers_match() {
    let shapes =
        [(0, 3, 2), (3, 4, 0), (1, 1, 1), (7, 300, 33), (33, 5, 9), (128, 128, 128), (1, 300, 78), (1, 70, 515)];
    for &isa in Isa::available() {
        for (m, n, k) in shapes {
            for (beta, b) in [(0.0, Order::Rows), (2.0, Order::Columns), (0.0, Order::Columns), (2.0, Order::Gaps)] {
                let case = Case { m, n, k, orders: [Order::Rows, b, Order::Rows], alpha: 1.0, beta };
                check::<i64, i64>(case, isa);
                check::<i32, i32>(case, isa);
                check::<u8, u8>(case, isa);
                check::<u8, i32>(case, isa);
                check::<i8, i32>(case, isa);
            }
        }
    }
}

#[test]
fn bytes_are_summed_exactly_to_their_ends() {
    let (m, n, k) = (130, 530, 403);
    let ends = |n: usize, seed| -> Vec<i8> {
        numbers::<i64>(n, seed).iter().map(|x| [-128, 127, -127, 1, -128][*x as usize]).collect()
    };
    let (a, b) = (ends(m * k, 1), ends(k * n, 2));
    for &isa in Isa::available() {
        let mut c = vec![0i32; m * n];
        let mut product = |dtype, a: *const u8, b: *const u8| {
            let (a, b) = (Mat::new(a, k as isize, 1), Mat::new(b, n as isize, 1));
            let mut args = GemmArgs::new(dtype, (m, n, k), a, b, Mat::new(c.as_mut_ptr(), n as isize, 1));
            args.dtype_c = DType::I32;
            // SAFETY: the three vectors hold the matrices.
            unsafe { gemm_with_isa(&args, &Serial, isa) }.unwrap();
            c.clone()
        };
        let signed = product(DType::I8, a.as_ptr().cast(), b.as_ptr().cast());
        let unsigned = product(DType::U8, a.as_ptr().cast(), b.as_ptr().cast());
        for (i, j) in [(0, 0), (129, 529), (57, 511), (112, 512), (13, 31), (14, 32), (99, 300)] {
            let sum = |of: fn(i8) -> i32| (0..k).map(|p| of(a[i * k + p]) * of(b[p * n + j])).sum::<i32>();
            assert_eq!(signed[i * n + j], sum(i32::from), "{isa:?} {i} {j}");
            assert_eq!(unsigned[i * n + j], sum(|x| i32::from(x as u8)), "{isa:?} {i} {j}");
        }
    }
}

#[test]
fn a_zero_beta_does_not_read_c() {
    let (a, b) = (numbers::<f32>(64, 1), numbers::<f32>(64, 2));
    for &isa in Isa::available() {
        let mut c = [f32::NAN; 64];
        let args = GemmArgs::new(
            DType::F32,
            (8, 8, 8),
            Mat::new(a.as_ptr(), 8, 1),
            Mat::new(b.as_ptr(), 8, 1),
            Mat::new(c.as_mut_ptr(), 8, 1),
        );
        // SAFETY: three 8 x 8 matrices.
        unsafe { gemm_with_isa(&args, &Serial, isa) }.unwrap();
        assert!(c.iter().all(|v| !v.is_nan()));
    }
}

fn act(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Hardswish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
        Activation::Relu6 => x.clamp(0.0, 6.0),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        }
        // The integral of the normal density, by Simpson's rule.
        Activation::Gelu => {
            let (steps, h) = (400, x / 400.0);
            let f = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let sum: f64 = (0..=steps)
                .map(|i| {
                    f(i as f64 * h)
                        * if i == 0 || i == steps {
                            1.0
                        } else if i % 2 == 1 {
                            4.0
                        } else {
                            2.0
                        }
                })
                .sum();
            x * (0.5 + sum * h / 3.0)
        }
    }
}

fn check_epilogue<T: Num>(
    isa: Isa,
    (m, n, k): (usize, usize, usize),
    activation: Activation,
    per_row: bool,
    [order_b, order]: [Order; 2],
    batch: usize,
) {
    let (a, b) = (numbers::<T>(batch * m * k, 1), numbers::<T>(k * n, 2));
    let (bias, r, c0) = (numbers::<T>(m.max(n), 3), numbers::<T>(m * n, 4), numbers::<T>(batch * m * n, 5));
    let ((b_rs, b_cs), (rs, cs)) = (order_b.strides(k, n), order.strides(m, n));
    let mut results = vec![];
    for par in [&Serial as &dyn Parallel, &Two] {
        let (mut c, mut kept) = (c0.clone(), c0.clone());
        let item = (m * n) as isize;
        let dims = [BatchDim { size: batch, a: (m * k) as isize, c: item, kept: item, ..BatchDim::default() }];
        let args = GemmArgs {
            beta: 0.5,
            batch: &dims,
            epilogue: Epilogue {
                bias: Some(Mat::new(bias.as_ptr(), per_row as isize, !per_row as isize)),
                activation,
                residual: Some(Mat::new(r.as_ptr(), n as isize, 1)),
                kept: Some(Mat::new(kept.as_mut_ptr(), rs, cs)),
            },
            ..GemmArgs::new(
                T::DTYPE,
                (m, n, k),
                Mat::new(a.as_ptr(), k as isize, 1),
                Mat::new(b.as_ptr(), b_rs, b_cs),
                Mat::new(c.as_mut_ptr(), rs, cs),
            )
        };
        // SAFETY: the vectors hold the matrices.
        unsafe { gemm_with_isa(&args, par, isa) }.unwrap();
        results.push((c, kept));
    }
    assert!(results[0] == results[1]);
    let (a, b) = (doubles(&a), doubles(&b));
    for z in 0..batch {
        for i in 0..m {
            for j in 0..n {
                let x = z * m * n + (i as isize * rs + j as isize * cs) as usize;
                let sum: f64 =
                    (0..k).map(|p| a[z * m * k + i * k + p] * b[p * b_rs as usize + j * b_cs as usize]).sum();
                let before = sum + 0.5 * c0[x].to() + bias[if per_row { i } else { j }].to();
                let want = act(activation, before) + r[i * n + j].to();
                for (got, want) in [(results[0].0[x].to(), want), (results[0].1[x].to(), before)] {
                    let bound = T::EPS.max(1e-12) * (want.abs() + (k as f64).sqrt() + 4.0);
                    assert!(
                        (got - want).abs() <= bound,
                        "{isa:?} {activation:?} {} ({z},{i},{j}): {got} {want}",
                        T::DTYPE.name()
                    );
                }
            }
        }
    }
}

#[test]
fn epilogues_match() {
    use Activation::*;
    for &isa in Isa::available() {
        for activation in [None, Relu, Gelu, GeluTanh, Silu, Hardswish, Relu6] {
            for (x, shape) in [(5, 7, 3), (20, 70, 40), (40, 64, 900), (1, 40, 20), (40, 1, 20)].into_iter().enumerate()
            {
                for order in [Order::Rows, Order::Columns] {
                    let (per_row, batch, orders) = (x % 2 == 0, 1 + x % 3, [Order::Rows, order]);
                    check_epilogue::<f32>(isa, shape, activation, per_row, orders, batch);
                    check_epilogue::<f64>(isa, shape, activation, !per_row, orders, batch);
                    check_epilogue::<bf16>(isa, shape, activation, per_row, orders, batch);
                    check_epilogue::<f16>(isa, shape, activation, !per_row, orders, batch);
                }
            }
        }
        // Columns of B that are read in place.
        for activation in [None, Silu] {
            for (shape, order) in
                [((7, 50, 230), Order::Rows), ((20, 410, 257), Order::Rows), ((17, 410, 257), Order::Columns)]
            {
                for per_row in [false, true] {
                    check_epilogue::<f32>(isa, shape, activation, per_row, [Order::Columns, order], 2);
                    check_epilogue::<f64>(isa, shape, activation, per_row, [Order::Columns, order], 1);
                }
            }
        }
    }
}

/// A bias and rows are added in the kernels where C takes whole tiles: also in sums of several passes, and where the rows are
/// C's own.
#[test]
fn sums_begin_with_what_is_added() {
    for &isa in Isa::available() {
        for (m, n, k) in [(5, 32, 7), (45, 70, 40), (33, 64, 1100), (20, 96, 700)] {
            let (a, b, bias, rows) = (numbers(m * k, 1), numbers(k * n, 2), numbers(n, 3), numbers::<f32>(m * n, 4));
            for (with_bias, onto_itself) in [(false, false), (true, false), (true, true)] {
                let mut c = if onto_itself { rows.clone() } else { vec![f32::NAN; m * n] };
                let mat = Mat::new(c.as_mut_ptr(), n as isize, 1);
                let residual = if onto_itself { mat } else { Mat::new(rows.as_ptr(), n as isize, 1) };
                let args = GemmArgs {
                    epilogue: Epilogue {
                        bias: with_bias.then(|| Mat::new::<f32>(bias.as_ptr(), 0, 1)),
                        residual: Some(residual),
                        ..Epilogue::default()
                    },
                    ..GemmArgs::new(
                        DType::F32,
                        (m, n, k),
                        Mat::new::<f32>(a.as_ptr(), k as isize, 1),
                        Mat::new::<f32>(b.as_ptr(), n as isize, 1),
                        mat,
                    )
                };
                // SAFETY: the vectors hold the matrices.
                unsafe { gemm_with_isa(&args, &Serial, isa) }.unwrap();
                for (x, got) in c.iter().enumerate() {
                    let (i, j) = (x / n, x % n);
                    let sum: f64 = (0..k).map(|p| a[i * k + p] as f64 * b[p * n + j] as f64).sum();
                    let want = sum + rows[x] as f64 + if with_bias { bias[j] as f64 } else { 0.0 };
                    let bound = 1e-6 * (want.abs() + 4.0 * (k as f64).sqrt() + 4.0);
                    assert!((*got as f64 - want).abs() <= bound, "{isa:?} {m}x{n}x{k} {x}: {got} {want}");
                }
            }
        }
    }
}

/// A bias of one value per row, as channels of images have it, of C by rows and by columns (then it is one per column).
#[test]
fn sums_begin_with_a_bias_of_rows() {
    fn of<T: Num>(isa: Isa) {
        for (m, n, k) in [(24, 784, 16), (37, 49, 300), (5, 64, 1100), (40, 33, 700), (96, 1, 9), (1, 96, 9)] {
            let (a, b, bias) = (numbers::<T>(m * k, 1), numbers::<T>(k * n, 2), numbers::<T>(2 * m, 3));
            for (rs, cs) in [(n, 1), (1, m)] {
                let mut c = vec![T::of(0.0); m * n];
                let args = GemmArgs {
                    epilogue: Epilogue { bias: Some(Mat::new(bias.as_ptr(), 2, 0)), ..Epilogue::default() },
                    ..GemmArgs::new(
                        T::DTYPE,
                        (m, n, k),
                        Mat::new(a.as_ptr(), k as isize, 1),
                        Mat::new(b.as_ptr(), n as isize, 1),
                        Mat::new(c.as_mut_ptr(), rs as isize, cs as isize),
                    )
                };
                // SAFETY: the vectors hold the matrices.
                unsafe { gemm_with_isa(&args, &Serial, isa) }.unwrap();
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let sum: f64 = (0..k).map(|p| a[i * k + p].to() * b[p * n + j].to()).sum();
                    let (got, want) = (c[i * rs + j * cs].to(), sum + bias[2 * i].to());
                    let bound = T::EPS.max(1e-12) * (want.abs() + 4.0 * (k as f64).sqrt() + 4.0);
                    assert!((got - want).abs() <= bound, "{isa:?} {m}x{n}x{k} {i} {j}: {got} {want}");
                }
            }
        }
    }
    for &isa in Isa::available() {
        of::<f32>(isa);
        of::<f64>(isa);
        of::<bf16>(isa);
    }
}

#[test]
fn batches_follow_their_strides() {
    let (m, n, k) = (33, 40, 65);
    // Two batch dimensions; A is repeated along the first, B along the second.
    let (a, b) = (numbers::<f32>(3 * m * k, 1), numbers::<f32>(2 * k * n, 2));
    let dims = [
        BatchDim { size: 2, a: 0, b: (k * n) as isize, c: (3 * m * n) as isize, ..BatchDim::default() },
        BatchDim { size: 3, a: (m * k) as isize, b: 0, c: (m * n) as isize, ..BatchDim::default() },
    ];
    for &isa in Isa::available() {
        for par in [&Serial as &dyn Parallel, &Two] {
            let mut c = vec![0f32; 6 * m * n];
            let args = GemmArgs {
                batch: &dims,
                ..GemmArgs::new(
                    DType::F32,
                    (m, n, k),
                    Mat::new(a.as_ptr(), k as isize, 1),
                    Mat::new(b.as_ptr(), n as isize, 1),
                    Mat::new(c.as_mut_ptr(), n as isize, 1),
                )
            };
            // SAFETY: the vectors hold the batches.
            unsafe { gemm_with_isa(&args, par, isa) }.unwrap();
            for (x, got) in c.iter().enumerate() {
                let (z, i, j) = (x / (m * n), x / n % m, x % n);
                let want: f64 =
                    (0..k).map(|p| a[z % 3 * m * k + i * k + p] as f64 * b[z / 3 * k * n + p * n + j] as f64).sum();
                assert!((*got as f64 - want).abs() < 1e-4, "{isa:?} {x}");
            }
        }
    }
}

/// Images as planes times one weight: columns in runs that end inside panels, with a bias a row and an activation.
fn check_runs<T: Num>(isa: Isa, (items, n): (usize, usize), k: usize) {
    // Gaps between the runs of B and of C.
    let (m, b_rs, c_rs) = (23, n + 3, n + 1);
    let (b_item, c_item) = (k * b_rs + 5, m * c_rs + 7);
    let (a, b, bias) = (numbers::<T>(m * k, 1), numbers::<T>(items * b_item, 2), numbers::<T>(m, 3));
    let dims = [BatchDim { size: items, b: b_item as isize, c: c_item as isize, ..BatchDim::default() }];
    for (par, activation) in [(&Serial as &dyn Parallel, Activation::None), (&Two, Activation::Relu)] {
        let mut c = vec![T::of(7.0); items * c_item];
        let args = GemmArgs {
            batch: &dims,
            epilogue: Epilogue { bias: Some(Mat::new(bias.as_ptr(), 1, 0)), activation, ..Epilogue::default() },
            ..GemmArgs::new(
                T::DTYPE,
                (m, n, k),
                Mat::new(a.as_ptr(), k as isize, 1),
                Mat::new(b.as_ptr(), b_rs as isize, 1),
                Mat::new(c.as_mut_ptr(), c_rs as isize, 1),
            )
        };
        // SAFETY: the vectors hold the batches.
        unsafe { gemm_with_isa(&args, par, isa) }.unwrap();
        for (x, got) in c.iter().enumerate() {
            let (z, i, j) = (x / c_item, x % c_item / c_rs, x % c_item % c_rs);
            if i >= m || j >= n {
                assert_eq!(got.to(), 7.0, "{isa:?} {items} runs of {n}: element {x} is no part of C");
                continue;
            }
            let products = (0..k).map(|p| a[i * k + p].to() * b[z * b_item + p * b_rs + j].to());
            let want = act(activation, products.sum::<f64>() + bias[i].to());
            let tol = T::EPS * (4.0 + k as f64);
            assert!(
                (got.to() - want).abs() <= tol,
                "{isa:?} {items} runs of {n}, k {k}: {} at {z} {i} {j}, not {want}",
                got.to()
            );
        }
    }
}

#[test]
fn columns_in_runs() {
    for &isa in Isa::available() {
        for (shape, k) in [((3, 49), 20), ((2, 196), 5), ((7, 2), 9), ((4, 13), 801), ((9, 33), 1), ((3, 15), 1700)] {
            check_runs::<f32>(isa, shape, k);
            check_runs::<f64>(isa, shape, k);
            check_runs::<bf16>(isa, shape, k);
            check_runs::<f16>(isa, shape, k);
        }
    }
}

#[test]
fn dtypes_without_a_kernel_are_refused() {
    let mut c = [0u8; 16];
    let mat = Mat::new(c.as_mut_ptr(), 1, 1);
    for (dtype, dtype_c) in
        [(DType::Bool, DType::Bool), (DType::C64, DType::C64), (DType::F32, DType::F64), (DType::F32, DType::BF16)]
    {
        let args = GemmArgs { dtype_c, ..GemmArgs::new(dtype, (1, 1, 1), mat, mat, mat) };
        // SAFETY: refused before any memory is touched.
        let error = unsafe { gemm(&args, &Serial) }.unwrap_err();
        assert!(error.text().contains(dtype.name()), "{error}");
    }
}

/// A B packed once against the product that packs it, on every tier.
fn check_packed<T: Num>(m: usize, n: usize, k: usize, order: Order, isa: Isa) {
    let (a, b) = (numbers::<T>(m * k, 1), numbers::<T>(size(k, n), 2));
    let (rs, cs) = order.strides(k, n);
    let matrix = Mat::new(b.as_ptr(), rs, cs);
    // SAFETY: the vector holds the matrix.
    let packed = unsafe { PackedB::with_isa(T::DTYPE, (k, n), matrix, isa) }.unwrap();
    let mut results = vec![];
    for how in 0..3 {
        let mut c = vec![T::of(0.0); m * n];
        let (a, c_mat) = (Mat::new(a.as_ptr(), k as isize, 1), Mat::new(c.as_mut_ptr(), n as isize, 1));
        let args = GemmArgs::new(T::DTYPE, (m, n, k), a, matrix, c_mat);
        // SAFETY: three whole matrices.
        unsafe {
            match how {
                0 => gemm_with_isa(&args, &Serial, isa),
                1 => gemm_packed(&args, &packed, &Serial),
                _ => gemm_packed(&args, &packed, &Two),
            }
        }
        .unwrap();
        results.push(c);
    }
    assert!(results[1] == results[2], "threads change a packed product ({m},{k},{n}) {isa:?}");
    for (x, y) in results[0].iter().zip(&results[1]) {
        let bound = (T::EPS + 1e-6) * (1.0 + x.to().abs()) * (k as f64).sqrt().max(1.0);
        assert!((x.to() - y.to()).abs() <= bound, "({m},{k},{n}) {isa:?}: {x:?} {y:?}");
    }
}

#[test]
fn a_packed_b_gives_the_same() {
    for &isa in Isa::available() {
        for (m, n, k) in [(1, 70, 33), (5, 16, 8), (40, 65, 129), (33, 100, 900), (130, 257, 40)] {
            for order in [Order::Rows, Order::Columns, Order::Gaps] {
                check_packed::<f32>(m, n, k, order, isa);
                check_packed::<f64>(m, n, k, order, isa);
                check_packed::<bf16>(m, n, k, order, isa);
                check_packed::<f16>(m, n, k, order, isa);
            }
        }
    }
}

#[test]
fn a_group_is_its_products() {
    let shapes = [(3, 4, 5), (17, 33, 9), (1, 8, 8), (64, 64, 64), (0, 3, 3)];
    let data: Vec<_> = shapes.iter().map(|&(m, n, k)| (numbers::<f32>(m * k, 1), numbers::<f32>(k * n, 2))).collect();
    let mut results = vec![];
    for grouped in [false, true] {
        let mut outs: Vec<Vec<f32>> = shapes.iter().map(|&(m, n, _)| vec![0.0; m * n]).collect();
        let problems: Vec<_> = shapes
            .iter()
            .zip(&data)
            .zip(&mut outs)
            .map(|((&(m, n, k), (a, b)), c)| {
                let mat = |p: *const f32, cols: usize| Mat::new(p, cols as isize, 1);
                GemmArgs::new(DType::F32, (m, n, k), mat(a.as_ptr(), k), mat(b.as_ptr(), n), mat(c.as_mut_ptr(), n))
            })
            .collect();
        // SAFETY: every problem has matrices of its own.
        unsafe {
            match grouped {
                true => gemm_grouped(&problems, &Two).unwrap(),
                false => problems.iter().for_each(|p| gemm(p, &Serial).unwrap()),
            }
        }
        drop(problems);
        results.push(outs);
    }
    assert_eq!(results[0], results[1]);
}
