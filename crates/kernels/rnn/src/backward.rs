//! RNN_BACKWARD: the steps in reverse, gradients of the gates and, through the weights, of the h before.

use crate::layer::{Layer, Real, Seq, SharedMatrix, Weights, matrix, tiles};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_gemm::micro::{Block, Kit, Matrix, with_buffers};
use oneflow_kernels_prim::{Lanes, Launch, Num, Reg, Register, RnnMode, Simd, View, WithSimd, dispatch, isa};
use std::ops::Range;

pub unsafe fn rnn_backward(l: &Launch<'_>) -> Result<()> {
    // SAFETY: the launch's views are valid.
    unsafe {
        match l.input(3)?.dtype {
            DType::F32 => run::<f32>(l),
            DType::F64 => run::<f64>(l),
            other => Err(Error::not_implemented(format!("rnn_backward: no CPU kernel for {other}"))),
        }
    }
}

struct Backward<'a, T: Real> {
    layer: &'a Layer,
    kit: &'a Kit<T>,
    grad_y: Option<Seq<'a, T>>,
    grad_h_n: Option<SharedMatrix<T>>,
    grad_c_n: Option<SharedMatrix<T>>,
    h_0: SharedMatrix<T>,
    c_0: Option<SharedMatrix<T>>,
    weights: Weights<T>,
    projection: Option<Weights<T>>,
    y: Seq<'a, T>,
    gates: Seq<'a, T>,
    cells: Option<Seq<'a, T>>,
    grad_x: Seq<'a, T>,
    grad_h: Option<Seq<'a, T>>,
    grad_h_0: SharedMatrix<T>,
    grad_c_0: Option<SharedMatrix<T>>,
    /// The gradient that reaches every h, where it is projected.
    grad_out: Option<Seq<'a, T>>,
    /// What was projected.
    projected: Option<Seq<'a, T>>,
}

