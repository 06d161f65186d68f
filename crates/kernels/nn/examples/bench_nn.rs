//! Times of the row kernels and the optimizers: `cargo run --release -p oneflow-kernels-nn --example bench_nn [threads]`.

use oneflow_base::DType;
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::{Buf, begin, bench, indices, uniform};

fn main() {
    oneflow_kernels_nn::register();
    begin();
    let w = |v: f64| Word::from(v);
    let i = |v: i64| Word::from(v);

    for (rows, n) in [(16_384i64, 1024i64), (64, 1024), (8, 32)] {
        let (x, y) = (uniform(DType::F32, &[rows, n]), uniform(DType::F32, &[rows, n]));
        let size = (rows * n) as f64;
        let p = [i(1), i(0)];
        bench(&format!("softmax {rows}x{n}"), &SOFTMAX, &[Some(&y)], &[Some(&x)], &p, 8.0 * size, size);
        let g = uniform(DType::F32, &[rows, n]);
        bench("  backward", &SOFTMAX_BACKWARD, &[Some(&g)], &[Some(&x), Some(&y)], &p, 12.0 * size, size);
        let (x, y) = (uniform(DType::BF16, &[rows, n]), uniform(DType::BF16, &[rows, n]));
        bench("  bfloat16", &SOFTMAX, &[Some(&y)], &[Some(&x)], &p, 4.0 * size, size);
    }
    {
        let (x, y) = (uniform(DType::F32, &[64, 1024, 64]), uniform(DType::F32, &[64, 1024, 64]));
        let size = (64 * 1024 * 64) as f64;
        bench("softmax 64x1024x64 dim 1", &SOFTMAX, &[Some(&y)], &[Some(&x)], &[i(1), i(0)], 8.0 * size, size);
    }
    for (rows, n) in [(16_384i64, 768i64), (340, 768), (8, 32)] {
        let size = (rows * n) as f64;
        let new = || uniform(DType::F32, &[rows, n]);
        let (x, y, g, gx) = (new(), new(), new(), new());
        let (m, s) = (uniform(DType::F32, &[rows]), uniform(DType::F32, &[rows]));
        let of_n = || uniform(DType::F32, &[n]);
        let (wt, b, gw, gb) = (of_n(), of_n(), of_n(), of_n());
        let p = [i(1), w(1e-5), i(0)];
        let outs = [Some(&y), Some(&m), Some(&s)];
        bench(
            &format!("layer_norm {rows}x{n}"),
            &LAYER_NORM,
            &outs,
            &[Some(&x), Some(&wt), Some(&b)],
            &p,
            8.0 * size,
            size,
        );
        let ins = [Some(&g), Some(&x), Some(&m), Some(&s), Some(&wt)];
        bench("  backward", &LAYER_NORM_BACKWARD, &[Some(&gx), Some(&gw), Some(&gb)], &ins, &p, 12.0 * size, size);
        bench(
            "  rms",
            &LAYER_NORM,
            &[Some(&y), None, Some(&s)],
            &[Some(&x), Some(&wt), None],
            &[i(1), w(1e-5), i(1)],
            8.0 * size,
            size,
        );
    }
    {
        let (n, c) = (2048i64, 50_304i64);
        let size = (n * c) as f64;
        let (x, gx) = (uniform(DType::F32, &[n, c]), uniform(DType::F32, &[n, c]));
        let (t, loss, lse) = (indices(&[n], c), uniform(DType::F32, &[n]), uniform(DType::F32, &[n]));
        let p = [i(-100), w(0.0)];
        let ins = [Some(&x), Some(&t), None];
        bench("cross_entropy 2048x50304", &CROSS_ENTROPY, &[Some(&loss), Some(&lse)], &ins, &p, 4.0 * size, size);
        let ins = [Some(&loss), Some(&x), Some(&t), None, Some(&lse)];
        bench("  backward", &CROSS_ENTROPY_BACKWARD, &[Some(&gx)], &ins, &p, 8.0 * size, size);
        let (wt, out) = (uniform(DType::F32, &[c, 384]), uniform(DType::F32, &[n, 384]));
        let size = (n * 384) as f64;
        bench(
            "embedding 2048 of 50304x384",
            &EMBEDDING,
            &[Some(&out)],
            &[Some(&wt), Some(&t)],
            &[i(0), i(c)],
            8.0 * size,
            size,
        );
        let p = [i(0), i(c), i(-1)];
        let all = (c * 384) as f64;
        bench("  backward", &EMBEDDING_BACKWARD, &[Some(&wt)], &[Some(&out), Some(&t)], &p, 4.0 * all, all);
    }
    for n in [16 << 20, 4096i64] {
        let (x, y, mask) = (uniform(DType::F32, &[n]), uniform(DType::F32, &[n]), uniform(DType::Bool, &[n]));
        let p = [w(0.1), i(1), i(2)];
        bench(&format!("dropout {n}"), &DROPOUT, &[Some(&y), Some(&mask)], &[Some(&x)], &p, 9.0 * n as f64, n as f64);
    }
    for (name, sizes) in [("10M", vec![10_000_000i64]), ("6 tiny tensors", vec![784, 64, 64 * 8, 8, 8 * 8, 8])] {
        let all: f64 = sizes.iter().sum::<i64>() as f64;
        let make = || -> Vec<Buf> { sizes.iter().map(|n| uniform(DType::F32, &[*n])).collect() };
        let (p, g, m, v) = (make(), make(), make(), make());
        let outs: Vec<_> = p.iter().chain(&m).chain(&v).map(Some).collect();
        let (lr, step) = (Buf::from(DType::F32, &[], &[1e-3]), Buf::from(DType::F32, &[], &[3.0]));
        let mut ins: Vec<_> = g.iter().map(Some).collect();
        let n = sizes.len();
        ins.extend([Some(&lr), Some(&step)]);
        register_rule(&ADAM);
        let params = [Word(ADAM.id()), i(n as i64), i(0), w(0.9), w(0.999), w(1e-8)];
        bench(&format!("adam {name}"), &UPDATE, &outs, &ins, &params, 28.0 * all, all);
    }
}

/// torch's Adam without weight decay.
static ADAM: Rule = {
    struct F;
    impl UpdateFormula for F {
        #[inline(always)]
        fn scalars<L: Lanes>(h: &[L], x: &[L]) -> [L; MAX_SCALARS] {
            let (mut c, one) = ([L::splat(0.0); MAX_SCALARS], L::splat(1.0));
            (c[0], c[1], c[2]) = (one - h[0], h[1], h[2]);
            (c[3], c[4]) = (-x[0] / (one - h[0].pow(x[1])), (one - h[1].pow(x[1])).rsqrt());
            c
        }
        #[inline(always)]
        fn step<L: Lanes>(p: L, g: L, [m, v, _]: [L; MAX_STATES], c: &[L]) -> (L, [L; MAX_STATES]) {
            let m = c[0].fma(g - m, m);
            let v = v * c[1] + (L::splat(1.0) - c[1]) * g * g;
            (c[3].fma(m / v.sqrt().fma(c[4], c[2]), p), [m, v, v])
        }
    }
    Rule::new::<F>("bench adam", 2, 3, 2)
};
