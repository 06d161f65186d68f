//! The layer: one call on all samples if there is a rule, else a call a sample.
//!
//! A rule rewrites the call so that the batch is dimension 0 of its operands. The op's definition selects the rule:
//! its family, or where no family describes it, its field `batch`.

use crate::levels::{Level, Outside, Randomness, innermost};
use crate::products;
use crate::tensor::{broadcast, level, parts, wrap};
use oneflow_base::{Arg, Attrs, DType, Dims, Error, Result};
use oneflow_core::kernels::mt19937;
use oneflow_core::{
    AnyArg, At, Batching, Call, Dest, In, Ins, Kernel, Outs, Rows, ShapeOf, Tensor, Tls, Traits, Ty, bit, dispatch,
    redispatch, tls, with_tls,
};
use oneflow_ops::{TensorOps, f};
use smallvec::SmallVec;
use std::cell::RefCell;

/// Parameters that name dimensions of the first input.
const DIMS: [&str; 4] = ["dim", "dims", "dim0", "dim1"];

pub(crate) type Operands = SmallVec<[Option<Tensor>; 4]>;

pub(crate) fn batch(c: &Call<'_>, below: u32, outs: &mut Outs) -> Result<()> {
    let dest: &[&Tensor] = if let Dest::Into(d) = c.dest { d } else { &[] };
    let newest = c.ins.iter().flatten().copied().chain(dest.iter().copied()).map(level).max().unwrap_or(0);
    let random =
        c.op.traits.has(Traits::RANDOM) && c.args.iter().any(|a| matches!(a, Arg::Rng { .. } | Arg::RngAt { .. }));
    let drawn = if random { innermost() } else { None };
    if let Some(Level { randomness: Randomness::Error, .. }) = drawn {
        return Err(Error::runtime(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags on vmap or perform the randomness operation out of vmap",
        ));
    }
    let drawn = drawn.filter(|l| l.randomness == Randomness::Different);
    let id = newest.max(drawn.map_or(0, |l| l.id));
    if id == 0 {
        return redispatch(c, below & !(1 << bit::BATCH), outs);
    }
    if c.op.shape == ShapeOf::Data {
        return Err(Error::runtime(format!(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over {}(), whose results may differ in shape between the samples.",
            c.name()
        )));
    }
    if c.op.traits.has(Traits::MUTATES) || matches!(c.op.kernel, Kernel::Layer(_)) {
        return Err(Error::not_implemented(format!("{}(): has no form for vmap's batches", c.name())));
    }
    if let Some(d) = dest.iter().find(|d| level(d) != id) {
        return Err(Error::runtime(format!(
            "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic. ({}(): self has shape {:?})",
            c.name(),
            d.sizes()
        )));
    }
    let call = Call { dest: Dest::Fresh, ..*c };
    // What is above had its turn on the samples' tensors.
    let now = tls();
    let mask = (2u32 << bit::BATCH) - 1;
    let _guard = with_tls(Tls { on: now.on & mask, allowed: now.allowed & mask });
    let outside = Outside::of(id);
    match run(&call, id, drawn, outs)? {
        Ran::OnAll => return finish(dest, id, outs),
        Ran::OnSamples => return write(dest, outs),
        Ran::No => outs.clear(),
    }
    if let (Some(compose), false, Some(_composing)) = (call.op.compose, random, Composing::of(&call)) {
        // A composition that stands in for a kernel may refuse what the kernel takes.
        drop(outside);
        match compose(&call, outs) {
            Ok(()) => return write(dest, outs),
            Err(e) if matches!(call.op.kernel, Kernel::None) => return Err(e),
            Err(_) => outs.clear(),
        }
    }
    let _outside = Outside::of(id);
    slices(&call, id, drawn, outs)?;
    finish(dest, id, outs)
}

/// An op whose composition runs. Some call their own op again with what its kernel takes, and a batch is not that.
struct Composing;

