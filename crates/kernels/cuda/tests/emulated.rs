//! Every CUDA kernel against the CPU's, launched for real on an emulated device: arguments, grids, geometry and meaning.

mod common;

use common::*;
use oneflow_base::DType;
use oneflow_kernels_prim as prim;
use oneflow_kernels_prim::{Expr, Word, expr};

static ADD: Expr = expr!(num "emulated_add", |x, y; p| x + p[0] * y);
static TRIPLE: Expr = expr!(float "emulated_triple", |x, y, z| x * y - z.abs());
static LESS: Expr = expr!(num "emulated_less", |x, y| L::from_mask(x.lt(y)));
static SQUARE: Expr = expr!(num "emulated_square", |x| x * x);

fn w<T: Into<Word>>(v: T) -> Word {
    v.into()
}

const SHAPES: [&[i64]; 6] = [&[], &[0], &[7], &[64], &[3, 5, 4], &[2, 1, 6, 3]];

#[test]
fn elementwise() {
    if !emulator::start() {
        return;
    }
    let mut seed = 0u64;
    for sizes in SHAPES {
        for out in OUT_LAYOUTS {
            for x in IN_LAYOUTS {
                for y in [Lay::Rows, Lay::Reversed, Lay::One] {
                    seed += 1;
                    let arr = |d, lay, k| Arr::random(d, sizes, lay, seed * 10 + k);
                    let scalar = w(2.5f64);
                    Case::new(
                        &prim::ELEMENTWISE,
                        vec![Arr::empty(F32, sizes, out)],
                        vec![arr(F32, x, 1), arr(F32, y, 2)],
                        &[w(F32), scalar],
                    )
                    .expr(&ADD)
                    .within(1e-6)
                    .named(format!("add {out:?} {x:?} {y:?}"))
                    .check();
                    Case::new(
                        &prim::ELEMENTWISE,
                        vec![Arr::empty(BF16, sizes, out)],
                        vec![arr(F32, x, 1), arr(BF16, y, 2)],
                        &[w(F32), scalar],
                    )
                    .expr(&ADD)
                    .within(1e-2)
                    .named("add bf16")
                    .check();
                }
                let arr = |d, k| Arr::random(d, sizes, x, seed * 10 + k);
                Case::new(
                    &prim::ELEMENTWISE,
                    vec![Arr::empty(I64, sizes, out)],
                    vec![arr(I64, 1), arr(BOOL, 2)],
                    &[w(I64), w(3i64)],
                )
                .expr(&ADD)
                .named("add i64")
                .check();
                Case::new(
                    &prim::ELEMENTWISE,
                    vec![Arr::empty(F64, sizes, out)],
                    vec![arr(F64, 1), arr(F32, 2), arr(I64, 3)],
                    &[w(F64)],
                )
                .expr(&TRIPLE)
                .within(1e-15)
                .named("triple")
                .check();
                Case::new(
                    &prim::ELEMENTWISE,
                    vec![Arr::empty(BOOL, sizes, out)],
                    vec![arr(F32, 1), arr(F32, 2)],
                    &[w(F32)],
                )
                .expr(&LESS)
                .named("less")
                .check();
            }
        }
    }
    // More elements than a grid has threads at once, and a tail.
    let big = [1029i64];
    Case::new(
        &prim::ELEMENTWISE,
        vec![Arr::empty(F32, &big, Lay::Rows)],
        vec![Arr::random(F32, &big, Lay::Rows, 3)],
        &[w(F32)],
    )
    .expr(&SQUARE)
    .check();
}

