//! Products and convolutions of batches: the batch joins a dimension that the kernel has already.

use crate::layer::{Ran, again, raised, samples, value};
use oneflow_base::{Arg, Attrs, Dims, Result};
use oneflow_core::{At, Call, In, Outs, Tensor};
use oneflow_ops::TensorOps;
use smallvec::SmallVec;

/// Matrix products. Vectors become matrices, so that the batch stands before them.
pub(crate) fn matmul(c: &Call<'_>, id: u64, outs: &mut Outs) -> Result<Ran> {
    let (a, b) = (c.t(In::nth(0))?, c.t(In::nth(1))?);
    if a.ndim() == 0 || b.ndim() == 0 {
        return Ok(Ran::No);
    }
    (c.op.infer)(c, &mut Outs::new())?;
    match (value(a, id), value(b, id)) {
        // The rows of all samples are rows of one product.
        (Some(a), None) if b.ndim() <= 2 => return again(c, &[Some(a), Some(b)], None, outs),
        (None, Some(v)) if a.ndim() == 2 && b.ndim() == 1 => {
            return again(c, &[Some(v), Some(&a.transpose(0, 1)?)], None, outs);
        }
        _ => {}
    }
    let ndim = a.ndim().max(b.ndim()).max(2);
    let operand = |t: &Tensor, vector: i64| -> Result<Tensor> {
        match value(t, id) {
            Some(all) if t.ndim() == 1 => raised(&all.unsqueeze(vector)?, ndim),
            Some(all) => raised(all, ndim),
            None if t.ndim() == 1 => t.unsqueeze(vector),
            None => Ok(t.clone()),
        }
    };
    let (x, y) = (operand(a, -2)?, operand(b, -1)?);
    let mut made = x.matmul(&y)?;
    if b.ndim() == 1 {
        made = made.squeeze_dim(&[-1])?;
    }
    if a.ndim() == 1 {
        made = made.squeeze_dim(&[if b.ndim() == 1 { -1 } else { -2 }])?;
    }
    outs.give(made);
    Ok(Ran::OnAll)
}

/// A convolution, or its gradient for the input, whose weight is the same for all samples: one over the samples' batches.
pub(crate) fn folded(c: &Call<'_>, id: u64, outs: &mut Outs) -> Result<Ran> {
    let x = c.t(In::nth(0))?;
    let (Some(all), [_, rest @ ..]) = (value(x, id), c.ins) else { return Ok(Ran::No) };
    if rest.iter().flatten().any(|t| value(t, id).is_some()) {
        return Ok(Ran::No);
    }
    let n = samples(c, id);
    let mut sizes = Dims::from_slice(&all.sizes()[1..]);
    sizes[0] *= n;
    let flat = all.reshape(&sizes)?;
    let mut ins: SmallVec<[Option<&Tensor>; 4]> = SmallVec::from_slice(c.ins);
    ins[0] = Some(&flat);
    let mut attrs = Attrs::new(c.args);
    if let Some(at) = c.op.sig.arg_index("input_size") {
        let mut size = Dims::from_slice(c.ints(At::nth(at))?);
        size[0] *= n;
        attrs = attrs.with(at, Arg::Ints(&size));
    }
    again(c, &ins, Some(&attrs), outs)?;
    let mut sizes = Dims::from_slice(outs[0].sizes());
    sizes[0] /= n;
    sizes.insert(0, n);
    outs.set(0, outs[0].reshape(&sizes)?);
    Ok(Ran::OnAll)
}