thread_local! {
    static COMPOSED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

impl Composing {
    /// `None` where it is running already.
    fn of(c: &Call<'_>) -> Option<Composing> {
        COMPOSED.with_borrow_mut(|names| {
            if names.contains(&c.op.name()) {
                return None;
            }
            names.push(c.op.name());
            Some(Composing)
        })
    }
}

impl Drop for Composing {
    fn drop(&mut self) {
        COMPOSED.with_borrow_mut(Vec::pop);
    }
}

/// Results that hold all samples become samples' tensors, or go where the call wanted them.
fn finish(dest: &[&Tensor], id: u64, outs: &mut Outs) -> Result<()> {
    for i in 0..outs.len() {
        let sample = wrap(&outs[i], id)?;
        outs.set(i, sample);
    }
    write(dest, outs)
}

fn write(dest: &[&Tensor], outs: &mut Outs) -> Result<()> {
    for (i, d) in dest.iter().enumerate() {
        let (Some(to), made) = (parts(d), &outs[i]) else { continue };
        if made.sizes() != d.sizes() {
            return Err(Error::runtime(format!(
                "output with shape {:?} doesn't match the broadcast shape {:?}",
                d.sizes(),
                made.sizes()
            )));
        }
        match parts(made) {
            Some(from) if from.level == to.level => to.value.copy_(&from.value, false)?,
            _ => to.value.copy_(&broadcast(made, to.value.sizes()[0])?, false)?,
        }
        d.bump_version();
        outs.set(i, (*d).clone());
    }
    Ok(())
}

/// The outcome of a rule.
pub(crate) enum Ran {
    /// The results hold all samples.
    OnAll,
    /// The results are samples' tensors already.
    OnSamples,
    No,
}

fn run(c: &Call<'_>, id: u64, drawn: Option<Level>, outs: &mut Outs) -> Result<Ran> {
    let random = c.args.iter().any(|a| matches!(a, Arg::Rng { .. } | Arg::RngAt { .. }));
    if random {
        if drawn.is_none() && is_in_order(c) {
            return Err(mt19937::only_in_order(c.op.name(), "vmap(randomness=\"same\")"));
        }
        // Without a rule it is a call a sample, with "same" each at one place of the stream.
        return drawn.map_or(Ok(Ran::No), |level| different(c, level, outs));
    }
    if matches!(c.op.kernel, Kernel::View) {
        return view(c, id, outs);
    }
    let rows = match c.op.sbp.rows {
        Rows::By(by) => by(c),
        rows => rows,
    };
    match (c.op.batch, rows) {
        (Batching::Leading, _) => first_alone(c, id, outs),
        (Batching::Product, _) => products::matmul(c, id, outs),
        (Batching::Folded, _) => products::folded(c, id, outs),
        (Batching::Second, _) => second_alone(c, id, outs),
        (Batching::Index, _) => index(c, id, outs),
        (Batching::Sizes, _) => resized(c, id, outs),
        (Batching::Family, Rows::Elementwise { .. }) => elementwise(c, id, outs),
        (Batching::Family, Rows::Reduce { dims, keepdim, .. }) => reduce(c, id, dims.index(), keepdim.index(), outs),
        (Batching::Family, _) if !matches!(c.op.kernel, Kernel::None) && dims_of(c).next().is_some() => {
            along_dims(c, id, outs)
        }
        _ => Ok(Ran::No),
    }
}

/// All samples of an input; `None` where it is the same for all.
pub(crate) fn value(t: &Tensor, id: u64) -> Option<&Tensor> {
    parts(t).filter(|b| b.level == id).map(|b| &b.value)
}

/// Number of samples.
pub(crate) fn samples(c: &Call<'_>, id: u64) -> i64 {
    c.ins.iter().flatten().find_map(|t| value(t, id)).map_or(0, |v| v.sizes()[0])
}

fn with_first(first: i64, rest: &[i64]) -> Dims {
    std::iter::once(first).chain(rest.iter().copied()).collect()
}

/// The same op on other operands, and with other arguments if given.
pub(crate) fn again(c: &Call<'_>, ins: &[Option<&Tensor>], attrs: Option<&Attrs>, outs: &mut Outs) -> Result<Ran> {
    let args = attrs.map(Attrs::args);
    dispatch(&Call { ins, args: args.as_deref().unwrap_or(c.args), ..*c }, outs)?;
    Ok(Ran::OnAll)
}

/// The inputs as they are, all samples for those of the batch.
fn values<'a>(c: &Call<'a>, id: u64) -> SmallVec<[Option<&'a Tensor>; 4]> {
    c.ins.iter().map(|t| t.map(|t| value(t, id).unwrap_or(t))).collect()
}

