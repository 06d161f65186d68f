//! Expressions, chains, copies, fills and triangles over strides, broadcasts, empty and 0-dim shapes and all dtypes.

mod common;
use common::*;
use oneflow_base::DType::{self, BF16, Bool, C64, C128, F16, F32, F64, I8, I32, I64, U8};
use oneflow_kernels_elementwise::run_chain;
use oneflow_kernels_prim::*;
use smallvec::smallvec;

static ADD: Expr = expr!(num "add", |x, y; p| x + y * p[0]);
static EXP: Expr = expr!(float "exp", |x| x.exp());
static WHERE: Expr = expr!(num "where", |c, x, y| L::select(c.is_true(), x, y));
static LT: Expr = expr!(num "lt", |x, y| L::from_mask(x.lt(y)));
static DIV: Expr = expr!(num "floor_divide", |x, y| x.div_floor(y)).nonzero(1);

const SHAPES: [&[i64]; 10] =
    [&[], &[0], &[1], &[7], &[1500], &[5, 3], &[40, 70], &[3, 0, 2], &[4, 33, 130], &[5, 3, 20]];

fn params(compute: DType, scalars: &[f64]) -> Vec<Word> {
    let scalar = |v: &f64| if compute == I64 { Word::from(*v as i64) } else { Word::from(*v) };
    std::iter::once(Word::from(compute)).chain(scalars.iter().map(scalar)).collect()
}

#[test]
fn every_layout_with_every_layout() {
    for sizes in SHAPES {
        let make = |s: &[i64]| Arr::small(F32, s);
        for x in layouts(sizes, &make) {
            for y in layouts(sizes, &make) {
                for out in layouts(sizes, &make).into_iter().filter(|o| !o.strides.contains(&0)) {
                    launch(&ELEMENTWISE, &[Some(&out)], &[Some(&x), Some(&y)], &params(F32, &[2.0]), Some(&ADD))
                        .unwrap();
                    compare(
                        &out,
                        |i| x.get(i) + 2.0 * y.get(i),
                        0.0,
                        &format!("{:?} {:?} {:?}", x.strides, y.strides, out.strides),
                    );
                }
            }
        }
    }
}

#[test]
fn every_dtype_with_every_dtype() {
    for sizes in [&[37i64, 5] as &[i64], &[2100]] {
        for a in REAL {
            for b in REAL {
                let c = oneflow_base::promote(a, b).unwrap();
                let compute = c.compute();
                let (x, y) = (Arr::small(a, sizes), Arr::small(b, sizes).flip(0));
                let out = Arr::small(c, sizes);
                launch(&ELEMENTWISE, &[Some(&out)], &[Some(&x), Some(&y)], &params(compute, &[1.0]), Some(&ADD))
                    .unwrap();
                compare(
                    &out,
                    |i| match c {
                        Bool => ((x.get(i) + y.get(i)) != 0.0) as u8 as f64,
                        U8 => (x.get(i) + y.get(i)).rem_euclid(256.0),
                        _ => x.get(i) + y.get(i),
                    },
                    0.0,
                    &format!("{a} + {b}"),
                );
                let less = Arr::small(Bool, sizes);
                launch(&ELEMENTWISE, &[Some(&less)], &[Some(&x), Some(&y)], &params(compute, &[]), Some(&LT)).unwrap();
                compare(&less, |i| (x.get(i) < y.get(i)) as u8 as f64, 0.0, &format!("{a} < {b}"));
            }
        }
    }
}

#[test]
fn halves_compute_in_f32() {
    for d in [F16, BF16] {
        let x = Arr::noise(d, &[1000], 3);
        let out = Arr::small(d, &[1000]);
        launch(&ELEMENTWISE, &[Some(&out)], &[Some(&x)], &params(F32, &[]), Some(&EXP)).unwrap();
        let round = |v: f64| {
            if d == F16 {
                oneflow_base::f16::from_f32(v as f32).to_f64()
            } else {
                oneflow_base::bf16::from_f32(v as f32).to_f64()
            }
        };
        compare(&out, |i| round(x.get(i).exp()), 1e-3, "exp");
    }
}

