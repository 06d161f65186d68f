//! RNN: at every step the product of h with the packed weights, a run of units at a time, and the gates on it while it is
//! in the first cache.

use crate::layer::{Layer, Real, Seq, SharedMatrix, Weights, matrix, tiles};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_gemm::micro::{Block, Kit, Matrix, with_buffers};
use oneflow_kernels_prim::{Lanes, Launch, Num, Reg, Register, RnnMode, Simd, View, WithSimd, dispatch, isa};
use std::ops::Range;

pub unsafe fn rnn(l: &Launch<'_>) -> Result<()> {
    // SAFETY: the launch's views are valid.
    unsafe {
        match l.input(0)?.dtype {
            DType::F32 => run::<f32>(l),
            DType::F64 => run::<f64>(l),
            other => Err(Error::not_implemented(format!("rnn: no CPU kernel for {other}"))),
        }
    }
}

struct Forward<'a, T: Real> {
    layer: &'a Layer,
    kit: &'a Kit<T>,
    gates_x: Seq<'a, T>,
    h_0: SharedMatrix<T>,
    c_0: Option<SharedMatrix<T>>,
    /// A packed matrix a gate, so that a run of units has all its gates at hand.
    weights: Vec<Weights<T>>,
    bias: Vec<T>,
    projection: Option<Weights<T>>,
    y: Seq<'a, T>,
    h_n: SharedMatrix<T>,
    c_n: Option<SharedMatrix<T>>,
    gates: Seq<'a, T>,
    cells: Option<Seq<'a, T>>,
}

unsafe fn run<T: Real>(l: &Launch<'_>) -> Result<()>
where
    Kit<T>: Sync,
{
    let (x, h_0, w) = (l.input(0)?, l.input(1)?, l.input(3)?);
    let layer = Layer::new(l, &x, &h_0, &w)?;
    let kit = Kit::<T>::new();
    let m = matrix::<T>(&w);
    let (n, r) = (layer.hidden, layer.out);
    let lstm = layer.mode == RnnMode::Lstm;
    let of_gate = |g: usize| Matrix { ptr: m.at(g * n, 0), ..m };
    let shared = |v: Option<View>| v.filter(|_| lstm).map(|v| SharedMatrix::<T>::new(&v));
    // SAFETY: the launch's views hold what their sizes say.
    let (weights, projection, bias) = unsafe {
        let weights = (0..layer.mode.n_gates()).map(|g| Weights::new(&kit, of_gate(g), n, r)).collect();
        let projection = l.opt_input(5).map(|p| Weights::new(&kit, matrix(&p), r, n));
        let bias = match l.opt_input(4) {
            Some(b) => {
                let (p, step) = (b.ptr.cast::<T>(), b.strides[0] as isize);
                (0..b.numel()).map(|i| *p.offset(i as isize * step)).collect()
            }
            None => vec![T::default(); n * layer.mode.n_gates()],
        };
        (weights, projection, bias)
    };
    let f = Forward {
        gates_x: layer.dense(&x)?,
        h_0: SharedMatrix::new(&h_0),
        c_0: shared(l.opt_input(2)),
        weights,
        bias,
        projection,
        y: layer.dense(&l.output(0)?)?,
        h_n: SharedMatrix::new(&l.output(1)?),
        c_n: shared(l.opt_output(2)),
        gates: layer.dense(&l.output(3)?)?,
        cells: match l.opt_output(4).filter(|_| lstm) {
            Some(v) => Some(layer.dense(&v)?),
            None => None,
        },
        layer: &layer,
        kit: &kit,
    };
    // SAFETY: the parts are distinct rows.
    layer.split(&|rows| unsafe { f.rows(rows) });
    Ok(())
}

impl<T: Real> Forward<'_, T> {
    /// Asks for what the gates of a run of units read and write: it arrives during the product before them.
    fn ask_for(&self, step: usize, rows: Range<usize>, unit: usize, n_units: usize) {
        let line = 64 / size_of::<T>();
        for row in rows {
            let (x, kept) = (self.gates_x.at(step, row), self.gates.at(step, row));
            for at in (0..self.layer.mode.n_gates()).map(|g| g * self.layer.hidden + unit) {
                for i in (0..n_units).step_by(line) {
                    prefetch(x.wrapping_add(at + i));
                    prefetch(kept.wrapping_add(at + i));
                }
            }
        }
    }

    unsafe fn rows(&self, rows: Range<usize>) {
        let (layer, kit) = (self.layer, self.kit);
        let (n, r) = (layer.hidden, layer.out);
        let (nr, mr) = (kit.kernels.nr, kit.kernels.mr);
        let (np, rp, n_rows) = (kit.padded(n), kit.padded(r), rows.len());
        let block = 4 * mr;
        let lens = [n_rows * rp, n_rows * np, n_rows * np, block * 4 * nr, mr * rp];
        with_buffers(lens, |[h, c, m, acc, projected]| {
            let panels: Vec<_> = self.weights.iter().map(|w| w.panels(kit)).collect();
            let (h, acc, projected) = (Block::rows(h, rp), Block::rows(acc, 4 * nr), Block::rows(projected, rp));
            // SAFETY: the rooms are as long as asked for, the rows those of the launch.
            unsafe {
                self.h_0.read(rows.clone(), r, h.ptr, rp);
                if let Some(c_0) = &self.c_0 {
                    c_0.read(rows.clone(), n, c, np);
                }
                for i in 0..layer.n_steps() {
                    let step = layer.step(i);
                    let active = layer.active(step, &rows);
                    for unit in (0..n).step_by(nr) {
                        let n_units = nr.min(n - unit);
                        for first in (0..active).step_by(block) {
                            let n_rows = block.min(active - first);
                            self.ask_for(step, rows.start + first..rows.start + first + n_rows, unit, n_units);
                            // A panel of weights meets all rows while it is near.
                            for (g, w) in panels.iter().enumerate() {
                                for (at, height) in tiles(n_rows, mr) {
                                    let shape = (height, n_units, r);
                                    let (h, to) = (h.from(first + at, 0), acc.from(at, g * nr));
                                    kit.panel_packed(shape, h, w, unit, to, T::ONE);
                                }
                            }
                            let m = if self.projection.is_some() { Some(m.add(first * np)) } else { None };
                            let gates = Gates {
                                f: self,
                                step,
                                row: rows.start + first,
                                height: n_rows,
                                unit,
                                n_units,
                                acc,
                                h: h.from(first, 0),
                                c: c.add(first * np),
                                m,
                            };
                            dispatch(isa(), gates);
                        }
                    }
                    if let Some(w) = &self.projection {
                        let w = w.panels(kit);
                        for (at, height) in tiles(active, mr) {
                            let m = Block::rows(m.add(at * np), np);
                            kit.panel_packed((height, r, n), m, &w, 0, projected, T::ONE);
                            for k in 0..height {
                                let to = self.y.at(step, rows.start + at + k);
                                std::ptr::copy_nonoverlapping(projected.at(k, 0), to, r);
                            }
                        }
                    }
                    for k in 0..active {
                        std::ptr::copy_nonoverlapping(self.y.at(step, rows.start + k), h.at(k, 0), r);
                    }
                }
                self.h_n.write(rows.clone(), r, h.ptr, rp);
                if let Some(c_n) = &self.c_n {
                    c_n.write(rows, n, c, np);
                }
            }
        });
    }
}

