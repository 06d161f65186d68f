//! Packed panels: every order of an operand in memory gives the same.

use oneflow_base::bf16;
use oneflow_kernels_gemm::measure::RoundedPairs;
use oneflow_kernels_gemm::micro::{F32, F64, Mode, Panel, Strip, bf16_kernels};
use oneflow_kernels_prim::Isa;

fn check<M: Mode<P = <M as Mode>::S>>(isa: Isa, of: fn(usize) -> M::S)
where
    M::S: PartialEq + std::fmt::Debug,
{
    let kernels = M::kernels(isa);
    let a = (1..=kernels.mr).map(|width| (width, width));
    let b = [(3, 4), (kernels.nr, kernels.nr), (1, kernels.lanes), (kernels.lanes + 1, kernels.nr)];
    for (width, dst_width) in a.chain(b) {
        for k in [1, 5, 8, 16, 33] {
            let src: Vec<M::S> = (0..width * k * 3).map(|i| of(i + 1)).collect();
            for (ws, ks) in [(k, 1), (1, width), (3, 3 * width)] {
                let strip = Strip { src: src.as_ptr(), ws: ws as isize, ks: ks as isize, width, k };
                let mut dst = vec![of(0); dst_width * k + 16];
                // SAFETY: `src` holds the strip and `dst` the panel and its spill.
                unsafe { M::pack(isa, strip, dst.as_mut_ptr(), dst_width) };
                for p in 0..k {
                    for i in 0..dst_width {
                        let want = if i < width { src[i * ws + p * ks] } else { of(0) };
                        assert_eq!(dst[p * dst_width + i], want, "{isa:?} width {width} k {k} at {i},{p}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_order_packs_alike() {
    for &isa in Isa::available() {
        check::<F32>(isa, |i| i as f32);
        check::<F64>(isa, |i| i as f64);
    }
}

/// Every order of memory packs the same pairs: those of the rounded numbers, with zeros beside them.
#[test]
fn every_order_packs_the_same_pairs() {
    if bf16_kernels(Isa::best()).is_none() {
        return;
    }
    let kernels = RoundedPairs::kernels(Isa::best());
    let a = (1..=kernels.mr).map(|width| (width, width));
    let b = [(kernels.nr, kernels.nr), (1, kernels.lanes), (kernels.lanes + 1, kernels.nr)];
    for (width, dst_width) in a.chain(b) {
        for k in [1usize, 2, 5, 16, 31, 32, 33, 70] {
            let src: Vec<f32> = (0..width * k * 3).map(|i| (i as f32 + 1.0) * 1.000_71).collect();
            for (ws, ks) in [(k, 1), (1, width), (3, 3 * width)] {
                let strip = Strip { src: src.as_ptr(), ws: ws as isize, ks: ks as isize, width, k };
                let mut dst = vec![7u32; dst_width * k.div_ceil(2) + 16];
                let panel = Panel { at: 0, width, dst: dst.as_mut_ptr(), dst_width };
                // SAFETY: `src` holds the strip and `dst` the panel and its spill.
                unsafe { RoundedPairs::pack_panels(Isa::best(), strip, &[panel]) };
                let half = |i: usize, p: usize| {
                    if i < width && p < k { bf16::from_f32(src[i * ws + p * ks]).to_bits() as u32 } else { 0 }
                };
                for (pair, i) in (0..k.div_ceil(2)).flat_map(|p| (0..dst_width).map(move |i| (p, i))) {
                    let want = half(i, 2 * pair) | half(i, 2 * pair + 1) << 16;
                    let got = dst[pair * dst_width + i];
                    assert_eq!(got, want, "width {width} of {dst_width}, k {k}, strides {ws} {ks}: {i},{pair}");
                }
            }
        }
    }
}
