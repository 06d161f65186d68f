//! RNN and its backward: at every step the product with the recurrent weights, then a kernel over the units.

use crate::elementwise::copy_views;
use crate::launch::{Argument, Family, Key, Scratch, address, args, linear, run};
use crate::matmul::matmul;
use crate::text::{Builder, unsupported};
use oneflow_base::{DType, Error, Result};
use oneflow_ep::Queue;
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{Activation, Launch, MatmulParams, RnnMode, RnnParams, View, words};

/// `part`: see the template.
pub fn text(part: u8, mode: RnnMode, dtype: DType) -> Result<Text> {
    let b = Builder::new("rnn").variant("PART", part).variant("MODE", mode as u8);
    Ok(b.compute("T", dtype)?.push(include_str!("text/rnn.cu")).finish())
}

const STEP: u8 = 0;
const REACHES: u8 = 1;
const GATES: u8 = 2;

/// Rows of a state before a step, the template's parameter: those of the step before, behind them the first state's.
#[repr(C)]
#[derive(Clone, Copy)]
struct Before {
    step: *mut u8,
    row: i64,
    rows: i64,
    first: *mut u8,
    first_row: i64,
    first_step: i64,
}
impl Argument for Before {}

/// What a launch says beside its tensors.
struct Layer {
    queue: Queue,
    dtype: DType,
    mode: RnnMode,
    reverse: bool,
    /// Rows of each step.
    rows: Vec<i64>,
    /// Row number of each step's first row in a packed sequence.
    offsets: Option<Vec<i64>>,
    batch: i64,
    hidden: i64,
    /// Width of h: `hidden`, unless it is projected.
    out: i64,
}

/// A tensor of rows a step, columns side by side.
#[derive(Clone, Copy)]
struct Seq {
    ptr: *mut u8,
    step: i64,
    row: i64,
    column: i64,
}

impl Layer {
    fn new(l: &Launch<'_>, seq: &View<'_>, h_0: &View<'_>, w_hh: &View<'_>) -> Result<Layer> {
        let RnnParams { mode, reverse, packed } = l.read()?;
        let dtype = seq.dtype;
        if ![DType::F32, DType::F64].contains(&dtype) {
            return Err(unsupported("rnn", dtype));
        }
        let (rows, offsets) = if seq.ndim() == 3 {
            (vec![seq.sizes[1]; seq.sizes[0] as usize], None)
        } else {
            let rows = packed.0.to_vec();
            let starts = rows.iter().scan(0, |at, n| {
                *at += n;
                Some(*at - n)
            });
            let offsets = starts.collect();
            (rows, Some(offsets))
        };
        let (batch, out) = (h_0.sizes[0], h_0.sizes[1]);
        let held = if seq.ndim() == 3 { rows.iter().sum() } else { seq.sizes[0] };
        if rows.iter().sum::<i64>() != held || rows.windows(2).any(|w| w[1] > w[0]) || rows.first() > Some(&batch) {
            return Err(Error::runtime(format!("rnn: steps of {rows:?} rows do not make a sequence {:?}", seq.sizes)));
        }
        let hidden = w_hh.sizes[0] / mode.n_gates() as i64;
        Ok(Layer { queue: l.queue, dtype, mode, reverse, rows, offsets, batch, hidden, out })
    }

    /// The step computed `i`-th.
    fn step(&self, i: usize) -> usize {
        if self.reverse { self.rows.len() - 1 - i } else { i }
    }

    fn seq(&self, v: View<'_>) -> Seq {
        let n = v.ndim();
        let (step, row) = if n == 3 { (v.strides[0], v.strides[1]) } else { (0, v.strides[0]) };
        Seq { ptr: v.ptr, step, row, column: v.strides[n - 1] }
    }

    /// A sequence whose columns are neighbours.
    fn dense(&self, v: View<'_>) -> Result<Seq> {
        let seq = self.seq(v);
        if seq.column != 1 && v.sizes.last() != Some(&1) {
            return Err(Error::not_implemented(format!(
                "rnn: columns of a sequence {:?} with strides {:?} are no neighbours",
                v.sizes, v.strides
            )));
        }
        Ok(seq)
    }

    /// The first row of a step; null of an absent sequence.
    fn at(&self, seq: Option<Seq>, step: usize) -> *mut u8 {
        let Some(seq) = seq else { return std::ptr::null_mut() };
        let rows = match &self.offsets {
            Some(o) => o[step] * seq.row,
            None => step as i64 * seq.step,
        };
        seq.ptr.wrapping_offset(rows as isize * self.dtype.size() as isize)
    }

