//! The layer: chooses layouts, boxes inputs, runs the op on the shards, wraps the results.

use crate::boxing::boxed;
use crate::boxing::bytes::local_only;
use crate::boxing::traced::below;
use crate::choose::{Choice, choose};
use crate::fingerprints;
use crate::mesh::{my_coords, part};
use crate::tensor::{GlobalTensor, Spread, expect_global, global_of, make, wrap};
use oneflow_base::{Arg, Attrs, Dims, Error, NdSbpId, Placement, Result, Sbp};
use oneflow_core::{Call, Dest, In, Kernel, Localize, Mesh, Outs, Row, Rows, ShapeOf, Tensor, Tls, Traits, bit};
use oneflow_core::{redispatch, register_layer, tls, with_tls};
use oneflow_ops::TensorOps;
use smallvec::SmallVec;

/// Puts the layer into the stack.
pub fn register() {
    register_layer(bit::GLOBAL, global);
}

type Spreads = SmallVec<[Option<Spread>; 4]>;

fn global(c: &Call<'_>, _below: u32, outs: &mut Outs) -> Result<()> {
    if let Kernel::Layer(f) = c.op.kernel {
        return f(c, outs);
    }
    if c.op.traits.has(Traits::MUTATES) {
        c.ins.iter().flatten().find_map(|t| global_of(t)).into_iter().for_each(|g| fingerprints::call(c, g.spread));
        return crate::update::update(c);
    }
    let (spreads, home) = inputs(c)?;
    fingerprints::call(c, home);
    if matches!(c.op.sbp.rows, Rows::Compose) || matches!(c.op.kernel, Kernel::None) {
        return compose(c, outs);
    }
    if c.op.shape == ShapeOf::Data {
        return whole(c, home, outs);
    }
    (c.op.infer)(c, outs)?;
    if matches!(c.op.kernel, Kernel::View) && outs.alias_of().is_none() {
        outs.clear();
        return compose(c, outs);
    }
    match c.dest {
        Dest::Fresh => fresh(c, &spreads, home, outs),
        Dest::Into(dest) => into(c, dest, &spreads, home, outs),
    }
}

/// Placement of inputs and destinations. All are global, on one placement.
fn inputs(c: &Call<'_>) -> Result<(Spreads, Spread)> {
    let mut spreads = Spreads::new();
    let mut home: Option<Spread> = None;
    let dest: &[&Tensor] = if let Dest::Into(d) = c.dest { d } else { &[] };
    for (i, t) in c.ins.iter().copied().chain(dest.iter().map(|t| Some(*t))).enumerate() {
        let spread = match t {
            None => None,
            Some(t) => match global_of(t) {
                Some(g) => Some(g.spread),
                None => return Err(mixed(c, i, t)),
            },
        };
        match (spread, home) {
            (Some(s), Some(h)) if s.placement_id != h.placement_id => {
                return Err(Error::runtime(format!(
                    "{}(): expected all tensors on one placement, but argument '{}' is on {} and another on {} (move it with `to_global`)",
                    c.name(),
                    argument(c, i),
                    s.placement,
                    h.placement
                )));
            }
            (Some(_), None) => home = spread,
            _ => {}
        }
        if i < c.ins.len() {
            spreads.push(spread);
        }
    }
    home.map(|h| (spreads, h)).ok_or_else(|| Error::runtime(format!("{}(): no input is a global tensor", c.name())))
}

/// The parameter that input slot `i` belongs to.
pub(crate) fn argument(c: &Call<'_>, i: usize) -> String {
    let (mut at, mut arg) = (0, 0);
    for p in c.op.sig.params() {
        let n = c.n_inputs_of(p, arg);
        if i < at + n {
            return if n > 1 { format!("{}[{}]", p.name, i - at) } else { p.name.to_owned() };
        }
        at += n;
        arg += p.is_arg() as usize;
    }
    "out".to_owned()
}

#[cold]
pub(crate) fn mixed(c: &Call<'_>, i: usize, t: &Tensor) -> Error {
    let of_world = c
        .ins
        .iter()
        .flatten()
        .find_map(|t| global_of(t))
        .map_or(String::new(), |g| format!(" (placement {}, sbp {:?})", g.spread.placement, g.spread.sbp));
    Error::runtime(format!(
        "{}(): expected all tensors to be global{of_world}, but argument '{}' is a local tensor of shape {:?} on {}; make it global with `to_global`",
        c.name(),
        argument(c, i),
        t.sizes(),
        t.device()
    ))
}

