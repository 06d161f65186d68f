//! ATTENTION and its backward against plain f64 loops, on every instruction set, and the same bits for any number of threads.

use oneflow_base::{DType, contiguous_strides};
use oneflow_kernels_prim::philox::{packed, threshold, window_words};
use oneflow_kernels_prim::{ATTENTION, ATTENTION_BACKWARD, Word};
use oneflow_kernels_testing::*;

#[derive(Clone)]
struct Case {
    /// Batch, heads, rows, width of the query; heads, rows of the key; width of the value.
    q: [i64; 4],
    kv_heads: i64,
    keys: i64,
    v: i64,
    causal: bool,
    mask: Option<(DType, Vec<i64>)>,
    p: f64,
    lay: Lay,
}

fn case(q: [i64; 4], kv_heads: i64, keys: i64, v: i64) -> Case {
    Case { q, kv_heads, keys, v, causal: false, mask: None, p: 0.0, lay: Lay::Plain }
}

const SCALE: f64 = 0.3;

struct Made {
    ins: Vec<Option<Buf>>,
    grad: Buf,
    /// out, logsumexp, grads of query, key, value and the scores.
    want: Vec<Vec<f64>>,
    params: Vec<Word>,
}

fn make(c: &Case, dtype: DType) -> Made {
    let [b, h, l, e] = c.q;
    let (g, s, v) = (c.kv_heads, c.keys, c.v);
    let q = Buf::of(dtype, &c.q, c.lay, noise(1));
    let k = Buf::of(dtype, &[b, g, s, e], c.lay, noise(2));
    let val = Buf::of(dtype, &[b, g, s, v], c.lay, noise(3));
    let grad = Buf::of(dtype, &[b, h, l, v], c.lay, noise(4));
    let scores = [b, h, l, s];
    let mask = c.mask.as_ref().map(|(d, own)| {
        let f = noise(5);
        // One row sees nothing.
        let hidden = |i: usize| coords(i, own)[own.len() - 2] == 2 && own[own.len() - 2] > 1;
        let mut m = Buf::of(*d, own, Lay::Plain, |i| match *d {
            DType::Bool => (f(i) > -0.3 && !hidden(i)) as i64 as f64,
            _ => {
                if hidden(i) {
                    f64::NEG_INFINITY
                } else {
                    f(i)
                }
            }
        });
        // Broadcast by zero strides.
        let lead = 4 - own.len();
        let strides = contiguous_strides(own);
        m.strides = (0..4).map(|i| if i < lead || own[i - lead] == 1 { 0 } else { strides[i - lead] }).collect();
        m.sizes = scores.to_vec();
        m
    });
    let bound = threshold(c.p);
    let (n_out, n_stat) = ((b * h * l * v) as usize, (b * h * l) as usize);
    let mut want = vec![
        vec![0.0; n_out],
        vec![0.0; n_stat],
        vec![0.0; (b * h * l * e) as usize],
        vec![0.0; (b * g * s * e) as usize],
        vec![0.0; (b * g * s * v) as usize],
        vec![0.0; (b * h * l * s) as usize],
    ];
    for (b, h, i) in (0..b).flat_map(|b| (0..h).flat_map(move |h| (0..l).map(move |i| (b, h, i)))) {
        let kv = h / (c.q[1] / g);
        let at = |t: &Buf, h: i64, r: i64, x: i64| t.get(linear(&[b, h, r, x].map(|v| v as usize), &t.sizes));
        let mut w: Vec<f64> = (0..s)
            .map(|j| {
                let mut dot = SCALE * (0..e).map(|x| at(&q, h, i, x) * at(&k, kv, j, x)).sum::<f64>();
                if let Some(m) = &mask {
                    match m.dtype {
                        DType::Bool => dot = if at(m, h, i, j) == 0.0 { f64::NEG_INFINITY } else { dot },
                        _ => dot += at(m, h, i, j),
                    }
                }
                if c.causal && j > i { f64::NEG_INFINITY } else { dot }
            })
            .collect();
        let max = w.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = w.iter().map(|x| if *x == f64::NEG_INFINITY { 0.0 } else { (x - max).exp() }).sum();
        let stat = if total == 0.0 { f64::INFINITY } else { max + total.ln() };
        w.iter_mut().for_each(|x| *x = if total == 0.0 { 0.0 } else { (*x - stat).exp() });
        let row = linear(&[b, h, i].map(|v| v as usize), &scores[..3]);
        want[1][row] = stat;
        let factor = |j: i64| {
            if c.p == 0.0 {
                return 1.0;
            }
            let index = linear(&[b, h, i, j].map(|v| v as usize), &scores);
            if packed(3, 8, index as u64) >> 8 >= bound { 1.0 / (1.0 - c.p) } else { 0.0 }
        };
        let dw: Vec<f64> =
            (0..s).map(|j| factor(j) * (0..v).map(|x| at(&grad, h, i, x) * at(&val, kv, j, x)).sum::<f64>()).collect();
        let shared: f64 = w.iter().zip(&dw).map(|(w, d)| w * d).sum();
        for j in 0..s {
            let p = w[j as usize];
            let ds = p * (dw[j as usize] - shared);
            want[5][row * s as usize + j as usize] = ds;
            for x in 0..v {
                want[0][row * v as usize + x as usize] += p * factor(j) * at(&val, kv, j, x);
                want[4][linear(&[b, kv, j, x].map(|v| v as usize), &val.sizes)] += p * factor(j) * at(&grad, h, i, x);
            }
            for x in 0..e {
                want[2][row * e as usize + x as usize] += SCALE * ds * at(&k, kv, j, x);
                want[3][linear(&[b, kv, j, x].map(|v| v as usize), &k.sizes)] += SCALE * ds * at(&q, h, i, x);
            }
        }
    }
    let mut params = words![SCALE, c.causal, c.p, 3i64, 8i64, 0i64].to_vec();
    params.extend(window_words(&scores, &[0; 4]));
    Made { ins: vec![Some(q), Some(k), Some(val), mask], grad, want, params }
}