#[test]
fn three_inputs_and_scalars() {
    let c = Arr::small(Bool, &[6, 1]).expand(1, 200);
    let x = Arr::noise(F64, &[6, 200], 1);
    let y = Arr::new(F64, &[1, 1], |_| 9.0).expand(0, 6).expand(1, 200);
    let out = Arr::small(F64, &[6, 200]);
    launch(&ELEMENTWISE, &[Some(&out)], &[Some(&c), Some(&x), Some(&y)], &params(F64, &[]), Some(&WHERE)).unwrap();
    compare(&out, |i| if c.get(i) != 0.0 { x.get(i) } else { 9.0 }, 0.0, "where");
}

#[test]
fn in_place_and_large() {
    let n = 3_000_001;
    let x = Arr::noise(F32, &[n], 5);
    let want = x.values();
    let y = Arr::new(F32, &[1], |_| 0.5).expand(0, n);
    launch(&ELEMENTWISE, &[Some(&x)], &[Some(&x), Some(&y)], &params(F32, &[1.0]), Some(&ADD)).unwrap();
    compare(&x, |i| (want[i] as f32 + 0.5) as f64, 0.0, "x += 0.5");
    let n = 9_000_001;
    let (x, out) = (Arr::noise(F32, &[n], 5), Arr::new(F32, &[n], |_| 0.0));
    launch(&ELEMENTWISE, &[Some(&out)], &[Some(&x), Some(&x)], &params(F32, &[1.0]), Some(&ADD)).unwrap();
    compare(&out, |i| 2.0 * x.get(i), 0.0, "streamed");
}

#[test]
fn refusals() {
    let (x, zero) = (Arr::small(I32, &[4]), Arr::small(I32, &[4]));
    let out = Arr::new(I32, &[4], |_| 77.0);
    let e = launch(
        &ELEMENTWISE,
        &[Some(&out)],
        &[Some(&x), Some(&zero.clone().every(0, 1))],
        &params(I64, &[]),
        Some(&DIV),
    );
    assert!(e.is_ok(), "no zero among the first four");
    let zero = Arr::new(I32, &[4], |i| (i != 2) as u8 as f64);
    let out = Arr::new(I32, &[4], |_| 77.0);
    let e = launch(&ELEMENTWISE, &[Some(&out)], &[Some(&x), Some(&zero)], &params(I64, &[]), Some(&DIV)).unwrap_err();
    assert!(e.text().contains("ZeroDivisionError"), "{e}");
    compare(&out, |_| 77.0, 0.0, "untouched");
    let e = launch(&ELEMENTWISE, &[Some(&out)], &[Some(&x)], &params(I64, &[]), Some(&EXP)).unwrap_err();
    assert!(e.text().contains("exp") && e.text().contains("Long"), "{e}");
    let c = Arr::small(C64, &[2]);
    // Complex numbers add up, but have no greatest.
    assert!(launch(&REDUCE, &[Some(&c)], &[Some(&c)], &[Word::from(2i64)], None).is_err());
    assert!(launch(&ELEMENTWISE, &[Some(&out)], &[], &params(I64, &[]), Some(&ADD)).is_err());
}

#[test]
fn copies() {
    for sizes in SHAPES {
        for d in [Bool, BF16, F32, F64] {
            let make = |s: &[i64]| Arr::small(d, s);
            for x in layouts(sizes, &make) {
                for out in layouts(sizes, &make).into_iter().filter(|o| !o.strides.contains(&0)) {
                    launch(&COPY, &[Some(&out)], &[Some(&x)], &[], None).unwrap();
                    compare(&out, |i| x.get(i), 0.0, &format!("{:?} to {:?}", x.strides, out.strides));
                }
            }
        }
    }
    let (x, out) = (Arr::noise(F32, &[9_000_000], 1), Arr::new(F32, &[9_000_000], |_| 0.0));
    launch(&COPY, &[Some(&out)], &[Some(&x)], &[], None).unwrap();
    compare(&out, |i| x.get(i), 0.0, "streamed");
}

