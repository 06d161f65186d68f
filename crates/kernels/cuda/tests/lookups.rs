//! Bags, searches, running sums of exponentials, draws, resampling, and what runs on the host, on the emulated device against
//! the CPU's.

mod common;

use common::*;
use oneflow_base::{DType, ErrorKind};
use oneflow_kernels_prim as prim;
use oneflow_kernels_prim::Word;

fn w<T: Into<Word>>(v: T) -> Word {
    v.into()
}

#[test]
fn bags() {
    if !emulator::start() {
        return;
    }
    for (d, tolerance) in [(F32, 1e-5), (F64, 1e-13), (BF16, 2e-2)] {
        for (mode, even, lay, last_is_end) in [
            (0u64, true, Lay::Rows, false),
            (1, true, Lay::Reversed, false),
            (2, false, Lay::Stepped, false),
            (0, false, Lay::Rows, true),
            (1, false, Lay::Rows, false),
        ] {
            for (start, rows, padding) in [(0i64, 11i64, -1i64), (3, 4, 5)] {
                if mode == 2 && start > 0 {
                    continue;
                }
                let (sizes, bags) = if even { (vec![4, 3], 4) } else { (vec![12], 4) };
                let ends = [0.0, 3.0, 3.0, 9.0, 12.0];
                let offsets = (!even)
                    .then(|| Arr::empty(DType::I32, &[bags + last_is_end as i64], Lay::Stepped).fill(|i| ends[i]));
                let mut case = Case::new(&prim::EMBEDDING_BAG, vec![], vec![], &[]);
                case.params = vec![w(mode), w(padding), w(last_is_end), w(start), w(11i64)];
                case.outs = vec![
                    Some(Arr::empty(d, &[bags, 5], Lay::Reversed)),
                    (mode == 2).then(|| Arr::empty(I64, &[bags, 5], Lay::Rows)),
                ];
                let factors = (mode == 0).then(|| Arr::random(d, &sizes, lay, 3));
                let index = Arr::indices(&sizes, lay, 11, 2);
                case.ins = vec![Some(Arr::random(d, &[rows, 5], lay, 1)), Some(index), offsets, factors];
                case.within(tolerance).named(format!("{d} {mode} {even} {lay:?} {start}")).check();
            }
        }
    }
}

#[test]
fn searches_and_running_sums() {
    if !emulator::start() {
        return;
    }
    for d in [F32, F64, BF16, I64] {
        for right in [false, true] {
            for out in [I64, DType::I32] {
                let row = Arr::empty(d, &[2, 9], Lay::Stepped).fill(|i| match (d.is_float(), i % 9) {
                    (true, 8) => f64::NAN,
                    (_, k) => (k / 2) as f64,
                });
                let values = Arr::random(d, &[2, 30], Lay::Reversed, 4).fill(|i| match (d.is_float(), i) {
                    (true, 3) => f64::NAN,
                    (_, i) => (i % 7) as f64 - 1.0,
                });
                let sorter = Arr::empty(I64, &[2, 9], Lay::Rows).fill(|i| (i % 9) as f64);
                let to = || vec![Arr::empty(out, &[2, 30], Lay::Rows)];
                let params = [w(right)];
                let ins = vec![row.clone(), values.clone(), sorter];
                Case::new(&prim::SEARCHSORTED, to(), ins, &params).named(d).check();
                Case::new(&prim::SEARCHSORTED, to(), vec![row, values.clone()], &params).named(d).check();
                let one = Arr::empty(d, &[5], Lay::Stepped).fill(|i| i as f64);
                Case::new(&prim::SEARCHSORTED, to(), vec![one, values], &params).named(d).check();
            }
        }
    }
    for (d, tolerance) in [(F32, 1e-6), (F64, 1e-13), (BF16, 1e-2)] {
        for (sizes, dim) in [(&[4i64, 33, 5][..], 1usize), (&[2, 700], 1), (&[40, 3], 0), (&[], 0)] {
            let mut x = Arr::random(d, sizes, Lay::Reversed, 5);
            if x.numel() > 40 {
                x.set(0, f64::NEG_INFINITY);
                x.set(30, f64::NAN);
            }
            let out = vec![Arr::empty(d, sizes, Lay::Stepped)];
            let c = Case::new(&prim::LOGCUMSUMEXP, out, vec![x], &[w(dim as i64)]);
            c.within(tolerance).named(format!("{d} {sizes:?}")).check();
        }
    }
    for d in [F32, F64] {
        for (from, to) in [(&[70_000i64][..], &[1i64][..]), (&[3, 50, 4], &[3, 1, 1]), (&[6, 7], &[1, 1])] {
            // The CPU declines other layouts.
            let x = Arr::random(d, from, Lay::Rows, 7);
            let by = [Word::from(3.0), Word::from(d == F32)];
            let c = Case::new(&prim::SQUARE_DEVIATIONS, vec![Arr::empty(d, to, Lay::Stepped)], vec![x], &by);
            c.within(if d == F32 { 1e-4 } else { 1e-11 }).named(format!("{from:?}")).check();
        }
    }
}