/// A view of a sample has the strides of the same view of all samples.
fn view(c: &Call<'_>, id: u64, outs: &mut Outs) -> Result<Ran> {
    (c.op.infer)(c, outs)?;
    let Some(base) = outs.alias_of().and_then(|i| c.opt(In::nth(i))) else { return Ok(Ran::No) };
    let Some(all) = value(base, id) else { return Ok(Ran::No) };
    if outs.tensors().iter().any(|t| t.dtype() != base.dtype()) {
        return Ok(Ran::No);
    }
    let several = matches!(c.op.sig.returns(), [r] if r.list) || outs.len() > 1;
    for i in 0..outs.len() {
        let shell = &outs[i];
        let sizes = with_first(all.sizes()[0], shell.sizes());
        let strides = with_first(all.strides()[0], shell.strides());
        let sample = wrap(&all.as_strided(&sizes, &strides, Some(shell.offset()))?, id)?;
        sample.set_base(base);
        if several {
            sample.set_multi_view();
        }
        outs.set(i, sample);
    }
    Ok(Ran::OnSamples)
}

/// All samples of an input, with `ndim` dimensions besides the batch.
pub(crate) fn raised(all: &Tensor, ndim: usize) -> Result<Tensor> {
    let have = all.ndim() - 1;
    if have >= ndim {
        return Ok(all.clone());
    }
    let mut sizes = Dims::from_slice(&all.sizes()[..1]);
    sizes.extend(std::iter::repeat_n(1, ndim - have));
    sizes.extend_from_slice(&all.sizes()[1..]);
    let mut strides = Dims::from_slice(&all.strides()[..1]);
    strides.extend(std::iter::repeat_n(1, ndim - have));
    strides.extend_from_slice(&all.strides()[1..]);
    all.as_strided(&sizes, &strides, Some(all.offset()))
}

fn elementwise(c: &Call<'_>, id: u64, outs: &mut Outs) -> Result<Ran> {
    // A number a sample takes part in promotion as a number does, but all of them are a vector.
    let dtypes = || c.ins.iter().flatten().map(|t| t.dtype());
    if c.ins.iter().flatten().any(|t| t.ndim() == 0) && dtypes().zip(dtypes().skip(1)).any(|(a, b)| a != b) {
        return Ok(Ran::No);
    }
    let ndim = c.ins.iter().flatten().map(|t| t.ndim()).max().unwrap_or(0);
    let raised: Operands = c
        .ins
        .iter()
        .map(|t| match t.and_then(|t| value(t, id)) {
            Some(all) => raised(all, ndim).map(Some),
            None => Ok(t.cloned()),
        })
        .collect::<Result<_>>()?;
    let ins: SmallVec<[Option<&Tensor>; 4]> = raised.iter().map(Option::as_ref).collect();
    again(c, &ins, None, outs)
}

fn reduce(c: &Call<'_>, id: u64, dims: usize, keepdim: usize, outs: &mut Outs) -> Result<Ran> {
    let (Some(x), [_]) = (c.opt(In::nth(0)), c.ins) else { return Ok(Ran::No) };
    let Some(all) = value(x, id) else { return Ok(Ran::No) };
    let n = x.ndim() as i64;
    let attrs = Attrs::new(c.args);
    if n == 0 {
        // One element a sample: a dimension of one takes its place.
        let attrs = attrs.with(dims, Arg::Ints(&[1])).with(keepdim, Arg::Bool(false));
        return again(c, &[Some(&all.unsqueeze(1)?)], Some(&attrs), outs);
    }
    let shifted: Dims = match c.arg(AnyArg::nth(dims)) {
        Arg::Int(d) => Dims::from_slice(&[after_batch(d, n)]),
        Arg::Ints(list) if !list.is_empty() => list.iter().map(|d| after_batch(*d, n)).collect(),
        _ => (1..=n).collect(),
    };
    let attrs = match c.arg(AnyArg::nth(dims)) {
        Arg::Int(_) => attrs.with(dims, Arg::Int(shifted[0])),
        _ => attrs.with(dims, Arg::Ints(&shifted)),
    };
    (c.op.infer)(c, &mut Outs::new())?;
    again(c, &[Some(all)], Some(&attrs), outs)
}

/// A sample's dimension among those of all samples. What is out of range stays so.
fn after_batch(d: i64, n: i64) -> i64 {
    match d {
        d if d >= 0 => d + 1,
        d if d >= -n => d + n + 1,
        d => d - 1,
    }
}

/// Arguments that name dimensions.
fn dims_of<'a>(c: &Call<'a>) -> impl Iterator<Item = usize> + use<'a> {
    let params = c.op.sig.params().iter().filter(|p| p.is_arg()).enumerate();
    params.filter(|(_, p)| DIMS.contains(&p.name) && matches!(p.ty, Ty::Int | Ty::Ints)).map(|(i, _)| i)
}

