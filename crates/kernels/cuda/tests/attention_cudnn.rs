//! Attention by the emulated cuDNN against the CPU: every family of operands that it takes, and what it declines.

mod common;

use common::attention::*;
use common::*;

const FIRST: u64 = 1;
/// What is declined is an error.
const ONLY: u64 = 2;

#[test]
fn attention_by_cudnn() {
    let Some(_alone) = emulator::alone() else { return };
    let shapes: &[Shape] = &[
        [1, 2, 2, 40, 50, 64],
        [2, 4, 2, 33, 17, 128],
        [2, 2, 1, 1, 9, 8],
        [1, 6, 2, 20, 64, 40],
        [3, 1, 1, 9, 9, 96],
    ];
    let options = [
        PLAIN,
        Options { causal: true, ..PLAIN },
        Options { negative: true, heads_inside: true, ..PLAIN },
        Options { causal: true, heads_inside: true, p: 0.4, ..PLAIN },
        Options { mask: Some(BOOL), ..PLAIN },
        Options { mask: Some(F32), p: 0.3, ..PLAIN },
    ];
    let mut seed = 0;
    for d in [BF16, F16] {
        for shape in shapes {
            let same = Options { mask: Some(d), causal: true, heads_inside: true, ..PLAIN };
            for o in options.iter().chain([&same]) {
                seed += 1;
                emulator::reseed(seed);
                let used = check(d, *shape, Options { library: ONLY, ..*o });
                assert_eq!(used, 0, "{d} {shape:?} {o:?}: our kernels ran");
            }
        }
    }
}

/// Rows that are no multiple of sixteen bytes, float32, and wide heads go to our kernels.
#[test]
fn what_cudnn_declines_goes_to_our_kernels() {
    let Some(_alone) = emulator::alone() else { return };
    for (d, shape) in [
        (F32, [1, 2, 2, 9, 9, 64]),
        (F64, [1, 1, 1, 5, 6, 16]),
        (BF16, [1, 1, 1, 5, 6, 12]),
        (F16, [1, 1, 1, 5, 6, 136]),
    ] {
        check(d, shape, Options { library: FIRST, ..PLAIN });
    }
}