    /// A state [batch, width] that begins as `first`, or with zeros.
    fn state(&self, first: Option<View<'_>>, width: i64) -> Result<Scratch> {
        let state = Scratch::new(self.queue, self.batch * width, self.dtype.size())?;
        let (sizes, strides) = ([self.batch, width], [width, 1]);
        let to = View { ptr: state.ptr(), dtype: self.dtype, sizes: &sizes, strides: &strides };
        // SAFETY: both hold [batch, width].
        unsafe {
            match first {
                Some(v) => copy_views(self.queue, &to, &v)?,
                None => {
                    let to = [Some(to)];
                    crate::elementwise::zero(&to, self.queue)?
                }
            }
        }
        Ok(state)
    }

    /// Where a state ends.
    fn store(&self, state: &Scratch, out: Option<View<'_>>) -> Result<()> {
        let Some(out) = out else { return Ok(()) };
        let strides = [out.sizes[1], 1];
        // SAFETY: both hold [batch, width].
        unsafe { copy_views(self.queue, &out, &View { ptr: state.ptr(), strides: &strides, ..out }) }
    }

    /// `to[rows, n] = from[rows, k] @ w + own`; (pointer, distance of rows) of `to` and `from`. `w` is turned where its rows are columns.
    fn product(
        &self,
        rows: i64,
        to: (*mut u8, i64),
        from: (*mut u8, i64),
        w: &View<'_>,
        turned: bool,
        own: Option<*mut u8>,
    ) -> Result<()> {
        let order = if turned { [1, 0] } else { [0, 1] };
        let (w_sizes, w_strides) = (order.map(|d| w.sizes[d]), order.map(|d| w.strides[d]));
        let [k, n] = w_sizes;
        let (a, d) = ([rows, k], [rows, n]);
        let (a_strides, d_strides, own_strides) = ([from.1, 1], [to.1, 1], [n, 1]);
        let a = View { ptr: from.0, dtype: self.dtype, sizes: &a, strides: &a_strides };
        let b = View { sizes: &w_sizes, strides: &w_strides, ..*w };
        let out = View { ptr: to.0, dtype: self.dtype, sizes: &d, strides: &d_strides };
        let own = own.map(|ptr| View { ptr, strides: &own_strides, ..out });
        let params = words(&MatmulParams { activation: Activation::None, alpha: 1.0 });
        let ins = [Some(a), Some(b), None, own];
        // SAFETY: the operands are parts of the launch's views and of the states.
        unsafe { matmul(&Launch { outs: &[Some(out)], ins: &ins, params: &params, expr: None, queue: self.queue }) }
    }

    fn key(&self, part: u8) -> Key {
        Key::new(Family::Rnn).small(part as u64).small(self.mode as u64).dtype(self.dtype)
    }
}

pub unsafe fn rnn(l: &Launch<'_>) -> Result<()> {
    let (x, h_0, w_hh, bias, w_hr) = (l.input(0)?, l.input(1)?, l.input(3)?, l.opt_input(4), l.opt_input(5));
    let layer = Layer::new(l, &x, &h_0, &w_hh)?;
    let lstm = layer.mode == RnnMode::Lstm;
    let (x, y, gates) = (layer.dense(x)?, layer.dense(l.output(0)?)?, layer.dense(l.output(3)?)?);
    let cells = l.opt_output(4).filter(|_| lstm).map(|v| layer.dense(v)).transpose()?;
    let (n, r, size) = (layer.hidden, layer.out, layer.dtype.size());
    let width = layer.mode.n_gates() as i64 * n;
    let h = layer.state(Some(h_0), r)?;
    let c = if lstm { Some(layer.state(l.opt_input(2), n)?) } else { None };
    let product = Scratch::new(l.queue, layer.batch * width, size)?;
    let between = w_hr.map(|_| Scratch::new(l.queue, layer.batch * n, size)).transpose()?;
    let c_ptr = c.as_ref().map_or(std::ptr::null_mut(), Scratch::ptr);
    let bias_step = bias.map_or(0, |b| b.strides[0]);
    for i in 0..layer.rows.len() {
        let step = layer.step(i);
        let rows = layer.rows[step];
        if rows == 0 {
            continue;
        }
        layer.product(rows, (product.ptr(), width), (h.ptr(), r), &w_hh, true, None)?;
        let at = |seq: Option<Seq>| layer.at(seq, step);
        let to = between.as_ref().map_or((at(Some(y)), y.row), |m| (m.ptr(), n));
        let (projected, cells_row) = (between.is_some() as i32, cells.map_or(0, |c| c.row));
        // SAFETY: the arguments are the template's.
        unsafe {
            run(
                l.queue,
                layer.key(STEP),
                || text(STEP, layer.mode, layer.dtype),
                linear(rows * n),
                args![
                    at(Some(x)),
                    x.row,
                    product.ptr(),
                    address(bias),
                    bias_step,
                    h.ptr(),
                    c_ptr,
                    to.0,
                    to.1,
                    at(Some(gates)),
                    gates.row,
                    at(cells),
                    cells_row,
                    rows,
                    n,
                    projected
                ],
            )?
        };
        if let (Some(w), Some(m)) = (&w_hr, &between) {
            layer.product(rows, (at(Some(y)), y.row), (m.ptr(), n), w, true, None)?;
            let (sizes, from, to) = ([rows, r], [y.row, 1], [r, 1]);
            let of = |ptr, strides| View { ptr, dtype: layer.dtype, sizes: &sizes, strides };
            // SAFETY: both hold the step's rows.
            unsafe { copy_views(l.queue, &of(h.ptr(), &to), &of(at(Some(y)), &from))? };
        }
    }
    layer.store(&h, l.opt_output(1))?;
    c.map_or(Ok(()), |c| layer.store(&c, l.opt_output(2)))
}

