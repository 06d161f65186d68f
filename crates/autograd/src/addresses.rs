//! Maps and sets by address. Each node of a backward is looked up several times, and addresses need no hash that resists
//! chosen keys.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type AddressMap<V> = HashMap<usize, V, BuildHasherDefault<AddressHasher>>;
pub(crate) type AddressSet = HashSet<usize, BuildHasherDefault<AddressHasher>>;

/// Multiplies by the golden ratio, and folds the high bits, which all bits of the address reach, into the low ones.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_usize(usize::from(b)));
    }
    #[inline]
    fn write_usize(&mut self, address: usize) {
        let product = (self.0 ^ address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ product >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_size_class_spread_over_the_buckets() {
        let mut buckets = [0; 256];
        for i in 0..4096_usize {
            let mut hasher = AddressHasher::default();
            hasher.write_usize(0x7f00_1234_5000 + i * 192);
            buckets[hasher.finish() as usize % 256] += 1;
        }
        assert!(buckets.iter().all(|&n| (4..=40).contains(&n)), "{buckets:?}");
    }
}
