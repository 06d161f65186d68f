//! Poolings against the windows they are defined by, for every dtype, layout, instruction set and number of threads.

use oneflow_base::DType;
use oneflow_ep::cpu::set_thread_num_threads;
use oneflow_kernels_prim::*;
use oneflow_kernels_testing::*;

/// Sizes [n, c], then (in, out, kernel, stride, padding) a dimension; a kernel of zero is adaptive.
struct Case {
    n: i64,
    c: i64,
    dims: Vec<[i64; 5]>,
}

impl Case {
    fn sizes(&self, field: usize) -> Vec<i64> {
        [self.n, self.c].into_iter().chain(self.dims.iter().map(|d| d[field])).collect()
    }

    /// The positions of the window of output `o` that lie in the image, as linear positions of the spatial dimensions.
    fn window(&self, o: &[usize]) -> Vec<usize> {
        let mut all = vec![0];
        for (d, o) in self.dims.iter().zip(o) {
            let ([n, out, k, s, p], o) = (*d, *o as i64);
            let (start, end) = match k {
                0 => (o * n / out, ((o + 1) * n + out - 1) / out),
                _ => ((o * s - p).max(0), (o * s - p + k).min(n)),
            };
            all = all.iter().flat_map(|a| (start..end).map(move |i| a * n as usize + i as usize)).collect();
        }
        all
    }
}

fn buf(dtype: DType, sizes: &[i64], last: bool, salt: u64) -> Buf {
    let mut b = Buf::new(dtype, sizes, Lay::Plain);
    if last {
        let mut step = 1;
        for d in std::iter::once(1).chain((2..sizes.len()).rev()).chain([0]) {
            b.strides[d] = step;
            step *= sizes[d];
        }
    }
    let f = noise(salt);
    (0..b.len()).for_each(|i| b.set(i, f(i)));
    b
}

fn check(case: &Case, dtype: DType, last: bool) {
    oneflow_kernels_conv::register();
    let (xs, ys) = (case.sizes(0), case.sizes(1));
    let x = buf(dtype, &xs, last, 1);
    let g = buf(dtype, &ys, last, 2);
    let (max, mean, index) = (buf(dtype, &ys, last, 3), buf(dtype, &ys, last, 4), buf(DType::I64, &ys, last, 5));
    let (from_max, from_mean) = (buf(dtype, &xs, last, 6), buf(dtype, &xs, last, 7));
    let spatial = Word::from(case.dims.len() as i64);
    let mut of_max = vec![spatial];
    let mut of_mean = vec![spatial, Word::from(false), Word::from(0i64)];
    for [_, _, k, s, p] in &case.dims {
        of_max.extend([*k, *s, *p, 1].map(Word::from));
        of_mean.extend([*k, *s, *p].map(Word::from));
    }
    run(&MAX_POOL, &[Some(&max), Some(&index)], &[Some(&x)], &of_max).unwrap();
    run(&MAX_POOL_BACKWARD, &[Some(&from_max)], &[Some(&g), Some(&index)], &[]).unwrap();
    run(&AVG_POOL, &[Some(&mean)], &[Some(&x)], &of_mean).unwrap();
    run(&AVG_POOL_BACKWARD, &[Some(&from_mean)], &[Some(&g)], &of_mean).unwrap();

    let plane: usize = xs[2..].iter().product::<i64>() as usize;
    let (mut ey, mut em, mut ei) = (vec![], vec![], vec![]);
    let (mut e_max, mut e_mean) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    for i in 0..g.len() {
        let at = coords(i, &ys);
        let first = (at[0] * xs[1] as usize + at[1]) * plane;
        let window = case.window(&at[2..]);
        let best = window.iter().fold(window[0], |a, b| if x.get(first + b) > x.get(first + a) { *b } else { a });
        ey.push(x.get(first + best));
        ei.push(best as f64);
        em.push(window.iter().map(|p| x.get(first + p)).sum::<f64>() / window.len() as f64);
        e_max[first + best] += g.get(i);
        window.iter().for_each(|p| e_mean[first + p] += g.get(i) / window.len() as f64);
    }
    let what = format!("{dtype:?} last {last} {xs:?} {:?}", case.dims);
    close(&max, &ey, 0.0, &format!("max {what}"));
    assert_eq!(index.values(), ei, "index {what}");
    // Sums of a window's few numbers, rounded once more when stored.
    close(&mean, &em, 8.0, &format!("mean {what}"));
    close(&from_max, &e_max, 8.0, &format!("max backward {what}"));
    close(&from_mean, &e_mean, 8.0, &format!("mean backward {what}"));
}

fn cases() -> Vec<Case> {
    let case = |n: i64, c: i64, dims: &[[i64; 5]]| Case { n, c, dims: dims.to_vec() };
    vec![
        case(2, 3, &[[12, 6, 3, 2, 1], [14, 7, 3, 2, 1]]),
        case(1, 33, &[[8, 4, 2, 2, 0], [40, 20, 2, 2, 0]]),
        case(2, 18, &[[9, 9, 3, 1, 1], [5, 5, 3, 1, 1]]),
        case(2, 20, &[[9, 1, 0, 1, 0], [21, 1, 0, 1, 0]]),
        case(1, 5, &[[9, 4, 0, 1, 0], [21, 7, 0, 1, 0]]),
        case(3, 2, &[[50, 25, 2, 2, 0]]),
        case(1, 4, &[[4, 2, 2, 2, 0], [5, 5, 3, 1, 1], [6, 1, 6, 1, 0]]),
        case(1, 17, &[[1, 1, 1, 1, 0], [1, 1, 1, 1, 0]]),
    ]
}

#[test]
fn windows() {
    for case in &cases() {
        for dtype in FLOATS {
            check(case, dtype, false);
            check(case, dtype, true);
        }
    }
}

#[test]
fn threads() {
    for n in [2, 7] {
        set_thread_num_threads(Some(n));
        check(&Case { n: 4, c: 40, dims: vec![[30, 15, 3, 2, 1], [31, 16, 3, 2, 1]] }, DType::F32, n == 2);
        set_thread_num_threads(None);
    }
}

#[test]
fn other_isas() {
    again_on_other_isas();
}
