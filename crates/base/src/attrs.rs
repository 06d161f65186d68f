//! Arguments that are kept: by the tape, a graph node, the SBP cache, a plan. Tags and words, inline, compared as words.

use crate::{Arg, DType, Device, NdSbpId, PlacementId, Sym};
use smallvec::SmallVec;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attrs {
    tags: SmallVec<[u8; 12]>,
    words: SmallVec<[u64; 8]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    None,
    False,
    True,
    Int,
    Float,
    Complex,
    DType,
    Ints,
    Floats,
    Len,
    Sym,
    Device,
    Placement,
    Sbp,
    Rng,
    RngAt,
}

impl Attrs {
    pub fn new(args: &[Arg<'_>]) -> Attrs {
        let mut a = Attrs::default();
        for &arg in args {
            a.push(arg);
        }
        a
    }

    #[inline]
    fn push(&mut self, arg: Arg<'_>) {
        let w = &mut self.words;
        let tag = match arg {
            Arg::None => Tag::None,
            Arg::Bool(false) => Tag::False,
            Arg::Bool(true) => Tag::True,
            Arg::Int(i) => {
                w.push(i as u64);
                Tag::Int
            }
            Arg::Float(f) => {
                w.push(f.to_bits());
                Tag::Float
            }
            Arg::Complex(r, i) => {
                w.extend([r.to_bits(), i.to_bits()]);
                Tag::Complex
            }
            Arg::DType(d) => {
                w.push(d as u64);
                Tag::DType
            }
            Arg::Ints(v) => {
                w.push(v.len() as u64);
                w.extend(v.iter().map(|x| *x as u64));
                Tag::Ints
            }
            Arg::Floats(v) => {
                w.push(v.len() as u64);
                w.extend(v.iter().map(|x| x.to_bits()));
                Tag::Floats
            }
            Arg::Len(n) => {
                w.push(n as u64);
                Tag::Len
            }
            Arg::Sym(s) => {
                w.push(s.0 as u64);
                Tag::Sym
            }
            Arg::Device(d) => {
                w.push(d.pack() as u64);
                Tag::Device
            }
            Arg::Placement(p) => {
                w.push(p.0 as u64);
                Tag::Placement
            }
            Arg::Sbp(s) => {
                w.push(s.0 as u64);
                Tag::Sbp
            }
            Arg::Rng { seed, offset } => {
                w.extend([seed, offset]);
                Tag::Rng
            }
            Arg::RngAt { seed, offset, window } => {
                w.extend([seed, offset, window.len() as u64]);
                w.extend(window.iter().map(|x| *x as u64));
                Tag::RngAt
            }
        };
        self.tags.push(tag as u8);
    }

    pub fn len(&self) -> usize {
        self.tags.len()
    }
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// The arguments again, borrowed from the words.
    #[inline]
    pub fn args(&self) -> SmallVec<[Arg<'_>; 8]> {
        let mut out = SmallVec::new();
        let w = &self.words;
        let mut i = 0;
        for &tag in &self.tags {
            let (arg, used) = match TAGS[tag as usize] {
                Tag::None => (Arg::None, 0),
                Tag::False => (Arg::Bool(false), 0),
                Tag::True => (Arg::Bool(true), 0),
                Tag::Int => (Arg::Int(w[i] as i64), 1),
                Tag::Float => (Arg::Float(f64::from_bits(w[i])), 1),
                Tag::Complex => (Arg::Complex(f64::from_bits(w[i]), f64::from_bits(w[i + 1])), 2),
                Tag::DType => (DType::from_u8(w[i] as u8).map_or(Arg::None, Arg::DType), 1),
                Tag::Ints => {
                    let n = w[i] as usize;
                    (Arg::Ints(as_ints(&w[i + 1..i + 1 + n])), 1 + n)
                }
                Tag::Floats => {
                    let n = w[i] as usize;
                    let words = &w[i + 1..i + 1 + n];
                    // SAFETY: f64 and u64 have the same size and alignment, and every bit pattern is valid in both.
                    let floats = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<f64>(), n) };
                    (Arg::Floats(floats), 1 + n)
                }
                Tag::Len => (Arg::Len(w[i] as u32), 1),
                Tag::Sym => (Arg::Sym(Sym(w[i] as u32)), 1),
                Tag::Device => (Arg::Device(Device::unpack(w[i] as u32)), 1),
                Tag::Placement => (Arg::Placement(PlacementId(w[i] as u32)), 1),
                Tag::Sbp => (Arg::Sbp(NdSbpId(w[i] as u32)), 1),
                Tag::Rng => (Arg::Rng { seed: w[i], offset: w[i + 1] }, 2),
                Tag::RngAt => {
                    let n = w[i + 2] as usize;
                    let window = as_ints(&w[i + 3..i + 3 + n]);
                    (Arg::RngAt { seed: w[i], offset: w[i + 1], window }, 3 + n)
                }
            };
            out.push(arg);
            i += used;
        }
        out
    }

    /// The same arguments with one of them replaced.
    pub fn with(&self, index: usize, arg: Arg<'_>) -> Attrs {
        let mut args = self.args();
        if let Some(slot) = args.get_mut(index) {
            *slot = arg;
        }
        Attrs::new(&args)
    }
}

fn as_ints(words: &[u64]) -> &[i64] {
    // SAFETY: i64 and u64 have the same size and alignment, and every bit pattern is valid in both.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<i64>(), words.len()) }
}

const TAGS: [Tag; 16] = [
    Tag::None,
    Tag::False,
    Tag::True,
    Tag::Int,
    Tag::Float,
    Tag::Complex,
    Tag::DType,
    Tag::Ints,
    Tag::Floats,
    Tag::Len,
    Tag::Sym,
    Tag::Device,
    Tag::Placement,
    Tag::Sbp,
    Tag::Rng,
    Tag::RngAt,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_arguments_come_back_as_they_were() {
        let ints = [3, -1, i64::MIN];
        let floats = [0.5, -2.0];
        let args = [
            Arg::None,
            Arg::Bool(true),
            Arg::Bool(false),
            Arg::Int(-7),
            Arg::Float(1.5),
            Arg::Complex(1.0, -1.0),
            Arg::DType(DType::BF16),
            Arg::Ints(&ints),
            Arg::Floats(&floats),
            Arg::Len(3),
            Arg::Sym(crate::intern("mean")),
            Arg::Device(Device::CPU),
            Arg::RngAt { seed: 5, offset: 9, window: &[4, 4, 2, 0] },
            Arg::Rng { seed: 5, offset: 9 },
        ];
        let kept = Attrs::new(&args);
        assert_eq!(kept.args().as_slice(), &args);
        assert_eq!(kept, Attrs::new(&args));
        let other = kept.with(3, Arg::Int(8));
        assert_ne!(kept, other);
        assert_eq!(other.args()[3], Arg::Int(8));
        assert_eq!(other.args()[12..], args[12..]);
    }
}
