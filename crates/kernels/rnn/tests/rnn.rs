//! RNN against plain loops and its backward against differences of them, on every instruction set and for any number of threads.

use oneflow_base::DType;
use oneflow_ep::cpu::set_thread_num_threads;
use oneflow_kernels_prim::{RNN, RNN_BACKWARD, RnnMode, Word};
use oneflow_kernels_testing::*;

struct Case {
    mode: RnnMode,
    reverse: bool,
    /// Rows of each step.
    rows: Vec<usize>,
    packed: bool,
    /// Batch outside steps in memory.
    batch_first: bool,
    hidden: usize,
    projected: Option<usize>,
    bias: bool,
}

/// Values of one problem: gates_x, h_0, c_0, w_hh, b_hh, w_hr, and the gradients of y, h_n, c_n.
type Values = [Vec<f64>; 9];

impl Case {
    fn out(&self) -> usize {
        self.projected.unwrap_or(self.hidden)
    }
    fn batch(&self) -> usize {
        self.rows[0]
    }
    fn n(&self) -> usize {
        self.rows.iter().sum()
    }
    fn values(&self) -> Values {
        let (g, h, r, b) = (self.mode.n_gates(), self.hidden, self.out(), self.batch());
        let make = |salt: u64, n: usize| (0..n).map(noise(salt)).collect::<Vec<_>>();
        let lstm = self.mode == RnnMode::Lstm;
        [
            make(1, self.n() * g * h),
            make(2, b * r),
            make(3, if lstm { b * h } else { 0 }),
            make(4, g * h * r),
            make(5, if self.bias { g * h } else { 0 }),
            make(6, self.projected.map_or(0, |r| r * h)),
            make(7, self.n() * r),
            make(8, b * r),
            make(9, if lstm { b * h } else { 0 }),
        ]
    }
    fn start(&self, step: usize) -> usize {
        self.rows[..step].iter().sum()
    }

    /// y, h_n, c_n by plain loops.
    fn forward(&self, v: &Values) -> [Vec<f64>; 3] {
        let (g, h, r) = (self.mode.n_gates(), self.hidden, self.out());
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let (mut state, mut cell, mut y) = (v[1].clone(), v[2].clone(), vec![0.0; self.n() * r]);
        let order: Vec<usize> =
            if self.reverse { (0..self.rows.len()).rev().collect() } else { (0..self.rows.len()).collect() };
        for step in order {
            for b in 0..self.rows[step] {
                let row = self.start(step) + b;
                let x = |k: usize| v[0][row * g * h + k];
                let rec: Vec<f64> = (0..g * h)
                    .map(|k| {
                        let dot: f64 = (0..r).map(|j| v[3][k * r + j] * state[b * r + j]).sum();
                        dot + if self.bias { v[4][k] } else { 0.0 }
                    })
                    .collect();
                let m: Vec<f64> = (0..h)
                    .map(|u| match self.mode {
                        RnnMode::Tanh => (x(u) + rec[u]).tanh(),
                        RnnMode::Relu => (x(u) + rec[u]).max(0.0),
                        RnnMode::Lstm => {
                            let a = |k: usize| x(k * h + u) + rec[k * h + u];
                            let c = sigmoid(a(1)) * cell[b * h + u] + sigmoid(a(0)) * a(2).tanh();
                            cell[b * h + u] = c;
                            sigmoid(a(3)) * c.tanh()
                        }
                        RnnMode::Gru => {
                            let (reset, z) = (sigmoid(x(u) + rec[u]), sigmoid(x(h + u) + rec[h + u]));
                            let new = (x(2 * h + u) + reset * rec[2 * h + u]).tanh();
                            (1.0 - z) * new + z * state[b * r + u]
                        }
                    })
                    .collect();
                for j in 0..r {
                    let out = match self.projected {
                        Some(_) => (0..h).map(|u| v[5][j * h + u] * m[u]).sum(),
                        None => m[j],
                    };
                    y[row * r + j] = out;
                    state[b * r + j] = out;
                }
            }
        }
        [y, state, cell]
    }

    fn loss(&self, v: &Values) -> f64 {
        self.forward(v).iter().zip(&v[6..]).map(|(a, g)| a.iter().zip(g).map(|(a, g)| a * g).sum::<f64>()).sum()
    }

    fn seq(&self, dtype: DType, width: usize, f: impl Fn(usize) -> f64) -> Buf {
        if self.packed {
            return Buf::of(dtype, &[self.n() as i64, width as i64], Lay::Plain, f);
        }
        let (t, b, w) = (self.rows.len() as i64, self.batch() as i64, width as i64);
        let mut buf = Buf::new(dtype, &[t, b, w], Lay::Plain);
        if self.batch_first {
            buf.strides = vec![w, t * w, 1];
        }
        (0..buf.len()).for_each(|i| buf.set(i, f(i)));
        buf
    }