/// Runs the composition with this layer and those below it.
fn compose(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let Some(f) = c.op.compose else {
        return Err(Error::not_implemented(format!("\"{}\" is not implemented for global tensors", c.op.name())));
    };
    {
        let lazy = tls().on & 1 << bit::LAZY;
        let allowed = tls().allowed & (1 << bit::LOCAL | 1 << bit::META | 1 << bit::GLOBAL) | lazy;
        let _guard = with_tls(Tls { on: lazy, allowed });
        f(&Call { dest: Dest::Fresh, ..*c }, outs)?;
    }
    if let Dest::Into(dest) = c.dest {
        for (i, d) in dest.iter().enumerate() {
            write_back(c, d, &outs[i])?;
            outs.set(i, (*d).clone());
        }
    }
    Ok(())
}

/// Boxes the inputs to the chosen layouts.
fn box_inputs(c: &Call<'_>, spreads: &Spreads, choice: &Choice) -> Result<SmallVec<[Option<Tensor>; 4]>> {
    let mut out = SmallVec::new();
    for (i, t) in c.ins.iter().enumerate() {
        out.push(match (t, spreads[i]) {
            (Some(t), Some(s)) if s.sbp_id != choice.ins[i] => {
                Some(boxed(t, Spread::new(s.placement_id, choice.ins[i])?)?)
            }
            (Some(t), _) => Some((*t).clone()),
            _ => None,
        });
    }
    Ok(out)
}

