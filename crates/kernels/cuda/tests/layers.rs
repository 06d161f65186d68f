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
                let stats = [Some(Arr::random(c, &[n], Lay::Stepped, 4)), Some(positive(c, &[n], 5))];
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

#[test]
fn attention() {
    if !emulator::start() {
        return;
    }
    // Batch, heads, heads of key and value, rows, keys, widths of query and value.
    for [b, h, g, rows, keys, e, v] in
        [[2i64, 2, 2, 5, 7, 4, 3], [1, 2, 1, 70, 70, 8, 20], [1, 2, 1, 1, 130, 33, 17], [1, 2, 2, 66, 3, 16, 16]]
    {
        let (q, k, val, out) = ([b, h, rows, e], [b, g, keys, e], [b, g, keys, v], [b, h, rows, v]);
        let scores = [b, h, rows, keys];
        for (d, tolerance) in [(F32, 2e-5), (F64, 1e-12), (BF16, 3e-2)] {
            for (n, (causal, mask, p, lay)) in [
                (false, None, 0.0, Lay::Rows),
                (true, None, 0.0, Lay::Reversed),
                (false, Some(BOOL), 0.0, Lay::Stepped),
                (true, Some(d), 0.3, Lay::Rows),
                (false, Some(F32), 0.5, Lay::Rows),
            ]
            .into_iter()
            .enumerate()
            {
                if d != F32 && (rows * keys > 1000) != (n == 1) {
                    continue;
                }
                let seed = 10 * n as u64;
                let mask = mask.map(|m| {
                    let mut r = Rng::new(seed);
                    // One row sees nothing.
                    Arr::empty(m, &[1, 1, rows, keys], Lay::Rows).fill(|i| match (i as i64 / keys == 2, m) {
                        (hidden, DType::Bool) => (r.below(3) > 0 && !hidden) as i64 as f64,
                        (true, _) => f64::NEG_INFINITY,
                        _ => r.real(),
                    })
                });
                let mask = mask.map(|m| Arr { sizes: scores.into(), strides: vec![0, 0, keys, 1], ..m });
                let window = [4, b + 1, h + 2, rows + 3, keys + 1, 1, 0, 2, 1].map(|n: i64| w(n));
                let head = [w(0.3f64), w(causal), w(p), w(5u64), w(9u64), w(0u64)];
                let params = [&head[..], &window].concat();
                let arr = |sizes: &[i64], seed| Arr::random(d, sizes, lay, seed);
                let stat = || Arr::empty(d.compute(), &[b, h, rows], Lay::Rows);
                let name = format!("{d} {q:?} {k:?} {causal} {p} {lay:?}");
                let outs = vec![arr(&out, seed), stat()];
                let mut case = Case::new(&prim::ATTENTION, outs, vec![], &params);
                case.ins = vec![Some(arr(&q, 1)), Some(arr(&k, 2)), Some(arr(&val, 3)), mask.clone()];
                // What the backward reads is the forward's.
                let mut forward = Case {
                    outs: case.outs.clone(),
                    ins: case.ins.clone(),
                    params: params.clone(),
                    ..Case::new(&prim::ATTENTION, vec![], vec![], &[])
                };
                case.within(tolerance).named(&name).check();
                forward.on_cpu().unwrap();
                let mut back = Case::new(&prim::ATTENTION_BACKWARD, vec![], vec![], &params);
                let with_mask = mask.as_ref().is_some_and(|m| m.dtype != BOOL);
                let grad_mask = with_mask.then(|| Arr::empty(d, &scores, Lay::Rows));
                back.outs = vec![Some(arr(&q, 7)), Some(arr(&k, 7)), Some(arr(&val, 7)), grad_mask];
                back.ins = [vec![Some(arr(&out, 4))], forward.ins, forward.outs].concat();
                back.within(tolerance * 4.0).named(&name).check();
            }
        }
    }
}