#[test]
fn casts_fills_and_sequences() {
    if !emulator::start() {
        return;
    }
    let all = [F32, F64, BF16, F16, I64, BOOL, DType::U8, DType::I8, DType::I16, DType::I32];
    for from in all {
        for to in all {
            let x = Arr::random(from, &[5, 9], Lay::Reversed, 5);
            Case::new(&prim::COPY, vec![Arr::empty(to, &[5, 9], Lay::Stepped)], vec![x], &[])
                .named(format!("{from} {to}"))
                .check();
        }
    }
    // Halves: every bit pattern, both ways.
    for half in [F16, BF16] {
        let mut x = Arr::empty(half, &[65536], Lay::Rows);
        for i in 0..65536usize {
            x.bytes[2 * i..2 * i + 2].copy_from_slice(&(i as u16).to_le_bytes());
        }
        Case::new(&prim::COPY, vec![Arr::empty(F32, &[65536], Lay::Rows)], vec![x], &[]).named("widen").check();
        let mut r = Rng::new(4);
        let y = Arr::empty(F32, &[20000], Lay::Rows).fill(|i| match i % 4 {
            0 => r.real() * 1e-7,
            1 => r.real() * 40000.0,
            2 => r.real() * 1e-5,
            _ => r.real(),
        });
        Case::new(&prim::COPY, vec![Arr::empty(half, &[20000], Lay::Rows)], vec![y], &[]).named("narrow").check();
    }
    for d in all {
        for lay in OUT_LAYOUTS {
            let out = || vec![Arr::empty(d, &[4, 3], lay)];
            Case::new(&prim::FILL, out(), vec![], &[w(true), w(1.5f64)]).named(d).check();
            Case::new(&prim::FILL, out(), vec![], &[w(false), w(7i64)]).named(d).check();
        }
        if d != BOOL {
            let out = || vec![Arr::empty(d, &[40], Lay::Stepped)];
            Case::new(&prim::ARANGE, out(), vec![], &[w(false), w(3i64), w(2i64)]).named(d).check();
            Case::new(&prim::ARANGE, out(), vec![], &[w(true), w(0.5f64), w(0.25f64)]).named(d).check();
        }
        for (diagonal, upper) in [(0i64, false), (-1, true), (2, false), (i64::MIN, true), (i64::MAX, true)] {
            let x = Arr::random(d, &[2, 5, 4], Lay::Reversed, 8);
            Case::new(&prim::TRIANGLE, vec![Arr::empty(d, &[2, 5, 4], Lay::Rows)], vec![x], &[w(diagonal), w(upper)])
                .named(d)
                .check();
        }
    }
}

#[test]
fn chains() {
    if !emulator::start() {
        return;
    }
    let (add, square) = (prim::register_expr(&ADD), prim::register_expr(&SQUARE));
    // t = x + 2 y; out1 = t * t; out0 = out1 + 1 t, written over x.
    let program = |c: DType| {
        let s = |v: f64| if c == I64 { w(v as i64) } else { w(v) };
        let id = |i: u32| w(i as i64);
        let n = |i: i64| w(i);
        vec![
            w(c),
            n(3),
            id(add),
            n(1),
            s(2.0),
            n(0),
            n(1),
            n(4),
            id(square),
            n(0),
            n(4),
            n(3),
            id(add),
            n(1),
            s(1.0),
            n(3),
            n(4),
            n(2),
        ]
    };
    for (c, d, tolerance) in [(F32, F32, 1e-5), (F32, BF16, 0.05), (F64, F64, 1e-13), (I64, I64, 0.0)] {
        for lay in IN_LAYOUTS {
            let sizes = [3, 4, 5];
            let outs = vec![Arr::empty(d, &sizes, Lay::Rows), Arr::empty(d, &sizes, Lay::Reversed)];
            let ins = vec![Arr::random(d, &sizes, lay, 1), Arr::random(d, &sizes, Lay::Rows, 2)];
            Case::new(&prim::ELEMENTWISE_CHAIN, outs, ins, &program(c))
                .within(tolerance)
                .named(format!("{d} {lay:?}"))
                .check();
        }
    }
}

