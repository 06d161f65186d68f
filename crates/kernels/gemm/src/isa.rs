//! Which instructions this process uses, found once at run time. `ONEFLOW_CPU_ISA` (avx512, avx2, baseline) lowers it.

use std::sync::OnceLock;

/// An instruction-set tier, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What the build targets; no detection needed.
    Baseline,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512 with `vdpbf16ps`.
    Avx512Bf16,
}

impl Isa {
    /// The best tier of this machine.
    pub fn detected() -> Isa {
        static DETECTED: OnceLock<Isa> = OnceLock::new();
        *DETECTED.get_or_init(detect)
    }

    /// The tier in use: the best one, unless the environment asks for less.
    pub fn active() -> Isa {
        static ACTIVE: OnceLock<Isa> = OnceLock::new();
        *ACTIVE.get_or_init(|| {
            let wanted = match std::env::var("ONEFLOW_CPU_ISA").as_deref() {
                Ok("baseline") => Isa::Baseline,
                Ok("avx2") => Isa::Avx2,
                _ => Isa::Avx512Bf16,
            };
            wanted.min(Isa::detected())
        })
    }

    /// Every tier this machine can run, weakest first.
    pub fn available() -> impl Iterator<Item = Isa> {
        [Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16].into_iter().filter(|&isa| isa <= Isa::detected())
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx512, avx2) {
        (true, _) if is_x86_feature_detected!("avx512bf16") => Isa::Avx512Bf16,
        (true, _) => Isa::Avx512,
        (_, true) => Isa::Avx2,
        _ => Isa::Baseline,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Isa {
    Isa::Baseline
}

/// Calls a generic, always-inlined function body compiled for the given tier, so that plain loops in it are
/// vectorised with that tier's registers.
macro_rules! for_isa {
    ($isa:expr, fn $name:ident $(<$($g:ident : $b:path),*>)? ($($arg:ident : $ty:ty),* $(,)?) = $body:ident) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn avx2 $(<$($g: $b),*>)? ($($arg: $ty),*) {
            // SAFETY: the caller's contract is the body's.
            unsafe { $body $(::<$($g),*>)? ($($arg),*) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        unsafe fn avx512 $(<$($g: $b),*>)? ($($arg: $ty),*) {
            // SAFETY: the caller's contract is the body's.
            unsafe { $body $(::<$($g),*>)? ($($arg),*) }
        }
        unsafe fn baseline $(<$($g: $b),*>)? ($($arg: $ty),*) {
            // SAFETY: the caller's contract is the body's.
            unsafe { $body $(::<$($g),*>)? ($($arg),*) }
        }
        let f: unsafe fn($($ty),*) = match $isa {
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Isa::Avx512 | $crate::isa::Isa::Avx512Bf16 => avx512 $(::<$($g),*>)?,
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Isa::Avx2 => avx2 $(::<$($g),*>)?,
            _ => baseline $(::<$($g),*>)?,
        };
        f
    }};
}
pub(crate) use for_isa;
