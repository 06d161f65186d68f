//! A random order of `0..n` without storing it: a four-round Feistel network on Philox words, walked until it lands inside.
//!
//! The order of an epoch depends on (seed, epoch) alone, on every machine.

use oneflow_kernels_prim::philox::block;

/// A different order of `0..n` for every epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    n: u64,
    seed: u64,
    /// Bits of each half.
    half: u32,
}

impl Shuffle {
    /// An order of `n` items; `n` is at least one.
    pub fn new(n: u64, seed: u64) -> Shuffle {
        let bits = 64 - n.max(2).saturating_sub(1).leading_zeros();
        Shuffle { n: n.max(1), seed, half: bits.div_ceil(2) }
    }

    /// The item at position `i` of an endless sequence of epochs.
    pub fn at(&self, i: u64) -> u64 {
        let (epoch, mut x) = (i / self.n, i % self.n);
        // The network permutes a power of four at most four times larger than `n`: few rounds lead back inside.
        loop {
            x = self.permute(epoch, x);
            if x < self.n {
                return x;
            }
        }
    }

    fn permute(&self, epoch: u64, x: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (x >> self.half, x & mask);
        for round in 0..4u64 {
            let w = block(self.seed, epoch, right << 2 | round);
            let mixed = (w[0] as u64 | (w[1] as u64) << 32) & mask;
            (left, right) = (right, left ^ mixed);
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_comes_once_an_epoch_in_an_order_of_its_own() {
        for n in [1u64, 2, 3, 7, 64, 1000] {
            let s = Shuffle::new(n, 9);
            let epoch = |e: u64| (e * n..(e + 1) * n).map(|i| s.at(i)).collect::<Vec<_>>();
            for e in 0..3 {
                let mut v = epoch(e);
                v.sort();
                assert_eq!(v, (0..n).collect::<Vec<_>>());
            }
            if n > 6 {
                assert_ne!(epoch(0), epoch(1));
                assert_ne!(epoch(0), (0..n).collect::<Vec<_>>());
            }
        }
    }
}