#[test]
fn reductions_and_scans() {
    if !emulator::start() {
        return;
    }
    let shapes: [(&[i64], &[i64]); 10] = [
        (&[70_000], &[1]),
        (&[40], &[1]),
        (&[6, 7], &[6, 1]),
        (&[6, 7], &[1, 7]),
        (&[3, 5, 4], &[1, 5, 1]),
        (&[3, 5, 4], &[3, 1, 4]),
        (&[3, 5, 4], &[1, 1, 1]),
        (&[2, 3000], &[2, 1]),
        (&[3000, 3], &[1, 3]),
        (&[0, 3], &[1, 3]),
    ];
    for (k, (from, to)) in shapes.into_iter().enumerate() {
        for lay in [Lay::Rows, Lay::Reversed, Lay::Stepped] {
            for (d, tolerance) in [(F32, 1e-4), (F64, 1e-12), (BF16, 2e-2), (I64, 0.0)] {
                for kind in 0..5u64 {
                    // Products grow; extremes of nothing are refused by the op.
                    let skip = (kind == 1 && from.iter().product::<i64>() > 100)
                        || (kind > 1 && from[0] == 0)
                        || (kind == 4 && d == I64);
                    if skip {
                        continue;
                    }
                    let x = Arr::random(d, from, lay, 3 + k as u64);
                    Case::new(&prim::REDUCE, vec![Arr::empty(d, to, Lay::Rows)], vec![x], &[w(kind)])
                        .within(tolerance)
                        .named(format!("{kind} {d} {from:?} {to:?} {lay:?}"))
                        .check();
                }
            }
            for d in [F32, BOOL, I64] {
                for kind in [5u64, 6] {
                    let x = Arr::random(d, from, lay, 4 + k as u64);
                    Case::new(&prim::REDUCE, vec![Arr::empty(BOOL, to, Lay::Rows)], vec![x], &[w(kind)])
                        .named(format!("{kind} {d} {from:?}"))
                        .check();
                }
                let x = Arr::random(d, from, lay, 5);
                Case::new(&prim::COUNT_NONZERO, vec![Arr::empty(I64, &[], Lay::Rows)], vec![x], &[]).named(d).check();
            }
            let x = Arr::random(BOOL, from, lay, 6);
            Case::new(&prim::REDUCE, vec![Arr::empty(I64, to, Lay::Rows)], vec![x], &[w(0u64)]).named("bool").check();
        }
    }
    let nan = |a: Arr| {
        let mut a = a;
        for i in (0..a.numel()).step_by(11) {
            a.set(i, f64::NAN);
        }
        a
    };
    for dim in 0..3usize {
        for lay in [Lay::Rows, Lay::Reversed, Lay::Stepped] {
            let sizes = [4i64, 33, 5];
            let mut kept = sizes;
            kept[dim] = 1;
            for d in [F32, BF16, F64, I64, BOOL] {
                for is_max in [true, false] {
                    let mut x = Arr::random(d, &sizes, lay, 9);
                    if d == F32 {
                        x = nan(x);
                    }
                    let outs = vec![Arr::empty(d, &kept, Lay::Rows), Arr::empty(I64, &kept, Lay::Reversed)];
                    Case::new(&prim::ARG_REDUCE, outs, vec![x], &[w(is_max), w(dim as i64)])
                        .named(format!("{d} {dim} {lay:?}"))
                        .check();
                }
            }
            for (d, tolerance) in [(F32, 1e-4), (F64, 1e-12), (I64, 0.0)] {
                for kind in 0..4u64 {
                    let x = Arr::random(d, &sizes, lay, 10 + kind);
                    Case::new(&prim::SCAN, vec![Arr::empty(d, &sizes, Lay::Rows)], vec![x], &[w(kind), w(dim as i64)])
                        .within(tolerance)
                        .named(format!("{kind} {d} {dim} {lay:?}"))
                        .check();
                }
            }
        }
    }
    for n in [600i64, 1000] {
        let x = Arr::random(F32, &[2, n], Lay::Rows, 1);
        Case::new(&prim::SCAN, vec![Arr::empty(F32, &[2, n], Lay::Rows)], vec![x], &[w(0u64), w(1i64)])
            .within(1e-4)
            .named("long")
            .check();
    }
}