/// Runs the op on shards, with local arguments. Also returns whether a view had to be replaced by a copy.
fn run_local(
    c: &Call<'_>,
    ins: &[Option<Tensor>],
    home: Spread,
    choice: &Choice,
    shells: &[Tensor],
    dest: Option<&[&Tensor]>,
) -> Result<Option<(Outs, bool)>> {
    let Some(coords) = my_coords(home.placement) else { return Ok(None) };
    let shard = |t: &Option<Tensor>| t.as_ref().and_then(global_of).and_then(|g: &GlobalTensor| g.local.clone());
    let shards: SmallVec<[Option<Tensor>; 4]> = ins.iter().map(shard).collect();
    let refs: SmallVec<[Option<&Tensor>; 4]> = shards.iter().map(Option::as_ref).collect();
    let attrs = localize(c, home.placement, &coords, choice, shells)?;
    let args = attrs.as_ref().map(Attrs::args);
    let args: &[Arg<'_>] = args.as_deref().unwrap_or(c.args);
    let dest = dest.map_or(Dest::Fresh, Dest::Into);
    let call = Call { op: c.op, ins: &refs, args, dest };
    let mut outs = Outs::new();
    let _guard = local_only();
    let made = redispatch(&call, below(), &mut outs);
    if made.is_err() && matches!(c.op.kernel, Kernel::View) && matches!(dest, Dest::Fresh) {
        // What made the shard may have read boxed inputs, so it may lie in another order than the whole is said to:
        // where that order has no such view, a copy in the sizes' order has it.
        let dense: SmallVec<[Option<Tensor>; 4]> =
            shards.iter().map(|t| t.as_ref().map(Tensor::contiguous).transpose()).collect::<Result<_>>()?;
        let refs: SmallVec<[Option<&Tensor>; 4]> = dense.iter().map(Option::as_ref).collect();
        outs.clear();
        redispatch(&Call { op: c.op, ins: &refs, args, dest }, below(), &mut outs)?;
        return Ok(Some((outs, true)));
    }
    made?;
    Ok(Some((outs, false)))
}

/// Arguments of the local call, where they differ.
fn localize(
    c: &Call<'_>,
    placement: &Placement,
    coords: &[i64],
    choice: &Choice,
    shells: &[Tensor],
) -> Result<Option<Attrs>> {
    let sbp = |id: &NdSbpId| id.get().unwrap_or(&[]);
    let is_split = |ids: &[NdSbpId]| ids.iter().any(|id| sbp(id).iter().any(|s| matches!(s, Sbp::S(_))));
    if !is_split(&choice.ins) && !is_split(&choice.outs) {
        return Ok(None);
    }
    let mine = shells.first().zip(choice.outs.first()).map(|(t, id)| part(t.sizes(), placement, sbp(id), coords));
    let mut attrs = None;
    match (c.op.sbp.localize, &mine) {
        (Localize::Sizes(i), Some(mine)) => {
            attrs = Some(Attrs::new(c.args).with(i.index(), Arg::Ints(&mine.sizes)));
        }
        (Localize::Custom(f), _) => {
            let ins: SmallVec<[Option<&[Sbp]>; 4]> =
                c.ins.iter().zip(&choice.ins).map(|(t, id)| t.map(|_| sbp(id))).collect();
            let outs: SmallVec<[&[Sbp]; 2]> = choice.outs.iter().map(sbp).collect();
            let out_sizes = shells.first().map_or(&[][..], |t| t.sizes());
            let mesh =
                Mesh { sizes: &placement.hierarchy, parts: placement.parts, coords, ins: &ins, outs: &outs, out_sizes };
            let mut a = Attrs::new(c.args);
            f(c, &mesh, &mut a)?;
            attrs = Some(a);
        }
        _ => {}
    }
    // A random op draws this shard's window of the one stream.
    if let Some(mine) = &mine
        && let Some(at) = c.args.iter().position(|a| matches!(a, Arg::Rng { .. }))
    {
        let (seed, offset) = c.args[at].rng()?;
        let window: Dims = shells[0].sizes().iter().chain(&mine.starts).copied().collect();
        let a = attrs.unwrap_or_else(|| Attrs::new(c.args));
        attrs = Some(a.with(at, Arg::RngAt { seed, offset, window: &window }));
    }
    Ok(attrs)
}

fn fresh(c: &Call<'_>, spreads: &Spreads, home: Spread, outs: &mut Outs) -> Result<()> {
    let planned = crate::pinned::choice(c, outs.tensors(), home)?;
    let choice = match planned.map_or_else(|| choose(c, spreads, outs.tensors(), home, &[], 0), |p| Ok(Some(p)))? {
        Some(choice) => choice,
        None => return Err(Error::runtime(format!("{}(): no SBP signature fits", c.name()))),
    };
    finish(c, spreads, home, &choice, outs)
}

/// Boxes, runs and wraps.
fn finish(c: &Call<'_>, spreads: &Spreads, home: Spread, choice: &Choice, outs: &mut Outs) -> Result<()> {
    let ins = box_inputs(c, spreads, choice)?;
    let (made, copied) = match run_local(c, &ins, home, choice, outs.tensors(), None)? {
        Some((made, copied)) => (Some(made), copied),
        None => (None, false),
    };
    let alias = outs.alias_of();
    for (i, shell) in outs.tensors().iter().enumerate() {
        let spread = Spread::new(home.placement_id, choice.outs[i])?;
        let mut local = made.as_ref().map(|m| m[i].clone());
        if matches!(c.op.kernel, Kernel::View) {
            local = local.map(|t| in_shape_of_part(t, shell, spread)).transpose()?;
        }
        let mut detached = copied;
        if let Some(a) = alias {
            let base = c.t(In::nth(a))?;
            detached = copied
                || spreads[a].is_some_and(|s| s.sbp_id != choice.ins[a])
                || global_of(base).is_some_and(|g| g.detached_view);
            if !detached {
                shell.set_base(base);
            }
        }
        wrap(shell, spread, local, detached);
    }
    Ok(())
}

/// A view of a shard in the shape of its part of the whole: a shard may have size one along a dimension where the whole has more,
/// and views drop dimensions of size one.
fn in_shape_of_part(t: Tensor, shell: &Tensor, spread: Spread) -> Result<Tensor> {
    let Some(coords) = my_coords(spread.placement) else { return Ok(t) };
    let sizes = part(shell.sizes(), spread.placement, spread.sbp, &coords).sizes;
    if t.ndim() >= sizes.len() || sizes.iter().product::<i64>() != t.numel() {
        return Ok(t);
    }
    let _guard = local_only();
    t.view(&sizes)
}

/// In-place and `out=`: the destination's layout is kept.
fn into(c: &Call<'_>, dest: &[&Tensor], spreads: &Spreads, home: Spread, outs: &mut Outs) -> Result<()> {
    for (d, shell) in dest.iter().zip(outs.tensors()) {
        check_dest(c, d, shell)?;
    }
    let layouts: SmallVec<[NdSbpId; 2]> =
        dest.iter().map(|d| Ok(expect_global(d, c.name())?.spread.sbp_id)).collect::<Result<_>>()?;
    let same = |t: Option<&Tensor>| t.is_some_and(|t| dest.iter().any(|d| d.same(t)));
    let fixed = c.ins.iter().enumerate().fold(0u64, |m, (i, t)| m | (same(*t) as u64) << i.min(63));
    match choose(c, spreads, outs.tensors(), home, &layouts, fixed)? {
        Some(choice) => {
            crate::pinned::skip(c)?;
            let ins = box_inputs(c, spreads, &choice)?;
            let shards: SmallVec<[Option<&Tensor>; 2]> =
                dest.iter().map(|d| global_of(d).and_then(|g| g.local.as_ref())).collect();
            if let Some(shards) = shards.into_iter().collect::<Option<SmallVec<[&Tensor; 2]>>>() {
                run_local(c, &ins, home, &choice, outs.tensors(), Some(&shards))?;
            }
            outs.clear();
        }
        None => {
            // No row keeps the layout: compute beside it and box the result.
            fresh(c, spreads, home, outs)?;
            for (i, d) in dest.iter().enumerate() {
                write_back(c, d, &outs[i])?;
            }
            outs.clear();
        }
    }
    dest.iter().for_each(|d| outs.give((*d).clone()));
    Ok(())
}

fn check_dest(c: &Call<'_>, d: &Tensor, shell: &Tensor) -> Result<()> {
    if expect_global(d, c.name())?.detached_view {
        return Err(Error::runtime(format!(
            "{}_(): the written-to tensor of shape {:?} is a view whose input had to be boxed to another sbp, so it shares no memory with it; write to a clone() or choose an sbp that the view keeps",
            c.name(),
            d.sizes()
        )));
    }
    if shell.sizes() != d.sizes() {
        return Err(Error::runtime(format!(
            "{}_(): output with shape {:?} doesn't match the broadcast shape {:?}",
            c.name(),
            d.sizes(),
            shell.sizes()
        )));
    }
    if shell.dtype().category() > d.dtype().category() {
        return Err(Error::runtime(format!(
            "{}(): result type {} can't be cast to the desired output type {}",
            c.name(),
            shell.dtype().scalar_type_name(),
            d.dtype().scalar_type_name()
        )));
    }
    Ok(())
}

/// Writes a finished result into a destination of any layout.
fn write_back(c: &Call<'_>, d: &Tensor, result: &Tensor) -> Result<()> {
    check_dest(c, d, result)?;
    let to = expect_global(d, c.name())?;
    let from = boxed(result, to.spread)?;
    if let (Some(to), Some(from)) = (&to.local, global_of(&from).and_then(|g| g.local.as_ref())) {
        let _guard = local_only();
        to.copy_(from, false)?;
    }
    Ok(())
}

/// An op whose result's shape depends on data: every rank computes the whole.
fn whole(c: &Call<'_>, home: Spread, outs: &mut Outs) -> Result<()> {
    let b = Spread::broadcast(home.placement_id)?;
    let ins: SmallVec<[Option<Tensor>; 4]> =
        c.ins.iter().map(|t| t.map(|t| boxed(t, b)).transpose()).collect::<Result<_>>()?;
    if home.placement.n_ranks() != oneflow_comm::world().size() {
        return Err(Error::not_implemented(format!(
            "{}(): the shape of its result depends on data, which ranks outside {} do not have",
            c.name(),
            home.placement
        )));
    }
    let refs: SmallVec<[Option<&Tensor>; 4]> =
        ins.iter().map(|t| t.as_ref().and_then(global_of).and_then(|g| g.local.as_ref())).collect();
    let mut local = Outs::new();
    {
        let _guard = local_only();
        redispatch(&Call { op: c.op, ins: &refs, args: c.args, dest: Dest::Fresh }, below(), &mut local)?;
    }
    for t in local.into_tensors() {
        let sizes = Dims::from_slice(t.sizes());
        outs.give(make(&t.clone(), &sizes, b, Some(t))?);
    }
    if let Dest::Into(dest) = c.dest {
        for (i, d) in dest.iter().enumerate() {
            write_back(c, d, &outs[i])?;
            outs.set(i, (*d).clone());
        }
    }
    Ok(())
}

/// Runs an op with one row on every mesh axis, regardless of costs: inputs are boxed to the row. Tests every
/// signature that an op offers.
pub fn run_row(c: &Call<'_>, row: &Row, outs: &mut Outs) -> Result<()> {
    let (spreads, home) = inputs(c)?;
    (c.op.infer)(c, outs)?;
    let n = home.placement.hierarchy.len();
    let all = |s: &Sbp| NdSbpId::of(&vec![*s; n]);
    let choice = Choice { ins: row.ins.iter().map(all).collect(), outs: row.outs.iter().map(all).collect() };
    finish(c, &spreads, home, &choice, outs)
}