#[test]
fn draws_are_the_host_s() {
    if !emulator::start() {
        return;
    }
    let window: Vec<Word> = [2i64, 40, 50, 3, 7].map(w).into();
    for kind in 0..3u64 {
        for d in [F32, F64, I64] {
            let params = [&[w(kind), w(77u64), w(5u64)][..], &window].concat();
            let a = Arr::empty(F64, &[30, 20], Lay::Reversed)
                .fill(|i| if kind == 1 { (i % 90) as f64 } else { 0.1 * i as f64 });
            let b = Arr::empty(F64, &[30, 20], Lay::Rows).fill(|i| (i % 11) as f64 / 10.0);
            let ins = if kind == 1 { vec![a, b] } else { vec![a] };
            let c = Case::new(&prim::RANDOM_BY, vec![Arr::empty(d, &[30, 20], Lay::Stepped)], ins, &params);
            // Gamma goes through libm on both sides.
            c.within(if kind == 2 && d != I64 { 1e-6 } else { 0.0 }).named(format!("{kind} {d}")).check();
        }
    }
    let rate = Arr::empty(F64, &[2], Lay::Rows).fill(|i| i as f64 - 1.0);
    let wrong = Case::new(
        &prim::RANDOM_BY,
        vec![Arr::empty(F32, &[2], Lay::Rows)],
        vec![rate],
        &[w(0u64), w(1u64), w(0u64), w(0i64)],
    );
    let e = wrong.error();
    assert!(e.kind() == ErrorKind::Runtime && e.text().contains("Poisson rate"), "{e}");
}

#[test]
fn resampling() {
    if !emulator::start() {
        return;
    }
    for (d, tolerance) in [(F32, 1e-5), (F64, 1e-12), (BF16, 2e-2)] {
        for mode in 0..5u64 {
            for (small, large) in [(&[2i64, 3, 5, 7][..], &[2i64, 3, 8, 15][..]), (&[2, 3, 9], &[2, 3, 4])] {
                let k = small.len() as i64 - 2;
                for (align, antialias, scale) in
                    [(false, false, 0.0), (true, false, 0.0), (false, true, 0.0), (false, false, 0.6)]
                {
                    let fits = mode == 2 || mode == 3;
                    if (align || antialias) && !fits || mode == 4 && scale > 0.0 {
                        continue;
                    }
                    for transposed in [false, true] {
                        let (from, to) = if transposed { (large, small) } else { (small, large) };
                        let mut params = vec![w(mode), w(align), w(antialias), w(transposed), w(k)];
                        params.extend((0..k).map(|_| w(scale)));
                        for lay in [Lay::Rows, Lay::Reversed] {
                            let make = |sizes: &[i64], seed| match lay {
                                Lay::Rows => Arr::random(d, sizes, lay, seed),
                                _ => channels_last(Arr::random(d, sizes, Lay::Rows, seed)),
                            };
                            let c = Case::new(&prim::RESAMPLE, vec![make(to, 2)], vec![make(from, 1)], &params);
                            let name = format!("{d} {mode} {from:?} {to:?} {align} {antialias} {scale} {lay:?}");
                            c.within(tolerance).named(name).check();
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn padding() {
    if !emulator::start() {
        return;
    }
    let number = |v: f64| [w(true), w(v)];
    for (mode, widths) in [
        (0u64, [0i64, 0, 1, 2, -1, 3]),
        (1, [0, 0, 2, 3, 3, 1]),
        (1, [0, 0, -1, 2, 2, -2]),
        (2, [2, 1, 3, 4, -2, 2]),
        (3, [0, 0, 4, 2, 1, 5]),
        (3, [0, 0, -1, 2, 3, -1]),
        (4, [0, 0, 1, -1, 3, -3]),
    ] {
        let sizes = [2i64, 4, 5];
        let padded: Vec<i64> = (0..3).map(|d| sizes[d] + widths[2 * d] + widths[2 * d + 1]).collect();
        let mut params = vec![w(mode), w(6u64)];
        params.extend(widths.map(w));
        for lay in [Lay::Rows, Lay::Reversed, Lay::Stepped] {
            for d in [F32, F64, BF16, I64, BOOL] {
                let with_value = [&params[..], &number(1.0)].concat();
                let x = Arr::random(d, &sizes, lay, 3);
                let c = Case::new(&prim::PAD, vec![Arr::empty(d, &padded, lay)], vec![x], &with_value);
                c.named(format!("{d} {mode} {widths:?} {lay:?}")).check();
            }
            for (d, tolerance) in [(F32, 1e-6), (F64, 1e-14), (BF16, 2e-2)] {
                if matches!(mode, 0 | 4) {
                    continue;
                }
                let g = Arr::random(d, &padded, lay, 4);
                let c = Case::new(&prim::PAD_BACKWARD, vec![Arr::empty(d, &sizes, lay)], vec![g], &params);
                c.within(tolerance).named(format!("backward {d} {mode} {widths:?} {lay:?}")).check();
            }
        }
    }
}

/// Operands of any layout, by a library where there is one, else on the host; what lies between the elements of results stays.
#[test]
fn decompositions_of_any_layout() {
    if !emulator::start() {
        return;
    }
    for lay in [Lay::Rows, Lay::Reversed, Lay::Stepped] {
        let x = Arr::random(F64, &[2, 4, 4], lay, 3);
        let outs = vec![
            Arr::empty(F64, &[2, 4, 4], lay),
            Arr::empty(DType::I32, &[2, 4], Lay::Stepped),
            Arr::empty(DType::I32, &[2], Lay::Rows),
        ];
        Case::new(&prim::LU_FACTOR, outs, vec![x], &[w(true), w(0u64)]).named(format!("{lay:?}")).within(1e-12).check();
    }
    let empty = Case::new(
        &prim::MATRIX_EXP,
        vec![Arr::empty(F32, &[0, 3, 3], Lay::Rows)],
        vec![Arr::empty(F32, &[0, 3, 3], Lay::Rows)],
        &[],
    );
    empty.check();
}
