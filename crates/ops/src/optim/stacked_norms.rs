//! Norms of many tensors in one vector: what clipping of gradients needs, in few launches where a device has them.

use crate::named::_stacked_norms as at;
use crate::prelude::*;

/// The dtype and device of all tensors.
fn common(c: &Call<'_>) -> Result<(DType, Device)> {
    let mut tensors = at::TENSORS.all(c.args).map(|t| c.t(t));
    let Some(first) = tensors.next().transpose()? else {
        return Err(Error::runtime("_stacked_norms(): expected at least one tensor"));
    };
    for t in tensors {
        let t = t?;
        if t.dtype() != first.dtype() || t.device() != first.device() {
            return Err(Error::runtime(format!(
                "_stacked_norms(): tensors of one dtype on one device were expected, not {} on {} and {} on {}",
                first.dtype(),
                first.device(),
                t.dtype(),
                t.device()
            )));
        }
    }
    Ok((first.dtype(), first.device()))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("_stacked_norms(Tensor[] tensors, float ord=2.0) -> Tensor"),
    doc: "The norm of each tensor, all in one vector.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (dtype, device) = common(c)?;
        if !dtype.is_float() {
            return Err(Error::not_implemented(format!(
                "\"_stacked_norms\" not implemented for '{}'",
                dtype.scalar_type_name()
            )));
        }
        outs.push(dtype, device, &[at::TENSORS.len(c.args) as i64])
    },
    kernel: Kernel::Prim {
        prim: &NORMS,
        lower: |c, _, l| {
            let order = c.float(at::ORD)?;
            if ![1.0, 2.0, f64::INFINITY].contains(&order) {
                return Err(Error::not_implemented(format!("_stacked_norms: norms of order {order} are composed")));
            }
            for tensor in at::TENSORS.all(c.args) {
                l.input(tensor);
            }
            l.output(at::RESULT).with(NormsParams { order });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        common(c)?;
        let order = c.float(at::ORD)?;
        let norms = at::TENSORS.all(c.args).map(|t| c.t(t)?.linalg_vector_norm(order, None, false));
        let norms = norms.collect::<Result<Vec<_>>>()?;
        outs.give(f::stack(&norms, 0)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let lists = [vec![vec![3, 4], vec![], vec![5]], vec![vec![2]]];
        let one = |sizes: Vec<Vec<i64>>| {
            Sample::new(vec![SampleArg::List(sizes.iter().map(|s| SampleArg::f32(s)).collect())])
        };
        lists.into_iter().map(one).collect()
    },
    ..OpDef::BASE
};
