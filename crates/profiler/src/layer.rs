//! The layer: a call of an op between its beginning and its end.

use crate::buffer::{self, EventKind, Operand};
use crate::wanted;
use oneflow_base::{Meta, Result};
use oneflow_core::{Call, Dest, Outs, Tensor, redispatch};

/// Ends the event when dropped, also by a panic on its way to the gate.
struct Open(u64);

impl Drop for Open {
    fn drop(&mut self) {
        buffer::end(self.0);
    }
}

pub fn watch(c: &Call<'_>, below: u32, outs: &mut Outs) -> Result<()> {
    let wanted = wanted();
    let operands = wanted.shapes.then(|| {
        let of = |t: &Option<&Tensor>| t.map(|t| Operand { dtype: t.dtype(), sizes: t.sizes().into() });
        c.ins.iter().map(of).collect()
    });
    let in_place = matches!((c.dest, c.ins.first()), (Dest::Into([d]), Some(Some(t))) if t.same(d));
    let open = Open(buffer::begin(EventKind::Op, c.name().into(), 0, in_place, operands));
    redispatch(c, below, outs)?;
    if wanted.flops {
        let metas: Vec<Meta> = outs.tensors().iter().map(Tensor::meta).collect();
        let cost = (c.op.cost)(c, &metas);
        buffer::set_cost(open.0, cost.flops, cost.products);
    }
    Ok(())
}