fn compute(c: &Case, m: &Made, dtype: DType) -> Vec<Buf> {
    let [b, h, l, e] = c.q;
    let wide = dtype.compute();
    let out = Buf::new(dtype, &[b, h, l, c.v], c.lay);
    let stat = Buf::new(wide, &[b, h, l], Lay::Plain);
    let ins: Vec<Option<&Buf>> = m.ins.iter().map(Option::as_ref).collect();
    run(&ATTENTION, &[Some(&out), Some(&stat)], &ins, &m.params).unwrap();
    let dq = Buf::new(dtype, &[b, h, l, e], c.lay);
    let dk = Buf::new(dtype, &[b, c.kv_heads, c.keys, e], c.lay);
    let dv = Buf::new(dtype, &[b, c.kv_heads, c.keys, c.v], c.lay);
    let dm = Buf::new(dtype, &[b, h, l, c.keys], Lay::Plain);
    let ins = [Some(&m.grad), ins[0], ins[1], ins[2], ins[3], Some(&out), Some(&stat)];
    run(&ATTENTION_BACKWARD, &[Some(&dq), Some(&dk), Some(&dv), Some(&dm)], &ins, &m.params).unwrap();
    vec![out, stat, dq, dk, dv, dm]
}

fn check(c: &Case, dtype: DType) {
    let m = make(c, dtype);
    for (i, (got, want)) in compute(c, &m, dtype).iter().zip(&m.want).enumerate() {
        let tol = if dtype.compute() == dtype || i == 1 { 64.0 } else { 4.0 };
        close(
            got,
            want,
            tol,
            &format!("{dtype} {:?} kv {} {} {} causal {} p {} result {i}", c.q, c.kv_heads, c.keys, c.v, c.causal, c.p),
        );
    }
}

/// More rows, keys and columns than are worked on together.
fn several_blocks() {
    let dtype = DType::BF16;
    let large = case([1, 1, 70, 40], 1, 290, 36);
    for lay in LAYS {
        check(&Case { lay, causal: lay == Lay::Plain, ..large.clone() }, dtype);
    }
    for (d, sizes) in [(DType::Bool, vec![70, 290]), (DType::F32, vec![1, 290]), (dtype, vec![70, 1])] {
        check(&Case { mask: Some((d, sizes)), ..large.clone() }, dtype);
    }
    check(&Case { p: 0.25, causal: true, ..case([1, 2, 290, 16], 1, 290, 16) }, dtype);
}

