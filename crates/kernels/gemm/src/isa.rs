//! The instruction sets this crate tells apart: the kernels' three, and AVX-512 with dot products of narrow types.

use std::sync::OnceLock;

use oneflow_kernels_prim as prim;

/// An instruction-set tier, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What the build targets.
    Baseline,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512 with dot products of bf16 (`vdpbf16ps`) and bytes (`vpdpbusd`).
    Avx512Bf16,
}

const ALL: [Isa; 4] = [Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16];

impl Isa {
    /// Every tier this machine can run, weakest first.
    pub fn available() -> &'static [Isa] {
        static AVAILABLE: OnceLock<&[Isa]> = OnceLock::new();
        AVAILABLE.get_or_init(|| &ALL[..prim::Isa::available().len() + usize::from(has_bf16())])
    }

    /// The best tier of this machine.
    pub fn detected() -> Isa {
        Isa::available().last().copied().unwrap_or(Isa::Baseline)
    }

    /// The tier in use: the best one, unless `ONEFLOW_CPU_ISA` asks for less.
    #[inline]
    pub fn active() -> Isa {
        static ACTIVE: OnceLock<Isa> = OnceLock::new();
        *ACTIVE.get_or_init(|| match prim::isa() {
            prim::Isa::Baseline => Isa::Baseline,
            prim::Isa::Avx2 => Isa::Avx2,
            prim::Isa::Avx512 => Isa::detected(),
        })
    }

    /// The registers that loops around the micro-kernels are compiled for.
    #[inline]
    pub(crate) fn lanes(self) -> prim::Isa {
        match self {
            Isa::Baseline => prim::Isa::Baseline,
            Isa::Avx2 => prim::Isa::Avx2,
            Isa::Avx512 | Isa::Avx512Bf16 => prim::Isa::Avx512,
        }
    }
}

fn has_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        prim::Isa::available().contains(&prim::Isa::Avx512)
            && is_x86_feature_detected!("avx512bf16")
            && is_x86_feature_detected!("avx512vnni")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}
