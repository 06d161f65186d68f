//! Kernels that take several neighbouring elements at once, of operands that lie in every way that allows it and in ways that do
//! not: broadcast rows and columns, misaligned starts, rows that end within an access; rows in registers.

mod common;

use common::*;
use oneflow_base::DType;
use oneflow_kernels_prim as prim;
use oneflow_kernels_prim::{Expr, Word, expr};

static ADD: Expr = expr!(num "packs_add", |x, y; p| x + p[0] * y);

fn w<T: Into<Word>>(v: T) -> Word {
    v.into()
}

#[test]
fn elementwise_and_chains_of_broadcast_operands() {
    let Some(_alone) = emulator::alone() else { return };
    let add = prim::register_expr(&ADD);
    let sizes = [3i64, 5, 16];
    // Whole, a row for all, a number a row, one number, every second element.
    let layouts: [(&[i64], i64); 7] = [
        (&[80, 16, 1], 0),
        (&[0, 0, 1], 0),
        (&[5, 1, 0], 0),
        (&[0, 0, 0], 0),
        (&[160, 32, 2], 0),
        (&[85, 17, 1], 0),
        (&[80, 16, 1], 1),
    ];
    for (d, tolerance) in [(F32, 1e-6), (BF16, 2e-2), (F64, 1e-14)] {
        let compute = d.compute();
        for (k, (a, a0)) in layouts.iter().enumerate() {
            for (b, b0) in &layouts {
                for (o, o0) in [&layouts[0], &layouts[4], &layouts[5], &layouts[6]] {
                    let ins = || vec![strided(d, &sizes, a, *a0, 1), strided(d, &sizes, b, *b0, 2)];
                    let out = || strided(d, &sizes, o, *o0, 3);
                    let name = format!("{d} {a:?}+{a0} {b:?}+{b0} {o:?}+{o0}");
                    let c = Case::new(&prim::ELEMENTWISE, vec![out()], ins(), &[w(compute), w(2.5f64)]).expr(&ADD);
                    c.within(tolerance).named(&name).check();
                    if k % 2 == 0 {
                        let words = [w(compute), w(1i64), w(add as i64), w(1i64), w(0.5f64), w(0i64), w(1i64), w(2i64)];
                        let c = Case::new(&prim::ELEMENTWISE_CHAIN, vec![out()], ins(), &words);
                        c.within(tolerance).named(&name).check();
                    }
                }
            }
        }
    }
}

#[test]
fn softmax_and_norms_of_rows_in_registers() {
    let Some(_alone) = emulator::alone() else { return };
    let mut seed = 0;
    for (d, tolerance) in [(F32, 2e-5), (BF16, 2e-2), (F16, 2e-3), (F64, 1e-12)] {
        let compute = d.compute();
        // Rows of one thread, of part of a warp, of one, of several; rows that are too long, rows that end within an access.
        for n in [8i64, 40, 96, 264, 776, 2056, 41] {
            // More rows than a block takes; few long ones.
            let n_rows: i64 = if n > 500 { 3 } else { 37 };
            // Contiguous, apart, apart so that rows are not aligned, from the middle of an access.
            for (k, (apart, offset)) in [(n, 0), (n + 16, 0), (n + 3, 0), (n, 1)].into_iter().enumerate() {
                if k > 0 && n != 96 {
                    continue;
                }
                seed += 1;
                emulator::reseed(seed);
                let sizes = [n_rows, n];
                let arr = |k: u64| strided(d, &sizes, &[apart, 1], offset, 10 * seed as u64 + k);
                for log in [false, true] {
                    let name = format!("{d} {n} {apart} {offset} {log}");
                    let params = [w(1i64), w(log)];
                    let c = Case::new(&prim::SOFTMAX, vec![arr(1)], vec![arr(2)], &params);
                    c.within(tolerance).named(&name).check();
                    let c = Case::new(&prim::SOFTMAX_BACKWARD, vec![arr(1)], vec![arr(2), arr(3)], &params);
                    c.within(tolerance * 8.0).named(&name).check();
                }
                let vector = |dtype: DType, k: u64| Arr::random(dtype, &[n], Lay::Rows, k);
                for (rms, weight, biased) in
                    [(false, Some(d), true), (true, Some(d), false), (false, None, false), (false, Some(compute), true)]
                {
                    let name = format!("{d} {n} {apart} {offset} {rms} {weight:?}");
                    let stat = || Some(Arr::empty(compute, &[n_rows], Lay::Rows));
                    let params = [w(1i64), w(1e-5f64), w(rms)];
                    let weights = |k| weight.map(|dtype| vector(dtype, k));
                    let bias = if biased { weights(5) } else { None };
                    let mut c = Case::new(&prim::LAYER_NORM, vec![], vec![], &params);
                    c.outs = vec![Some(arr(1)), if rms { None } else { stat() }, stat()];
                    c.ins = vec![Some(arr(2)), weights(4), bias];
                    c.within(tolerance * 4.0).named(&name).check();
                    if weight.is_some_and(|w| w != d) {
                        continue;
                    }
                    let mut r = Rng::new(6);
                    let positive = Arr::empty(compute, &[n_rows], Lay::Rows).fill(|_| r.real().abs() + 0.5);
                    let mean = Arr::random(compute, &[n_rows], Lay::Rows, 7);
                    let mut c = Case::new(&prim::LAYER_NORM_BACKWARD, vec![], vec![], &params);
                    c.outs = vec![Some(arr(1)), None, None];
                    c.ins = vec![Some(arr(2)), Some(arr(3)), (!rms).then_some(mean), Some(positive), weights(4)];
                    c.within(tolerance * 16.0).named(&name).check();
                }
            }
        }
    }
}