#[test]
fn matmul() {
    if !emulator::start() {
        return;
    }
    let mut seed = 0u64;
    for (d, tolerance) in [(F32, 1e-5), (F64, 1e-13), (BF16, 3e-2), (F16, 4e-3), (I64, 0.0)] {
        for (batch, m, n, k) in [
            (&[][..], 5i64, 7i64, 6i64),
            (&[3][..], 4, 5, 3),
            (&[2, 3][..], 3, 2, 4),
            (&[][..], 1, 9, 5),
            (&[][..], 6, 1, 5),
            (&[2][..], 1, 1, 1),
            (&[][..], 3, 4, 0),
            (&[2][..], 0, 3, 2),
        ] {
            for (la, lb, lo) in [
                (Lay::Rows, Lay::Rows, Lay::Rows),
                (Lay::Reversed, Lay::Rows, Lay::Rows),
                (Lay::Rows, Lay::Reversed, Lay::Reversed),
                (Lay::Stepped, Lay::Stepped, Lay::Stepped),
                (Lay::Repeated, Lay::Rows, Lay::Rows),
            ] {
                let dims = |r, c| [batch, &[r, c][..]].concat();
                for (act, with_bias, with_residual) in [
                    (0u64, false, false),
                    (0, true, false),
                    (1, true, false),
                    (2, true, true),
                    (3, false, true),
                    (0, true, true),
                    (0, false, true),
                    (4, true, false),
                    (1, false, false),
                ] {
                    if d == I64 && (act > 0 || with_bias || with_residual) {
                        continue;
                    }
                    seed += 1;
                    let a = Arr::random(d, &dims(m, k), la, seed);
                    let b = Arr::random(d, &dims(k, n), lb, seed + 1);
                    let mut ins = vec![Some(a), Some(b), None, None];
                    if with_bias {
                        let mut bias = Arr::random(d, &[n], Lay::Rows, seed + 2);
                        bias.strides = [vec![0; batch.len() + 1], vec![1]].concat();
                        bias.sizes = dims(m, n);
                        ins[2] = Some(bias);
                    }
                    if with_residual {
                        ins[3] = Some(Arr::random(d, &dims(m, n), la, seed + 3));
                    }
                    let mut c = Case::new(
                        &prim::MATMUL,
                        vec![Arr::empty(d, &dims(m, n), lo)],
                        vec![],
                        &[w(act), w(if d == I64 { 1.0 } else { 0.5f64 })],
                    );
                    c.ins = ins;
                    c.within(tolerance)
                        .named(format!(
                            "{d} {batch:?} {m} {n} {k} {la:?} {lb:?} {lo:?} act {act} {with_bias} {with_residual}"
                        ))
                        .check();
                }
            }
        }
    }
    // A weight repeated over the batch by a zero stride: one tall product.
    let a = Arr::random(F32, &[3, 4, 5], Lay::Rows, 1);
    let mut b = Arr::random(F32, &[5, 6], Lay::Rows, 2);
    (b.sizes, b.strides) = (vec![3, 5, 6], vec![0, 6, 1]);
    Case::new(&prim::MATMUL, vec![Arr::empty(F32, &[3, 4, 6], Lay::Rows)], vec![a, b], &[w(0u64), w(1.0f64)])
        .within(1e-5)
        .named("tall")
        .check();
}

#[test]
fn softmax_and_norms() {
    if !emulator::start() {
        return;
    }
    for (d, tolerance) in [(F32, 1e-5), (F64, 1e-13), (BF16, 2e-2)] {
        for lay in [Lay::Rows, Lay::Reversed, Lay::Stepped] {
            for sizes in [&[4i64, 6, 5][..], &[2, 700], &[3, 1], &[0, 4], &[]] {
                for dim in 0..sizes.len().max(1) {
                    for log in [false, true] {
                        let x = Arr::random(d, sizes, lay, 1);
                        let params = [w(dim as i64), w(log)];
                        Case::new(&prim::SOFTMAX, vec![Arr::empty(d, sizes, Lay::Rows)], vec![x], &params)
                            .within(tolerance)
                            .named(format!("{d} {sizes:?} {dim} {log}"))
                            .check();
                        let (g, y) = (Arr::random(d, sizes, Lay::Rows, 2), Arr::random(d, sizes, lay, 3));
                        Case::new(
                            &prim::SOFTMAX_BACKWARD,
                            vec![Arr::empty(d, sizes, Lay::Stepped)],
                            vec![g, y],
                            &params,
                        )
                        .within(tolerance * 20.0)
                        .named(format!("{d} {sizes:?} {dim} {log}"))
                        .check();
                    }
                }
            }
            for (sizes, n_dims) in [
                (&[4i64, 6, 5][..], 1usize),
                (&[4, 6, 5], 2),
                (&[3, 300], 1),
                (&[70, 9], 1),
                (&[2000, 3], 1),
                (&[0, 3], 1),
            ] {
                for rms in [false, true] {
                    for with in [false, true] {
                        let (outer, inner) = sizes.split_at(sizes.len() - n_dims);
                        let rows = [outer.iter().product::<i64>()];
                        let stats = |s| Some(Arr::random(d.compute(), &rows, Lay::Rows, s));
                        let params = [w(n_dims as i64), w(1e-5f64), w(rms)];
                        let weight = |s| with.then(|| Arr::random(d, inner, Lay::Rows, s));
                        let mut c = Case::new(&prim::LAYER_NORM, vec![], vec![], &params);
                        c.ins = vec![Some(Arr::random(d, sizes, lay, 1)), weight(2), weight(3)];
                        c.outs = vec![
                            Some(Arr::empty(d, sizes, Lay::Rows)),
                            (!rms).then(|| Arr::empty(d.compute(), &rows, Lay::Rows)),
                            Some(Arr::empty(d.compute(), &rows, Lay::Rows)),
                        ];
                        c.within(tolerance * 4.0).named(format!("{d} {sizes:?} {n_dims} {rms}")).check();
                        let mut c = Case::new(&prim::LAYER_NORM_BACKWARD, vec![], vec![], &params);
                        c.ins = vec![
                            Some(Arr::random(d, sizes, lay, 1)),
                            Some(Arr::random(d, sizes, Lay::Rows, 2)),
                            if rms { None } else { stats(3) },
                            stats(4),
                            weight(5),
                        ];
                        c.outs = vec![Some(Arr::empty(d, sizes, Lay::Rows)), weight(6), weight(7)];
                        c.within(tolerance * 60.0).named(format!("{d} {sizes:?} {n_dims} {rms}")).check();
                    }
                }
            }
        }
    }
}

