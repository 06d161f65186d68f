//! Values of rows that nobody has updated: a function of seed, table, key and column, so they need no memory and no order.

use crate::batch::{Key, mix};
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::philox;

/// The distribution of a column's initial values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initializer {
    Constant(f32),
    Uniform {
        low: f32,
        high: f32,
    },
    Normal {
        mean: f32,
        std: f32,
    },
    /// Normal, drawn again outside of [a, b]: here by the inverse of the cumulative distribution.
    TruncNormal {
        mean: f32,
        std: f32,
        a: f32,
        b: f32,
    },
}

/// Elements whose random words are drawn together.
const GROUP: usize = 16;

impl Initializer {
    fn parts(&self) -> (u32, [f32; 4]) {
        match *self {
            Initializer::Constant(v) => (0, [v, 0.0, 0.0, 0.0]),
            Initializer::Uniform { low, high } => (1, [low, high, 0.0, 0.0]),
            Initializer::Normal { mean, std } => (2, [mean, std, 0.0, 0.0]),
            Initializer::TruncNormal { mean, std, a, b } => (3, [mean, std, a, b]),
        }
    }

    /// Refuses numbers that describe no distribution.
    pub fn check(&self) -> Result<()> {
        let sensible = match *self {
            Initializer::Constant(_) => true,
            Initializer::Uniform { low, high } => low <= high,
            Initializer::Normal { std, .. } => std >= 0.0,
            Initializer::TruncNormal { std, a, b, .. } => std > 0.0 && a <= b,
        };
        if sensible && self.parts().1.iter().all(|v| v.is_finite()) {
            return Ok(());
        }
        Err(Error::value(format!("embedding: {self:?} is no distribution of finite numbers")))
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let (kind, numbers) = self.parts();
        out.extend(kind.to_le_bytes());
        numbers.iter().for_each(|n| out.extend(n.to_le_bytes()));
    }

    pub(crate) fn read(next: &mut impl FnMut() -> Option<u32>) -> Option<Initializer> {
        let kind = next()?;
        let mut number = || next().map(f32::from_bits);
        let n = [number()?, number()?, number()?, number()?];
        Some(match kind {
            0 => Initializer::Constant(n[0]),
            1 => Initializer::Uniform { low: n[0], high: n[1] },
            2 => Initializer::Normal { mean: n[0], std: n[1] },
            3 => Initializer::TruncNormal { mean: n[0], std: n[1], a: n[2], b: n[3] },
            _ => return None,
        })
    }

    /// Writes the values of the columns `first..` of a row.
    fn fill(&self, seed: u64, id: u64, first: usize, out: &mut [f32]) {
        if let Initializer::Constant(v) = *self {
            return out.fill(v);
        }
        for (g, out) in out.chunks_mut(GROUP).enumerate() {
            let words = philox::words::<GROUP>(seed, id, (first + g * GROUP) as u64);
            for (i, o) in out.iter_mut().enumerate() {
                *o = match *self {
                    Initializer::Constant(v) => v,
                    Initializer::Uniform { low, high } => low + (high - low) * philox::uniform_f32(words[0][i]),
                    Initializer::Normal { mean, std } => mean + std * philox::normal_f32(words[0][i], words[1][i]),
                    Initializer::TruncNormal { mean, std, a, b } => {
                        truncated([mean, std, a, b], philox::uniform_f64(words[0][i], words[1][i]))
                    }
                };
            }
        }
    }
}

/// Writes a row's initial weights. `seed` is the store's.
pub fn fill_row(columns: &[Initializer], dims: &[usize], seed: u64, key: Key, out: &mut [f32]) {
    // Each table has a sequence of its own; a key's position in it is the key.
    let seed = mix(seed ^ mix(key.table as u64 + 1));
    let mut first = 0;
    for (column, &dim) in columns.iter().zip(dims) {
        column.fill(seed, key.id, first, &mut out[first..first + dim]);
        first += dim;
    }
}