#[test]
fn losses_of_rows_that_are_not_aligned() {
    let Some(_alone) = emulator::alone() else { return };
    for (d, tolerance) in [(F32, 1e-5), (BF16, 2e-2), (F64, 1e-12)] {
        for (classes, apart, offset) in [(64i64, 64, 0), (61, 61, 0), (61, 64, 3), (5, 5, 1), (1500, 1501, 0)] {
            let sizes = [7, classes];
            let logits = || strided(d, &sizes, &[apart, 1], offset, 1);
            let target = Arr::empty(I64, &[7], Lay::Rows).fill(|i| [3, 0, -100, 4, 1, classes - 1, 2][i] as f64);
            let rows = |dtype, k| Arr::random(dtype, &[7], Lay::Rows, k);
            let name = format!("{d} {classes} {apart} {offset}");
            let params = [w(-100i64), w(0.0f64)];
            let mut c = Case::new(&prim::CROSS_ENTROPY, vec![], vec![], &params);
            c.outs = vec![Some(Arr::empty(d, &[7], Lay::Rows)), Some(Arr::empty(d.compute(), &[7], Lay::Rows))];
            c.ins = vec![Some(logits()), Some(target.clone()), None];
            let mut forward = Case {
                outs: c.outs.clone(),
                ins: c.ins.clone(),
                params: params.into(),
                ..Case::new(&prim::CROSS_ENTROPY, vec![], vec![], &[])
            };
            c.within(tolerance).named(&name).check();
            forward.on_cpu().unwrap();
            for shifted in [0, 1] {
                let mut back = Case::new(&prim::CROSS_ENTROPY_BACKWARD, vec![], vec![], &params);
                back.outs = vec![Some(strided(d, &sizes, &[apart, 1], offset + shifted, 2))];
                back.ins = vec![Some(rows(d, 3)), Some(logits()), Some(target.clone()), None, forward.outs[1].clone()];
                back.within(tolerance).named(&name).check();
            }
        }
    }
}

#[test]
fn dropout_of_four_neighbours_at_once() {
    let Some(_alone) = emulator::alone() else { return };
    let sizes = [6i64, 16];
    // The whole tensor, and parts of one that begin at and between multiples of four.
    let whole = vec![w(0i64)];
    let part = |start: i64| [2i64, 40, 32, 3, start].map(w).to_vec();
    for (window, d) in [(whole.clone(), F32), (whole, BF16), (part(8), F16), (part(7), BF16), (part(8), F64)] {
        for (strides, offset) in [([16, 1], 0), ([20, 1], 0), ([17, 1], 0), ([16, 1], 1)] {
            let arr = |d: DType, k| strided(d, &sizes, &strides, offset, k);
            let params = [&[w(0.4f64), w(5u64), w(6u64)][..], &window].concat();
            let mask = arr(BOOL, 3).fill(|_| 0.0);
            let c = Case::new(&prim::DROPOUT, vec![arr(d, 2), mask], vec![arr(d, 1)], &params);
            c.named(format!("{d} {strides:?} {offset}")).check();
        }
    }
}

/// A momentum step.
static RULE: prim::Rule = {
    struct F;
    impl prim::UpdateFormula for F {
        #[inline(always)]
        fn scalars<L: prim::Lanes>(h: &[L], x: &[L]) -> [L; prim::MAX_SCALARS] {
            let mut c = [L::splat(0.0); prim::MAX_SCALARS];
            (c[0], c[1]) = (h[0], -x[0]);
            c
        }
        #[inline(always)]
        fn step<L: prim::Lanes>(p: L, g: L, [m, v, w]: [L; prim::MAX_STATES], c: &[L]) -> (L, [L; prim::MAX_STATES]) {
            let m = m * c[0] + g;
            (c[1].fma(m, p), [m, v, w])
        }
    }
    prim::Rule::new::<F>("packs rule", 1, 1, 1)
};