/// Ops with dimensions as arguments: the same op one dimension further, if that gives the samples' shapes.
fn along_dims(c: &Call<'_>, id: u64, outs: &mut Outs) -> Result<Ran> {
    let n = c.ins.iter().flatten().next().map_or(0, |t| t.ndim()) as i64;
    if n == 0 {
        return Ok(Ran::No);
    }
    let mut attrs = Attrs::new(c.args);
    for i in dims_of(c) {
        let Some(arg) = c.args.get(i) else { continue };
        attrs = match *arg {
            Arg::Int(d) => attrs.with(i, Arg::Int(after_batch(d, n))),
            Arg::Ints(list) if !list.is_empty() => {
                let shifted: Dims = list.iter().map(|d| after_batch(*d, n)).collect();
                attrs.with(i, Arg::Ints(&shifted))
            }
            // All dimensions.
            _ => return Ok(Ran::No),
        };
    }
    let mut wanted = Outs::new();
    (c.op.infer)(c, &mut wanted)?;
    let size = samples(c, id);
    let args = attrs.args();
    let fits = |ins: &[Option<&Tensor>]| {
        let mut made = Outs::new();
        (c.op.infer)(&Call { ins, args: &args, ..*c }, &mut made).is_ok()
            && made
                .tensors()
                .iter()
                .zip(wanted.tensors())
                .all(|(m, w)| m.sizes().split_first() == Some((&size, w.sizes())))
    };
    let ins = values(c, id);
    if fits(&ins) {
        return again(c, &ins, Some(&attrs), outs);
    }
    let broadcast = everywhere(c, id)?;
    let ins: SmallVec<[Option<&Tensor>; 4]> = broadcast.iter().map(Option::as_ref).collect();
    if fits(&ins) { again(c, &ins, Some(&attrs), outs) } else { Ok(Ran::No) }
}

/// The inputs with a batch each.
fn everywhere(c: &Call<'_>, id: u64) -> Result<Operands> {
    let size = samples(c, id);
    let all = |t: &Tensor| value(t, id).map_or_else(|| broadcast(t, size), |v| Ok(v.clone()));
    c.ins.iter().map(|t| t.map(all).transpose()).collect()
}

/// Ops that take any number of leading dimensions of one input, where the batch is that input's alone.
fn alone(c: &Call<'_>, id: u64, i: usize, outs: &mut Outs) -> Result<Ran> {
    let batched = c.ins.iter().enumerate().filter(|(_, t)| t.is_some_and(|t| value(t, id).is_some()));
    if !batched.map(|(k, _)| k).eq([i]) || c.t(In::nth(i))?.ndim() == 0 && i == 0 {
        return Ok(Ran::No);
    }
    again(c, &values(c, id), None, outs)
}

fn first_alone(c: &Call<'_>, id: u64, outs: &mut Outs) -> Result<Ran> {
    alone(c, id, 0, outs)
}

fn second_alone(c: &Call<'_>, id: u64, outs: &mut Outs) -> Result<Ran> {
    alone(c, id, 1, outs)
}

/// `new_zeros` and the like of a sample: one for each.
fn resized(c: &Call<'_>, id: u64, outs: &mut Outs) -> Result<Ran> {
    let Some(at) = c.op.sig.arg_index("size") else { return Ok(Ran::No) };
    let sizes = with_first(samples(c, id), c.ints(At::nth(at))?);
    again(c, &values(c, id), Some(&Attrs::new(c.args).with(at, Arg::Ints(&sizes))), outs)
}

/// Advanced indexing: the batch is one more dimension, that of samples indexed by their number where the indices differ too.
fn index(c: &Call<'_>, id: u64, outs: &mut Outs) -> Result<Ran> {
    let (x, indices) = (c.t(In::nth(0))?, c.list(Ins::new(1, 0, 0)));
    let (size, mask) = (samples(c, id), |t: &Tensor| !matches!(t.dtype(), DType::I64));
    let used: SmallVec<[usize; 4]> = (0..indices.len()).filter(|i| indices[*i].is_some()).collect();
    let adjacent = used.windows(2).all(|w| w[1] == w[0] + 1);
    if !adjacent || used.is_empty() || indices.iter().flatten().any(|t| mask(t)) {
        return Ok(Ran::No);
    }
    let ndim = indices.iter().flatten().map(|t| t.ndim()).max().unwrap_or(0);
    let differ = indices.iter().flatten().any(|t| value(t, id).is_some());
    let all = value(x, id);
    if differ && used[0] != 0 {
        return Ok(Ran::No);
    }
    let mut ins: Operands = SmallVec::new();
    ins.push(Some(all.unwrap_or(x).clone()));
    match (all, differ) {
        (Some(_), true) => {
            let mut sizes = Dims::from_slice(&[size]);
            sizes.extend(std::iter::repeat_n(1, ndim));
            let number = f::arange_with(size, Some(DType::I64), Some(x.device()), false)?;
            ins.push(Some(number.view(&sizes)?));
        }
        (Some(_), false) => ins.push(None),
        _ => {}
    }
    for t in indices {
        ins.push(match t {
            Some(t) => Some(match value(t, id) {
                Some(v) => raised(v, ndim)?,
                None => (*t).clone(),
            }),
            None => None,
        });
    }
    let attrs = Attrs::new(c.args).with(0, Arg::Len(ins.len() as u32 - 1));
    let ins: SmallVec<[Option<&Tensor>; 4]> = ins.iter().map(Option::as_ref).collect();
    again(c, &ins, Some(&attrs), outs)
}

