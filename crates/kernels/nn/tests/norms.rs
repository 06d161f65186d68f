//! Batch norm, group norm and resampling: every layout gives what plain f64 gives, the same bits for any number of threads.

use oneflow_base::DType;
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::*;

fn same_bits(what: &str, f: impl Fn() -> Vec<Buf>) -> Vec<Vec<f64>> {
    oneflow_kernels_nn::register();
    same_for_any_threads(what, f)
}

fn near(what: &str, a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!((x - y).abs() <= tolerance * (1.0 + y.abs()), "{what}: element {i}: {x} for {y}");
    }
}

/// Half types lose what they cannot hold; f32 the order of its sums.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 2e-5,
        _ => 2e-2,
    }
}

/// [n, c, s]: rows of spatial elements, and (reversed) adjacent samples; [rows, c]: adjacent channels.
const SHAPES: [&[i64]; 4] = [&[6, 5, 49], &[3, 40, 700], &[900, 37], &[2, 3, 1]];

#[test]
fn batch_norm() {
    for dtype in FLOATS {
        for sizes in SHAPES {
            let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            let mut plain: Option<Vec<Vec<f64>>> = None;
            for lay in LAYS {
                let channels = [sizes[1]];
                let x = Buf::of(dtype, sizes, lay, noise(1));
                let g = Buf::of(dtype, sizes, Lay::Plain, noise(2));
                let w = Buf::of(wide, &channels, lay, noise(3));
                let old = Buf::of(wide, &channels, Lay::Plain, |_| 1.0);
                let one = |lay| Buf::new(wide, &channels, lay);
                let values = same_bits("batch_norm", || {
                    let (y, gx) = (Buf::new(dtype, sizes, lay), Buf::new(dtype, sizes, lay));
                    let (m, s) = (one(Lay::Plain), one(Lay::Plain));
                    let (rm, rv, gw, gb) = (one(lay), one(lay), one(lay), one(lay));
                    let ins = [Some(&x), Some(&w), None, Some(&old), Some(&old)];
                    let outs = [Some(&y), Some(&m), Some(&s), Some(&rm), Some(&rv)];
                    run(&BATCH_NORM, &outs, &ins, words![true, 0.25, 1e-5]).unwrap();
                    let ins = [Some(&g), Some(&x), Some(&m), Some(&s), Some(&w)];
                    run(&BATCH_NORM_BACKWARD, &[Some(&gx), Some(&gw), Some(&gb)], &ins, words![true]).unwrap();
                    vec![y, m, s, rm, rv, gx, gw, gb]
                });
                let reference = plain.get_or_insert_with(|| batch_norm_reference(&x, &g, &w, sizes));
                for (i, (a, b)) in values.iter().zip(reference.iter()).enumerate() {
                    near(&format!("{dtype} {sizes:?} {lay:?} output {i}"), a, b, 8.0 * tolerance(dtype));
                }
            }
        }
    }
}

/// Output, mean, rstd, running mean and variance, gradients of x, weight and bias: as the formulas say.
fn batch_norm_reference(x: &Buf, g: &Buf, w: &Buf, sizes: &[i64]) -> Vec<Vec<f64>> {
    let (x, g, w) = (x.values(), g.values(), w.values());
    let (c, s) = (sizes[1] as usize, sizes[2..].iter().product::<i64>() as usize);
    let of = |i: usize| i / s % c;
    let n = (x.len() / c) as f64;
    let sum = |f: &dyn Fn(usize) -> f64| {
        let mut v = vec![0.0; c];
        (0..x.len()).for_each(|i| v[of(i)] += f(i));
        v
    };
    let mean: Vec<f64> = sum(&|i| x[i]).iter().map(|v| v / n).collect();
    let var: Vec<f64> = sum(&|i| (x[i] - mean[of(i)]).powi(2)).iter().map(|v| v / n).collect();
    let rstd: Vec<f64> = var.iter().map(|v| 1.0 / (v + 1e-5).sqrt()).collect();
    let hat: Vec<f64> = (0..x.len()).map(|i| (x[i] - mean[of(i)]) * rstd[of(i)]).collect();
    let (gb, gw) = (sum(&|i| g[i]), sum(&|i| g[i] * hat[i]));
    let gx = |i: usize| w[of(i)] * rstd[of(i)] * (g[i] - gb[of(i)] / n - hat[i] * gw[of(i)] / n);
    vec![
        (0..x.len()).map(|i| hat[i] * w[of(i)]).collect(),
        mean.clone(),
        rstd.clone(),
        mean.iter().map(|v| 0.75 + 0.25 * v).collect(),
        var.iter().map(|v| 0.75 + 0.25 * v * n / (n - 1.0)).collect(),
        (0..x.len()).map(gx).collect(),
        gw,
        gb,
    ]
}

