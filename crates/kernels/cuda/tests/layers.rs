//! Norms over channels, attention and recurrent layers on the emulated device against the CPU's.

mod common;

use common::*;
use oneflow_base::DType;
use oneflow_kernels_prim as prim;
use oneflow_kernels_prim::Word;

fn w<T: Into<Word>>(v: T) -> Word {
    v.into()
}

fn positive(dtype: DType, sizes: &[i64], seed: u64) -> Arr {
    let mut r = Rng::new(seed);
    Arr::empty(dtype, sizes, Lay::Rows).fill(|_| r.real().abs() + 0.5)
}

#[test]
fn norms_over_channels() {
    if !emulator::start() {
        return;
    }
    for (d, tolerance) in [(F32, 1e-4), (F64, 1e-12), (BF16, 4e-2)] {
        let c = d.compute();
        for (sizes, lay) in [
            (&[3i64, 6, 5, 4][..], Lay::Rows),
            (&[3, 6, 5, 4], Lay::Reversed),
            (&[3, 6, 5, 4], Lay::Stepped),
            (&[9, 4], Lay::Rows),
            (&[2, 4, 700], Lay::Rows),
            (&[1, 2, 3, 2, 2], Lay::Rows),
        ] {
            let arr = |seed| match lay {
                Lay::Reversed => channels_last(Arr::random(d, sizes, Lay::Rows, seed)),
                _ => Arr::random(d, sizes, lay, seed),
            };
            let n = sizes[1];
            for (weighted, training) in [(true, true), (false, true), (true, false)] {
                let vector = |dtype, seed| Arr::random(dtype, &[n], Lay::Stepped, seed);
                let weight = |seed| weighted.then(|| vector(d, seed));
                let name = format!("{d} {sizes:?} {lay:?} {weighted} {training}");
                let params = [w(training), w(0.1f64), w(1e-5f64)];
                let mut case = Case::new(&prim::BATCH_NORM, vec![], vec![], &params);
                let stat = |on: bool, dtype| on.then(|| Arr::empty(dtype, &[n], Lay::Rows));
                case.outs = vec![Some(arr(9)), stat(true, c), stat(true, c), stat(training, F32), stat(training, c)];
                case.ins = vec![
                    Some(arr(1)),
                    weight(2),
                    weight(3),
                    Some(Arr::random(F32, &[n], Lay::Rows, 4)),
                    Some(positive(c, &[n], 5)),
                ];
                case.within(tolerance).named(&name).check();
                let mut case = Case::new(&prim::BATCH_NORM_BACKWARD, vec![], vec![], &[w(training)]);
                case.outs = vec![Some(arr(9)), weight(6), weight(7)];
                let stats = [Some(Arr::random(c, &[n], Lay::Rows, 4)), Some(positive(c, &[n], 5))];
                case.ins = [vec![Some(arr(1)), Some(arr(2))], stats.to_vec(), vec![weight(2)]].concat();
                // Sums of many terms.
                case.within(tolerance * 20.0).named(&name).check();
            }
            for groups in [1, 2, n] {
                let vector = |seed| Arr::random(d, &[n], Lay::Rows, seed);
                let stat = || Arr::empty(c, &[sizes[0], groups], Lay::Rows);
                let name = format!("{d} {sizes:?} {lay:?} {groups}");
                if d != BF16 && sizes.iter().product::<i64>() == sizes[0] * n {
                    // A group of one or two elements has hardly a deviation.
                    continue;
                }
                let ins = vec![arr(1), vector(2), vector(3)];
                let params = [w(groups), w(1e-5f64)];
                let c1 = Case::new(&prim::GROUP_NORM, vec![arr(9), stat(), stat()], ins, &params);
                c1.within(tolerance).named(&name).check();
                let stats = [Arr::random(c, &[sizes[0], groups], Lay::Rows, 4), positive(c, &[sizes[0], groups], 5)];
                let ins = [vec![arr(1), arr(2)], stats.to_vec(), vec![vector(6)]].concat();
                let outs = vec![arr(9), vector(7), vector(8)];
                let c1 = Case::new(&prim::GROUP_NORM_BACKWARD, outs, ins, &[w(groups)]);
                c1.within(tolerance * 20.0).named(&name).check();
            }
        }
    }
}