unsafe fn run<T: Real>(l: &Launch<'_>) -> Result<()>
where
    Kit<T>: Sync,
{
    let (h_0, w, y) = (l.input(3)?, l.input(5)?, l.input(7)?);
    let layer = Layer::new(l, &y, &h_0, &w)?;
    let kit = Kit::<T>::new();
    let n_gates = layer.mode.n_gates();
    let lstm = layer.mode == RnnMode::Lstm;
    let shared = |v: Option<View>| v.map(|v| SharedMatrix::<T>::new(&v));
    let dense = |v: Option<View>| v.map(|v| layer.dense::<T>(&v)).transpose();
    // The products run over gates (over the projected width): the weights' own columns are packed.
    let turned = |v: &View| {
        let m = matrix::<T>(v);
        Matrix { rs: m.cs, cs: m.rs, ..m }
    };
    // SAFETY: the launch's views hold what their sizes say.
    let (weights, projection) = unsafe {
        let weights = Weights::new(&kit, turned(&w), layer.out, n_gates * layer.hidden);
        (weights, l.opt_input(6).map(|p| Weights::new(&kit, turned(&p), layer.hidden, layer.out)))
    };
    let b = Backward {
        grad_y: l.opt_input(0).map(|v| layer.seq(&v)).transpose()?,
        grad_h_n: shared(l.opt_input(1)),
        grad_c_n: shared(l.opt_input(2).filter(|_| lstm)),
        h_0: SharedMatrix::new(&h_0),
        c_0: shared(l.opt_input(4).filter(|_| lstm)),
        weights,
        projection,
        y: layer.dense(&y)?,
        gates: layer.dense(&l.input(8)?)?,
        cells: dense(l.opt_input(9).filter(|_| lstm))?,
        grad_x: layer.dense(&l.output(0)?)?,
        grad_h: dense(l.opt_output(1))?,
        grad_h_0: SharedMatrix::new(&l.output(2)?),
        grad_c_0: shared(l.opt_output(3).filter(|_| lstm)),
        grad_out: dense(l.opt_output(4))?,
        projected: dense(l.opt_output(5))?,
        layer: &layer,
        kit: &kit,
    };
    // SAFETY: the parts are distinct rows.
    layer.split(&|rows| unsafe { b.rows(rows) });
    Ok(())
}

impl<T: Real> Backward<'_, T> {
    unsafe fn rows(&self, rows: Range<usize>) {
        let (layer, kit) = (self.layer, self.kit);
        let (n, r, mr, nr) = (layer.hidden, layer.out, kit.kernels.mr, kit.kernels.nr);
        let n_gates = layer.mode.n_gates();
        let (np, rp, n_rows) = (kit.padded(n), kit.padded(r), rows.len());
        let gru = layer.mode == RnnMode::Gru;
        // Rows a power of two apart would share the lines of the first cache: the product reads a copy with longer rows.
        let gp = n_gates * n + 64 / size_of::<T>();
        with_buffers([n_rows * rp, n_rows * np, n_rows * np, np, np, n_rows * gp], |[dh, dc, dm, h_0, c_0, dg]| {
            let dh = Block::rows(dh, rp);
            let weights = self.weights.panels(kit);
            // SAFETY: the rooms are as long as asked for, the rows those of the launch.
            unsafe {
                let fill = |from: &Option<SharedMatrix<T>>, width: usize, to: *mut T, stride: usize| match from {
                    Some(m) => m.read(rows.clone(), width, to, stride),
                    None => std::slice::from_raw_parts_mut(to, n_rows * stride).fill(T::ZERO),
                };
                fill(&self.grad_h_n, r, dh.ptr, rp);
                fill(&self.grad_c_n, n, dc, np);
                for i in (0..layer.n_steps()).rev() {
                    let step = layer.step(i);
                    let before = i.checked_sub(1).map(|i| layer.step(i));
                    let active = layer.active(step, &rows);
                    for k in 0..active {
                        let row = rows.start + k;
                        if let Some(g) = &self.grad_y {
                            add(dh.at(k, 0), g.at(step, row), g.cs, r);
                        }
                        if let Some(to) = &self.grad_out {
                            std::ptr::copy_nonoverlapping(dh.at(k, 0), to.at(step, row), r);
                        }
                    }
                    if let Some(w) = &self.projection {
                        let w = w.panels(kit);
                        for (at, height) in tiles(active, mr) {
                            let to = Block::rows(dm.add(at * np), np);
                            kit.panel_packed((height, n, r), dh.from(at, 0), &w, 0, to, T::ONE);
                        }
                    }
                    for k in 0..active {
                        let row = rows.start + k;
                        let before = before.filter(|b| row < layer.rows[*b]);
                        let c_before = match (&self.cells, before, &self.c_0) {
                            (Some(cells), Some(b), _) => cells.at(b, row).cast_const(),
                            (_, None, Some(c)) => {
                                c.read(row..row + 1, n, c_0, np);
                                c_0.cast_const()
                            }
                            _ => std::ptr::null(),
                        };
                        let h_before = match before {
                            _ if !gru => std::ptr::null(),
                            Some(b) => self.y.at(b, row).cast_const(),
                            None => {
                                self.h_0.read(row..row + 1, n, h_0, np);
                                h_0.cast_const()
                            }
                        };
                        let dm = if self.projection.is_some() { dm.add(k * np) } else { dh.at(k, 0) };
                        let dc = dc.add(k * np);
                        dispatch(isa(), Gates { b: self, step, row, dm, dc, c_before, h_before });
                    }
                    // GRU has left h's own part in dh.
                    let through = self.grad_h.as_ref().unwrap_or(&self.grad_x);
                    let dg = Block::rows(dg, gp);
                    for k in 0..active {
                        let from = through.at(step, rows.start + k).cast_const();
                        std::ptr::copy_nonoverlapping(from, dg.at(k, 0), n_gates * n);
                    }
                    // A panel of weights meets all rows while it is near.
                    for col in (0..r).step_by(nr) {
                        for (at, height) in tiles(active, mr) {
                            let shape = (height, nr.min(r - col), n_gates * n);
                            let (a, to) = (dg.from(at, 0), dh.from(at, col));
                            if gru {
                                kit.panel_packed_add(shape, a, &weights, col, to, T::ONE);
                            } else {
                                kit.panel_packed(shape, a, &weights, col, to, T::ONE);
                            }
                        }
                    }
                }
                self.grad_h_0.write(rows.clone(), r, dh.ptr, rp);
                if let Some(c) = &self.grad_c_0 {
                    c.write(rows, n, dc, np);
                }
            }
        });
    }
}