#[test]
fn updates_of_many_tensors_are_cut_into_chunks() {
    let Some(_alone) = emulator::alone() else { return };
    prim::register_rule(&RULE);
    // Below, at and above a chunk's 8192 elements; more tensors than a launch takes.
    let sizes = [20_001i64, 3, 8192, 8193, 0, 4].into_iter().chain((0..70).map(|k| k % 7 + 1)).collect::<Vec<_>>();
    for (d, tolerance) in [(F32, 1e-6), (BF16, 2e-2)] {
        for inf in [false, true] {
            // Every third tensor begins in the middle of an access.
            let all = |seed: u64| -> Vec<Option<Arr>> {
                let one = |(k, n): (usize, &i64)| Some(strided(d, &[*n], &[1], (k % 3 == 0) as i64, seed + k as u64));
                sizes.iter().enumerate().map(one).collect()
            };
            let number = |v: f64, d: DType| Some(Arr::empty(d, &[], Lay::Rows).fill(|_| v));
            let n = sizes.len() as i64;
            let mut c = Case::new(&prim::UPDATE, vec![], vec![], &[w(RULE.id()), w(n), w(false), w(0.9f64)]);
            c.outs = [all(1), all(200)].concat();
            c.ins = [all(400), vec![number(0.01, F64), number(4.0, F32), number(inf as i64 as f64, F32)]].concat();
            let launches = emulator::launches();
            c.within(tolerance).named(d).check();
            assert_eq!(emulator::launches() - launches, 2, "64 tensors a launch");
            let mut outs = all(1);
            if inf {
                outs[3].as_mut().unwrap().set(8192, f64::INFINITY);
            }
            let mut c = Case::new(&prim::UNSCALE, vec![], vec![], &[w(n)]);
            c.outs = [outs, vec![number(0.0, F32)]].concat();
            c.ins = vec![number(0.25, F64)];
            let launches = emulator::launches();
            c.within(tolerance).named(d).check();
            assert_eq!(emulator::launches() - launches, 2, "64 tensors a launch");
        }
    }
}

#[test]
fn norms_over_channels_by_packs() {
    let Some(_alone) = emulator::alone() else { return };
    for (d, tolerance) in [(F32, 1e-4), (BF16, 4e-2), (F64, 1e-11)] {
        let compute = d.compute();
        // Images whose planes, and whose channels, are whole packs; rows in parts.
        for (sizes, groups) in [([3i64, 16, 4, 8], 2i64), ([2, 8, 3, 5], 1), ([2, 32, 40, 40], 4)] {
            for last in [false, true] {
                let n = sizes[1];
                let arr = |seed| {
                    let a = Arr::random(d, &sizes, Lay::Rows, seed);
                    if last { channels_last(a) } else { a }
                };
                let vector = |seed| Arr::random(d, &[n], Lay::Rows, seed);
                let positive = |sizes: &[i64], seed| {
                    let mut r = Rng::new(seed);
                    Arr::empty(compute, sizes, Lay::Rows).fill(|_| r.real().abs() + 0.5)
                };
                let name = format!("{d} {sizes:?} {last}");
                let stat = |sizes: &[i64]| Arr::empty(compute, sizes, Lay::Rows);
                let running = || Arr::random(F32, &[n], Lay::Rows, 4);
                let outs = vec![arr(9), stat(&[n]), stat(&[n]), running(), running()];
                let ins = vec![arr(1), vector(2), vector(3), running(), running()];
                let c = Case::new(&prim::BATCH_NORM, outs, ins, &[w(true), w(0.1f64), w(1e-5f64)]);
                c.within(tolerance).named(&name).check();
                let ins = vec![arr(1), arr(2), Arr::random(compute, &[n], Lay::Rows, 4), positive(&[n], 5), vector(6)];
                let outs = vec![arr(9), vector(7), vector(8)];
                let c = Case::new(&prim::BATCH_NORM_BACKWARD, outs, ins, &[w(true)]);
                // Sums of many terms.
                c.within(tolerance * 50.0).named(&name).check();
                let of = [sizes[0], groups];
                let outs = vec![arr(9), stat(&of), stat(&of)];
                let c =
                    Case::new(&prim::GROUP_NORM, outs, vec![arr(1), vector(2), vector(3)], &[w(groups), w(1e-5f64)]);
                c.within(tolerance).named(&name).check();
                let ins = vec![arr(1), arr(2), Arr::random(compute, &of, Lay::Rows, 4), positive(&of, 5), vector(6)];
                let outs = vec![arr(9), vector(7), vector(8)];
                let c = Case::new(&prim::GROUP_NORM_BACKWARD, outs, ins, &[w(groups)]);
                c.within(tolerance * 50.0).named(&name).check();
            }
        }
    }
}