/// Random numbers that differ between the samples, in one call.
fn different(c: &Call<'_>, level: Level, outs: &mut Outs) -> Result<Ran> {
    let inputs = c.ins.iter().flatten().count();
    if let (0, Some(at)) = (inputs, c.op.sig.arg_index("size")) {
        let sizes = with_first(level.size, c.ints(At::nth(at))?);
        return again(c, c.ins, Some(&Attrs::new(c.args).with(at, Arg::Ints(&sizes))), outs);
    }
    let follows = matches!(c.op.sbp.rows, Rows::Elementwise { .. } | Rows::Custom(_))
        && inputs == 1
        && c.op.sig.arg_index("size").is_none();
    match c.opt(In::nth(0)) {
        Some(x) if follows && c.ins.len() == 1 => {
            let all = value(x, level.id).map_or_else(|| broadcast(x, level.size), |v| Ok(v.clone()))?;
            again(c, &[Some(&all)], None, outs)
        }
        _ => Ok(Ran::No),
    }
}

/// One call a sample.
fn slices(c: &Call<'_>, id: u64, drawn: Option<Level>, outs: &mut Outs) -> Result<()> {
    let size = drawn.map_or_else(|| samples(c, id), |level| level.size);
    if size == 0 {
        return Err(Error::not_implemented(format!("{}(): has no form for a batch of no samples", c.name())));
    }
    let mut made: SmallVec<[SmallVec<[Tensor; 2]>; 8]> = SmallVec::new();
    for i in 0..size {
        let own: Operands = c
            .ins
            .iter()
            .map(|t| t.and_then(|t| value(t, id)).map(|v| v.select(0, i)).transpose())
            .collect::<Result<_>>()?;
        let ins: SmallVec<[Option<&Tensor>; 4]> = own.iter().zip(c.ins).map(|(own, t)| own.as_ref().or(*t)).collect();
        let attrs = if drawn.is_some() { other_stream(c, i) } else { moved(c, &ins) };
        let mut one = Outs::new();
        again(c, &ins, attrs.as_ref(), &mut one)?;
        made.push(one.into_tensors());
    }
    for k in 0..made[0].len() {
        outs.give(f::stack(made.iter().map(|one| &one[k]), 0)?);
    }
    Ok(())
}

/// The arguments with an offset into the storage, if there is one, counted from where the sample begins.
fn moved(c: &Call<'_>, ins: &[Option<&Tensor>]) -> Option<Attrs> {
    let at = c.op.sig.arg_index("storage_offset")?;
    let (sample, own) = (c.opt(In::nth(0))?, ins.first().copied().flatten()?);
    let offset = c.arg(AnyArg::nth(at)).int()? - sample.offset() + own.offset();
    Some(Attrs::new(c.args).with(at, Arg::Int(offset)))
}

/// The arguments with the stream of random numbers of sample `i`.
fn other_stream(c: &Call<'_>, i: i64) -> Option<Attrs> {
    let at = c.args.iter().position(|a| matches!(a, Arg::Rng { .. }))?;
    let (seed, offset) = c.args[at].rng().ok()?;
    if is_in_order(c) {
        return Some(Attrs::new(c.args));
    }
    // Weyl's sequence: seeds of other samples are far away.
    let seed = seed ^ (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Some(Attrs::new(c.args).with(at, Arg::Rng { seed, offset }))
}

/// Returns true if the call draws from an engine, which advances by itself.
fn is_in_order(c: &Call<'_>) -> bool {
    c.args.iter().any(|a| matches!(a, Arg::Rng { offset: mt19937::IN_ORDER, .. }))
}
