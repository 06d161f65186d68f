//! Local tensors of one element in calls that take global ones: each rank's own counts as a copy, as a Python number would.
//!
//! Nothing is sent, and nobody compares the copies: that all ranks have the same element is the caller's promise. The gradient
//! is that of the whole, and every rank gets it. Larger local tensors stay errors, since they might be shards or copies.

use crate::boxing::bytes::{on, zeros};
use crate::boxing::local_device;
use crate::mesh::my_coords;
use crate::named::{_replica, _replicate};
use crate::ops::{contiguous, to_global};
use crate::tensor::{Spread, expect_global, global_of, logical_device, make_of};
use oneflow_base::{Arg, DeviceType, Placement, PlacementId, Result};
use oneflow_core::{At, Call, Dest, Faces, Grad, Kernel, OpDef, Sig, Tensor, Traits, bit, dispatch_one, warn};
use oneflow_ops::TensorOps;
use smallvec::SmallVec;

/// The inputs of a call on global tensors, with local tensors of one element made global; `None` if there are none.
///
/// Lists that are written element by element are left alone: each of their local tensors has an update of its own.
pub fn with_scalars(c: &Call<'_>) -> Result<Option<SmallVec<[Option<Tensor>; 4]>>> {
    let dest: &[&Tensor] = if let Dest::Into(d) = c.dest { d } else { &[] };
    let is_scalar = |t: &Tensor| {
        let plain = 1 << bit::LOCAL | 1 << bit::META | 1 << bit::AUTOGRAD | 1 << bit::LAZY;
        t.numel() == 1 && t.keys() & !plain == 0 && !dest.iter().any(|d| d.same(t))
    };
    if c.op.traits.has(Traits::MUTATES) || !c.ins.iter().flatten().any(|t| is_scalar(t)) {
        return Ok(None);
    }
    let Some(home) = c.ins.iter().flatten().find_map(|t| global_of(t)) else { return Ok(None) };
    let placement = [Arg::Placement(home.spread.placement_id)];
    let lifted = |t: &Tensor| {
        if !is_scalar(t) {
            return Ok(t.clone());
        }
        if t.ndim() > 0 {
            warn(&format!(
                "{}(): a local tensor of shape {:?} beside global ones counts as a copy that all ranks have; give a 0-dim tensor, or make it global",
                c.name(),
                t.sizes()
            ))?;
        }
        dispatch_one(&Call::new(&REPLICATE, &[Some(t)], &placement))
    };
    c.ins.iter().map(|t| t.map(lifted).transpose()).collect::<Result<_>>().map(Some)
}

const COPY: OpDef = OpDef { faces: Faces::PRIVATE, ..OpDef::BASE };

fn placement_of(c: &Call<'_>, at: At<PlacementId>) -> Result<(Spread, &'static Placement)> {
    let Arg::Placement(id) = c.arg(at) else {
        return Err(oneflow_base::Error::type_(format!("{}(): expected a placement", c.name())));
    };
    let to = Spread::broadcast(id)?;
    Ok((to, to.placement))
}

/// The global tensor of which every rank has this copy.
pub static REPLICATE: OpDef = OpDef {
    sig: Sig::parse("_replicate(Tensor input, Placement placement) -> Tensor"),
    doc: "The global tensor of which every rank has this copy; nothing is sent, and the gradient is that of the whole.",
    infer: |c, outs| {
        let x = c.t(_replicate::INPUT)?;
        let (_, placement) = placement_of(c, _replicate::PLACEMENT)?;
        outs.push(x.dtype(), logical_device(placement.kind), x.sizes())
    },
    kernel: Kernel::Layer(|c, outs| {
        let x = c.t(_replicate::INPUT)?;
        let (to, placement) = placement_of(c, _replicate::PLACEMENT)?;
        let here = match my_coords(placement) {
            None => None,
            Some(_) if x.device().is_meta() => Some(x.shallow()),
            Some(_) => Some(on(contiguous(x)?, local_device(placement.kind))?),
        };
        outs.give(make_of(x.dtype(), x.sizes(), to, here)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[],
        fix: oneflow_core::Fix::None,
        f: |c, out| {
            out.set(_replicate::INPUT, || {
                let Arg::Placement(id) = c.arg(_replicate::PLACEMENT) else { return Ok(c.g()?.clone()) };
                let whole = to_global(c.g()?, Spread::broadcast(id)?)?;
                let own = dispatch_one(&Call::new(&REPLICA, &[Some(&whole)], &[Arg::Placement(id)]))?;
                let home = c.in_meta(_replicate::INPUT)?.device;
                if own.device() == home { Ok(own) } else { own.to_copy_with(None, Some(home)) }
            })
        },
    },
    ..COPY
};

/// This rank's copy of a global tensor that all ranks have, zeros outside of them.
pub static REPLICA: OpDef = OpDef {
    sig: Sig::parse("_replica(Tensor input, Placement placement) -> Tensor"),
    doc: "This rank's copy of a global tensor that all ranks of the placement have; zeros outside of it.",
    infer: |c, outs| {
        let x = c.t(_replica::INPUT)?;
        let (_, placement) = placement_of(c, _replica::PLACEMENT)?;
        outs.push(x.dtype(), local_device(placement.kind), x.sizes())
    },
    kernel: Kernel::Layer(|c, outs| {
        let x = c.t(_replica::INPUT)?;
        outs.give(match &expect_global(x, c.name())?.local {
            Some(t) => t.shallow(),
            None => zeros(x.dtype(), oneflow_base::Device::new(DeviceType::CPU, 0), x.sizes())?,
        });
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[],
        fix: oneflow_core::Fix::None,
        f: |c, out| {
            out.set(_replica::INPUT, || {
                dispatch_one(&Call::new(&REPLICATE, &[Some(c.g()?)], &[c.arg(_replica::PLACEMENT)]))
            })
        },
    },
    ..COPY
};
