//! Random numbers drawn one after the other: the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), and PyTorch's ways
//! from its words to numbers on a CPU.
//!
//! A number here depends on all draws before it, so there is neither a position to start from nor a split over threads.
//! A launch names an engine by its number (in place of a seed) with the offset `IN_ORDER`; kernels look the engine up, lock
//! it and draw in the order in which elements lie in memory. Philox, the default, knows nothing of this.

use oneflow_base::{DType, Error, Result, bf16, f16};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

/// The call offset that says: the seed is the number of an engine.
pub const IN_ORDER: u64 = u64::MAX;

const N: usize = 624;
const M: usize = 397;

/// Bytes of a state, laid out as PyTorch's.
pub const STATE_BYTES: usize = 5056;

/// The words of MT19937, and the second number of the last pair of normal numbers.
#[derive(Clone, Debug)]
pub struct Engine {
    seed: u64,
    /// Words left before the next twist.
    left: u32,
    next: u32,
    words: [u32; N],
    normal: Option<f64>,
    normal_f32: Option<f32>,
}

impl Engine {
    pub fn new(seed: u64) -> Engine {
        let mut words = [0u32; N];
        words[0] = seed as u32;
        for i in 1..N {
            let before = words[i - 1];
            words[i] = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(i as u32);
        }
        Engine { seed, left: 1, next: 0, words, normal: None, normal_f32: None }
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    fn twist(&mut self) {
        for i in 0..N {
            let y = (self.words[i] & 0x8000_0000) | (self.words[(i + 1) % N] & 0x7fff_ffff);
            let odd = if self.words[(i + 1) % N] & 1 == 1 { 0x9908_b0df } else { 0 };
            self.words[i] = self.words[(i + M) % N] ^ (y >> 1) ^ odd;
        }
        (self.left, self.next) = (N as u32, 0);
    }

    /// The next word.
    #[inline]
    pub fn u32(&mut self) -> u32 {
        self.left -= 1;
        if self.left == 0 {
            self.twist();
        }
        let mut y = self.words[self.next as usize];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// Two words, the high one first.
    #[inline]
    pub fn u64(&mut self) -> u64 {
        let high = self.u32() as u64;
        high << 32 | self.u32() as u64
    }

    /// [0, 1) in steps of 2^-24, from one word.
    #[inline]
    pub fn uniform_f32(&mut self) -> f32 {
        (self.u32() & 0xff_ffff) as f32 * (1.0 / 16_777_216.0)
    }

    /// [0, 1) in steps of 2^-53, from two words.
    #[inline]
    pub fn uniform_f64(&mut self) -> f64 {
        (self.u64() & ((1 << 53) - 1)) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Standard normal by Box-Muller; every second number is the sine of the pair before.
    pub fn normal_f64(&mut self) -> f64 {
        if let Some(z) = self.normal.take() {
            return z;
        }
        let angle = std::f64::consts::TAU * self.uniform_f64();
        let radius = (-2.0 * (-self.uniform_f64()).ln_1p()).sqrt();
        self.normal = Some(radius * angle.sin());
        radius * angle.cos()
    }

    /// The state in PyTorch's bytes.
    pub fn to_bytes(&self) -> [u8; STATE_BYTES] {
        let mut bytes = [0u8; STATE_BYTES];
        let mut put = |at: usize, b: &[u8]| bytes[at..at + b.len()].copy_from_slice(b);
        put(0, &self.seed.to_le_bytes());
        put(8, &self.left.to_le_bytes());
        put(12, &1u32.to_le_bytes());
        put(16, &(self.next as u64).to_le_bytes());
        for (i, w) in self.words.iter().enumerate() {
            put(24 + 8 * i, &(*w as u64).to_le_bytes());
        }
        put(5024, &self.normal.unwrap_or(0.0).to_le_bytes());
        put(5040, &(self.normal.is_some() as u32).to_le_bytes());
        put(5048, &self.normal_f32.unwrap_or(0.0).to_le_bytes());
        put(5052, &[self.normal_f32.is_some() as u8]);
        bytes
    }

    /// Reads what `to_bytes` or PyTorch wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Engine> {
        let wrong = || Error::runtime("set_state(): Invalid mt19937 state");
        if bytes.len() != STATE_BYTES {
            return Err(wrong());
        }
        let long = |at: usize| {
            let mut w = [0u8; 8];
            w.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(w)
        };
        let (left, seeded, next) = (long(8) as u32, long(8) >> 32, long(16));
        if seeded != 1
            || !(1..=N as u32).contains(&left)
            || next > N as u64
            || (left > 1 && next + left as u64 > N as u64 + 1)
        {
            return Err(wrong());
        }
        let mut words = [0u32; N];
        for (i, w) in words.iter_mut().enumerate() {
            *w = long(24 + 8 * i) as u32;
        }
        Ok(Engine {
            seed: long(0),
            left,
            next: next as u32,
            words,
            normal: (long(5040) as u32 != 0).then(|| f64::from_bits(long(5024))),
            normal_f32: (bytes[5052] != 0).then(|| f32::from_bits(long(5048) as u32)),
        })
    }
}

/// An engine that launches can name. It is forgotten with its last owner.
#[derive(Debug)]
pub struct Registered {
    id: u64,
    engine: Mutex<Engine>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);
static ENGINES: LazyLock<Mutex<HashMap<u64, Weak<Registered>>>> = LazyLock::new(Mutex::default);

impl Registered {
    pub fn new(seed: u64) -> Arc<Registered> {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let made = Arc::new(Registered { id, engine: Mutex::new(Engine::new(seed)) });
        ENGINES.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::downgrade(&made));
        made
    }
    pub fn id(&self) -> u64 {
        self.id
    }
    pub fn lock(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        ENGINES.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// The engine of a launch.
pub fn engine(id: u64) -> Result<Arc<Registered>> {
    let found = ENGINES.lock().unwrap_or_else(PoisonError::into_inner).get(&id).and_then(Weak::upgrade);
    found.ok_or_else(|| Error::runtime("the mt19937 generator of this call is gone"))
}

/// Refuses a draw that its own position would have to give: of a shard, or on another device than the CPU.
pub fn only_in_order(op: &str, place: &str) -> Error {
    Error::not_implemented(format!(
        "{op}(): the generator mt19937 draws one number after the other, in eager calls on the CPU; {place} needs numbers by \
         position: switch back with oneflow.random.use(\"philox\")"
    ))
}

/// What dropout with probability `p` scales by: a quotient of the dtype in which kernels compute.
pub fn dropout_scale(p: f64, dtype: DType) -> f64 {
    match dtype {
        _ if p >= 1.0 => 0.0,
        DType::F64 => 1.0 / (1.0 - p),
        DType::F16 => f16::from_f32(1.0 / (1.0 - p) as f32).to_f64(),
        DType::BF16 => bf16::from_f32(1.0 / (1.0 - p) as f32).to_f64(),
        _ => (1.0 / (1.0 - p) as f32) as f64,
    }
}

/// Dimensions in the order in which elements are drawn, the innermost first: as they lie in memory by the first view that
/// tells two apart, by size where none does.
pub fn memory_order(sizes: &[i64], views: &[&[i64]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).rev().collect();
    let before = |a: usize, b: usize| {
        for strides in views {
            let (s, t) = (strides[a], strides[b]);
            if s == 0 || t == 0 {
                continue;
            }
            if s != t {
                return s.cmp(&t);
            }
            if sizes[a] > sizes[b] {
                return std::cmp::Ordering::Greater;
            }
        }
        std::cmp::Ordering::Equal
    };
    for i in 1..order.len() {
        let mut at = i;
        for j in (0..i).rev() {
            match before(order[j], order[at]) {
                std::cmp::Ordering::Greater => {
                    order.swap(j, at);
                    at = j;
                }
                std::cmp::Ordering::Less => break,
                std::cmp::Ordering::Equal => {}
            }
        }
    }
    order
}

/// Calls `f` with the element offsets in each view, in the order of `memory_order`.
pub fn each_in_order<const K: usize>(sizes: &[i64], views: [&[i64]; K], mut f: impl FnMut([isize; K])) {
    if sizes.contains(&0) {
        return;
    }
    let order = memory_order(sizes, &views);
    let mut index = vec![0i64; order.len()];
    let mut at = [0isize; K];
    loop {
        f(at);
        let mut k = 0;
        loop {
            let Some(&d) = order.get(k) else { return };
            index[k] += 1;
            views.iter().zip(&mut at).for_each(|(s, a)| *a += s[d] as isize);
            if index[k] < sizes[d] {
                break;
            }
            views.iter().zip(&mut at).for_each(|(s, a)| *a -= (s[d] * sizes[d]) as isize);
            index[k] = 0;
            k += 1;
        }
    }
}

/// Sixteen normal numbers of sixteen uniform ones, in place: numbers 0 to 7 give the radii, 8 to 15 the angles. The products
/// and sums that PyTorch's vector code fuses are fused here, so that every bit is its own.
pub fn normal_16(u: &mut [f32; 16], mean: f32, std: f32) {
    for j in 0..8 {
        let radius = (-2.0 * ln_f32(1.0 - u[j])).sqrt();
        let (sin, cos) = sin_cos_f32(std::f32::consts::TAU * u[j + 8]);
        u[j] = (radius * cos).mul_add(std, mean);
        u[j + 8] = (radius * sin).mul_add(std, mean);
    }
}

/// Sixteen doubles likewise.
pub fn normal_16_f64(u: &mut [f64; 16], mean: f64, std: f64) {
    for j in 0..8 {
        let radius = (-2.0 * (1.0 - u[j]).ln()).sqrt();
        let angle = std::f64::consts::TAU * u[j + 8];
        u[j] = (radius * angle.cos()).mul_add(std, mean);
        u[j + 8] = (radius * angle.sin()).mul_add(std, mean);
    }
}

/// Cephes' logarithm on (0, 1] with fused steps.
fn ln_f32(x: f32) -> f32 {
    let bits = x.max(f32::MIN_POSITIVE).to_bits();
    let mut e = (bits >> 23) as i32 as f32 - 126.0;
    let half = f32::from_bits(bits & 0x007f_ffff | 0x3f00_0000);
    let mut x = half - 1.0;
    if half < std::f32::consts::FRAC_1_SQRT_2 {
        e -= 1.0;
        x += half;
    }
    let z = x * x;
    let mut y = 7.037_683_6e-2f32;
    for c in [
        -1.151_461e-1f32,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ] {
        y = y.mul_add(x, c);
    }
    y = (y * x).mul_add(z, e * -2.121_944_4e-4);
    y = (-z).mul_add(0.5, y);
    e.mul_add(0.693_359_4, x + y)
}

/// Cephes' sine and cosine of [0, 2 pi) with fused steps.
fn sin_cos_f32(angle: f32) -> (f32, f32) {
    let eighth = ((angle * 1.273_239_5) as i32 + 1) & !1;
    let y = eighth as f32;
    let x = y.mul_add(-0.785_156_25, angle);
    let x = y.mul_add(-2.418_756_5e-4, x);
    let x = y.mul_add(-3.774_895e-8, x);
    let z = x * x;
    let c = 2.443_315_7e-5f32.mul_add(z, -1.388_731_6e-3).mul_add(z, 4.166_664_6e-2) * z;
    let c = c.mul_add(z, -(z * 0.5)) + 1.0;
    let s = (-1.951_529_6e-4f32).mul_add(z, 8.332_161e-3).mul_add(z, -1.666_665_5e-1) * z;
    let s = s.mul_add(x, x);
    let (sin, cos) = if eighth & 2 != 0 { (c, s) } else { (s, c) };
    let sin = if eighth & 4 != 0 { -sin } else { sin };
    let cos = if (eighth - 2) & 4 == 0 { -cos } else { cos };
    (sin, cos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_reference() {
        // Of the authors' program with seed 5489: the 1st and the 10000th word.
        let mut e = Engine::new(5489);
        assert_eq!(e.u32(), 3_499_211_612);
        assert_eq!((1..10_000).map(|_| e.u32()).last(), Some(4_123_659_995));
    }

    #[test]
    fn a_state_round_trips_and_a_wrong_one_is_refused() {
        let mut e = Engine::new(7);
        for n in [0, 1, 623, 624, 700] {
            (0..n).for_each(|_| {
                e.u32();
            });
            e.normal_f64();
            let mut again = Engine::from_bytes(&e.to_bytes()).unwrap();
            assert_eq!(again.normal_f64(), e.normal_f64());
            assert_eq!(again.u64(), e.u64());
        }
        let mut bytes = e.to_bytes();
        bytes[16] = 0xff;
        bytes[17] = 0xff;
        assert!(Engine::from_bytes(&bytes).is_err());
        assert!(Engine::from_bytes(&bytes[1..]).is_err());
    }

    #[test]
    fn elements_come_as_they_lie_in_memory() {
        let mut seen = Vec::new();
        each_in_order(&[2, 3], [&[1, 2]], |[at]| seen.push(at));
        assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
        assert_eq!(memory_order(&[2, 3, 4], &[&[12, 4, 1]]), [2, 1, 0]);
        assert_eq!(memory_order(&[], &[&[]]), [0usize; 0]);
    }

    #[test]
    fn an_engine_is_found_while_it_lives() {
        let made = Registered::new(3);
        let id = made.id();
        assert!(engine(id).is_ok());
        drop(made);
        assert!(engine(id).is_err());
    }
}