    fn run(&self, dtype: DType, v: &Values) -> Vec<Buf> {
        let (g, h, r, b) = (self.mode.n_gates() as i64, self.hidden, self.out() as i64, self.batch() as i64);
        let hi = h as i64;
        let of = |sizes: &[i64], v: &[f64]| Buf::from(dtype, sizes, v);
        let new = |sizes: &[i64]| Buf::new(dtype, sizes, Lay::Plain);
        let lstm = self.mode == RnnMode::Lstm;
        let x = self.seq(dtype, self.mode.n_gates() * h, |i| v[0][i]);
        let (h_0, w) = (of(&[b, r], &v[1]), of(&[g * hi, r], &v[3]));
        let c_0 = lstm.then(|| of(&[b, hi], &v[2]));
        let bias = self.bias.then(|| of(&[g * hi], &v[4]));
        let w_hr = self.projected.map(|_| of(&[r, hi], &v[5]));
        let zeros = |width: usize| self.seq(dtype, width, |_| 0.0);
        let (y, h_n, c_n) = (zeros(self.out()), new(&[b, r]), lstm.then(|| new(&[b, hi])));
        let (gates, cells) = (zeros(self.mode.n_kept() * h), lstm.then(|| zeros(h)));
        let mut params: Vec<Word> = vec![(self.mode as u64).into(), self.reverse.into()];
        if self.packed {
            params.extend(self.rows.iter().map(|r| Word::from(*r as i64)));
        }
        run(
            &RNN,
            &[Some(&y), Some(&h_n), c_n.as_ref(), Some(&gates), cells.as_ref()],
            &[Some(&x), Some(&h_0), c_0.as_ref(), Some(&w), bias.as_ref(), w_hr.as_ref()],
            &params,
        )
        .unwrap();
        let (gy, gh) = (self.seq(dtype, self.out(), |i| v[6][i]), of(&[b, r], &v[7]));
        let gc = lstm.then(|| of(&[b, hi], &v[8]));
        let (dx, dh) = (zeros(self.mode.n_gates() * h), new(&[b, r]));
        let through = (self.mode == RnnMode::Gru).then(|| zeros(3 * h));
        let (dc, d_out) = (lstm.then(|| new(&[b, hi])), w_hr.as_ref().map(|_| zeros(self.out())));
        let m = w_hr.as_ref().map(|_| zeros(h));
        run(
            &RNN_BACKWARD,
            &[Some(&dx), through.as_ref(), Some(&dh), dc.as_ref(), d_out.as_ref(), m.as_ref()],
            &[
                Some(&gy),
                Some(&gh),
                gc.as_ref(),
                Some(&h_0),
                c_0.as_ref(),
                Some(&w),
                w_hr.as_ref(),
                Some(&y),
                Some(&gates),
                cells.as_ref(),
            ],
            &params,
        )
        .unwrap();
        let mut all = vec![y, h_n, dx, dh];
        all.extend(c_n);
        all.extend(dc);
        all
    }

    fn check(&self, dtype: DType) {
        let v = self.values();
        let got = self.run(dtype, &v);
        let what = format!(
            "{dtype} {:?} reverse {} packed {} hidden {} out {}",
            self.mode,
            self.reverse,
            self.packed,
            self.hidden,
            self.out()
        );
        let want = self.forward(&v);
        let slope = |part: usize| -> Vec<f64> {
            (0..v[part].len())
                .map(|i| {
                    let at = |d: f64| {
                        let mut v = v.clone();
                        v[part][i] += d;
                        self.loss(&v)
                    };
                    (at(1e-5) - at(-1e-5)) / 2e-5
                })
                .collect()
        };
        // Differences are good to 1e-9 of the loss.
        let rough = if dtype == DType::F64 { 1e7 } else { 100.0 };
        close(&got[0], &want[0], 100.0, &what);
        close(&got[1], &want[1], 100.0, &what);
        close(&got[2], &slope(0), rough, &what);
        close(&got[3], &slope(1), rough, &what);
        if self.mode == RnnMode::Lstm {
            close(&got[4], &want[2], 100.0, &what);
            close(&got[5], &slope(2), rough, &what);
        }
    }
}

const MODES: [RnnMode; 4] = [RnnMode::Tanh, RnnMode::Relu, RnnMode::Lstm, RnnMode::Gru];

#[test]
fn rnn() {
    oneflow_kernels_rnn::register();
    for mode in MODES {
        for dtype in [DType::F32, DType::F64] {
            for (reverse, packed, batch_first, rows, hidden) in [
                (false, false, false, vec![3; 4], 5),
                (true, false, true, vec![2; 3], 3),
                (false, true, false, vec![4, 3, 3, 1], 4),
                (true, true, false, vec![3, 2, 1, 1], 6),
                (false, false, true, vec![1; 2], 1),
            ] {
                let case = Case { mode, reverse, rows, packed, batch_first, hidden, projected: None, bias: !reverse };
                case.check(dtype);
                if mode == RnnMode::Lstm {
                    Case { projected: Some(2), ..case }.check(dtype);
                }
            }
        }
    }
    again_on_other_isas();
}

#[test]
fn threads() {
    oneflow_kernels_rnn::register();
    for mode in MODES {
        let case = Case {
            mode,
            reverse: false,
            rows: vec![33; 12],
            packed: false,
            batch_first: true,
            hidden: 70,
            projected: None,
            bias: true,
        };
        let v = case.values();
        let bits = |n| {
            set_thread_num_threads(Some(n));
            let all = case.run(DType::F32, &v);
            set_thread_num_threads(None);
            all.iter().map(|b| b.values().iter().map(|v| v.to_bits()).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let one = bits(1);
        assert!(bits(2) == one && bits(5) == one, "{mode:?}");
    }
}