#[test]
fn losses_and_embeddings() {
    if !emulator::start() {
        return;
    }
    for (d, tolerance) in [(F32, 1e-5), (F64, 1e-13), (BF16, 3e-2)] {
        for lay in [Lay::Rows, Lay::Reversed, Lay::Stepped] {
            for (smoothing, weighted) in [(0.0f64, false), (0.2, false), (0.0, true), (0.3, true)] {
                let (n, c) = (9i64, 37i64);
                let x = || Some(Arr::random(d, &[n, c], lay, 1));
                let mut target = Arr::indices(&[n], Lay::Stepped, c, 2);
                target.set(3, -100.0);
                let weight = || weighted.then(|| Arr::random(d, &[c], Lay::Rows, 3));
                let params = [w(-100i64), w(smoothing)];
                let mut case = Case::new(
                    &prim::CROSS_ENTROPY,
                    vec![Arr::empty(d, &[n], Lay::Rows), Arr::empty(d.compute(), &[n], Lay::Rows)],
                    vec![],
                    &params,
                );
                case.ins = vec![x(), Some(target.clone()), weight()];
                case.within(tolerance * 10.0).named(format!("{d} {smoothing} {weighted}")).check();
                let mut case =
                    Case::new(&prim::CROSS_ENTROPY_BACKWARD, vec![Arr::empty(d, &[n, c], Lay::Rows)], vec![], &params);
                case.ins = vec![
                    Some(Arr::random(d, &[n], Lay::Rows, 5)),
                    x(),
                    Some(target),
                    weight(),
                    Some(Arr::random(d.compute(), &[n], Lay::Rows, 6)),
                ];
                case.within(tolerance * 10.0).named(format!("{d} {smoothing} {weighted}")).check();
            }
        }
    }
    for d in [F32, F64, BF16] {
        for (lay, sizes) in [
            (Lay::Rows, &[6i64, 7][..]),
            (Lay::Reversed, &[6, 7]),
            (Lay::Stepped, &[40]),
            (Lay::Rows, &[]),
            (Lay::Rows, &[0]),
        ] {
            for (start, rows, total) in [(0i64, 11i64, 11i64), (3, 4, 11)] {
                let index = Arr::indices(sizes, lay, total, 3);
                let wide = [sizes, &[5]].concat();
                let weight = Arr::random(d, &[rows, 5], lay, 4);
                Case::new(
                    &prim::EMBEDDING,
                    vec![Arr::empty(d, &wide, Lay::Stepped)],
                    vec![weight, index.clone()],
                    &[w(start), w(total)],
                )
                .named(d)
                .check();
                for padding in [-1i64, 2] {
                    let g = Arr::random(d, &wide, lay, 5);
                    let tolerance = if d == BF16 { 2e-2 } else { 1e-6 };
                    Case::new(
                        &prim::EMBEDDING_BACKWARD,
                        vec![Arr::empty(d, &[rows, 5], Lay::Reversed)],
                        vec![g, index.clone()],
                        &[w(start), w(total), w(padding)],
                    )
                    .within(tolerance)
                    .named(format!("{d} {sizes:?} {start} {padding}"))
                    .check();
                }
            }
        }
    }
    let wrong = Case::new(
        &prim::EMBEDDING,
        vec![Arr::empty(F32, &[2, 5], Lay::Rows)],
        vec![Arr::random(F32, &[4, 5], Lay::Rows, 1), Arr::empty(I64, &[2], Lay::Rows).fill(|i| 3.0 + i as f64)],
        &[w(0i64), w(4i64)],
    );
    let e = wrong.error();
    assert!(
        e.kind() == oneflow_base::ErrorKind::Index
            && e.text().contains("index 4 is out of bounds for dimension 0 with size 4"),
        "{e}"
    );
}