/// The quantile `u` of the truncated distribution.
fn truncated([mean, std, a, b]: [f32; 4], u: f64) -> f32 {
    let (mean, std, a, b) = (mean as f64, std as f64, a as f64, b as f64);
    let (low, high) = (cumulative((a - mean) / std), cumulative((b - mean) / std));
    let value = if high - low > 1e-12 {
        mean + std * quantile((low + (high - low) * u).clamp(1e-15, 1.0 - 1e-15))
    } else {
        // Both bounds lie in one far tail, where doubles tell no shares apart.
        a + (b - a) * u
    };
    value.clamp(a, b) as f32
}

/// The cumulative normal distribution, by Abramowitz and Stegun 26.2.17 (error below 7.5e-8).
fn cumulative(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let poly =
        t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let upper = (-0.5 * x * x).exp() / (std::f64::consts::TAU).sqrt() * poly;
    if x >= 0.0 { 1.0 - upper } else { upper }
}

/// The inverse of the cumulative normal distribution, by Acklam's rational approximations (relative error 1.2e-9).
fn quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416];
    let poly = |c: &[f64], x: f64| c.iter().fold(0.0, |a, c| a * x + c);
    let tail = |q: f64| poly(&C, q) / (poly(&D, q) * q + 1.0);
    if p < 0.02425 {
        tail((-2.0 * p.ln()).sqrt())
    } else if p > 1.0 - 0.02425 {
        -tail((-2.0 * (1.0 - p).ln()).sqrt())
    } else {
        let q = p - 0.5;
        poly(&A, q * q) * q / (poly(&B, q * q) * q * q + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(initializer: Initializer, n: usize) -> Vec<f64> {
        let mut out = vec![0.0; 64];
        let mut all = Vec::new();
        for id in 0..n as u64 {
            fill_row(&[initializer], &[64], 7, Key { table: 0, id }, &mut out);
            all.extend(out.iter().map(|v| *v as f64));
        }
        all
    }

    fn moments(v: &[f64]) -> (f64, f64) {
        let mean = v.iter().sum::<f64>() / v.len() as f64;
        (mean, (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64).sqrt())
    }

    #[test]
    fn distributions_have_their_moments() {
        let (mean, std) = moments(&values(Initializer::Normal { mean: 1.0, std: 0.5 }, 1000));
        assert!((mean - 1.0).abs() < 0.01 && (std - 0.5).abs() < 0.01, "{mean} {std}");
        let (mean, std) = moments(&values(Initializer::Uniform { low: -1.0, high: 3.0 }, 1000));
        assert!((mean - 1.0).abs() < 0.03 && (std - 4.0 / 12f64.sqrt()).abs() < 0.02, "{mean} {std}");
        let cut = values(Initializer::TruncNormal { mean: 0.0, std: 1.0, a: -1.0, b: 1.0 }, 1000);
        let (mean, std) = moments(&cut);
        // The standard deviation of a normal distribution cut at one of its own.
        assert!(mean.abs() < 0.01 && (std - 0.5396).abs() < 0.01, "{mean} {std}");
        assert!(cut.iter().all(|v| v.abs() <= 1.0));
        let far = values(Initializer::TruncNormal { mean: 0.0, std: 1.0, a: 50.0, b: 51.0 }, 10);
        assert!(far.iter().all(|v| (50.0..=51.0).contains(v)));
    }

    #[test]
    fn values_depend_on_each_coordinate_and_on_nothing_else() {
        let row = |seed, table, id| {
            let mut out = vec![0.0; 40];
            let columns = [Initializer::Normal { mean: 0.0, std: 1.0 }, Initializer::Uniform { low: 0.0, high: 1.0 }];
            fill_row(&columns, &[7, 33], seed, Key { table, id }, &mut out);
            out
        };
        assert_eq!(row(1, 2, 3), row(1, 2, 3));
        for (seed, table, id) in [(2, 2, 3), (1, 3, 3), (1, 2, 4), (1, 2, u64::MAX)] {
            assert!(row(1, 2, 3).iter().zip(row(seed, table, id)).filter(|(a, b)| **a == *b).count() < 3);
        }
    }

    #[test]
    fn quantile_inverts_cumulative() {
        for i in 1..200 {
            let p = i as f64 / 200.0;
            assert!((cumulative(quantile(p)) - p).abs() < 2e-7, "{p}");
        }
    }
}