/// `to += from`, `n` elements.
unsafe fn add<T: Real>(to: *mut T, from: *const T, cs: isize, n: usize) {
    for i in 0..n {
        // SAFETY: by the caller.
        unsafe { *to.add(i) = *to.add(i) + *from.wrapping_offset(i as isize * cs) };
    }
}

/// Gradients of the gates of one row of a step.
struct Gates<'a, T: Real> {
    b: &'a Backward<'a, T>,
    step: usize,
    row: usize,
    /// The gradient of the unit's output; GRU leaves there what goes to the h before.
    dm: *mut T,
    dc: *mut T,
    c_before: *const T,
    h_before: *const T,
}

impl<T: Real> WithSimd for Gates<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Gates { b, step, row, dm, dc, c_before, h_before } = self;
        let n = b.layer.hidden;
        let one = Reg::<S, T>::splat(1.0);
        let zero = Reg::<S, T>::splat(0.0);
        let (kept, to) = (b.gates.at(step, row), b.grad_x.at(step, row));
        let to_h = b.grad_h.as_ref().map_or(to, |g| g.at(step, row));
        let cells = b.cells.as_ref().map(|c| c.at(step, row));
        let projected = b.projected.as_ref().map(|p| p.at(step, row));
        let width = <Reg<S, T> as oneflow_kernels_prim::Register>::WIDTH;
        for u in (0..n).step_by(width) {
            let k = width.min(n - u);
            // SAFETY: k units from u lie in every row.
            unsafe {
                let gate = |g: usize| Reg::<S, T>::load_n(kept.add(g * n + u), k);
                let put = |g: usize, v: Reg<S, T>| v.store_n(to.add(g * n + u), k);
                let d = Reg::<S, T>::load_n(dm.add(u), k);
                match b.layer.mode {
                    RnnMode::Tanh => {
                        let y = gate(0);
                        put(0, d * (one - y * y));
                    }
                    RnnMode::Relu => put(0, Reg::<S, T>::select(zero.lt(gate(0)), d, zero)),
                    RnnMode::Lstm => {
                        let (input, forget, cell, output) = (gate(0), gate(1), gate(2), gate(3));
                        let t = match cells {
                            Some(c) => Reg::<S, T>::load_n(c.add(u), k).tanh(),
                            None => zero,
                        };
                        let dc_now = (d * output).fma(one - t * t, Register::load_n(dc.add(u), k));
                        put(0, dc_now * cell * input * (one - input));
                        put(1, dc_now * Register::load_n(c_before.add(u), k) * forget * (one - forget));
                        put(2, dc_now * input * (one - cell * cell));
                        put(3, d * t * output * (one - output));
                        (dc_now * forget).store_n(dc.add(u), k);
                        if let Some(p) = projected {
                            (output * t).store_n(p.add(u), k);
                        }
                    }
                    RnnMode::Gru => {
                        let (reset, update, new, of_new) = (gate(0), gate(1), gate(2), gate(3));
                        let d_new = d * (one - update) * (one - new * new);
                        let d_update = d * (Reg::<S, T>::load_n(h_before.add(u), k) - new) * update * (one - update);
                        let d_reset = d_new * of_new * reset * (one - reset);
                        put(0, d_reset);
                        put(1, d_update);
                        put(2, d_new);
                        d_reset.store_n(to_h.add(u), k);
                        d_update.store_n(to_h.add(n + u), k);
                        (d_new * reset).store_n(to_h.add(2 * n + u), k);
                        (d * update).store_n(dm.add(u), k);
                    }
                }
            }
        }
    }
}
