//! Parts by themselves: keys that order numbers, draws on every instruction set, moments of distributions.

use oneflow_base::bf16;
use oneflow_kernels_index::parts::{Draw, Fill, Real, Stream, binomial, gamma, poisson};
use oneflow_kernels_prim::{Isa, RandomKind, dispatch};

#[test]
fn keys_order_values() {
    let inf = f32::INFINITY;
    let sorted = [-inf, -2.0, -1e-40, 0.0, 1e-40, 2.0, inf, f32::NAN];
    assert!(sorted.windows(2).all(|w| w[0].key() < w[1].key()));
    assert_eq!((-0.0f32).key(), 0.0f32.key());
    assert_eq!((-f64::NAN).key(), u64::MAX);
    assert!((-1i8).key() < 0i8.key() && i64::MIN.key() == 0);
    assert!(bf16::from_f32(-3.0).key() < bf16::from_f32(1.0).key());
    assert!(Real::max(1.0f32, f32::NAN).is_nan() && Real::max(f32::NAN, 1.0).is_nan());
}

#[test]
fn every_isa_gives_the_same_bits() {
    for kind in [RandomKind::Uniform, RandomKind::Normal, RandomKind::Exponential, RandomKind::Bernoulli] {
        let d = Draw { kind, seed: 11, offset: 5, a: 0.25f64.into(), b: 2.0f64.into(), digits: 24 };
        let drawn = |isa| {
            let mut v = [0f32; 256];
            dispatch(isa, Fill { draw: &d, first: u32::MAX as u64 - 100, out: &mut v[..] });
            v.map(f32::to_bits)
        };
        for isa in Isa::available() {
            assert_eq!(drawn(*isa), drawn(Isa::Baseline), "{kind:?} {isa:?}");
        }
    }
}

/// Mean and variance over many elements.
fn moments(f: impl Fn(&mut Stream) -> f64) -> (f64, f64) {
    let n = 20_000;
    let v: Vec<f64> = (0..n).map(|i| f(&mut Stream::new(7, 3, i))).collect();
    let mean = v.iter().sum::<f64>() / n as f64;
    (mean, v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64)
}

fn close(got: (f64, f64), mean: f64, variance: f64) {
    // Four standard errors of the mean; the variance within a tenth.
    assert!((got.0 - mean).abs() < 4.0 * (variance / 20_000.0).sqrt(), "{got:?} {mean} {variance}");
    assert!((got.1 / variance - 1.0).abs() < 0.1, "{got:?} {mean} {variance}");
}

#[test]
fn distributions_have_their_moments() {
    for rate in [0.5, 4.0, 12.0, 300.0] {
        close(moments(|s| poisson(s, rate)), rate, rate);
    }
    for (n, p) in [(10.0, 0.3), (1000.0, 0.002), (100.0, 0.4), (500.0, 0.9)] {
        close(moments(|s| binomial(s, n, p)), n * p, n * p * (1.0 - p));
    }
    for shape in [0.4, 1.0, 7.5] {
        close(moments(|s| gamma(s, shape)), shape, shape);
    }
}
