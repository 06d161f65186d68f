//! What tests of several crates share: numbers drawn from a seed, the same in every run.
//!
//! Depends on nothing, so that a change rebuilds tests alone. Kernels' tests have `kernels/testing`.

/// A linear congruential generator (Knuth's constants), of which the upper bits are used.
pub struct Draw(pub u64);

impl Draw {
    /// A generator whose first numbers differ for seeds that follow each other.
    pub fn seeded(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    /// A number below `n`; 0 where `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n.max(1) as u64) as usize
    }
    pub fn coin(&mut self) -> bool {
        self.below(2) == 1
    }
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    /// One of several values.
    pub fn of<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}