#[test]
fn recurrent_layers() {
    if !emulator::start() {
        return;
    }
    for (d, tolerance) in [(F32, 1e-5), (F64, 1e-12)] {
        for (mode, g, kept) in [(0u64, 1, 1), (1, 1, 1), (2, 4, 4), (3, 3, 4)] {
            for (reverse, packed, projected) in [(false, false, false), (true, true, false), (false, true, true)] {
                let lstm = mode == 2;
                if projected && !lstm {
                    continue;
                }
                let (steps, h) = (vec![4i64, 3, 3, 1], 5i64);
                let (t, b, r) = (4i64, 4i64, if projected { 3 } else { h });
                let seq = |width: i64| if packed { vec![steps.iter().sum(), width] } else { vec![t, b, width] };
                let mut params = vec![w(mode), w(reverse)];
                if packed {
                    params.extend(steps.iter().map(|n| w(*n)));
                }
                let arr = |sizes: &[i64], seed| Arr::random(d, sizes, Lay::Rows, seed);
                let name = format!("{d} {mode} {reverse} {packed} {projected}");
                let ins = vec![
                    Some(arr(&seq(g * h), 1)),
                    Some(Arr::random(d, &[b, r], Lay::Reversed, 2)),
                    lstm.then(|| arr(&[b, h], 3)),
                    Some(Arr::random(d, &[g * h, r], Lay::Stepped, 4)),
                    reverse.then(|| arr(&[g * h], 5)),
                    projected.then(|| arr(&[r, h], 6)),
                ];
                let outs = vec![
                    Some(arr(&seq(r), 7)),
                    Some(Arr::empty(d, &[b, r], Lay::Stepped)),
                    lstm.then(|| arr(&[b, h], 7)),
                    Some(arr(&seq(kept * h), 7)),
                    lstm.then(|| arr(&seq(h), 7)),
                ];
                let case = |outs, ins| {
                    let mut c = Case::new(&prim::RNN, vec![], vec![], &params);
                    (c.outs, c.ins) = (outs, ins);
                    c.within(tolerance).named(&name)
                };
                case(outs.clone(), ins.clone()).check();
                // What the backward reads is the forward's.
                let mut forward = case(outs, ins);
                forward.on_cpu().unwrap();
                let (made, given) = (forward.outs, forward.ins);
                let mut back = Case::new(&prim::RNN_BACKWARD, vec![], vec![], &params);
                let reached = Arr::random(d, &seq(r), if packed { Lay::Rows } else { Lay::Reversed }, 8);
                back.ins = vec![
                    (mode != 1).then_some(reached),
                    Some(arr(&[b, r], 9)),
                    lstm.then(|| arr(&[b, h], 10)),
                    given[1].clone(),
                    given[2].clone(),
                    given[3].clone(),
                    given[5].clone(),
                    made[0].clone(),
                    made[3].clone(),
                    made[4].clone(),
                ];
                back.outs = vec![
                    Some(arr(&seq(g * h), 7)),
                    (mode == 3).then(|| arr(&seq(g * h), 7)),
                    Some(Arr::empty(d, &[b, r], Lay::Reversed)),
                    lstm.then(|| arr(&[b, h], 7)),
                    projected.then(|| arr(&seq(r), 7)),
                    projected.then(|| arr(&seq(h), 7)),
                ];
                back.within(tolerance * 4.0).named(&name).check();
            }
        }
    }
}

#[test]
fn losses_of_all_rows() {
    if !emulator::start() {
        return;
    }
    for (d, tolerance) in [(F32, 1e-5), (F64, 1e-12), (BF16, 2e-2)] {
        for (mean, weighted, smoothing) in [(true, false, 0.0), (true, true, 0.1), (false, true, 0.0)] {
            let (n, c) = (50, 9);
            let target = Arr::indices(&[n], Lay::Rows, c, 3);
            let compute = d.compute();
            let mut case = Case::new(&prim::CROSS_ENTROPY_REDUCED, vec![], vec![], &[]);
            case.params = vec![w(2i64), w(smoothing), w(mean)];
            let number = |d| Some(Arr::empty(d, &[], Lay::Rows));
            case.outs = vec![number(d), Some(Arr::empty(compute, &[n], Lay::Rows)), number(compute)];
            let weight = weighted.then(|| positive(d, &[c], 4));
            case.ins = vec![Some(Arr::random(d, &[n, c], Lay::Reversed, 1)), Some(target), weight];
            case.within(tolerance).named(format!("{d} {mean} {weighted} {smoothing}")).check();
        }
    }
}