#[test]
fn indexing() {
    if !emulator::start() {
        return;
    }
    let sizes = [4i64, 6, 5];
    for d in [F32, F64, BF16, I64, BOOL] {
        for lay in [Lay::Rows, Lay::Reversed, Lay::Stepped] {
            for dim in 0..3usize {
                let mut picked = sizes;
                picked[dim] = 3;
                let dimension = w(dim as i64);
                let x = || Arr::random(d, &sizes, lay, 1);
                let index = Arr::indices(&[3], Lay::Stepped, sizes[dim], 2);
                Case::new(
                    &prim::INDEX_SELECT,
                    vec![Arr::empty(d, &picked, Lay::Reversed)],
                    vec![x(), index],
                    &[dimension],
                )
                .named(d)
                .check();
                let index = || Arr::indices(&picked, Lay::Reversed, sizes[dim], 3);
                Case::new(&prim::GATHER, vec![Arr::empty(d, &picked, Lay::Rows)], vec![x(), index()], &[dimension])
                    .named(d)
                    .check();
                for kind in 1..5u64 {
                    let src = Arr::random(d, &picked, Lay::Stepped, 4);
                    let tolerance = if d == BF16 { 2e-2 } else { 1e-6 };
                    Case::new(&prim::SCATTER, vec![x()], vec![index(), src], &[dimension, w(kind)])
                        .within(tolerance)
                        .named(format!("{kind} {d} {lay:?} {dim}"))
                        .check();
                }
                // Set: destinations that differ.
                let mut unique = Arr::empty(I64, &picked, Lay::Rows);
                let inner: usize = picked[dim + 1..].iter().product::<i64>() as usize;
                for i in 0..unique.numel() {
                    unique.set(i, ((i / inner) as i64 % 3 + 1) as f64);
                }
                Case::new(
                    &prim::SCATTER,
                    vec![x()],
                    vec![unique, Arr::random(d, &picked, lay, 4)],
                    &[dimension, w(0u64)],
                )
                .named("set")
                .check();
            }
            // x[i, :, j], the index dimensions first; and x[:, i], in place.
            let (i, j) = (
                Arr::indices(&[2, 3], Lay::Rows, 4, 5),
                Arr::indices(&[2, 3], Lay::Reversed, 5, 6).fill(|k| k as f64 % 5.0 - 2.0),
            );
            let x = Arr::random(d, &sizes, lay, 1);
            let mut c =
                Case::new(&prim::INDEX, vec![Arr::empty(d, &[2, 3, 6], Lay::Reversed)], vec![], &[w(0i64), w(2i64)]);
            c.ins = vec![Some(x.clone()), Some(i.clone()), None, Some(j.clone())];
            c.named(d).check();
            let mut c =
                Case::new(&prim::INDEX, vec![Arr::empty(d, &[4, 2, 3, 5], Lay::Rows)], vec![], &[w(1i64), w(2i64)]);
            c.ins = vec![Some(x.clone()), None, Some(i.clone())];
            c.named(d).check();
            let value = Arr::random(d, &[2, 3, 6], lay, 7);
            for accumulate in [false, true] {
                let mut c = Case::new(&prim::INDEX_PUT, vec![x.clone()], vec![], &[w(0i64), w(2i64), w(accumulate)]);
                let i =
                    if accumulate { i.clone() } else { Arr::empty(I64, &[2, 3], Lay::Rows).fill(|k| k as f64 % 3.0) };
                let j = if accumulate {
                    j.clone()
                } else {
                    Arr::empty(I64, &[2, 3], Lay::Rows).fill(|k| -1.0 - (k / 3) as f64)
                };
                c.ins = vec![Some(value.clone()), Some(i), None, Some(j)];
                c.within(if d == BF16 { 2e-2 } else { 1e-6 }).named(format!("{d} {accumulate}")).check();
            }
            let parts: Vec<Arr> = [2i64, 0, 3].iter().map(|n| Arr::random(d, &[4, *n, 5], lay, *n as u64)).collect();
            Case::new(&prim::CONCAT, vec![Arr::empty(d, &[4, 5, 5], lay)], parts, &[w(1i64)]).named(d).check();
        }
    }
    let x = Arr::random(F32, &[4], Lay::Rows, 1);
    let index = Arr::empty(I64, &[2], Lay::Rows).fill(|i| i as f64 * -7.0);
    let e = Case::new(&prim::GATHER, vec![Arr::empty(F32, &[2], Lay::Rows)], vec![x, index], &[w(0i64)]).error();
    assert!(e.text().contains("index -7 is out of bounds for dimension 0 with size 4"), "{e}");
}

