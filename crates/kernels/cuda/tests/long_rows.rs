//! Rows so long that several blocks share one: extremes with their places, scans.

mod common;

use common::*;
use oneflow_kernels_prim as prim;
use oneflow_kernels_prim::Word;

fn w<T: Into<Word>>(v: T) -> Word {
    v.into()
}

#[test]
fn extremes_of_long_rows_and_where_they_are() {
    let Some(_alone) = emulator::alone() else { return };
    for d in [F32, BF16, I64] {
        for (sizes, dim) in [(&[70_001i64][..], 0usize), (&[3, 40_000], 1), (&[9_000, 2], 0)] {
            for lay in [Lay::Rows, Lay::Stepped] {
                for nan in [false, true] {
                    // Few values: the first of many equal ones is wanted, and the first NaN before all of them.
                    let mut x = Arr::random(d, sizes, lay, 3);
                    if nan && d != I64 {
                        [7_777, 7_778, 15_001].iter().for_each(|i| x.set(*i, f64::NAN));
                    }
                    let mut out = sizes.to_vec();
                    out[dim] = 1;
                    for is_max in [false, true] {
                        let outs = vec![Arr::empty(d, &out, Lay::Rows), Arr::empty(I64, &out, Lay::Stepped)];
                        let c = Case::new(&prim::ARG_REDUCE, outs, vec![x.clone()], &[w(is_max), w(dim as i64)]);
                        let launches = emulator::launches();
                        c.named(format!("{d} {sizes:?} {lay:?} {nan}")).check();
                        assert_eq!(emulator::launches() - launches, 2, "in parts");
                    }
                }
            }
        }
    }
}

#[test]
fn scans_of_long_rows() {
    let Some(_alone) = emulator::alone() else { return };
    for (d, tolerance) in [(F32, 2e-4), (F64, 1e-11), (I64, 0.0)] {
        for (sizes, dim) in [(&[70_001i64][..], 0usize), (&[3, 40_000], 1), (&[9_000, 2], 0)] {
            for kind in [0u64, 2, 3] {
                let x = Arr::random(d, sizes, Lay::Rows, 10 + kind);
                let out = vec![Arr::empty(d, sizes, Lay::Stepped)];
                let c = Case::new(&prim::SCAN, out, vec![x], &[w(kind), w(dim as i64)]);
                let launches = emulator::launches();
                c.within(tolerance).named(format!("{kind} {d} {sizes:?}")).check();
                assert_eq!(emulator::launches() - launches, 2, "in parts");
            }
            if d == I64 {
                continue;
            }
            let x = Arr::random(d, sizes, Lay::Rows, 20);
            let c = Case::new(&prim::LOGCUMSUMEXP, vec![Arr::empty(d, sizes, Lay::Rows)], vec![x], &[w(dim as i64)]);
            c.within(1e-5).named(format!("{d} {sizes:?}")).check();
        }
    }
}
