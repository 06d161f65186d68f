//! What follows a product in the library's own launch: residuals by its beta, sums of rows by an epilogue.

mod common;

use common::*;
use oneflow_kernels_prim as prim;
use oneflow_kernels_prim::Word;

fn w<T: Into<Word>>(v: T) -> Word {
    v.into()
}

#[test]
fn residuals_are_added_by_the_product() {
    let Some(_alone) = emulator::alone() else { return };
    let mut seed = 0;
    for (d, tolerance) in [(F32, 1e-5), (F64, 1e-13), (BF16, 3e-2), (F16, 4e-3)] {
        for (sizes, with_bias, lay) in [
            (&[5i64, 7][..], false, Lay::Rows),
            (&[5, 7][..], true, Lay::Rows),
            (&[3, 4, 5][..], false, Lay::Rows),
            (&[2, 3, 4, 5][..], false, Lay::Rows),
            (&[1, 9][..], false, Lay::Rows),
            // Columns side by side are no rows: a kernel behind the product adds them.
            (&[5, 7][..], false, Lay::Reversed),
        ] {
            if with_bias && d == F64 {
                continue;
            }
            seed += 4;
            let (lead, k) = (&sizes[..sizes.len() - 2], 6);
            let [m, n] = [sizes[sizes.len() - 2], sizes[sizes.len() - 1]];
            let a = Arr::random(d, &[lead, &[m, k]].concat(), Lay::Rows, seed);
            let b = Arr::random(d, &[lead, &[k, n]].concat(), Lay::Rows, seed + 1);
            let bias = with_bias.then(|| {
                let mut bias = Arr::random(d, &[n], Lay::Rows, seed + 2);
                (bias.sizes, bias.strides) = (sizes.to_vec(), [vec![0; sizes.len() - 1], vec![1]].concat());
                bias
            });
            let residual = Arr::random(d, sizes, lay, seed + 3);
            let params = [w(0u64), w(0.5f64)];
            let mut c = Case::new(&prim::MATMUL, vec![Arr::empty(d, sizes, Lay::Rows)], vec![], &params);
            c.ins = vec![Some(a), Some(b), bias, Some(residual)];
            let launches = emulator::launches();
            c.within(tolerance).named(format!("{d} {sizes:?} {with_bias} {lay:?}")).check();
            let kernels = emulator::launches() - launches;
            assert_eq!(kernels, (lay == Lay::Reversed) as i64, "{d} {sizes:?} {with_bias} {lay:?}");
        }
    }
}
