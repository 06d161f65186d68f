//! The same bits for any number of threads, on work large enough to be split.

use oneflow_base::DType;
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::*;

#[test]
fn moves_and_sums() {
    oneflow_kernels_index::register();
    for lay in [Lay::Plain, Lay::Reversed] {
        let x = Buf::of(DType::F32, &[300, 400], lay, noise(1));
        let index = Buf::of(DType::I64, &[5000], Lay::Plain, |i| ((i * i) % 299) as f64);
        same_for_any_threads("index_select", || {
            let (rows, cols) = (Buf::new(DType::F32, &[5000, 400], lay), Buf::new(DType::F32, &[300, 5000], lay));
            run(&INDEX_SELECT, &[Some(&rows)], &[Some(&x), Some(&index)], words![0i64]).unwrap();
            run(&INDEX_SELECT, &[Some(&cols)], &[Some(&x), Some(&index)], words![1i64]).unwrap();
            vec![rows, cols]
        });
        let value = Buf::of(DType::F32, &[5000, 400], Lay::Plain, noise(2));
        same_for_any_threads("index_put", || {
            let out = x.clone();
            run(&INDEX_PUT, &[Some(&out)], &[Some(&value), Some(&index), None], words![0i64, 1i64, true]).unwrap();
            vec![out]
        });
        for dim in 0..2i64 {
            let index = Buf::of(DType::I64, &[300, 400], Lay::Plain, |i| ((i * i) % 299) as f64);
            same_for_any_threads("gather and scatter", || {
                let (picked, sum) = (Buf::new(DType::F32, &[300, 400], lay), x.clone());
                run(&GATHER, &[Some(&picked)], &[Some(&x), Some(&index)], words![dim]).unwrap();
                run(&SCATTER, &[Some(&sum)], &[Some(&index), Some(&picked)], words![dim, 1i64]).unwrap();
                vec![picked, sum]
            });
            same_for_any_threads("sort and concat", || {
                let (v, i) = (Buf::new(DType::F32, &[300, 400], lay), Buf::new(DType::I64, &[300, 400], lay));
                run(&SORT, &[Some(&v), Some(&i)], &[Some(&x)], words![dim, false]).unwrap();
                let mut sizes = [300, 400];
                sizes[dim as usize] *= 2;
                let both = Buf::new(DType::F32, &sizes, lay);
                run(&CONCAT, &[Some(&both)], &[Some(&x), Some(&v)], words![dim]).unwrap();
                let n = Buf::new(DType::I64, &[], Lay::Plain);
                run(&COUNT_NONZERO, &[Some(&n)], &[Some(&both)], &[]).unwrap();
                vec![v, i, both, n]
            });
        }
        same_for_any_threads("random", || {
            let out = Buf::new(DType::F32, &[300, 401], lay);
            run(&RANDOM, &[Some(&out)], &[], words![1i64, 5i64, 6i64, 0.0, 1.0]).unwrap();
            vec![out]
        });
    }
}

/// One row has no others to share the threads with: it is sorted in parts, and its places are found by blocks.
#[test]
fn one_long_row() {
    oneflow_kernels_index::register();
    for (dtype, n) in [(DType::F32, 200_001), (DType::I64, 150_000), (DType::BF16, 70_000)] {
        let x = Buf::of(dtype, &[n], Lay::Plain, |i| ((i * i) % 9973) as f64 - 4000.0);
        for descending in [false, true] {
            same_for_any_threads("sort of one row", || {
                let (v, i) = (Buf::new(dtype, &[n], Lay::Plain), Buf::new(DType::I64, &[n], Lay::Plain));
                run(&SORT, &[Some(&v), Some(&i)], &[Some(&x)], words![0i64, descending]).unwrap();
                vec![v, i]
            });
        }
        same_for_any_threads("places in one row", || {
            let count = Buf::new(DType::I64, &[], Lay::Plain);
            run(&COUNT_NONZERO, &[Some(&count)], &[Some(&x)], &[]).unwrap();
            let places = Buf::new(DType::I64, &[count.values()[0] as i64, 1], Lay::Plain);
            run(&NONZERO, &[Some(&places)], &[Some(&x)], &[]).unwrap();
            vec![places]
        });
    }
}
