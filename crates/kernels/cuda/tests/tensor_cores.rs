//! Attention on tensor cores on the emulated device, whose warps run in an order that a seed chooses and whose asynchronous copies
//! are done late, against the CPU.

mod common;

use common::attention::*;
use common::*;
use oneflow_base::DType;

#[test]
fn attention_on_tensor_cores() {
    let Some(_alone) = emulator::alone() else { return };
    let cases: &[(DType, Shape, Options)] = &[
        // Several tiles of rows and of keys, the last ones part full.
        (BF16, [1, 2, 2, 150, 170, 64], PLAIN),
        (BF16, [2, 2, 1, 140, 140, 64], Options { causal: true, heads_inside: true, ..PLAIN }),
        (F16, [1, 2, 2, 70, 200, 128], Options { causal: true, ..PLAIN }),
        (F16, [1, 1, 1, 130, 70, 128], Options { heads_inside: true, ..PLAIN }),
        // Widths between those that the texts are made for; more heads than of keys.
        (BF16, [1, 4, 2, 33, 65, 40], PLAIN),
        (F16, [1, 1, 1, 17, 40, 24], Options { causal: true, ..PLAIN }),
        (BF16, [1, 1, 1, 40, 50, 96], Options { negative: true, ..PLAIN }),
        // One row, fewer keys than a step.
        (BF16, [3, 2, 2, 1, 5, 64], PLAIN),
        (BF16, [1, 2, 2, 66, 70, 64], Options { mask: Some(BOOL), ..PLAIN }),
        (F16, [1, 2, 2, 20, 70, 32], Options { mask: Some(F16), causal: true, ..PLAIN }),
        (BF16, [1, 2, 1, 20, 70, 64], Options { mask: Some(F32), p: 0.3, ..PLAIN }),
        (BF16, [1, 1, 1, 70, 66, 64], Options { causal: true, p: 0.5, ..PLAIN }),
    ];
    for (n, (d, shape, options)) in cases.iter().enumerate() {
        // Copies that are done at once, and as late as can be; warps in other orders.
        for seed in [2 * n as i64 + 1, 2 * n as i64 + 2] {
            emulator::reseed(seed);
            assert!(check(*d, *shape, *options) > 0, "{shape:?} {options:?} went elsewhere");
        }
    }
}

#[test]
fn what_tensor_cores_do_not_take_goes_elsewhere() {
    let Some(_alone) = emulator::alone() else { return };
    for (d, shape) in [(F32, [1, 1, 1, 5, 6, 64]), (BF16, [1, 1, 1, 5, 6, 12]), (BF16, [1, 1, 1, 5, 6, 136])] {
        assert_eq!(check(d, shape, PLAIN), 0, "{d} {shape:?}");
    }
}
