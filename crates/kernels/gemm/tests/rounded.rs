//! Products of float32 whose operands may be rounded: where the machine multiplies bfloat16 they are the sums of rounded
//! operands, to float32's precision, and elsewhere those of the operands as they are.

use oneflow_base::{DType, bf16};
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

/// Numbers in (-1, 1) whose bfloat16 are other numbers, the same every run.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..n).map(|_| next() * 2.0 - 1.0).collect()
}

/// Strides of a `rows x cols` matrix: rows, columns, or neither in one piece. All fit four times the elements.
fn strides(order: usize, rows: usize, cols: usize) -> (isize, isize) {
    match order {
        0 => (cols as isize, 1),
        1 => (1, rows as isize),
        _ => (2 * cols as isize, 2),
    }
}

fn at((rs, cs): (isize, isize), i: usize, j: usize) -> usize {
    i * rs as usize + j * cs as usize
}

#[derive(Clone, Copy, Debug)]
struct Case {
    shape: (usize, usize, usize),
    orders: [usize; 3],
    alpha: f64,
    beta: f64,
    /// Items of a batch; those of B are one matrix where `shared`.
    items: usize,
    shared: bool,
    /// A bias a column, an activation and a residual.
    epilogue: bool,
}

impl Case {
    fn of(shape: (usize, usize, usize), orders: [usize; 3]) -> Case {
        Case { shape, orders, alpha: 1.0, beta: 0.0, items: 1, shared: false, epilogue: false }
    }
}

fn product(case: Case, isa: Isa, rounded: bool, par: &dyn Parallel, [a, b, c, bias]: [&[f32]; 4]) -> Vec<f32> {
    let Case { shape: (m, n, k), orders, alpha, beta, items, shared, epilogue } = case;
    let mut out = c.to_vec();
    let mat = |p: *const f32, order, rows, cols| {
        let (rs, cs) = strides(order, rows, cols);
        Mat::new(p, rs, cs)
    };
    let to = mat(out.as_mut_ptr(), orders[2], m, n);
    let dim = BatchDim {
        size: items,
        a: 4 * (m * k) as isize,
        b: if shared { 0 } else { 4 * (k * n) as isize },
        c: 4 * (m * n) as isize,
        residual: 4 * (m * n) as isize,
        ..BatchDim::default()
    };
    let batch = [dim];
    let args = GemmArgs {
        batch: if items > 1 { &batch } else { &[] },
        alpha,
        beta,
        rounded,
        epilogue: Epilogue {
            bias: epilogue.then(|| Mat::new(bias.as_ptr(), 0, 1)),
            activation: if epilogue { Activation::Relu } else { Activation::None },
            residual: epilogue.then(|| mat(c.as_ptr(), orders[2], m, n)),
            kept: None,
        },
        ..GemmArgs::new(DType::F32, (m, n, k), mat(a.as_ptr(), orders[0], m, k), mat(b.as_ptr(), orders[1], k, n), to)
    };
    // SAFETY: the vectors hold four times the elements of every item.
    unsafe { gemm_with_isa(&args, par, isa) }.unwrap();
    out
}

fn check(case: Case, isa: Isa) {
    let Case { shape: (m, n, k), orders, alpha, beta, items, shared, epilogue } = case;
    let (a, b) = (numbers(4 * items * m * k, 1), numbers(4 * items * k * n, 2));
    let (c, bias) = (numbers(4 * items * m * n, 3), numbers(n, 4));
    let got = product(case, isa, true, &Serial, [&a, &b, &c, &bias]);
    let other = product(case, isa, true, &Two, [&a, &b, &c, &bias]);
    assert!(got == other, "threads change the result of {case:?} {isa:?}");
    let value = |x: f32| if isa >= Isa::Avx512Bf16 { bf16::from_f32(x).to_f64() } else { f64::from(x) };
    let (sa, sb, sc) = (strides(orders[0], m, k), strides(orders[1], k, n), strides(orders[2], m, n));
    for item in 0..items {
        let (a, first) = (&a[4 * item * m * k..], 4 * item * m * n);
        let b = if shared { &b[..] } else { &b[4 * item * k * n..] };
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let terms = (0..k).map(|p| value(a[at(sa, i, p)]) * value(b[at(sb, p, j)]));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
            let old = f64::from(c[first + at(sc, i, j)]);
            let mut want = alpha * sum + beta * old;
            if epilogue {
                want = (want + f64::from(bias[j])).max(0.0) + old;
            }
            let bound = 3e-7 * ((k as f64).sqrt() * alpha.abs() * size + want.abs() + old.abs() * beta.abs() + 1.0);
            let got = f64::from(got[first + at(sc, i, j)]);
            assert!((got - want).abs() <= bound, "{case:?} {isa:?}: ({item},{i},{j}) {got} want {want}");
        }
    }
}

