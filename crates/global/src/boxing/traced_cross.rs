//! A move between placements as ops on shards: what a trace of a pipeline records, and what each rank's plan runs.
//!
//! A receive waits for its message. A send does not wait for anybody: what it sends is copied and on its way, one message of
//! each send of the plan at most, so a stage goes on with its next micro-batch and cannot run a step ahead. Messages carry
//! the number that the move has in the trace, the same on all ranks: a pass may change the order of moves.

use super::cross::{Cross, cross};
use super::traced::{below, over};
use crate::mesh::{address, my_coords, part};
// A receive has the signature of a send.
use crate::named::_cross_receive as at;
use crate::tensor::Spread;
use oneflow_base::{Arg, Device, DeviceType, Dims, Error, NdSbpId, PlacementId, Result};
use oneflow_comm::{ProcessGroup, Work, world};
use oneflow_core::kernels::{Launch, Primitive, Rest};
use oneflow_core::{Call, Faces, Kernel, OpDef, Outs, Sig, Tensor, Traits, copy_into, redispatch};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Weak};

oneflow_core::kernels::params! {
    /// A layout by the numbers of its placement and its splits.
    SpreadWords { placement: i64, sbp: i64 }
    /// Of `MOVE`: which move of the program this is, and the address of the group of all ranks.
    MoveParams { source: SpreadWords, target: SpreadWords, number: i64, world: usize, sizes: Rest<i64> }
}

static MOVE: Primitive = Primitive::new("cross");

const BASE: OpDef = OpDef {
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let dtype = c.arg(at::DTYPE).dtype().ok_or_else(|| Error::type_(format!("{}(): needs a dtype", c.name())))?;
        outs.push(dtype, Device::CPU, c.ints(at::OUT_SIZES)?)
    },
    kernel: Kernel::Prim {
        prim: &MOVE,
        lower: |c, _, l| {
            l.opt_input(at::INPUT, c.opt(at::INPUT).is_some()).output(at::RESULT);
            l.with(MoveParams {
                source: SpreadWords { placement: c.int(at::SOURCE)?, sbp: c.int(at::SOURCE_SBP)? },
                target: SpreadWords { placement: c.int(at::TARGET)?, sbp: c.int(at::TARGET_SBP)? },
                number: c.int(at::NUMBER)?,
                world: c.int(at::WORLD)? as usize,
                sizes: c.ints(at::SIZES)?.iter().copied().collect(),
            });
            Ok(())
        },
    },
    ..OpDef::BASE
};

pub static RECEIVE: OpDef = OpDef {
    sig: Sig::parse(
        "_cross_receive(Tensor? input, int[] out_sizes, int[] sizes, int source, int source_sbp, int target, int target_sbp, DType dtype, int number, int world) -> Tensor",
    ),
    doc: "The shard of a tensor that comes from another placement.",
    traits: Traits::COLLECTIVE.or(Traits::NEEDS_CONTIGUOUS).or(Traits::RECEIVES),
    ..BASE
};

pub static SEND: OpDef = OpDef {
    sig: Sig::parse(
        "_cross_send(Tensor? input, int[] out_sizes, int[] sizes, int source, int source_sbp, int target, int target_sbp, DType dtype, int number, int world) -> Tensor",
    ),
    doc: "A shard goes to another placement; nothing comes back.",
    traits: Traits::COLLECTIVE.or(Traits::NEEDS_CONTIGUOUS).or(Traits::SENDS),
    ..BASE
};

pub fn register() {
    MOVE.provide(DeviceType::CPU, run);
}

/// Records a move: on ranks of the target its receive, on further ranks of the source its send.
pub fn record(local: Option<&Tensor>, c: &Cross<'_>) -> Result<Option<Tensor>> {
    let world = world();
    pass_moves(1);
    let number = traced_moves();
    if [c.from, c.to].iter().any(|s| s.placement.kind != DeviceType::CPU) {
        return Err(Error::not_implemented("nn.Graph: tensors move between placements of the cpu only"));
    }
    let coords = my_coords(c.to.placement);
    let op = match (local, &coords) {
        (_, Some(_)) => &RECEIVE,
        (Some(_), None) => &SEND,
        (None, None) => return Ok(None),
    };
    let mine = coords.as_ref().map(|coords| part(c.sizes, c.to.placement, c.to.sbp, coords).sizes);
    let out_sizes = mine.unwrap_or_else(|| Dims::from_slice(&[0]));
    let args = [
        Arg::Ints(&out_sizes),
        Arg::Ints(c.sizes),
        Arg::Int(c.from.placement_id.0 as i64),
        Arg::Int(c.from.sbp_id.0 as i64),
        Arg::Int(c.to.placement_id.0 as i64),
        Arg::Int(c.to.sbp_id.0 as i64),
        Arg::DType(c.dtype),
        Arg::Int(number as i64),
        Arg::Int(address(&world) as i64),
    ];
    let mut outs = Outs::new();
    redispatch(&Call::new(op, &[local], &args), below(), &mut outs)?;
    let made = outs.into_tensors().pop();
    Ok(coords.and(made))
}

