//! The operations of a model: those of its products, without what checkpoints compute again.

use crate::ir::{Graph, Kind};
use oneflow_base::{Meta, Result};
use oneflow_core::{Call, Outs, Tensor};
use oneflow_runtime::shell;

/// Operations of the products of one run, by the costs of their ops; what is computed again does not count.
///
/// # Errors
/// What the ops' rules say of their operands.
pub fn model_flops(g: &Graph) -> Result<f64> {
    let mut flops = 0.0;
    for n in g.nodes.iter().filter(|n| n.again == 0 && !n.is_view()) {
        let Kind::Op { op, attrs } = &n.kind else { continue };
        let shells: Vec<Option<Tensor>> = n
            .ins
            .iter()
            .map(|v| v.map(|v| shell(g.meta(v), g.values[v as usize].offset)).transpose())
            .collect::<Result<_>>()?;
        let refs: Vec<Option<&Tensor>> = shells.iter().map(Option::as_ref).collect();
        let args = attrs.args();
        let c = Call::new(op, &refs, &args);
        let mut outs = Outs::new();
        (op.infer)(&c, &mut outs)?;
        let metas: Vec<Meta> = outs.tensors().iter().map(Tensor::meta).collect();
        let cost = (op.cost)(&c, &metas);
        flops += if cost.products { cost.flops } else { 0.0 };
    }
    Ok(flops)
}