pub unsafe fn rnn_backward(l: &Launch<'_>) -> Result<()> {
    let (h_0, c_0, w_hh, w_hr, y) = (l.input(3)?, l.opt_input(4), l.input(5)?, l.opt_input(6), l.input(7)?);
    let layer = Layer::new(l, &y, &h_0, &w_hh)?;
    let (lstm, gru) = (layer.mode == RnnMode::Lstm, layer.mode == RnnMode::Gru);
    let dense = |v: Option<View<'_>>| v.map(|v| layer.dense(v)).transpose();
    let (y, gates, cells) = (layer.dense(y)?, layer.dense(l.input(8)?)?, dense(l.opt_input(9).filter(|_| lstm))?);
    let (grad_y, grad_x, grad_h) =
        (l.opt_input(0).map(|v| layer.seq(v)), layer.dense(l.output(0)?)?, dense(l.opt_output(1))?);
    let (grad_out, projected) = (dense(l.opt_output(4))?, dense(l.opt_output(5))?);
    let (n, r, size) = (layer.hidden, layer.out, layer.dtype.size());
    let dh = layer.state(l.opt_input(1), r)?;
    let dc = layer.state(l.opt_input(2).filter(|_| lstm), n)?;
    let room = |wanted: bool| wanted.then(|| Scratch::new(l.queue, layer.batch * n, size)).transpose();
    let (dm, own) = (room(w_hr.is_some())?, room(gru)?);
    let own_ptr = own.as_ref().map(Scratch::ptr);
    for i in (0..layer.rows.len()).rev() {
        let step = layer.step(i);
        let rows = layer.rows[step];
        if rows == 0 {
            continue;
        }
        let at = |seq: Option<Seq>| layer.at(seq, step);
        let row = |seq: Option<Seq>| seq.map_or(0, |s| s.row);
        if grad_y.is_some() || grad_out.is_some() {
            let column = grad_y.map_or(0, |s| s.column);
            // SAFETY: the arguments are the template's.
            unsafe {
                run(
                    l.queue,
                    layer.key(REACHES),
                    || text(REACHES, layer.mode, layer.dtype),
                    linear(rows * r),
                    args![dh.ptr(), at(grad_y), row(grad_y), column, at(grad_out), row(grad_out), rows, r],
                )?
            };
        }
        let d = match (&w_hr, &dm) {
            (Some(w), Some(dm)) => {
                layer.product(rows, (dm.ptr(), n), (dh.ptr(), r), w, false, None)?;
                dm.ptr()
            }
            _ => dh.ptr(),
        };
        let earlier = i.checked_sub(1).map(|i| layer.step(i));
        let (kept, first) = if gru { (Some(y), Some(h_0)) } else { (cells, c_0) };
        let before = Before {
            step: earlier.map_or(std::ptr::null_mut(), |s| layer.at(kept, s)),
            row: row(kept),
            rows: earlier.map_or(0, |s| layer.rows[s]),
            first: address(first),
            first_row: first.map_or(0, |v| v.strides[0]),
            first_step: first.map_or(0, |v| v.strides[1]),
        };
        let through = grad_h.unwrap_or(grad_x);
        // SAFETY: the arguments are the template's.
        unsafe {
            run(
                l.queue,
                layer.key(GATES),
                || text(GATES, layer.mode, layer.dtype),
                linear(rows * n),
                args![
                    d,
                    dc.ptr(),
                    at(Some(gates)),
                    gates.row,
                    at(cells),
                    row(cells),
                    at(Some(grad_x)),
                    grad_x.row,
                    at(Some(through)),
                    through.row,
                    at(projected),
                    row(projected),
                    own_ptr.unwrap_or(std::ptr::null_mut()),
                    rows,
                    n,
                    before
                ],
            )?
        };
        layer.product(rows, (dh.ptr(), r), (at(Some(through)), through.row), &w_hh, false, own_ptr)?;
    }
    layer.store(&dh, l.opt_output(2))?;
    layer.store(&dc, l.opt_output(3).filter(|_| lstm))
}
