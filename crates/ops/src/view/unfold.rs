//! Windows along a dimension, seen in a new last dimension.

use super::{COMPOSED, VIEW, give};
use crate::named::{unfold, unfold_backward};
use crate::prelude::*;

fn windows(c: &Call<'_>) -> Result<(usize, i64, i64, i64)> {
    let x = c.t(unfold::INPUT)?;
    let (d, size, step) = (wrap_dim(c.int(unfold::DIMENSION)?, x.ndim())?, c.int(unfold::SIZE)?, c.int(unfold::STEP)?);
    let n = x.sizes().get(d).copied().unwrap_or(1);
    if size < 0 {
        return Err(Error::runtime(format!("unfold(): size is {size} but must be >= 0")));
    }
    if size > n {
        return Err(Error::runtime(format!(
            "unfold(): maximum size for tensor at dimension {d} is {n} but size is {size}"
        )));
    }
    if step <= 0 {
        return Err(Error::runtime(format!("unfold(): step is {step} but must be > 0")));
    }
    Ok((d, size, step, (n - size) / step + 1))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("unfold(Tensor(a) input, int dimension, int size, int step) -> Tensor(a)"),
    doc: "A view of all windows of `size` elements along a dimension, `step` apart, in a new last dimension.

Example::

    >>> oneflow.arange(4).unfold(0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])",
    faces: Faces::METHOD,
    infer: |c, outs| {
        let x = c.t(unfold::INPUT)?;
        let (d, size, step, n) = windows(c)?;
        let (mut sizes, mut strides) = (Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()));
        sizes.push(size);
        strides.push(x.strides().get(d).copied().unwrap_or(1));
        if x.ndim() > 0 {
            sizes[d] = n;
            // Of a single window the stride is never used.
            strides[d] = strides[d].saturating_mul(step);
        }
        outs.view(unfold::INPUT, x, sizes, strides, x.offset())
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let int = |at: At<i64>, d| c.arg(at).int().unwrap_or(d);
            let sizes = &c.in_meta(unfold::INPUT)?.sizes;
            out.set(unfold::INPUT, || {
                c.g()?.unfold_backward(sizes, int(unfold::DIMENSION, 0), int(unfold::SIZE, 1), int(unfold::STEP, 1))
            })
        },
    },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        let d = windows(c)?.0;
        for i in (0..c.t(unfold::INPUT)?.ndim()).filter(|i| *i != d) {
            let one = SmallVec::from_slice(&[i as u8]);
            groups.push(DimGroup { ins: one.clone(), outs: one });
        }
        Ok(())
    })),
    samples: || {
        let i = SampleArg::Int;
        let t = |s: &[i64], d, n, st| Sample::new(vec![SampleArg::f32(s), i(d), i(n), i(st)]);
        vec![t(&[5], 0, 2, 1), t(&[2, 7], 1, 3, 2), t(&[4, 3], 0, 4, 1), t(&[], 0, 1, 1)]
    },
    ..VIEW
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("unfold_backward(Tensor grad_output, int[] input_sizes, int dim, int size, int step) -> Tensor"),
    doc: "Sums the windows of an unfolded dimension back to where they came from.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        let (g, sizes) = (c.t(unfold_backward::GRAD_OUTPUT)?, c.ints(unfold_backward::INPUT_SIZES)?);
        let (d, size, step) = (
            wrap_dim(c.int(unfold_backward::DIM)?, sizes.len())?,
            c.int(unfold_backward::SIZE)?,
            c.int(unfold_backward::STEP)?,
        );
        if sizes.is_empty() {
            return give(outs, g.reshape(&[])?);
        }
        let n = g.sizes()[d];
        // Windows and places in them side by side, then added to the positions they show.
        let mut flat = Dims::from_slice(sizes);
        flat[d] = n * size;
        let lined = g.movedim(&[-1], &[d as i64 + 1])?.reshape(&flat)?;
        let ones = |k: i64| g.new_ones_with(&[k], Some(DType::I64), None, false)?.cumsum(0)?.sub(1i64);
        let places = ones(n)?.mul(step)?.unsqueeze(1)?.add(&ones(size)?)?.reshape(&[-1])?;
        give(outs, g.new_zeros(sizes)?.index_add(d as i64, &places, &lined)?)
    }),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[3, 2]), SampleArg::Ints(vec![5]), i(0), i(2), i(1)])]
    },
    ..COMPOSED
};
