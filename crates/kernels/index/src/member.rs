//! IS_MEMBER: few others are compared with each element, many are put into a table of bits or of hashes first.

use crate::num::Real;
use oneflow_base::{Error, Result, by_dtype};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{IsMemberParams, Launch, Simd, View, WithSimd, dispatch, isa};

/// Up to this many others are compared one by one.
const FEW: usize = 16;
/// Elements looked up at a time.
const CHUNK: usize = 64;
/// Bits of the table of keys that lie near each other.
const MOST_BITS: u64 = 1 << 24;

/// The others, as keys: equal numbers have equal keys, and NaN, which is equal to nothing, is left out.
enum Set {
    Few(Vec<u64>),
    /// From the least key on, one bit a key.
    Bits {
        least: u64,
        bits: Vec<u64>,
    },
    /// Open addressing; free places hold `free`, which is one of the others.
    Hashes {
        free: u64,
        shift: u32,
        slots: Vec<u64>,
    },
}

#[inline(always)]
fn mixed(key: u64, shift: u32) -> usize {
    let x = (key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> shift) as usize
}

impl Set {
    fn new(keys: Vec<u64>) -> Set {
        let (Some(least), Some(most)) = (keys.iter().min().copied(), keys.iter().max().copied()) else {
            return Set::Few(keys);
        };
        if keys.len() <= FEW {
            return Set::Few(keys);
        }
        let span = most - least;
        if span < MOST_BITS.min(64 * keys.len() as u64 + 4096) {
            let mut bits = vec![0u64; (span / 64 + 1) as usize];
            for k in &keys {
                bits[((k - least) / 64) as usize] |= 1 << ((k - least) % 64);
            }
            return Set::Bits { least, bits };
        }
        let n_slots = (2 * keys.len()).next_power_of_two();
        let (free, shift) = (keys[0], 64 - n_slots.trailing_zeros());
        let mut slots = vec![free; n_slots];
        for k in keys {
            let mut at = mixed(k, shift);
            while slots[at] != free && slots[at] != k {
                at = (at + 1) & (n_slots - 1);
            }
            slots[at] = k;
        }
        Set::Hashes { free, shift, slots }
    }
}

/// Looks a chunk of keys up.
struct Look<'a>(&'a Set, &'a [u64; CHUNK], &'a mut [bool; CHUNK]);
impl WithSimd for Look<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Look(set, keys, found) = self;
        match set {
            Set::Few(others) => {
                let mut any = [0u64; CHUNK];
                for o in others {
                    for (a, k) in any.iter_mut().zip(keys) {
                        *a |= (k == o) as u64;
                    }
                }
                for (f, a) in found.iter_mut().zip(any) {
                    *f = a != 0;
                }
            }
            Set::Bits { least, bits } => {
                for (f, k) in found.iter_mut().zip(keys) {
                    let at = k.wrapping_sub(*least);
                    let word = bits.get((at / 64) as usize).copied().unwrap_or(0);
                    *f = word >> (at % 64) & 1 == 1;
                }
            }
            Set::Hashes { free, shift, slots } => {
                let mask = slots.len() - 1;
                for (f, k) in found.iter_mut().zip(keys) {
                    let mut at = mixed(*k, *shift) & mask;
                    while slots[at] != *k && slots[at] != *free {
                        at = (at + 1) & mask;
                    }
                    *f = slots[at] == *k;
                }
            }
        }
    }
}

pub unsafe fn is_member(l: &Launch<'_>) -> Result<()> {
    let (x, others, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let IsMemberParams { invert } = l.read()?;
    if x.dtype != others.dtype {
        return Err(Error::not_implemented(format!("isin: {} among {} are cast before", x.dtype, others.dtype)));
    }
    by_dtype!(x.dtype, reals, T => {
        // SAFETY: the views are valid by the launch's contract.
        unsafe {
            let set = Set::new(keys::<T>(&others));
            look::<T>(&x, &out, &set, invert);
        }
    }, _ => return Err(Error::not_implemented(format!("isin: complex numbers have no order (dtype {})", x.dtype))));
    Ok(())
}

unsafe fn keys<T: Real>(v: &View) -> Vec<u64> {
    let grid = Grid::new(v.sizes, [v.strides]);
    let (p, mut keys) = (Shared::<T>::new(v.ptr), Vec::with_capacity(v.numel()));
    grid.each(0..grid.len(), |_, [at]| {
        // SAFETY: the offset is that of an element.
        let e = unsafe { *p.at(at) };
        if !e.is_nan() {
            keys.push(e.key());
        }
    });
    keys
}

unsafe fn look<T: Real>(x: &View, out: &View, set: &Set, invert: bool) {
    let mut grid = Grid::new(out.sizes, [out.strides, x.strides]);
    let (n, [os, xs]) = grid.pop_inner();
    let (to, from) = (Shared::<bool>::new(out.ptr), Shared::<T>::new(x.ptr));
    let pieces = n.div_ceil(CHUNK);
    let isa = isa();
    split(grid.len() * pieces, 2.0 * n.min(CHUNK) as f64, &|r| {
        let (mut chunk, mut found) = ([0u64; CHUNK], [false; CHUNK]);
        for u in r {
            let at = u % pieces * CHUNK;
            let m = CHUNK.min(n - at);
            grid.each(u / pieces..u / pieces + 1, |_, [o, i]| {
                for (k, c) in chunk[..m].iter_mut().enumerate() {
                    // SAFETY: the element lies in the row.
                    let v = unsafe { *from.at(i + (at + k) as isize * xs) };
                    *c = v.key();
                    found[k] = v.is_nan();
                }
                let nan = found;
                dispatch(isa, Look(set, &chunk, &mut found));
                for k in 0..m {
                    // SAFETY: as above; pieces are disjoint.
                    unsafe { *to.at(o + (at + k) as isize * os) = (found[k] & !nan[k]) != invert };
                }
            });
        }
    });
}