/// The gates of some rows and units of a step.
struct Gates<'a, T: Real> {
    f: &'a Forward<'a, T>,
    step: usize,
    row: usize,
    height: usize,
    unit: usize,
    n_units: usize,
    /// h's part, a run of columns a gate.
    acc: Block<T>,
    /// State of the first of the rows.
    h: Block<T>,
    c: *mut T,
    /// Where a projection reads from.
    m: Option<*mut T>,
}

impl<T: Real> WithSimd for Gates<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Gates { f, step, row, height, unit, n_units, acc, h, c, m } = self;
        let (n, nr, np) = (f.layer.hidden, f.kit.kernels.nr, f.kit.padded(f.layer.hidden));
        let width = <Reg<S, T>>::WIDTH;
        let one = Reg::<S, T>::splat(1.0);
        let zero = Reg::<S, T>::splat(0.0);
        for i in 0..height {
            let (x, kept) = (f.gates_x.at(step, row + i), f.gates.at(step, row + i));
            let y = match m {
                Some(m) => m.wrapping_add(i * np),
                None => f.y.at(step, row + i),
            };
            let (a, c) = (acc.at(i, 0), c.wrapping_add(i * np));
            for j in (0..n_units).step_by(width) {
                let k = width.min(n_units - j);
                let u = unit + j;
                // SAFETY: k units from u lie in every row; registers of `acc` and of the states are whole.
                unsafe {
                    let bias = f.bias.as_ptr();
                    let of_x = |g: usize| Reg::<S, T>::load_n(x.add(g * n + u), k);
                    let of_h = |g: usize| {
                        <Reg<S, T> as Register>::load(a.add(g * nr + j)) + Reg::<S, T>::load_n(bias.add(g * n + u), k)
                    };
                    let keep = |g: usize, v: Reg<S, T>| v.store_n(kept.add(g * n + u), k);
                    let out = match f.layer.mode {
                        RnnMode::Tanh | RnnMode::Relu => {
                            let v = of_x(0) + of_h(0);
                            let v = if f.layer.mode == RnnMode::Tanh { v.tanh() } else { v.maximum(zero) };
                            keep(0, v);
                            v
                        }
                        RnnMode::Lstm => {
                            let (input, forget) = ((of_x(0) + of_h(0)).sigmoid(), (of_x(1) + of_h(1)).sigmoid());
                            let (cell, output) = ((of_x(2) + of_h(2)).tanh(), (of_x(3) + of_h(3)).sigmoid());
                            let state = forget.fma(Register::load_n(c.add(u), k), input * cell);
                            state.store_n(c.add(u), k);
                            if let Some(cells) = &f.cells {
                                state.store_n(cells.at(step, row + i).add(u), k);
                            }
                            keep(0, input);
                            keep(1, forget);
                            keep(2, cell);
                            keep(3, output);
                            output * state.tanh()
                        }
                        RnnMode::Gru => {
                            let (reset, update) = ((of_x(0) + of_h(0)).sigmoid(), (of_x(1) + of_h(1)).sigmoid());
                            let of_new = of_h(2);
                            let new = reset.fma(of_new, of_x(2)).tanh();
                            keep(0, reset);
                            keep(1, update);
                            keep(2, new);
                            keep(3, of_new);
                            (one - update).fma(new, update * Reg::<S, T>::load_n(h.at(i, u), k))
                        }
                    };
                    out.store_n(y.add(u), k);
                }
            }
        }
    }
}

/// Asks for a line of memory, into the second cache.
#[inline(always)]
fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, valid for any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}