#[test]
fn casts() {
    for a in REAL {
        for b in REAL {
            let x = Arr::small(a, &[3, 700]).permute(&[1, 0]);
            let out = Arr::small(b, &[700, 3]);
            launch(&COPY, &[Some(&out)], &[Some(&x)], &[], None).unwrap();
            compare(
                &out,
                |i| match b {
                    Bool => (x.get(i) != 0.0) as u8 as f64,
                    U8 => x.get(i).rem_euclid(256.0),
                    _ => x.get(i),
                },
                0.0,
                &format!("{a} to {b}"),
            );
        }
    }
    // What torch gives on x86 for numbers out of range.
    let x = Arr::new(F32, &[8], |i| [3.7, -3.7, 300.0, 3e9, -3e9, 1e30, f64::NAN, f64::INFINITY][i]);
    let casts: [(DType, [f64; 8]); 4] = [
        (I32, [3.0, -3.0, 300.0, -2147483648.0, -2147483648.0, -2147483648.0, -2147483648.0, -2147483648.0]),
        (I64, [3.0, -3.0, 300.0, 3e9, -3e9, i64::MIN as f64, i64::MIN as f64, i64::MIN as f64]),
        (U8, [3.0, 253.0, 44.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        (Bool, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ];
    for (d, want) in casts {
        let out = Arr::new(d, &[8], |_| 0.0);
        launch(&COPY, &[Some(&out)], &[Some(&x)], &[], None).unwrap();
        // 3e9 and -3e9 wrap by their low byte.
        let want =
            |i: usize| if d == U8 && (i == 3 || i == 4) { ([3e9, -3e9][i - 3] as i64 as u8) as f64 } else { want[i] };
        compare(&out, want, 0.0, &format!("to {d}"));
    }
}

#[test]
fn fills_and_sequences() {
    for d in REAL {
        for out in layouts(&[3, 50], &|s| Arr::small(d, s)).into_iter().filter(|o| !o.strides.contains(&0)) {
            launch(&FILL, &[Some(&out)], &[], &[Word::from(true), Word::from(1.0)], None).unwrap();
            compare(&out, |_| 1.0, 0.0, "fill");
        }
        let out = Arr::small(d, &[300]).every(0, 3).flip(0);
        launch(&ARANGE, &[Some(&out)], &[], &[Word::from(false), Word::from(2i64), Word::from(1i64)], None).unwrap();
        let want = |i: usize| {
            if d == Bool {
                1.0
            } else if d == I8 {
                (i + 2) as i8 as f64
            } else {
                (i + 2) as f64
            }
        };
        compare(&out, want, 0.0, &format!("arange {d}"));
    }
    let out = Arr::small(F32, &[2000]);
    launch(&ARANGE, &[Some(&out)], &[], &[Word::from(true), Word::from(-1.0), Word::from(0.1)], None).unwrap();
    compare(&out, |i| (-1.0 + i as f64 * 0.1) as f32 as f64, 0.0, "float arange");
}

#[test]
fn triangles() {
    for x in layouts(&[2, 9, 13], &|s| Arr::noise(F32, s, 7)) {
        for diagonal in [-20, -3, 0, 2, 20, i64::MAX, i64::MIN] {
            for upper in [false, true] {
                let out = Arr::small(F32, &[2, 9, 13]);
                launch(&TRIANGLE, &[Some(&out)], &[Some(&x)], &[Word::from(diagonal), Word::from(upper)], None)
                    .unwrap();
                compare(
                    &out,
                    |k| {
                        let (i, j) = ((k / 13 % 9) as i128, (k % 13) as i128);
                        let d = j - i - diagonal as i128;
                        if if upper { d >= 0 } else { d <= 0 } { x.get(k) } else { 0.0 }
                    },
                    0.0,
                    &format!("triangle {diagonal} {upper}"),
                );
            }
        }
    }
}

#[test]
fn a_chain_is_its_steps() {
    for e in [&ADD, &EXP, &WHERE, &LT] {
        register_expr(e);
    }
    let step = |expr, scalars: &[f64], operands: &[usize], dest| ChainStep {
        expr,
        scalars: scalars.iter().map(|v| Word::from(*v)).collect(),
        operands: operands.into(),
        dest,
    };
    // t0 = x + 2 y; t1 = exp(t0); out0 = where(t0 < x, t1, y); out1 = t1 + x
    let [x, y, out0, out1, t0, t1, t2] = [0, 1, 2, 3, 4, 5, 6];
    let steps = [
        step(&ADD, &[2.0], &[x, y], t0),
        step(&EXP, &[], &[t0], t1),
        step(&LT, &[], &[t0, x], t2),
        step(&WHERE, &[], &[t2, t1, y], out0),
        step(&ADD, &[1.0], &[t1, x], out1),
    ];
    let chain = ChainParams { compute: F32, steps: steps.into_iter().collect() };
    for sizes in [&[] as &[i64], &[5], &[33, 77], &[70_000], &[3, 5000]] {
        for x in layouts(sizes, &|s| Arr::noise(F32, s, 1)) {
            for y in layouts(sizes, &|s| Arr::noise(BF16, s, 2)) {
                let (a, b) = (Arr::small(F32, sizes), Arr::small(F64, sizes));
                let views = [Some(a.view()), Some(b.view())];
                launch(&FILL, &[Some(&a)], &[], &[Word::from(false), Word::from(0i64)], None).unwrap();
                // SAFETY: live arrays.
                unsafe { run_chain(&chain, &views, &[Some(x.view()), Some(y.view())], queue()).unwrap() };
                let t0 = |i: usize| (x.get(i) as f32 + 2.0 * y.get(i) as f32) as f64;
                compare(&a, |i| if t0(i) < x.get(i) { t0(i).exp() } else { y.get(i) }, 1e-6, "out 0");
                compare(&b, |i| t0(i).exp() + x.get(i), 1e-6, "out 1");
            }
        }
    }
    // An output that is an input read later keeps its old values until then.
    let x = Arr::noise(F32, &[5000], 3);
    let (want, out) = (x.values(), Arr::small(F32, &[5000]));
    let [old, exp, sum] = [0, 1, 2];
    let steps = [step(&EXP, &[], &[old], exp), step(&ADD, &[1.0], &[old, exp], sum)];
    let chain = ChainParams { compute: F32, steps: steps.into_iter().collect() };
    // SAFETY: live arrays.
    unsafe { run_chain(&chain, &[Some(x.view()), Some(out.view())], &[Some(x.view())], queue()).unwrap() };
    compare(&x, |i| want[i].exp(), 1e-6, "in place");
    compare(&out, |i| want[i].exp() + want[i], 1e-6, "old value");
    let bad: Params = smallvec![Word::from(F32), Word::from(1i64), Word::from(9999i64), Word::from(0i64)];
    assert!(launch(&ELEMENTWISE_CHAIN, &[Some(&out)], &[Some(&x)], &bad, None).is_err());
}

#[test]
fn complex_numbers_are_moved() {
    for (a, b) in [(C64, C64), (C128, C128), (C64, C128), (C128, C64), (F32, C64), (I64, C128)] {
        let x = Arr::small(a, &[40, 9]).permute(&[1, 0]);
        let out = Arr::small(b, &[9, 40]);
        launch(&COPY, &[Some(&out)], &[Some(&x)], &[], None).unwrap();
        compare(&out, |i| x.get(i), 0.0, &format!("{a} to {b}"));
        launch(&FILL, &[Some(&out)], &[], &[Word::from(true), Word::from(2.5)], None).unwrap();
        compare(&out, |_| 2.5, 0.0, "fill");
    }
    let (x, out) = (Arr::small(C64, &[3]), Arr::small(F32, &[3]));
    // Among real numbers the real part is what is left.
    launch(&COPY, &[Some(&out)], &[Some(&x)], &[], None).unwrap();
    compare(&out, |i| x.get(i), 0.0, "real part");
}