/// Shapes that are rounded wherever it is done: edges of tiles, blocks along k, few rows, few columns.
const SHAPES: [(usize, usize, usize); 13] = [
    (17, 18, 19),
    (32, 32, 32),
    (33, 65, 31),
    (64, 64, 64),
    (14, 32, 100),
    (8, 300, 33),
    (300, 8, 65),
    (70, 33, 520),
    (129, 97, 130),
    (16, 130, 1100),
    (40, 33, 4200),
    (260, 1060, 40),
    (64, 65, 63),
];

#[test]
fn sums_are_those_of_rounded_operands() {
    for &isa in Isa::available() {
        for (x, shape) in SHAPES.iter().enumerate() {
            for y in 0..27 {
                // Larger shapes take fewer of the orders each.
                if shape.0 * shape.1 * shape.2 > 100_000 && (x + y) % 5 != 0 {
                    continue;
                }
                let (alpha, beta) = [(1.0, 0.0), (1.0, 1.0), (2.0, -3.0)][(x + y / 3) % 3];
                check(Case { alpha, beta, ..Case::of(*shape, [y % 3, y / 3 % 3, y / 9]) }, isa);
            }
        }
    }
}

#[test]
fn epilogues_are_float32() {
    for &isa in Isa::available() {
        for (x, shape) in SHAPES[..9].iter().enumerate() {
            for orders in [[0, 0, 0], [0, 1, 0], [1, 0, 0], [x % 3, 2, 0]] {
                check(Case { epilogue: true, ..Case::of(*shape, orders) }, isa);
            }
        }
    }
}

#[test]
fn batches_are_rounded_item_by_item() {
    for &isa in Isa::available() {
        for (shape, shared) in
            [((20, 24, 40), false), ((33, 16, 70), true), ((64, 64, 64), false), ((49, 70, 33), true)]
        {
            for orders in [[0, 0, 0], [0, 1, 0], [1, 0, 0]] {
                check(Case { items: 5, shared, ..Case::of(shape, orders) }, isa);
            }
        }
    }
}

/// Without the caller's leave, of one row, one column or few numbers, and of other dtypes, nothing changes.
#[test]
fn what_is_not_rounded_keeps_its_bits() {
    for &isa in Isa::available() {
        for shape in [(1, 200, 300), (200, 1, 300), (2, 300, 64), (300, 3, 64), (16, 16, 16), (5, 7, 11), (1, 1, 500)] {
            for orders in [[0, 0, 0], [0, 1, 0], [1, 0, 0], [2, 2, 2]] {
                let case = Case::of(shape, orders);
                let (m, n, k) = shape;
                let (a, b) = (numbers(4 * m * k, 1), numbers(4 * k * n, 2));
                let (c, bias) = (numbers(4 * m * n, 3), numbers(n, 4));
                let [plain, allowed] =
                    [false, true].map(|rounded| product(case, isa, rounded, &Serial, [&a, &b, &c, &bias]));
                assert!(plain == allowed, "{case:?} {isa:?}");
            }
        }
    }
}

/// Infinities, NaN and numbers that bfloat16 cannot hold go through the sums as rounding makes them.
#[test]
fn numbers_outside_of_bfloat16() {
    let (m, n, k) = (40, 40, 40);
    for &isa in Isa::available() {
        for (number, product_is) in [
            (f32::INFINITY, f32::INFINITY),
            (f32::NAN, f32::NAN),
            // Beyond the largest bfloat16, it rounds to infinity.
            (f32::MAX, if isa >= Isa::Avx512Bf16 { f32::INFINITY } else { f32::MAX }),
        ] {
            let (mut a, b) = (vec![0f32; 4 * m * k], vec![1f32; 4 * k * n]);
            a[3 * k + 5] = number;
            let zeros = vec![0f32; 4 * m * n];
            let case = Case::of((m, n, k), [0; 3]);
            let got = product(case, isa, true, &Serial, [&a, &b, &zeros, &zeros]);
            for (i, x) in got.iter().take(m * n).enumerate() {
                let want = if i / n == 3 { product_is } else { 0.0 };
                assert!(x.to_bits() == want.to_bits() || x.is_nan() && want.is_nan(), "{isa:?} {number}: {x} at {i}");
            }
        }
    }
}