#[test]
fn sorts_and_nonzero() {
    if !emulator::start() {
        return;
    }
    for d in [F32, F64, BF16, F16, I64, BOOL, DType::I32, DType::U8] {
        for (sizes, dim) in [
            (&[50i64][..], 0usize),
            (&[3, 40], 1),
            (&[40, 3], 0),
            (&[2, 5, 4], 1),
            (&[], 0),
            (&[0, 3], 1),
            (&[5000], 0),
        ] {
            for descending in [false, true] {
                let x = || {
                    let mut x = Arr::random(d, sizes, Lay::Reversed, 3);
                    if d.is_float() && x.numel() > 9 {
                        x.set(5, f64::NAN);
                        x.set(7, -0.0);
                        x.set(8, 0.0);
                        x.set(9, f64::NEG_INFINITY);
                    }
                    x
                };
                let outs = |sizes: &[i64]| vec![Arr::empty(d, sizes, Lay::Rows), Arr::empty(I64, sizes, Lay::Stepped)];
                Case::new(&prim::SORT, outs(sizes), vec![x()], &[w(dim as i64), w(descending)])
                    .named(format!("{d} {sizes:?} {dim} {descending}"))
                    .check();
                if !sizes.is_empty() {
                    let mut top = sizes.to_vec();
                    top[dim] = top[dim].min(4);
                    Case::new(
                        &prim::TOPK,
                        outs(&top),
                        vec![x()],
                        &[w(top[dim]), w(dim as i64), w(descending), w(true)],
                    )
                    .named(format!("{d} {sizes:?}"))
                    .check();
                }
            }
            let x = Arr::random(d, sizes, Lay::Stepped, 4).fill(|i| (i % 3) as f64);
            let n = (0..x.numel()).filter(|i| x.get(*i) != 0.0).count() as i64;
            if !sizes.is_empty() {
                Case::new(&prim::NONZERO, vec![Arr::empty(I64, &[n, sizes.len() as i64], Lay::Reversed)], vec![x], &[])
                    .named(d)
                    .check();
            }
        }
    }
}

#[test]
fn random_numbers_are_the_host_s() {
    if !emulator::start() {
        return;
    }
    let window: Vec<Word> = [2i64, 40, 50, 3, 7].map(w).into();
    for d in [F32, F64, BF16, F16, I64, BOOL] {
        for kind in 0..5u64 {
            if !d.is_float() && !matches!(kind, 2 | 3) {
                continue;
            }
            let (a, b) = match kind {
                3 => (w(-5i64), w(17i64)),
                2 => (w(0.3f64), w(0.0f64)),
                4 => (w(1.5f64), w(0.0f64)),
                _ => (w(-1.0f64), w(2.0f64)),
            };
            for whole in [true, false] {
                let head = [w(kind), w(77u64), w((1u64 << 40) + 3), a, b];
                let params = if whole { [&head[..], &[w(0i64)]].concat() } else { [&head[..], &window[..]].concat() };
                // f64 normals and exponentials go through libm on both sides.
                let tolerance = if d == F64 && matches!(kind, 1 | 4) { 1e-14 } else { 0.0 };
                Case::new(&prim::RANDOM, vec![Arr::empty(d, &[30, 20], Lay::Reversed)], vec![], &params)
                    .within(tolerance)
                    .named(format!("{kind} {d} {whole}"))
                    .check();
            }
        }
        if d.is_float() {
            for p in [0.0f64, 0.3, 1.0] {
                let x = Arr::random(d, &[30, 20], Lay::Reversed, 1);
                let outs = vec![Arr::empty(d, &[30, 20], Lay::Rows), Arr::empty(BOOL, &[30, 20], Lay::Rows)];
                let params = [&[w(p), w(5u64), w(6u64)][..], &window[..]].concat();
                Case::new(&prim::DROPOUT, outs, vec![x], &params).named(format!("{d} {p}")).check();
            }
        }
    }
}

/// Adam without bias correction.
static RULE: prim::Rule = {
    struct F;
    impl prim::UpdateFormula for F {
        #[inline(always)]
        fn scalars<L: prim::Lanes>(h: &[L], x: &[L]) -> [L; prim::MAX_SCALARS] {
            let mut c = [L::splat(0.0); prim::MAX_SCALARS];
            (c[0], c[1], c[2]) = (h[0], h[1], -x[0] / (L::splat(1.0) - h[0].pow(x[1])));
            c
        }
        #[inline(always)]
        fn step<L: prim::Lanes>(p: L, g: L, [m, v, _]: [L; prim::MAX_STATES], c: &[L]) -> (L, [L; prim::MAX_STATES]) {
            let one = L::splat(1.0);
            let (m, v) = (m * c[0] + (one - c[0]) * g, v * c[1] + (one - c[1]) * g * g);
            (c[2].fma(m / (v.sqrt() + L::splat(1e-3)), p), [m, v, v])
        }
    }
    prim::Rule::new::<F>("test rule", 2, 2, 2)
};