/// How many moves this rank has traced or passed, which is the number of the last one. All ranks trace the same moves in the same
/// order, so that both ends of a move know it by one number.
pub fn traced_moves() -> u32 {
    with_traffic(&world(), |t| t.n_traced)
}

/// Counts moves between other ranks that this rank does not trace.
pub fn pass_moves(n: u32) {
    with_traffic(&world(), |t| t.n_traced = t.n_traced.wrapping_add(n));
}

/// What the plans of one world move.
struct Traffic {
    /// Weak, which also keeps another world from coming to lie at this one's address.
    world: Weak<dyn ProcessGroup>,
    n_traced: u32,
    /// Sends under way, by the number of the move.
    sent: HashMap<u32, Vec<Work>>,
}

static TRAFFIC: LazyLock<Mutex<HashMap<usize, Traffic>>> = LazyLock::new(Mutex::default);

fn traffic() -> MutexGuard<'static, HashMap<usize, Traffic>> {
    TRAFFIC.lock().unwrap_or_else(|e| e.into_inner())
}

fn with_traffic<R>(world: &Arc<dyn ProcessGroup>, f: impl FnOnce(&mut Traffic) -> R) -> R {
    let mut all = traffic();
    all.retain(|_, t| t.world.strong_count() > 0);
    let new = || Traffic { world: Arc::downgrade(world), n_traced: 0, sent: HashMap::new() };
    f(all.entry(address(world)).or_insert_with(new))
}

/// Waits until what a world's plans have sent has left this process: before the rank leaves.
pub fn flush(world: &Arc<dyn ProcessGroup>) {
    let sent = with_traffic(world, |t| std::mem::take(&mut t.sent));
    // A failed group has told so already, and a rank that leaves has no use for it.
    sent.values().flatten().for_each(|work| drop(work.wait(None)));
}

unsafe fn run(l: &Launch<'_>) -> Result<()> {
    let MoveParams { source, target, number, world, sizes } = l.read()?;
    // A plan may come from a file: its words are checked against its operands.
    let spread = |s: SpreadWords| Spread::new(PlacementId(s.placement as u32), NdSbpId(s.sbp as u32));
    let (from, to, number) = (spread(source)?, spread(target)?, number as u32);
    let sizes: Dims = sizes.0.into_iter().collect();
    let world = traffic()
        .get(&world)
        .and_then(|t| t.world.upgrade())
        .ok_or_else(|| Error::runtime("a move in a plan: the process group it was traced with is gone"))?;
    let rank = world.rank() as u32;
    let shard = |s: Spread| -> Result<Option<Dims>> {
        let s = s.check(&sizes, "plan")?;
        let coords = s.placement.coords(rank);
        Ok(coords.map(|coords| part(&sizes, s.placement, s.sbp, &coords).sizes))
    };
    let (input, output) = (l.input(0).ok(), l.output(0)?);
    let (held, wanted) = (shard(from)?, shard(to)?);
    let fits = held.as_deref() == input.as_ref().map(|v| v.sizes)
        && wanted.as_deref().unwrap_or(&[0]) == output.sizes
        && input.as_ref().is_none_or(|v| v.dtype == output.dtype)
        && !from.sbp.iter().any(|s| s.is_partial());
    if !fits {
        return Err(Error::value(format!(
            "plan: a move from {:?} on {} to {:?} on {} does not fit its operands",
            from.sbp, from.placement, to.sbp, to.placement
        )));
    }
    // The credit of this send: its message of the step before has left.
    let before = with_traffic(&world, |t| t.sent.remove(&number)).unwrap_or_default();
    before.iter().try_for_each(|work| work.wait(None))?;
    // SAFETY: both tensors end with this function.
    let input = input.map(|v| unsafe { over(&v, l.queue.device) }).transpose()?;
    let c = Cross { sizes: &sizes, dtype: output.dtype, from, to, tag: tag(number) };
    let (made, sends) = cross(input.as_ref(), &c, &*world)?;
    if !sends.is_empty() {
        with_traffic(&world, |t| t.sent.insert(number, sends));
    }
    match made {
        // SAFETY: as above.
        Some(made) => copy_into(&unsafe { over(&output, l.queue.device) }?, &made),
        None => Ok(()),
    }
}

/// Above the tags that programs choose for messages of their own.
fn tag(number: u32) -> u32 {
    1 << 31 | number
}