#[test]
fn attention() {
    oneflow_kernels_attention::register();
    for dtype in FLOATS {
        for lay in LAYS {
            for causal in [false, true] {
                for (q, g, s, v) in [
                    ([2, 3, 5, 4], 3, 7, 4),
                    ([1, 4, 33, 8], 2, 40, 5),
                    ([1, 2, 70, 16], 1, 33, 32),
                    ([1, 1, 15, 19], 1, 300, 17),
                    ([1, 2, 1, 1], 2, 1, 1),
                ] {
                    check(&Case { causal, lay, ..case(q, g, s, v) }, dtype);
                }
            }
        }
        check(&Case { causal: true, ..case([1, 1, 300, 8], 1, 300, 8) }, dtype);
        for (d, sizes) in [
            (DType::Bool, vec![6, 20]),
            (DType::Bool, vec![2, 1, 6, 20]),
            (DType::Bool, vec![2, 4, 6, 1]),
            (DType::F32, vec![6, 20]),
            (dtype, vec![4, 1, 20]),
        ] {
            if d == DType::F32 && dtype == DType::F64 {
                continue;
            }
            check(&Case { mask: Some((d, sizes)), ..case([2, 4, 6, 8], 2, 20, 8) }, dtype);
        }
        check(&Case { p: 0.25, ..case([2, 2, 20, 8], 2, 90, 8) }, dtype);
        check(&Case { p: 1.0, ..case([1, 2, 3, 8], 2, 5, 8) }, dtype);
        if dtype == DType::BF16 {
            several_blocks();
        }
        for empty in [
            case([0, 2, 3, 4], 2, 3, 4),
            case([1, 2, 0, 4], 2, 3, 4),
            case([1, 2, 3, 4], 2, 0, 4),
            case([1, 1, 3, 0], 1, 3, 2),
            case([1, 1, 3, 2], 1, 3, 0),
        ] {
            check(&empty, dtype);
        }
    }
    again_on_other_isas();
}

#[test]
fn threads() {
    oneflow_kernels_attention::register();
    for c in [case([2, 3, 200, 32], 3, 200, 32), Case { causal: true, p: 0.1, ..case([1, 2, 700, 40], 1, 600, 24) }] {
        let m = make(&Case { q: [1, 1, 1, c.q[3]], kv_heads: 1, keys: 1, ..c.clone() }, DType::F32);
        let [b, _, _, e] = c.q;
        let m = Made {
            ins: vec![
                Some(Buf::of(DType::F32, &c.q, c.lay, noise(1))),
                Some(Buf::of(DType::F32, &[b, c.kv_heads, c.keys, e], c.lay, noise(2))),
                Some(Buf::of(DType::F32, &[b, c.kv_heads, c.keys, c.v], c.lay, noise(3))),
                None,
            ],
            grad: Buf::of(DType::F32, &[b, c.q[1], c.q[2], c.v], c.lay, noise(4)),
            params: words![SCALE, c.causal, c.p, 3i64, 8i64, 0i64, 0i64].to_vec(),
            ..m
        };
        same_for_any_threads("attention", || compute(&c, &m, DType::F32));
    }
}

/// A value that is not finite reaches the rows that see it, and no weight that is not hidden is lost.
#[test]
fn values_that_are_not_finite() {
    oneflow_kernels_attention::register();
    for dtype in FLOATS {
        let c = Case { causal: true, ..case([1, 1, 100, 32], 1, 100, 32) };
        let mut m = make(&c, dtype);
        let value = m.ins[2].as_mut().unwrap();
        *value =
            Buf::of(dtype, &[1, 1, 100, 32], Lay::Plain, |i| if i == 70 * 32 + 5 { f64::NAN } else { noise(3)(i) });
        let out = &compute(&c, &m, dtype)[0];
        for (i, want) in m.want[0].iter().enumerate() {
            let (row, col) = (i / 32, i % 32);
            match (col == 5, row) {
                // Rows that share a block with the one that sees it may get it, too.
                (true, 32..70) => {}
                (true, 70..) => assert!(out.get(i).is_nan(), "{dtype} row {row}"),
                _ => assert!((out.get(i) - want).abs() < 0.05, "{dtype} row {row} column {col}"),
            }
        }
    }
    again_on_other_isas();
}
