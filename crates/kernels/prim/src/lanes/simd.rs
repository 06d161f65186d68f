//! The instruction sets, which of them this machine runs, and code compiled once for each.

#[cfg(target_arch = "x86_64")]
use super::{F32x8, F32x16, F64x4, F64x8};
use super::{HalfRegister, Register};
use std::sync::OnceLock;

/// An instruction set kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Isa {
    /// What every machine has; scalar.
    Baseline = 0,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ, VL on top.
    Avx512,
    /// AVX-512 with dot products of bf16 (`vdpbf16ps`) and bytes (`vpdpbusd`).
    Avx512Bf16,
    /// Products of tiles of bf16 and bytes on top.
    Amx,
}

impl Isa {
    /// Those this machine can run, slowest first.
    pub fn available() -> &'static [Isa] {
        let best = Isa::best();
        &[Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16, Isa::Amx][..=best as usize]
    }

    /// The best of this machine.
    pub fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(detect)
    }

    /// The one whose registers it has: code over `Simd` is compiled for these.
    #[inline]
    pub fn lanes(self) -> Isa {
        self.min(Isa::Avx512)
    }
}

fn detect() -> Isa {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("fma") && has!("f16c") {
            if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
                if !has!("avx512bf16") || !has!("avx512vnni") {
                    return Isa::Avx512;
                }
                return if super::amx::available() { Isa::Amx } else { Isa::Avx512Bf16 };
            }
            return Isa::Avx2;
        }
    }
    Isa::Baseline
}

/// The instruction set of this process: the best one, or what `ONEFLOW_CPU_ISA` (amx, avx512bf16, avx512, avx2, baseline)
/// allows.
#[inline]
pub fn isa() -> Isa {
    static ISA: OnceLock<Isa> = OnceLock::new();
    *ISA.get_or_init(|| {
        let wanted = match std::env::var("ONEFLOW_CPU_ISA").as_deref() {
            Ok("baseline") => Isa::Baseline,
            Ok("avx2") => Isa::Avx2,
            Ok("avx512") => Isa::Avx512,
            Ok("avx512bf16") => Isa::Avx512Bf16,
            _ => Isa::Amx,
        };
        wanted.min(Isa::best())
    })
}

/// The registers of an instruction set.
pub trait Simd {
    type F32: HalfRegister;
    type F64: Register<Elem = f64>;
}

/// Scalars.
pub struct Baseline;
impl Simd for Baseline {
    type F32 = f32;
    type F64 = f64;
}

#[cfg(target_arch = "x86_64")]
pub struct Avx2;
#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    type F32 = F32x8;
    type F64 = F64x4;
}

#[cfg(target_arch = "x86_64")]
pub struct Avx512;
#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    type F32 = F32x16;
    type F64 = F64x8;
}

/// Code written once over `Simd`. `run` and everything that touches registers below it must be `#[inline(always)]`.
pub trait WithSimd {
    type Output;
    fn run<S: Simd>(self) -> Self::Output;
}

/// Runs `k` compiled for `isa`, which must be available.
#[inline]
pub fn dispatch<K: WithSimd>(isa: Isa, k: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn avx2<K: WithSimd>(k: K) -> K::Output {
            k.run::<Avx2>()
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn avx512<K: WithSimd>(k: K) -> K::Output {
            k.run::<Avx512>()
        }
        match isa {
            // SAFETY: the caller's ISA is one of `Isa::available`.
            Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx => return unsafe { avx512(k) },
            // SAFETY: as above.
            Isa::Avx2 => return unsafe { avx2(k) },
            Isa::Baseline => {}
        }
    }
    let _ = isa;
    k.run::<Baseline>()
}
