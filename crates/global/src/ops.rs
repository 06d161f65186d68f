//! The ops that are what this layer does: entering, leaving and changing layouts. Gradients have the dual layout.

use crate::boxing::boxed;
use crate::boxing::bytes::{bytes_mut, dense, on};
use crate::mesh::{axis_groups, my_coords, part};
use crate::named::{
    _assemble, _box, _enter, _shard, global_to_global, local_to_global, to_global as to_global_at,
    to_local as to_local_at,
};
use crate::tensor::{GlobalTensor, Spread, expect_global, global_of, logical_device, make, make_of};
use oneflow_base::{Arg, Dims, Error, Meta, NdSbpId, PlacementId, Result, Sbp};
use oneflow_core::{Call, Cost, Dest, Faces, Fix, Grad, Kernel, OpDef, Sig, Tensor, Traits, bit, dispatch_one};

fn no_cost(_: &Call<'_>, _: &[Meta]) -> Cost {
    Cost::default()
}

const LAYOUT: OpDef = OpDef { faces: Faces::METHOD, traits: Traits::COLLECTIVE, cost: no_cost, ..OpDef::BASE };

/// A method made of the private ops below, which carry everything their gradients need.
macro_rules! composed {
    ($f:path) => {
        OpDef {
            kernel: Kernel::Layer(|c, outs| {
                fresh_only(c)?;
                outs.give($f(c)?);
                Ok(())
            }),
            compose: Some(|c, outs| {
                outs.give($f(c)?);
                Ok(())
            }),
            grad: Grad::Compose,
            ..LAYOUT
        }
    };
}

fn fresh_only(c: &Call<'_>) -> Result<()> {
    match c.dest {
        Dest::Fresh => Ok(()),
        Dest::Into(_) => Err(Error::runtime(format!("{}(): has no out= form", c.name()))),
    }
}

