//! Products on AMX tiles, exactly: sums of small whole numbers have no rounding, so any order gives the same bits.
//!
//! The other tests run on every instruction set of the machine and so on tiles too. What is here are their edges, their
//! blocks along k, and what they do with infinities, NaN and denormals.

use oneflow_base::{DType, bf16};
use oneflow_kernels_gemm::*;
use std::io::Write;

/// Whether the machine has tiles; says so where it does not.
fn tiles(test: &str) -> bool {
    let there = Isa::best() == Isa::Amx;
    if !there {
        let _ = writeln!(std::io::stderr(), "{test}: not run, this machine or its system has no AMX");
    }
    there
}

/// Whole numbers from -3 to 3.
fn whole(n: usize, seed: usize) -> Vec<i8> {
    (0..n).map(|i| ((i * 2_654_435_761 + seed * 40_503) >> 7) as i8 % 4).collect()
}

/// Strides of an `rows x cols` matrix: rows, columns, or neither in one piece. All fit four times the elements.
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

/// Checks one product of bfloat16 into f32 and one of bytes into i32.
fn check((m, n, k): (usize, usize, usize), orders: [usize; 2], packed: bool) {
    let (a, b) = (whole(4 * m * k, 1), whole(4 * k * n, 2));
    let (sa, sb) = (strides(orders[0], m, k), strides(orders[1], k, n));
    let mut want = vec![0i32; m * n];
    for i in 0..m {
        for p in 0..k {
            let x = i32::from(a[at(sa, i, p)]);
            (0..n).for_each(|j| want[i * n + j] += x * i32::from(b[at(sb, p, j)]));
        }
    }
    let halves = |v: &[i8]| v.iter().map(|x| bf16::from_f32(f32::from(*x))).collect::<Vec<_>>();
    let (ha, hb) = (halves(&a), halves(&b));
    let (mut floats, mut ints) = (vec![f32::NAN; m * n], vec![-1i32; m * n]);
    let c = |ptr: *mut u8| Mat::new(ptr, n as isize, 1);
    let matrices =
        (Mat::new(ha.as_ptr(), sa.0, sa.1), Mat::new(hb.as_ptr(), sb.0, sb.1), c(floats.as_mut_ptr().cast()));
    let args =
        GemmArgs { dtype_c: DType::F32, ..GemmArgs::new(DType::BF16, (m, n, k), matrices.0, matrices.1, matrices.2) };
    // SAFETY: the vectors hold the matrices.
    unsafe {
        if packed {
            let b = PackedB::with_isa(DType::BF16, (k, n), args.b, Isa::Amx).unwrap();
            gemm_packed(&args, &b, &Serial).unwrap();
        } else {
            gemm_with_isa(&args, &Serial, Isa::Amx).unwrap();
        }
        let matrices =
            (Mat::new(a.as_ptr(), sa.0, sa.1), Mat::new(b.as_ptr(), sb.0, sb.1), c(ints.as_mut_ptr().cast()));
        let bytes = GemmArgs::new(DType::I8, (m, n, k), matrices.0, matrices.1, matrices.2);
        gemm_with_isa(&GemmArgs { dtype_c: DType::I32, ..bytes }, &Serial, Isa::Amx).unwrap();
    }
    let case = format!("{m} x {n} x {k} {orders:?} packed {packed}");
    for (i, want) in want.iter().enumerate() {
        assert_eq!(floats[i], *want as f32, "{case}: bfloat16 at {},{}", i / n, i % n);
        assert_eq!(ints[i], *want, "{case}: bytes at {},{}", i / n, i % n);
    }
}

#[test]
fn edges() {
    if !tiles("edges") {
        return;
    }
    for m in 1..=70 {
        let (n, k) = (m * 31 % 70 + 1, m * 47 % 101 + 1);
        for orders in 0..9 {
            check((m, n, k), [orders % 3, orders / 3], (m + orders) % 4 == 0);
        }
    }
}

#[test]
fn blocks() {
    if !tiles("blocks") {
        return;
    }
    // Passes and groups of steps; rows and columns of several blocks; few rows, multiplied as the transposes.
    let shapes = [
        (300, 70, 520),
        (40, 33, 4200),
        (1030, 33, 4130),
        (130, 1100, 40),
        (5, 300, 96),
        (64, 600, 513),
        (33, 40, 8300),
    ];
    for (i, shape) in shapes.into_iter().enumerate() {
        for (orders, packed) in [([0, 0], false), ([0, 1], false), ([1, 0], i % 2 == 0), ([2, 1], true)] {
            check(shape, orders, packed);
        }
    }
}

fn product(a: &[bf16], b: &[bf16], (m, n, k): (usize, usize, usize)) -> Vec<f32> {
    let mut c = vec![0f32; m * n];
    let (a, b) = (Mat::new(a.as_ptr(), k as isize, 1), Mat::new(b.as_ptr(), n as isize, 1));
    let args = GemmArgs::new(DType::BF16, (m, n, k), a, b, Mat::new(c.as_mut_ptr(), n as isize, 1));
    // SAFETY: the vectors hold the matrices.
    unsafe { gemm_with_isa(&GemmArgs { dtype_c: DType::F32, ..args }, &Serial, Isa::Amx) }.unwrap();
    c
}

#[test]
fn infinities_and_nan_stay_in_their_rows_and_columns() {
    if !tiles("infinities_and_nan_stay_in_their_rows_and_columns") {
        return;
    }
    for (m, n, k) in [(40, 45, 33), (17, 16, 64), (2, 70, 5)] {
        let (mut a, mut b) = (vec![bf16::ONE; m * k], vec![bf16::ONE; k * n]);
        a[k + k - 1] = bf16::INFINITY;
        b[(k - 1) * n + n - 1] = bf16::NAN;
        for (i, got) in product(&a, &b, (m, n, k)).into_iter().enumerate() {
            let (row, col) = (i / n, i % n);
            match (row == 1, col == n - 1) {
                (_, true) => assert!(got.is_nan(), "{m} x {n} x {k}: {got} at {row},{col}"),
                (true, false) => assert_eq!(got, f32::INFINITY, "{m} x {n} x {k}: at {row},{col}"),
                _ => assert_eq!(got, k as f32, "{m} x {n} x {k}: at {row},{col}"),
            }
        }
    }
}

#[test]
fn denormals_are_zeros() {
    if !tiles("denormals_are_zeros") {
        return;
    }
    let (m, n, k) = (20, 20, 40);
    let denormal = vec![bf16::from_bits(0x0040); m * k];
    let large = vec![bf16::from_f32(1e30); k * n];
    assert!(product(&denormal, &large, (m, n, k)).iter().all(|x| *x == 0.0));
    let least = vec![bf16::MIN_POSITIVE; m * k];
    assert!(product(&least, &large, (m, n, k)).iter().all(|x| *x > 0.0));
}
