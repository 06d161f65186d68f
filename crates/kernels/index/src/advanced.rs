//! Indexing by several index tensors at once: INDEX and INDEX_PUT.

use crate::check::{Offsets, add_offsets};
use crate::lines::{Axis, Lines};
use crate::num::{Complex, Num, by_size};
use crate::select::take;
use oneflow_base::{DType, Error, Result, by_dtype};
use oneflow_kernels_prim::rows::{Grid, Shared};
use oneflow_kernels_prim::{IndexParams, IndexPutParams, Launch, View};
use smallvec::smallvec;

pub unsafe fn index(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    let IndexParams { position, n_dims } = l.read()?;
    let plan = Plan::new(&x, &out, &l.ins[1..], position, n_dims)?;
    let lines = plan.lines(&out, &x, |[picked, indexed]| [picked, indexed]);
    // SAFETY: the plan has checked the indices.
    by_size!(out.dtype, T => unsafe { take::<T>(&lines, &out, &x, plan.picked(), Axis::Table(&plan.indexed)) });
    Ok(())
}

pub unsafe fn index_put(l: &Launch<'_>) -> Result<()> {
    let (value, out) = (l.input(0)?, l.output(0)?);
    let IndexPutParams { index: IndexParams { position, n_dims }, accumulate } = l.read()?;
    let plan = Plan::new(&out, &value, &l.ins[1..], position, n_dims)?;
    let lines = plan.lines(&value, &out, |[picked, indexed]| [indexed, picked]);
    let (to, from) = (Axis::Table(&plan.indexed), plan.picked());
    macro_rules! run {
        ($T:ty, $f:expr) => {
            // SAFETY: the plan has checked the indices.
            unsafe { put::<$T>(&lines, &out, &value, to, from, $f) }
        };
    }
    match (accumulate, out.dtype) {
        (false, d) => by_size!(d, T => run!(T, |_, v| v)),
        (true, DType::C64) => run!(Complex<f32>, Num::add),
        (true, DType::C128) => run!(Complex<f64>, Num::add),
        (true, d) => by_dtype!(d, reals, T => run!(T, Num::add), _ => ()),
    }
    Ok(())
}

/// `out[to[i], lane] = f(out[to[i], lane], value[from[i], lane])`, i in order.
pub unsafe fn put<T: Copy>(
    lines: &Lines<2>,
    out: &View,
    value: &View,
    to: Axis,
    from: Axis,
    f: impl Fn(T, T) -> T + Sync,
) {
    let (out, value) = (Shared::<T>::new(out.ptr), Shared::<T>::new(value.ptr));
    let [os, vs] = lines.lane_step;
    lines.each(1.0, true, &|off, axis, lanes| {
        for i in axis {
            let (o, v) = (out.at(off[0] + to.at(i)), value.at(off[1] + from.at(i)));
            // SAFETY: offsets are in bounds by the plan's check; tasks hold whole axes of disjoint lanes.
            unsafe {
                if os == 1 && vs == 1 {
                    let o = std::slice::from_raw_parts_mut(o.add(lanes.start), lanes.len());
                    let v = std::slice::from_raw_parts(v.add(lanes.start), lanes.len());
                    o.iter_mut().zip(v).for_each(|(o, v)| *o = f(*o, *v));
                    continue;
                }
                for j in lanes.clone().map(|j| j as isize) {
                    *o.offset(j * os) = f(*o.offset(j * os), *v.offset(j * vs));
                }
            }
        }
    });
}

/// The indexed tensor's offsets an index position, and how the dimensions of both sides pair up.
struct Plan<'a> {
    /// Element offset into the indexed tensor, by index position in row-major order.
    indexed: Offsets,
    /// Offsets of the picked side (INDEX's output, INDEX_PUT's value): one step, or a table where its dimensions do not merge.
    step: Option<isize>,
    table: Offsets,
    ins: &'a [Option<View<'a>>],
    pos: usize,
    n_dims: usize,
}

impl<'a> Plan<'a> {
    fn new(x: &View, picked: &View, ins: &'a [Option<View<'a>>], pos: usize, n_dims: usize) -> Result<Self> {
        let at = pos + n_dims;
        if at > picked.ndim() || ins.len() > x.ndim() {
            return Err(Error::index(format!("too many indices for tensor of dimension {}", x.ndim())));
        }
        let shape = &picked.sizes[pos..at];
        let n = shape.iter().product::<i64>() as usize;
        let mut indexed: Offsets = smallvec![0; n];
        for (d, index) in ins.iter().enumerate() {
            let Some(index) = index else { continue };
            if index.sizes != shape {
                let (a, b) = (index.sizes, shape);
                return Err(Error::runtime(format!("index: index of shape {a:?} where the launch says {b:?}")));
            }
            add_offsets(index, d, x.sizes[d], x.strides[d], true, &mut indexed)?;
        }
        let mut grid = Grid::new(shape, [&picked.strides[pos..at]]);
        let (inner, [step]) = grid.inner();
        let mut table = Offsets::new();
        if inner != n {
            table.reserve(n);
            grid.pop_inner();
            grid.each(0..grid.len(), |_, [off]| (0..inner as isize).for_each(|j| table.push((off + j * step) as i64)));
        }
        Ok(Plan { indexed, step: (inner == n).then_some(step), table, ins, pos, n_dims })
    }

    fn picked(&self) -> Axis<'_> {
        self.step.map_or(Axis::Table(&self.table), Axis::Step)
    }

    /// The nest; `order` puts (picked, indexed) into operand order.
    fn lines(&self, picked: &View, x: &View, order: fn([i64; 2]) -> [i64; 2]) -> Lines<2> {
        let not_indexed = (0..x.ndim()).filter(|d| self.ins.get(*d).copied().flatten().is_none());
        let rest = not_indexed.enumerate().map(|(r, d)| {
            let p = if r < self.pos { r } else { r + self.n_dims };
            (x.sizes[d], order([picked.strides[p], x.strides[d]]))
        });
        let step = order([self.step.unwrap_or(0) as i64, 0]).map(|s| s as isize);
        Lines::around(Grid::from_dims(rest), self.indexed.len(), step)
    }
}