pub static TO_GLOBAL: OpDef = OpDef {
    sig: Sig::parse(
        "to_global(Tensor(a) input, Placement? placement=None, Sbp? sbp=None, *, Sbp? grad_sbp=None, bool? check_meta=None, bool copy=False) -> Tensor(a)",
    ),
    doc: "A global tensor. Of a local tensor, which becomes this rank's shard: `placement` and `sbp` are required, and with
broadcast the data of the first rank is copied to the others. Of a global tensor: the same value under another placement or
sbp; the tensor itself where nothing changes.

`grad_sbp` is the layout the gradient is given on its way back. `check_meta` compares shapes and dtypes across ranks; without
it, shards of a local tensor must have equal shapes.

Example::

    >>> x = oneflow.ones(2, 2).to_global(oneflow.placement(\"cpu\", [0]), oneflow.sbp.split(0))
    >>> x.sbp
    (oneflow.sbp.split(dim=0),)",
    ..composed!(to_global_call)
};

pub static LOCAL_TO_GLOBAL: OpDef = OpDef {
    sig: Sig::parse(
        "local_to_global(Tensor(a) input, Placement placement, Sbp sbp, *, bool? check_meta=None, bool copy=False) -> Tensor(a)",
    ),
    doc: "A global tensor of which this local one is the shard; see `to_global`.

Example::

    >>> x = oneflow.ones(2).local_to_global(oneflow.placement(\"cpu\", [0]), oneflow.sbp.split(0))
    >>> x.sbp
    (oneflow.sbp.split(dim=0),)",
    ..composed!(local_to_global_call)
};

pub static GLOBAL_TO_GLOBAL: OpDef = OpDef {
    sig: Sig::parse(
        "global_to_global(Tensor(a) input, Placement? placement=None, Sbp? sbp=None, *, Sbp? grad_sbp=None, bool? check_meta=None, bool copy=False) -> Tensor(a)",
    ),
    doc: "The same value under another placement or sbp; see `to_global`.

Example::

    >>> x = oneflow.ones(2).to_global(oneflow.placement(\"cpu\", [0]), oneflow.sbp.split(0))
    >>> x.global_to_global(sbp=oneflow.sbp.broadcast).sbp
    (oneflow.sbp.broadcast,)",
    ..composed!(global_to_global_call)
};

pub static TO_LOCAL: OpDef = OpDef {
    sig: Sig::parse("to_local(Tensor(a) input, *, bool copy=False) -> Tensor(a)"),
    doc: "This rank's shard of a global tensor.

Example::

    >>> x = oneflow.ones(2).to_global(oneflow.placement(\"cpu\", [0]), oneflow.sbp.broadcast)
    >>> x.to_local()
    tensor([1., 1.])",
    ..composed!(to_local_call)
};

fn to_global_call(c: &Call<'_>) -> Result<Tensor> {
    if c.t(to_global_at::INPUT)?.has_key(bit::GLOBAL) {
        return global_to_global_call(c);
    }
    let (Arg::Placement(p), Arg::Sbp(s)) = (c.arg(to_global_at::PLACEMENT), c.arg(to_global_at::SBP)) else {
        return Err(Error::value(
            "to_global(): a local tensor needs both 'placement' and 'sbp' to become a global one",
        ));
    };
    enter(
        c.t(to_global_at::INPUT)?,
        Spread::new(p, s)?,
        check_arg(c.arg(to_global_at::CHECK_META), true),
        c.bool(to_global_at::COPY),
    )
}

fn local_to_global_call(c: &Call<'_>) -> Result<Tensor> {
    let (Arg::Placement(p), Arg::Sbp(s)) = (c.arg(local_to_global::PLACEMENT), c.arg(local_to_global::SBP)) else {
        return Err(Error::type_("local_to_global(): needs 'placement' and 'sbp'"));
    };
    if c.t(local_to_global::INPUT)?.has_key(bit::GLOBAL) {
        return Err(Error::runtime("local_to_global(): the tensor is global already; use to_global"));
    }
    enter(
        c.t(local_to_global::INPUT)?,
        Spread::new(p, s)?,
        check_arg(c.arg(local_to_global::CHECK_META), true),
        c.bool(local_to_global::COPY),
    )
}

fn check_arg(a: Arg<'_>, default: bool) -> bool {
    if a.is_none() { default } else { a.bool() }
}

fn global_to_global_call(c: &Call<'_>) -> Result<Tensor> {
    let x = c.t(global_to_global::INPUT)?;
    let from = expect_global(x, c.name())?.spread;
    let placement = if let Arg::Placement(p) = c.arg(global_to_global::PLACEMENT) { Some(p) } else { None };
    let sbp = if let Arg::Sbp(s) = c.arg(global_to_global::SBP) { Some(s) } else { None };
    if placement.is_none() && sbp.is_none() && c.arg(global_to_global::GRAD_SBP).is_none() {
        return Err(Error::value("to_global(): one of 'placement', 'sbp' and 'grad_sbp' is required"));
    }
    let to = Spread::new(placement.unwrap_or(from.placement_id), sbp.unwrap_or(from.sbp_id))?;
    if to == from && c.arg(global_to_global::GRAD_SBP).is_none() && !c.bool(global_to_global::COPY) {
        return Ok(x.clone());
    }
    dispatch_one(&Call::new(
        &BOX,
        &[Some(x)],
        &[
            Arg::Placement(to.placement_id),
            Arg::Sbp(to.sbp_id),
            Arg::Placement(from.placement_id),
            c.arg(global_to_global::GRAD_SBP),
            Arg::Bool(c.bool(global_to_global::COPY)),
        ],
    ))
}

fn to_local_call(c: &Call<'_>) -> Result<Tensor> {
    let x = c.t(to_local_at::INPUT)?;
    let from = expect_global(x, c.name())?.spread;
    let args = [Arg::Placement(from.placement_id), Arg::Sbp(from.sbp_id), Arg::Bool(c.bool(to_local_at::COPY))];
    dispatch_one(&Call::new(&SHARD, &[Some(x)], &args))
}

/// The global tensor of which a local one is the shard; `check` compares the shards' shapes first.
pub fn enter(x: &Tensor, to: Spread, check: bool, copy: bool) -> Result<Tensor> {
    let args = [Arg::Placement(to.placement_id), Arg::Sbp(to.sbp_id), Arg::Bool(check), Arg::Bool(copy)];
    dispatch_one(&Call::new(&ENTER, &[Some(x)], &args))
}

/// The layout that arguments `i` and `i + 1` name.
fn spread_arg(p: Arg<'_>, s: Arg<'_>) -> Result<Spread> {
    match (p, s) {
        (Arg::Placement(p), Arg::Sbp(s)) => Spread::new(p, s),
        _ => Err(Error::type_("expected a placement and an sbp")),
    }
}

/// A global tensor under another layout.
pub static BOX: OpDef = OpDef {
    sig: Sig::parse(
        "_box(Tensor input, Placement placement, Sbp sbp, Placement source, Sbp? grad_sbp, bool copy) -> Tensor",
    ),
    doc: "A global tensor under another layout.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(_box::INPUT)?;
        outs.push(
            x.dtype(),
            logical_device(spread_arg(c.arg(_box::PLACEMENT), c.arg(_box::SBP))?.placement.kind),
            x.sizes(),
        )
    },
    kernel: Kernel::Layer(|c, outs| {
        fresh_only(c)?;
        let x = c.t(_box::INPUT)?;
        let to = spread_arg(c.arg(_box::PLACEMENT), c.arg(_box::SBP))?;
        let from = expect_global(x, "to_global")?;
        outs.give(match from.spread == to {
            // A node of its own, so that the gradient can be given a layout here.
            true => {
                let copied =
                    if c.bool(_box::COPY) { from.local.as_ref().map(dense).transpose()? } else { from.local.clone() };
                make(x, x.sizes(), to, copied)?
            }
            false => boxed(x, to)?,
        });
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            out.set(_box::INPUT, || {
                let g = c.g()?;
                let have = expect_global(g, "gradient of to_global")?.spread;
                let sbp = if let Arg::Sbp(s) = c.arg(_box::GRAD_SBP) { s } else { have.sbp_id };
                let home = if let Arg::Placement(p) = c.arg(_box::SOURCE) { p } else { have.placement_id };
                let n_axes = home.get().map_or(0, |p| p.hierarchy.len());
                let to = match sbp.get().is_some_and(|s| s.len() == n_axes) {
                    true => Spread::new(home, sbp)?,
                    // The incoming layout has no meaning on a mesh of other rank.
                    false => Spread::broadcast(home)?,
                };
                to_global(g, to)
            })
        },
    },
    ..LAYOUT
};

/// This rank's shard.
pub static SHARD: OpDef = OpDef {
    sig: Sig::parse("_shard(Tensor input, Placement placement, Sbp sbp, bool copy) -> Tensor"),
    doc: "This rank's shard of a global tensor.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(_shard::INPUT)?;
        let from = spread_arg(c.arg(_shard::PLACEMENT), c.arg(_shard::SBP))?;
        let sizes = match my_coords(from.placement) {
            Some(coords) => part(x.sizes(), from.placement, from.sbp, &coords).sizes,
            None => Dims::from_slice(&[0]),
        };
        outs.push(x.dtype(), crate::boxing::local_device(from.placement.kind), &sizes)
    },
    kernel: Kernel::Layer(|c, outs| {
        fresh_only(c)?;
        let x = c.t(_shard::INPUT)?;
        let g = expect_global(x, "to_local")?;
        outs.give(match &g.local {
            Some(t) if c.bool(_shard::COPY) => dense(t)?,
            Some(t) => t.shallow(),
            // torch has no word for "nothing here": an empty tensor of the dtype.
            None => Tensor::empty(x.dtype(), oneflow_base::Device::CPU, &[0])?,
        });
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            out.set(_shard::INPUT, || {
                let to = spread_arg(c.arg(_shard::PLACEMENT), c.arg(_shard::SBP))?.dual()?;
                let m = c.in_meta(_shard::INPUT)?;
                let args = [Arg::Placement(to.placement_id), Arg::Sbp(to.sbp_id), Arg::Ints(&m.sizes)];
                dispatch_one(&Call::new(&ASSEMBLE, &[Some(c.g()?)], &args))
            })
        },
    },
    ..LAYOUT
};

/// The global tensor of known sizes of which a local one is the shard.
pub static ASSEMBLE: OpDef = OpDef {
    sig: Sig::parse("_assemble(Tensor input, Placement placement, Sbp sbp, int[] sizes) -> Tensor"),
    doc: "The global tensor of known sizes of which a local one is the shard.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let kind = spread_arg(c.arg(_assemble::PLACEMENT), c.arg(_assemble::SBP))?.placement.kind;
        outs.push(c.t(_assemble::INPUT)?.dtype(), logical_device(kind), c.ints(_assemble::SIZES)?)
    },
    kernel: Kernel::Layer(|c, outs| {
        fresh_only(c)?;
        let (x, to, sizes) = (
            c.t(_assemble::INPUT)?,
            spread_arg(c.arg(_assemble::PLACEMENT), c.arg(_assemble::SBP))?,
            c.ints(_assemble::SIZES)?,
        );
        if x.has_key(bit::GLOBAL) {
            return Err(Error::runtime(format!("{}(): the tensor is global already", c.name())));
        }
        let local = match my_coords(to.placement) {
            None => None,
            Some(coords) => {
                let mine = part(sizes, to.placement, to.sbp, &coords);
                if mine.sizes.as_slice() != x.sizes() {
                    return Err(Error::runtime(format!(
                        "a shard of shape {:?} was expected for {:?} of shape {sizes:?}, got {:?}",
                        mine.sizes.as_slice(),
                        to.sbp,
                        x.sizes()
                    )));
                }
                Some(contiguous(x)?)
            }
        };
        outs.give(make(x, sizes, to, local)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| out.set(_assemble::INPUT, || leave(c.g()?, c.arg(_assemble::PLACEMENT), c.arg(_assemble::SBP))),
    },
    ..LAYOUT
};

/// The dual's shard of a gradient.
fn leave(g: &Tensor, p: Arg<'_>, s: Arg<'_>) -> Result<Tensor> {
    to_local(&to_global(g, spread_arg(p, s)?.dual()?)?)
}

pub(crate) fn contiguous(x: &Tensor) -> Result<Tensor> {
    if x.is_contiguous() { Ok(x.shallow()) } else { dense(x) }
}

/// A local tensor becomes the shard of a global one.
pub static ENTER: OpDef = OpDef {
    sig: Sig::parse("_enter(Tensor input, Placement placement, Sbp sbp, bool check, bool copy) -> Tensor"),
    doc: "A local tensor becomes the shard of a global one.",
    faces: Faces::PRIVATE,
    kernel: Kernel::Layer(|c, outs| {
        fresh_only(c)?;
        outs.give(assemble_unknown(
            c.t(_enter::INPUT)?,
            spread_arg(c.arg(_enter::PLACEMENT), c.arg(_enter::SBP))?,
            c.bool(_enter::CHECK),
            c.bool(_enter::COPY),
        )?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| out.set(_enter::INPUT, || leave(c.g()?, c.arg(_enter::PLACEMENT), c.arg(_enter::SBP))),
    },
    ..LAYOUT
};

fn assemble_unknown(x: &Tensor, to: Spread, check: bool, copy: bool) -> Result<Tensor> {
    if crate::boxing::traced::tracing() {
        return Err(Error::not_implemented(
            "to_global(): a local tensor does not become global inside nn.Graph's build; make it global before",
        ));
    }
    let (mut sizes, mut dtype) = (Dims::from_slice(x.sizes()), x.dtype());
    if check {
        (sizes, dtype) = crate::agreement::whole_of_shards(x, to)?;
    } else {
        to.check(x.sizes(), "to_global()")?;
        for (axis, s) in to.sbp.iter().enumerate() {
            if let Sbp::S(d) = s {
                sizes[*d as usize] *= to.placement.hierarchy[axis];
            }
        }
    }
    let groups = axis_groups(to.placement_id, to.placement)?;
    let local = match my_coords(to.placement) {
        None => None,
        Some(_) => {
            let device = crate::boxing::local_device(to.placement.kind);
            let mut t = if copy { dense(x)? } else { contiguous(x)? };
            for (axis, s) in to.sbp.iter().enumerate() {
                // Replicas are made equal: the first one's data.
                if *s == Sbp::B
                    && let Some(group) = &groups[axis]
                    && group.size() > 1
                {
                    t = on(t, oneflow_base::Device::CPU)?;
                    // SAFETY: the tensor is dense and in host memory; its owner waits in this call.
                    group.broadcast(unsafe { bytes_mut(&t) }, t.dtype(), 0)?;
                    t.bump_version();
                }
            }
            Some(on(t, device)?)
        }
    };
    make_of(dtype, &sizes, to, local)
}

/// A global tensor under another layout, recorded.
pub fn to_global(x: &Tensor, to: Spread) -> Result<Tensor> {
    let args = [Arg::Placement(to.placement_id), Arg::Sbp(to.sbp_id), Arg::None, Arg::None, Arg::Bool(false)];
    dispatch_one(&Call::new(&TO_GLOBAL, &[Some(x)], &args))
}

/// This rank's shard of a global tensor, recorded.
pub fn to_local(x: &Tensor) -> Result<Tensor> {
    dispatch_one(&Call::new(&TO_LOCAL, &[Some(x)], &[Arg::Bool(false)]))
}

/// A gradient takes the layout of the leaf it is added to, in memory of its own.
pub fn accumulate_rule(leaf: &Tensor, g: Tensor) -> Result<Tensor> {
    let Some(home) = global_of(leaf) else {
        return match global_of(&g) {
            None => Ok(g),
            Some(_) => Err(Error::runtime(format!(
                "a global gradient of shape {:?} arrived at a local tensor; the forward pass mixed them",
                g.sizes()
            ))),
        };
    };
    let boxed = boxed(&g, home.spread)?;
    let alone = |g: &GlobalTensor| {
        g.local
            .as_ref()
            .is_none_or(|t| t.use_count() == 1 && t.is_contiguous() && t.storage().is_none_or(|s| s.use_count() == 1))
    };
    match global_of(&boxed) {
        Some(b) if boxed.same(&g) && !alone(b) => {
            let copied = b.local.as_ref().map(dense).transpose()?;
            make(&boxed, boxed.sizes(), b.spread, copied)
        }
        _ => Ok(boxed),
    }
}

/// A placement and an n-D SBP, interned.
pub fn spread(placement: PlacementId, sbp: &[Sbp]) -> Result<Spread> {
    Spread::new(placement, NdSbpId::of(sbp))
}

/// The ops of this crate.
pub static TABLE: &[&OpDef] = &[
    &ASSEMBLE,
    &BOX,
    &crate::boxing::BOX_AXES,
    &crate::boxing::traced::BOX_AXIS,
    &crate::boxing::traced_cross::RECEIVE,
    &crate::boxing::traced_cross::SEND,
    &ENTER,
    &GLOBAL_TO_GLOBAL,
    &LOCAL_TO_GLOBAL,
    &crate::scalars::REPLICA,
    &crate::scalars::REPLICATE,
    &SHARD,
    &TO_GLOBAL,
    &TO_LOCAL,
];
