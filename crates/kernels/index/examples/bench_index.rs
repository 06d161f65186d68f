//! Times of the index kernels: `cargo run --release -p oneflow-kernels-index --example bench_index [threads]`.

use oneflow_base::DType;
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::{begin, bench, indices, uniform};

fn main() {
    oneflow_kernels_index::register();
    begin();
    let w = |v: f64| Word::from(v);
    let i = |v: i64| Word::from(v);
    let f32s = |sizes: &[i64]| uniform(DType::F32, sizes);

    for n in [16 << 20, 4096i64] {
        let x = f32s(&[n]);
        for (name, kind, b) in
            [("uniform", 0, w(1.0)), ("normal", 1, w(1.0)), ("bernoulli", 2, w(0.0)), ("exponential", 4, w(0.0))]
        {
            let p = [i(kind), i(1), i(2), w(if kind == 1 { 0.0 } else { 0.5 }), b];
            bench(&format!("random {name} {n}"), &RANDOM, &[Some(&x)], &[], &p, 4.0 * n as f64, n as f64);
        }
        let x = uniform(DType::I64, &[n]);
        let p = [i(3), i(1), i(2), i(0), i(1000)];
        bench(&format!("random integers {n}"), &RANDOM, &[Some(&x)], &[], &p, 8.0 * n as f64, n as f64);
    }
    for (rows, n) in [(1i64, 1i64 << 20), (64, 50_304), (1024, 1024), (4096, 64)] {
        let (x, v, at) = (f32s(&[rows, n]), f32s(&[rows, n]), uniform(DType::I64, &[rows, n]));
        let size = (rows * n) as f64;
        bench(
            &format!("sort {rows}x{n}"),
            &SORT,
            &[Some(&v), Some(&at)],
            &[Some(&x)],
            &[i(1), i(0)],
            16.0 * size,
            size,
        );
        for k in [5, 50] {
            let (v, at) = (f32s(&[rows, k]), uniform(DType::I64, &[rows, k]));
            let p = [i(k), i(1), i(1), i(1)];
            bench(&format!("  topk {k}"), &TOPK, &[Some(&v), Some(&at)], &[Some(&x)], &p, 4.0 * size, size);
        }
    }
    {
        let (x, out, at) = (f32s(&[50_304, 384]), f32s(&[8192, 384]), indices(&[8192], 50_304));
        let size = (8192 * 384) as f64;
        bench(
            "index_select rows of 384",
            &INDEX_SELECT,
            &[Some(&out)],
            &[Some(&x), Some(&at)],
            &[i(0)],
            8.0 * size,
            size,
        );
        bench(
            "index rows of 384",
            &INDEX,
            &[Some(&out)],
            &[Some(&x), Some(&at), None],
            &[i(0), i(1)],
            8.0 * size,
            size,
        );
        let p = [i(0), i(1), i(1)];
        bench("index_put accumulate", &INDEX_PUT, &[Some(&x)], &[Some(&out), Some(&at), None], &p, 12.0 * size, size);
        let at = indices(&[8192, 384], 384);
        bench("gather 8192x384 dim 1", &GATHER, &[Some(&out)], &[Some(&x), Some(&at)], &[i(1)], 16.0 * size, size);
        bench("gather 8192x384 dim 0", &GATHER, &[Some(&out)], &[Some(&x), Some(&at)], &[i(0)], 16.0 * size, size);
        bench("scatter add dim 1", &SCATTER, &[Some(&x)], &[Some(&at), Some(&out)], &[i(1), i(1)], 16.0 * size, size);
    }
    {
        let (x, y, out) = (f32s(&[2048, 384]), f32s(&[2048, 384]), f32s(&[2048, 768]));
        let size = (2048 * 768) as f64;
        bench("concat 2048x384 twice, dim 1", &CONCAT, &[Some(&out)], &[Some(&x), Some(&y)], &[i(1)], 8.0 * size, size);
        let (part, all) = (f32s(&[512, 1, 16]), f32s(&[512, 27, 16]));
        let n = 512.0 * 27.0 * 16.0;
        bench("stack 27 of 512x16", &CONCAT, &[Some(&all)], &[Some(&part); 27], &[i(1)], 8.0 * n, n);
        let (n, at) = (uniform(DType::I64, &[]), uniform(DType::I64, &[2048 * 768, 2]));
        bench("count_nonzero", &COUNT_NONZERO, &[Some(&n)], &[Some(&out)], &[], 4.0 * size, size);
        bench("nonzero", &NONZERO, &[Some(&at)], &[Some(&out)], &[], 20.0 * size, size);
        let (x, at, o) = (f32s(&[1]), indices(&[1], 1), f32s(&[1]));
        bench("index_select of one", &INDEX_SELECT, &[Some(&o)], &[Some(&x), Some(&at)], &[i(0)], 4.0, 1.0);
        bench("concat of two", &CONCAT, &[Some(&f32s(&[2]))], &[Some(&x), Some(&o)], &[i(0)], 8.0, 1.0);
    }
}
