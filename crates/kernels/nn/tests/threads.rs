//! The same bits for any number of threads, on work large enough to be split.

use oneflow_base::DType;
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::*;

#[test]
fn rows() {
    oneflow_kernels_nn::register();
    for dtype in [DType::F32, DType::BF16] {
        for lay in [Lay::Plain, Lay::Reversed] {
            let x = Buf::of(dtype, &[1000, 129], lay, noise(1));
            let g = Buf::of(dtype, &[1000, 129], Lay::Plain, noise(2));
            let w = Buf::of(dtype, &[129], Lay::Plain, noise(3));
            let like = || Buf::new(dtype, &[1000, 129], lay);
            let stat = || Buf::new(DType::F32, &[1000], Lay::Plain);
            same_for_any_threads("softmax", || {
                let (y, gx) = (like(), like());
                run(&SOFTMAX, &[Some(&y)], &[Some(&x)], words![1i64, false]).unwrap();
                run(&SOFTMAX_BACKWARD, &[Some(&gx)], &[Some(&g), Some(&y)], words![1i64, false]).unwrap();
                vec![y, gx]
            });
            same_for_any_threads("layer_norm", || {
                let (y, m, s) = (like(), stat(), stat());
                let (gx, gw) = (like(), Buf::new(dtype, &[129], Lay::Plain));
                let gb = gw.clone();
                let params = words![1i64, 1e-5, false];
                run(&LAYER_NORM, &[Some(&y), Some(&m), Some(&s)], &[Some(&x), Some(&w), None], params).unwrap();
                let ins = [Some(&g), Some(&x), Some(&m), Some(&s), Some(&w)];
                run(&LAYER_NORM_BACKWARD, &[Some(&gx), Some(&gw), Some(&gb)], &ins, params).unwrap();
                vec![y, m, s, gx, gw, gb]
            });
            let t = Buf::of(DType::I64, &[1000], Lay::Plain, |i| (i % 129) as f64);
            same_for_any_threads("cross_entropy", || {
                let (loss, lse, gx) = (Buf::new(dtype, &[1000], Lay::Plain), stat(), like());
                let params = words![-100i64, 0.1];
                run(&CROSS_ENTROPY, &[Some(&loss), Some(&lse)], &[Some(&x), Some(&t), Some(&w)], params).unwrap();
                let ins = [Some(&loss), Some(&x), Some(&t), Some(&w), Some(&lse)];
                run(&CROSS_ENTROPY_BACKWARD, &[Some(&gx)], &ins, params).unwrap();
                vec![loss, lse, gx]
            });
        }
    }
}

/// Gradient descent with the gradients' squares summed.
static RULE: Rule = {
    struct F;
    impl UpdateFormula for F {
        #[inline(always)]
        fn scalars<L: Lanes>(_: &[L], x: &[L]) -> [L; MAX_SCALARS] {
            [-x[0]; MAX_SCALARS]
        }
        #[inline(always)]
        fn step<L: Lanes>(p: L, g: L, [sum, ..]: [L; MAX_STATES], c: &[L]) -> (L, [L; MAX_STATES]) {
            let sum = g.fma(g, sum);
            (c[0].fma(g / sum.sqrt(), p), [sum; MAX_STATES])
        }
    }
    Rule::new::<F>("test rule of threads", 1, 0, 1)
};

#[test]
fn updates() {
    oneflow_kernels_nn::register();
    for dtype in [DType::F32, DType::BF16] {
        let index = Buf::of(DType::I64, &[5000], Lay::Plain, |i| ((i * i) % 37 * 3) as f64);
        let g = Buf::of(dtype, &[5000, 70], Lay::Plain, noise(2));
        same_for_any_threads("embedding_backward", || {
            let gw = Buf::new(dtype, &[300, 70], Lay::Plain);
            run(&EMBEDDING_BACKWARD, &[Some(&gw)], &[Some(&g), Some(&index)], words![0i64, 300i64, -1i64]).unwrap();
            vec![gw]
        });
        same_for_any_threads("dropout", || {
            let (y, mask) = (Buf::new(dtype, &[5000, 70], Lay::Plain), Buf::new(DType::Bool, &[5000, 70], Lay::Plain));
            run(&DROPOUT, &[Some(&y), Some(&mask)], &[Some(&g)], words![0.1, 5i64, 6i64]).unwrap();
            vec![y, mask]
        });
        same_for_any_threads("update", || {
            let of = |salt| Buf::of(dtype, &[123_457], Lay::Plain, move |i| noise(salt)(i).abs());
            let (a, b) = (Buf::of(dtype, &[33], Lay::Plain, noise(9)), Buf::from(DType::F32, &[], &[0.01]));
            let big = [of(1), of(2)];
            let small = [a.clone(), Buf::of(dtype, &[33], Lay::Plain, |_| 0.5)];
            let outs = [&small[0], &big[0], &small[1], &big[1]].map(Some);
            let grad = of(5);
            let ins = [Some(&a), Some(&grad), Some(&b), None, None];
            register_rule(&RULE);
            run(&UPDATE, &outs, &ins, words![RULE.id(), 2i64, false]).unwrap();
            outs.map(|b| b.unwrap().clone()).to_vec()
        });
    }
}

#[test]
fn other_instruction_sets() {
    oneflow_kernels_nn::register();
    again_on_other_isas();
}
