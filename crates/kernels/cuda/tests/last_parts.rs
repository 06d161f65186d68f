//! Kernels in which the part that comes last finishes the work of all: one launch however the work is cut. And stacks in one launch.

mod common;

use common::*;
use oneflow_kernels_prim as prim;
use oneflow_kernels_prim::{ReduceKind, Word};

fn w<T: Into<Word>>(v: T) -> Word {
    v.into()
}

/// Checks a case, which takes so many launches.
fn check_in(launches: i64, c: Case) {
    let before = emulator::launches();
    c.check();
    assert_eq!(emulator::launches() - before, launches);
}

#[test]
fn reductions_in_parts_are_one_launch() {
    let Some(_alone) = emulator::alone() else { return };
    use ReduceKind::{Any, Max, Mean, Prod, Sum};
    for (d, tolerance) in [(F32, 2e-4), (F64, 1e-10), (BF16, 2e-2), (I64, 0.0)] {
        // One number, long rows, long columns, and both with a dimension in between.
        for (sizes, kept) in [
            (&[200_000i64][..], &[1i64][..]),
            (&[3, 70_001], &[3, 1]),
            (&[20_003, 5], &[1, 5]),
            (&[40, 500, 37], &[1, 1, 37]),
            (&[40, 7, 900], &[1, 7, 1]),
        ] {
            for kind in [Sum, Mean, Max, Prod, Any] {
                if kind == Mean && d == I64 || kind == Prod {
                    continue;
                }
                let to = if kind == Any { BOOL } else { d };
                for lay in [Lay::Rows, Lay::Stepped] {
                    let x = Arr::random(d, sizes, lay, 7);
                    let out = vec![Arr::empty(to, kept, lay)];
                    let c = Case::new(&prim::REDUCE, out, vec![x], &[w(kind as u64)]).within(tolerance);
                    check_in(1, c.named(format!("{kind:?} {d} {sizes:?} {lay:?}")));
                }
            }
        }
    }
}

#[test]
fn a_norms_gradients_are_one_launch_where_rows_fit_and_else_two() {
    let Some(_alone) = emulator::alone() else { return };
    for (d, tolerance) in [(F32, 1e-3), (F64, 1e-10), (BF16, 4e-2)] {
        let compute = d.compute();
        // Rows of one thread to those of a block, and such as are not whole accesses or need more registers than a block of 256 has.
        for (rows, n) in [(3000i64, 40i64), (1500, 8), (5, 64), (70, 776), (9, 2048), (40, 41), (3, 8192)] {
            for (rms, with_bias) in [(false, true), (false, false), (true, false)] {
                let arr = |seed| Arr::random(d, &[rows, n], Lay::Rows, seed);
                let vector = |seed| Arr::random(d, &[n], Lay::Rows, seed);
                let positive = |seed| {
                    let mut r = Rng::new(seed);
                    Arr::empty(compute, &[rows], Lay::Rows).fill(|_| r.real().abs() + 0.5)
                };
                let mut c = Case::new(&prim::LAYER_NORM_BACKWARD, vec![], vec![], &[w(1i64), w(1e-5f64), w(rms)]);
                let mean = (!rms).then(|| Arr::random(compute, &[rows], Lay::Rows, 5));
                c.ins = vec![Some(arr(1)), Some(arr(2)), mean, Some(positive(3)), Some(vector(4)), None];
                c.outs = vec![Some(arr(9)), Some(vector(7)), with_bias.then(|| vector(8))];
                let fits = n != 41 && n <= 4096;
                check_in(
                    if fits { 1 } else { 2 },
                    c.within(tolerance).named(format!("{d} {rows} {n} {rms} {with_bias}")),
                );
            }
        }
    }
}

#[test]
fn stacks_of_one_layout_are_one_launch() {
    let Some(_alone) = emulator::alone() else { return };
    for d in [F32, BF16, I64, BOOL, F64] {
        for lay in [Lay::Rows, Lay::Stepped] {
            for n in [2usize, 3, 64] {
                let part = |k| Arr::random(d, &[3, 2, 8], Lay::Rows, k as u64 + 1);
                let parts: Vec<Arr> = (0..n).map(part).collect();
                let out = vec![Arr::empty(d, &[3, 2 * n as i64, 8], lay)];
                // Bytes with gaps are not accesses side by side.
                let launches = if d == BOOL && lay == Lay::Stepped { n as i64 } else { 1 };
                check_in(launches, Case::new(&prim::CONCAT, out, parts, &[w(1i64)]).named(format!("{d} {lay:?} {n}")));
            }
            // Single elements.
            let part = |k: u64| Arr::random(d, &[1], lay, k + 1);
            let out = vec![Arr::empty(d, &[3], lay)];
            let launches = if d == BOOL { 3 } else { 1 };
            let c = Case::new(&prim::CONCAT, out, (0..3).map(part).collect(), &[w(0i64)]);
            check_in(launches, c.named(format!("{d} {lay:?} single")));
            // Of several sizes, and more than a launch takes.
            let part = |k: i64| Arr::random(d, &[3, 1 + k / 70, 4], Lay::Rows, k as u64 + 1);
            let parts: Vec<Arr> = (0..73).map(part).collect();
            let out = vec![Arr::empty(d, &[3, 76, 4], Lay::Rows)];
            let c = Case::new(&prim::CONCAT, out, parts, &[w(1i64)]).named(d);
            check_in(3, c);
        }
    }
    // Turned inputs, as the gradients of heads are: what lies along is moved in wide accesses.
    for d in [F32, BF16] {
        let part = |k| strided(d, &[2, 3, 5, 8], &[120, 8, 24, 1], 0, k);
        let out = vec![strided(d, &[2, 9, 5, 8], &[360, 8, 72, 1], 0, 9)];
        check_in(1, Case::new(&prim::CONCAT, out, (0..3).map(part).collect(), &[w(1i64)]).named(d));
    }
}