#[test]
fn a_group_for_each_channel_is_batch_norm_of_each_sample() {
    for dtype in [DType::F32, DType::F64] {
        for lay in LAYS {
            let (x, g) = (Buf::of(dtype, &[1, 5, 49], lay, noise(1)), Buf::of(dtype, &[1, 5, 49], lay, noise(2)));
            let w = Buf::of(dtype, &[5], Lay::Plain, noise(3));
            let values = |group: bool| {
                same_bits("group_norm", || {
                    let (y, gx) = (Buf::new(dtype, &[1, 5, 49], lay), Buf::new(dtype, &[1, 5, 49], lay));
                    let stat =
                        || if group { Buf::new(dtype, &[1, 5], Lay::Plain) } else { Buf::new(dtype, &[5], Lay::Plain) };
                    let (m, s) = (stat(), stat());
                    let (gw, gb) = (Buf::new(dtype, &[5], Lay::Plain), Buf::new(dtype, &[5], Lay::Plain));
                    let ins = [Some(&g), Some(&x), Some(&m), Some(&s), Some(&w)];
                    let outs = [Some(&gx), Some(&gw), Some(&gb)];
                    if group {
                        run(
                            &GROUP_NORM,
                            &[Some(&y), Some(&m), Some(&s)],
                            &[Some(&x), Some(&w), None],
                            words![5i64, 1e-5],
                        )
                        .unwrap();
                        run(&GROUP_NORM_BACKWARD, &outs, &ins, words![5i64]).unwrap();
                    } else {
                        let ins5 = [Some(&x), Some(&w), None, None, None];
                        let outs5 = [Some(&y), Some(&m), Some(&s), None, None];
                        run(&BATCH_NORM, &outs5, &ins5, words![true, 0.0, 1e-5]).unwrap();
                        run(&BATCH_NORM_BACKWARD, &outs, &ins, words![true]).unwrap();
                    }
                    vec![y, m, s, gx, gw, gb]
                })
            };
            for (a, b) in values(true).iter().zip(&values(false)) {
                near("group", a, b, tolerance(dtype));
            }
        }
    }
}

/// The adjoint map: <resample(x), g> = <x, adjoint(g)>, for every mode and layout.
#[test]
fn resampling_and_its_adjoint() {
    let modes = [
        ResampleMode::Nearest,
        ResampleMode::NearestExact,
        ResampleMode::Linear,
        ResampleMode::Cubic,
        ResampleMode::Area,
    ];
    for mode in modes {
        for antialias in [false, true] {
            for (from, to) in [([7i64, 5], [3i64, 11]), ([4, 9], [4, 4]), ([6, 6], [6, 6])] {
                for lay in LAYS {
                    let (small, large) = ([2, 20, from[0], from[1]], [2, 20, to[0], to[1]]);
                    let x = Buf::of(DType::F64, &small, lay, noise(1));
                    let g = Buf::of(DType::F64, &large, lay, noise(2));
                    let v = same_bits("resample", || {
                        let (y, gx) = (Buf::new(DType::F64, &large, lay), Buf::new(DType::F64, &small, lay));
                        let words = |t: bool| -> [Word; 7] {
                            [
                                (mode as u64).into(),
                                false.into(),
                                antialias.into(),
                                t.into(),
                                2i64.into(),
                                0.0.into(),
                                0.0.into(),
                            ]
                        };
                        run(&RESAMPLE, &[Some(&y)], &[Some(&x)], &words(false)).unwrap();
                        run(&RESAMPLE, &[Some(&gx)], &[Some(&g)], &words(true)).unwrap();
                        vec![y, gx]
                    });
                    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
                    near("adjoint", &[dot(&v[0], &g.values())], &[dot(&x.values(), &v[1])], 1e-10);
                }
            }
        }
    }
}

#[test]
fn every_instruction_set() {
    again_on_other_isas();
}