#[test]
fn optimizers() {
    if !emulator::start() {
        return;
    }
    let shapes: [&[i64]; 5] = [&[7], &[3, 5], &[], &[0], &[2, 4, 3]];
    let number = |v: f64, d: DType| Arr::empty(d, &[], Lay::Rows).fill(|_| v);
    for (d, state, tolerance) in [(F32, F32, 1e-5), (F64, F64, 1e-13), (BF16, BF16, 2e-2), (BF16, F32, 2e-2)] {
        for odd in [false, true] {
            let lay = |k: usize| if odd && k == 1 { Lay::Stepped } else { Lay::Reversed };
            let tensors = |d: DType, seed: u64, abs: bool| -> Vec<Option<Arr>> {
                let one = |(k, s): (usize, &&[i64])| {
                    let mut r = Rng::new(seed + k as u64);
                    Some(Arr::empty(d, s, lay(k)).fill(|_| if abs { r.real().abs() } else { r.real() }))
                };
                shapes.iter().enumerate().map(one).collect()
            };
            for (maximize, flag, scaled, inf) in
                [(false, true, false, 0.0), (true, false, true, 0.0), (false, true, true, 1.0)]
            {
                let n = shapes.len() as i64;
                let extra = |mut v: Vec<Option<Arr>>| {
                    v.push(scaled.then(|| number(4.0, F32)));
                    v.push((scaled || inf != 0.0).then(|| number(inf, F32)));
                    v
                };
                prim::register_rule(&RULE);
                let rest = w(if flag { 0.9f64 } else { 0.5 });
                let params = [w(RULE.id()), w(n), w(maximize), rest, w(0.99f64)];
                let mut c = Case::new(&prim::UPDATE, vec![], vec![], &params);
                c.outs = [tensors(d, 1, false), tensors(state, 10, false), tensors(state, 20, true)].concat();
                c.ins = extra([tensors(d, 30, false), vec![Some(number(0.01, F64)), Some(number(3.0, F32))]].concat());
                c.within(tolerance).named(format!("{d} {state} {odd} {maximize} {flag}")).check();
                let mut c = Case::new(&prim::UNSCALE, vec![], vec![], &[w(n)]);
                c.outs = [tensors(d, 1, false), vec![Some(number(0.0, F32))]].concat();
                c.ins = vec![Some(number(0.25, F64))];
                c.within(tolerance).named(format!("unscale {d} {odd}")).check();
            }
        }
    }
}

#[test]
fn planted_faults_are_found() {
    if !emulator::start() {
        return;
    }
    use oneflow_base::DeviceType;
    use oneflow_kernels_prim::{Launch, Primitive, View};
    static PLANTED: Primitive = Primitive::new("planted");
    unsafe fn right(l: &Launch<'_>) -> oneflow_base::Result<()> {
        // SAFETY: the launch's contract.
        unsafe { prim::FILL.on(l.queue.device.kind)?(l) }
    }
    // A wrong value, and a right one with a write beside the view.
    unsafe fn wrong_value(l: &Launch<'_>) -> oneflow_base::Result<()> {
        let params = [w(false), w(8i64)];
        // SAFETY: the launch's contract.
        unsafe { prim::FILL.on(l.queue.device.kind)?(&Launch { params: &params, ..*l }) }
    }
    unsafe fn wrong_stride(l: &Launch<'_>) -> oneflow_base::Result<()> {
        let v = l.output(0)?;
        let outs = [Some(View { sizes: &[v.sizes[0] * 2], strides: &[1], ..v })];
        // SAFETY: the storage is twice as large as the view.
        unsafe { prim::FILL.on(l.queue.device.kind)?(&Launch { outs: &outs, ..*l }) }
    }
    PLANTED.provide(DeviceType::CPU, right);
    for (cuda, lay) in [(wrong_value as oneflow_kernels_prim::KernelFn, Lay::Rows), (wrong_stride, Lay::Stepped)] {
        PLANTED.provide(DeviceType::CUDA, cuda);
        let case = Case::new(&PLANTED, vec![Arr::empty(F32, &[6], lay)], vec![], &[w(false), w(7i64)]);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.check())).is_err());
    }
}
