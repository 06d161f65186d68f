//! The local interpreter: infer, allocate, launch. The bottom of the stack.
//!
//! Knows families of kernels, not ops. What has no kernel for a device or dtype runs its composition.

use crate::limited::{elementwise_takes, instead};
use crate::lower::expanded_strides;
use crate::narrow_operands;
use crate::outs::Outs;
use crate::release::{LONG_WORK, may_release, run_kernel, without_lock};
use crate::transfer::transfers;
use crate::writes::{before_write, written};
use crate::{
    Call, Dest, Grad, Kernel, Lowered, Operand, ShapeOf, Slot, Storage, Tensor, Tls, Traits, bit, tls, with_tls,
};
use crate::{Overlap, has_internal_overlap, overlap, overlaps};
use oneflow_base::{DType, Device, Dims, Error, ErrorKind, Result, contiguous_strides};
use oneflow_ep::provider;
use oneflow_kernels_prim::{COPY, Expr, FILL, Launch, Params, View};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::OnceLock;

/// Runs a call on local or meta tensors.
pub(crate) fn local(c: &Call<'_>, bits: u32, outs: &mut Outs) -> Result<()> {
    let device = check_devices(c)?;
    if matches!(c.op.kernel, Kernel::View) {
        return view(c, outs);
    }
    check_memory(c)?;
    check_reads_disjoint(c)?;
    before_write(c)?;
    if let (Some(write), Dest::Into([d])) = (c.op.into_overlapped, c.dest)
        && has_internal_overlap(d)
        && c.ins.first().copied().flatten().is_some_and(|x| x.same(d))
    {
        return into_overlapped(c, bits, d, write, outs);
    }
    match c.op.kernel {
        Kernel::Host(f) if !device.is_some_and(Device::is_meta) => {
            let _guard = with_tls(local_only());
            return match f(c, outs) {
                Err(e) if e.kind() == ErrorKind::NotImplemented && instead(c).is_some() => {
                    outs.clear();
                    compose(c, outs)
                }
                made => made.and_then(|()| into_dest_by_copy(c, outs)),
            };
        }
        Kernel::Layer(f) => return f(c, outs),
        Kernel::None => {
            check_composed_dest(c, outs)?;
            return compose(c, outs);
        }
        _ => {}
    }
    (c.op.infer)(c, outs)?;
    let from_meta = device.is_some_and(Device::is_meta);
    if outs.tensors().iter().any(|t| t.device().is_meta()) || (from_meta && outs.tensors().is_empty()) {
        return meta_dest(c, outs);
    }
    if from_meta && matches!(c.op.kernel, Kernel::Prim { prim, .. } if std::ptr::eq(prim, &COPY)) {
        return Err(no_data(c));
    }
    // `empty_like(x, device=)`: what makes its result on another device reads no data, and `x` needs none.
    if let (true, Kernel::Host(f)) = (from_meta, &c.op.kernel) {
        outs.clear();
        let _guard = with_tls(local_only());
        f(c, outs)?;
        return into_dest_by_copy(c, outs);
    }
    let launched = match c.dest {
        Dest::Fresh => {
            for t in outs.tensors() {
                t.materialize()?;
            }
            launch(c, outs)
        }
        Dest::Into(dest) => into(c, dest, outs),
    };
    match launched {
        Err(e) if e.kind() == ErrorKind::NotImplemented && instead(c).is_some() => {
            outs.clear();
            compose(c, outs)
        }
        Err(e) if e.kind() == ErrorKind::NotImplemented => Err(unimplemented(c, &e)),
        Err(e) => Err(e),
        Ok(()) => {
            if c.op.traits.has(Traits::MUTATES) {
                written(c).for_each(Tensor::bump_version);
            }
            Ok(())
        }
    }
}

/// An error where a storage was made smaller than what the call uses of it.
#[inline]
fn check_memory(c: &Call<'_>) -> Result<()> {
    c.ins.iter().flatten().try_for_each(|t| t.check_memory())?;
    match c.dest {
        Dest::Into(dest) => dest.iter().try_for_each(|t| t.check_memory()),
        Dest::Fresh => Ok(()),
    }
}

/// Refuses a destination that shares memory with what an op reads while it writes by index.
#[inline]
pub fn check_reads_disjoint(c: &Call<'_>) -> Result<()> {
    let Dest::Into(dest) = c.dest else { return Ok(()) };
    if !c.op.traits.has(Traits::READS_DISJOINT) {
        return Ok(());
    }
    let read = || c.ins.iter().skip(1).flatten();
    if dest.iter().any(|d| read().any(|t| matches!(overlap(t, d), Overlap::Same | Overlap::Partial))) {
        return Err(shared_memory(c));
    }
    Ok(())
}

#[cold]
fn no_data(c: &Call<'_>) -> Error {
    Error::not_implemented(format!("{}(): Cannot copy out of meta tensor; no data!", c.name()))
}

/// The op and the devices to what a kernel family lacks.
#[cold]
fn unimplemented(c: &Call<'_>, e: &Error) -> Error {
    Error::not_implemented(format!("\"{}\" is not implemented for ({}): {}", c.op.name(), c.describe(), e.text()))
}

/// The state in which only this layer runs, and a profiler watches.
fn local_only() -> Tls {
    let t = tls();
    Tls { on: 0, allowed: t.allowed & (1 << bit::LOCAL | 1 << bit::META | 1 << bit::WATCH) }
}

/// Runs the composition with the layers above switched off: they have had their turn.
fn compose(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let Some(f) = instead(c) else {
        return Err(Error::not_implemented(format!("\"{}\" is not implemented for {}", c.op.name(), c.describe())));
    };
    let fresh = Call { dest: Dest::Fresh, ..*c };
    {
        let _deeper = Deeper::one(c)?;
        let _guard = with_tls(local_only());
        f(&fresh, outs)?;
    }
    outs.own_what_is_private(c);
    into_dest_by_copy(c, outs)
}

/// Refuses a destination before a composition computes what would be copied into it.
fn check_composed_dest(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let Dest::Into(dest) = c.dest else { return Ok(()) };
    if c.op.shape == ShapeOf::Data {
        return Ok(());
    }
    match (c.op.infer)(c, outs) {
        Ok(()) => outs.tensors().iter().zip(dest).try_for_each(|(shell, d)| check_dest(c, shell, d))?,
        // A composition need not have a rule for metas: its parts have theirs.
        Err(e) if e.kind() == ErrorKind::NotImplemented => {}
        Err(e) => return Err(e),
    }
    outs.clear();
    Ok(())
}

/// One more composition inside another. Some call their own op again with what its kernel takes; on a device without that
/// kernel they would never end.
struct Deeper;

thread_local! {
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

impl Deeper {
    const MOST: u8 = 32;

    fn one(c: &Call<'_>) -> Result<Deeper> {
        if DEPTH.get() >= Self::MOST {
            let text = format!("\"{}\" is not implemented for ({}): no kernel", c.op.name(), c.describe());
            return Err(Error::not_implemented(text));
        }
        DEPTH.set(DEPTH.get() + 1);
        Ok(Deeper)
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Moves finished results into the destination, if there is one.
fn into_dest_by_copy(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    if let Dest::Into(dest) = c.dest {
        for (i, d) in dest.iter().enumerate() {
            prepare_dest(c, &outs[i], d)?;
            check_disjoint(c, dest, i)?;
            copy_into(d, &outs[i])?;
            d.bump_version();
            outs.set(i, (*d).clone());
        }
    }
    Ok(())
}

/// An op that changes some elements, in place in a tensor of which several elements are one in memory.
#[cold]
fn into_overlapped(
    c: &Call<'_>,
    bits: u32,
    d: &Tensor,
    write: fn(&Tensor, &Tensor) -> Result<()>,
    outs: &mut Outs,
) -> Result<()> {
    local(&Call { dest: Dest::Fresh, ..*c }, bits, outs)?;
    let made = outs[0].clone();
    check_dest(c, &made, d)?;
    if made.sizes() != d.sizes() {
        return Err(other_shape(c, &made, d));
    }
    if !d.device().is_meta() {
        let _guard = with_tls(local_only());
        write(&made, d)?;
    }
    d.bump_version();
    outs.set(0, d.clone());
    Ok(())
}

fn meta_dest(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    if let Dest::Into(dest) = c.dest {
        for (i, d) in dest.iter().enumerate() {
            prepare_dest(c, &outs[i], d)?;
            outs.set(i, (*d).clone());
        }
    }
    Ok(())
}

fn view(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    (c.op.infer)(c, outs)?;
    match outs.alias_of() {
        Some(input) => {
            let base = c.t(crate::In::nth(input))?;
            // Other bits are no view that a gradient or a write could follow.
            let follows = !matches!(c.op.grad, Grad::Never);
            let several = matches!(c.op.sig.returns(), [r] if r.list) || outs.len() > 1;
            for t in outs.tensors() {
                t.adopt(base, t.offset());
                // Nothing is recorded of an inference tensor, so no history can need its views.
                if follows && !base.is_inference() {
                    t.set_base(base);
                }
                if several {
                    t.set_multi_view();
                }
            }
            Ok(())
        }
        // A list of no views: the pieces of a dimension of size 0.
        None if c.op.compose.is_none() && outs.is_empty() => Ok(()),
        None => compose(c, {
            outs.clear();
            outs
        }),
    }
}

/// The common device of the inputs; host numbers (0-dim) may accompany another device.
#[inline]
fn check_devices(c: &Call<'_>) -> Result<Option<Device>> {
    let mut device: Option<Device> = None;
    let mut only_scalars = true;
    // A copy is what crosses devices.
    if matches!(c.op.kernel, Kernel::Prim { prim, .. } if std::ptr::eq(prim, &COPY)) {
        let to = c.ins.first().copied().flatten().map(Tensor::device);
        if !to.is_some_and(Device::is_meta) && c.ins.iter().flatten().any(|t| t.device().is_meta()) {
            return Err(no_data(c));
        }
        return Ok(to);
    }
    for t in c.ins.iter().flatten() {
        let d = t.device();
        match device {
            None => {
                device = Some(d);
                only_scalars = t.ndim() == 0;
            }
            Some(x) if x == d => only_scalars &= t.ndim() == 0,
            Some(x) => {
                if d.is_cpu() && t.ndim() == 0 && !matches!(c.op.kernel, Kernel::View) {
                    continue;
                }
                if x.is_cpu() && only_scalars {
                    device = Some(d);
                    only_scalars = false;
                    continue;
                }
                return Err(Error::runtime(format!(
                    "{}(): Expected all tensors to be on the same device, but found at least two devices, {x} and {d}! (inputs: {})",
                    c.name(),
                    c.describe()
                )));
            }
        }
    }
    Ok(device)
}

/// Where a result lies after one more operand: a number of the host follows the others, and all follow what has no data.
#[inline]
pub fn follow_device(device: Device, is_number: bool, operand: &Tensor) -> Device {
    let next = operand.device();
    if device.is_cpu() && is_number || next.is_meta() { next } else { device }
}

/// Whether the values of a tensor can be read at once: they are not traced, of several ranks or on another device.
pub fn is_at_hand(t: &Tensor) -> bool {
    t.device().is_cpu() && t.storage().is_some() && tls().on & (1 << bit::LAZY) == 0
}

/// Checks the dtype and the device of a destination against an inferred result.
fn check_dest(c: &Call<'_>, shell: &Tensor, d: &Tensor) -> Result<()> {
    if shell.dtype() != d.dtype() && c.op.traits.has(Traits::EXACT_OUT) && !c.ins.iter().flatten().any(|t| t.same(d)) {
        return Err(Error::runtime(format!(
            "{}(): Expected out tensor to have dtype {} (scalar type {}), but got {} instead: expected scalar_type {} but found {}",
            c.name(),
            shell.dtype(),
            shell.dtype().scalar_type_name(),
            d.dtype(),
            shell.dtype().scalar_type_name(),
            d.dtype().scalar_type_name()
        )));
    }
    if shell.dtype() != d.dtype() && !can_cast(shell.dtype(), d.dtype()) && !c.op.traits.has(Traits::ANY_OUT) {
        return Err(Error::runtime(format!(
            "{}(): result type {} can't be cast to the desired output type {}",
            c.name(),
            shell.dtype().scalar_type_name(),
            d.dtype().scalar_type_name()
        )));
    }
    if shell.device() != d.device() && d.ndim() + shell.ndim() > 0 {
        return Err(Error::runtime(format!(
            "{}(): Expected out tensor to be on device {}, but got {} instead",
            c.name(),
            shell.device(),
            d.device()
        )));
    }
    Ok(())
}

/// Checks a destination against an inferred result and, for `out=`, gives it the right size.
fn prepare_dest(c: &Call<'_>, shell: &Tensor, d: &Tensor) -> Result<()> {
    check_dest(c, shell, d)?;
    if shell.sizes() != d.sizes() {
        if c.ins.iter().flatten().any(|t| t.same(d)) {
            return Err(other_shape(c, shell, d));
        }
        if d.numel() > 0 {
            // It would grow over the memory of the input that it is a part of.
            if c.ins.iter().flatten().any(|t| overlaps(t, d)) {
                return Err(shared_memory(c));
            }
            crate::warning::warn(&resized(d, shell))?;
        }
        // Elementwise results keep the memory order of their operands there, too.
        let order = matches!(c.op.kernel, Kernel::Elementwise(_)).then(|| shell.strides());
        resize(d, shell.sizes(), order)?;
    }
    if has_internal_overlap(d) && !c.op.traits.has(Traits::FILLS) {
        return Err(Error::runtime(format!(
            "{}(): unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.",
            c.name()
        )));
    }
    Ok(())
}

#[cold]
fn other_shape(c: &Call<'_>, made: &Tensor, d: &Tensor) -> Error {
    Error::runtime(format!(
        "{}_(): output with shape {:?} doesn't match the broadcast shape {:?}",
        c.name(),
        d.sizes(),
        made.sizes()
    ))
}

#[cold]
fn shared_memory(c: &Call<'_>) -> Error {
    Error::runtime(format!(
        "{}_(): unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the tensor before performing the operation.",
        c.name()
    ))
}

#[cold]
fn resized(d: &Tensor, shell: &Tensor) -> String {
    format!(
        "An output with one or more elements was resized since it had shape {:?}, which does not match the required output shape {:?}. This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
        d.sizes(),
        shell.sizes()
    )
}

/// Gives a tensor other sizes, with dense strides (contiguous ones by default), growing its storage where needed.
pub(crate) fn resize(t: &Tensor, sizes: &[i64], strides: Option<&[i64]>) -> Result<()> {
    let strides = strides.map_or_else(|| contiguous_strides(sizes), Dims::from_slice);
    let shell = Tensor::shell(t.dtype(), t.device(), Dims::from_slice(sizes), strides)?;
    if let Some(s) = t.storage() {
        let need = (t.offset() as usize).checked_add(shell.numel() as usize);
        let need = need.and_then(|n| n.checked_mul(t.dtype().size()));
        let need = need.ok_or_else(|| Error::runtime(format!("resize_(): sizes {sizes:?} are too large")))?;
        if need > s.bytes() && shell.numel() > 0 {
            // SAFETY: `out=` and `resize_` run under the language's global lock, which is released only around launches; these pin
            // what they use, and no other pointer into the storage is kept.
            unsafe { s.resize(need)? };
        }
        shell.adopt(t, t.offset());
    }
    // SAFETY: under the same lock; the caller re-reads the sizes afterwards.
    unsafe { t.set_body_from(&shell) };
    Ok(())
}

/// Categories only grow: no float into an integer.
fn can_cast(from: DType, to: DType) -> bool {
    from.category() <= to.category() || (from.is_int() && to.is_int())
}

/// Kernels that write to any strides.
fn any_layout(kernel: Kernel) -> bool {
    match kernel {
        Kernel::Elementwise(_) => true,
        Kernel::Prim { prim, .. } => std::ptr::eq(prim, &COPY) || std::ptr::eq(prim, &FILL),
        _ => false,
    }
}

/// Whether two tensors of the same sizes lie in memory alike. Dimensions of size one may have any stride.
fn same_layout(a: &Tensor, b: &Tensor) -> bool {
    let strides = a.strides().iter().zip(b.strides());
    a.sizes().iter().zip(strides).all(|(n, (x, y))| *n == 1 || x == y)
}

/// No op returns more tensors, lists apart.
const FEW: usize = 4;

/// Refuses a destination that overlaps one before it. An update of lists writes its inputs, and may be given one twice.
fn check_disjoint(c: &Call<'_>, dest: &[&Tensor], i: usize) -> Result<()> {
    let d = dest[i];
    let is_out = || dest.len() <= FEW && d.numel() > 0 && !c.ins.iter().flatten().any(|t| t.same(d));
    if i > 0 && is_out() && dest[..i].iter().any(|o| o.data_ptr() == d.data_ptr() || overlaps(o, d)) {
        return Err(Error::value(format!("{}(): the out= tensors must not overlap.", c.name())));
    }
    Ok(())
}

fn into(c: &Call<'_>, dest: &[&Tensor], outs: &mut Outs) -> Result<()> {
    let elementwise = matches!(c.op.kernel, Kernel::Elementwise(_));
    // Ops that read and write element by element refuse what a copy could not put right in PyTorch.
    let refuses = elementwise || matches!(c.op.kernel, Kernel::Prim { prim, .. } if std::ptr::eq(prim, &COPY));
    let mut direct = true;
    for (i, d) in dest.iter().enumerate() {
        prepare_dest(c, &outs[i], d)?;
        check_disjoint(c, dest, i)?;
        let changes_input = || c.ins.iter().flatten().any(|t| t.same(d));
        // A wider `out=` gets what the result is in its own dtype, not what the kernel computes with.
        direct &= outs[i].dtype() == d.dtype() || elementwise && changes_input();
        // A kernel fills the layout that `infer` gave its result, or that of the input which it changes in place.
        direct &= any_layout(c.op.kernel) || same_layout(&outs[i], d) || changes_input();
        for (slot, t) in c.ins.iter().enumerate().filter_map(|(i, t)| Some((i, (*t)?))) {
            let starts_here = slot == 0 && c.op.traits.has(Traits::STARTS_AS_FIRST) && t.same(d);
            if starts_here {
                continue;
            }
            match overlap(t, d) {
                Overlap::No => {}
                Overlap::Partial if refuses => return Err(shared_memory(c)),
                Overlap::Partial | Overlap::Maybe => direct = false,
                Overlap::Same => direct &= elementwise || c.op.traits.has(Traits::ALIAS_OK) || t.numel() == 0,
            }
        }
    }
    if direct {
        for (i, d) in dest.iter().enumerate() {
            outs.set(i, (*d).clone());
        }
        launch(c, outs)?;
    } else {
        for t in outs.tensors() {
            t.materialize()?;
        }
        launch(c, outs)?;
        for (i, d) in dest.iter().enumerate() {
            copy_into(d, &outs[i])?;
            outs.set(i, (*d).clone());
        }
    }
    dest.iter().for_each(|d| d.bump_version());
    Ok(())
}

fn launch(c: &Call<'_>, outs: &Outs) -> Result<()> {
    if c.op.traits.has(Traits::NEEDS_CONTIGUOUS) && c.ins.iter().flatten().any(|t| !t.is_contiguous()) {
        let copies: SmallVec<[Option<Tensor>; 8]> = c
            .ins
            .iter()
            .map(|t| t.filter(|t| !t.is_contiguous()).map(contiguous).transpose())
            .collect::<Result<_>>()?;
        let ins: SmallVec<[Option<&Tensor>; 8]> = c.ins.iter().zip(&copies).map(|(t, n)| n.as_ref().or(*t)).collect();
        return launch_ready(&Call { ins: &ins, ..*c }, outs);
    }
    launch_ready(c, outs)
}

fn launch_ready(c: &Call<'_>, outs: &Outs) -> Result<()> {
    match c.op.kernel {
        Kernel::Elementwise(lower) => {
            if let Some(cast) = narrow_operands::cast_inputs(c, outs[0].dtype(), converted)? {
                let ins: SmallVec<[Option<&Tensor>; 4]> =
                    c.ins.iter().zip(&cast).map(|(t, n)| n.as_ref().or(*t)).collect();
                return launch_ready(&Call { ins: &ins, ..*c }, outs);
            }
            let mut words = Params::new();
            let expr = lower(c, outs, &mut words)?;
            elementwise(c, expr, &words, &outs[0])
        }
        Kernel::Prim { prim, lower } => {
            let mut l = Lowered::new(prim);
            lower(c, outs, &mut l)?;
            run_lowered(&l, c.ins, outs.tensors())
        }
        _ => Err(Error::runtime(format!("{}(): no kernel to launch", c.name()))),
    }
}

/// The short way of an elementwise op: views straight from the tensors.
#[inline]
fn elementwise(c: &Call<'_>, expr: &'static Expr, params: &Params, out: &Tensor) -> Result<()> {
    let device = out.device();
    let prim = oneflow_kernels_prim::ELEMENTWISE.on(device.kind)?;
    let sizes = out.sizes();
    let mut strides: SmallVec<[Dims; 3]> = SmallVec::new();
    let mut moved: SmallVec<[Tensor; 1]> = SmallVec::new();
    let mut is_limited = out.dtype().is_limited();
    for t in c.ins.iter().flatten() {
        is_limited |= t.dtype().is_limited();
        if t.sizes() != sizes {
            strides.push(expanded_strides(t.sizes(), t.strides(), sizes));
        }
        if t.device() != device {
            moved.push(to_device(t, device)?);
        }
    }
    if is_limited {
        elementwise_takes(c, out.dtype())?;
    }
    let mut ins: SmallVec<[Option<View<'_>>; 3]> = SmallVec::new();
    let (mut next_strides, mut next_moved) = (strides.iter(), moved.iter());
    for t in c.ins.iter().flatten() {
        let strides = if t.sizes() == sizes { t.strides() } else { next_strides.next().map_or(&[][..], |d| d) };
        let ptr = if t.device() == device {
            t.data_ptr()
        } else {
            next_moved.next().map_or(std::ptr::null_mut(), Tensor::data_ptr)
        };
        ins.push(Some(View { ptr, dtype: t.dtype(), sizes, strides }));
    }
    let outs = [Some(View { ptr: out.data_ptr(), dtype: out.dtype(), sizes, strides: out.strides() })];
    let queue = provider(device.kind)?.queue(device.index);
    // SAFETY: the views lie inside live storages of this device (checked when the tensors were made), and `infer` has checked
    // that shapes and dtypes fit the primitive's contract.
    unsafe {
        let launch = Launch { outs: &outs, ins: &ins, params, expr: Some(expr), queue };
        run_kernel(prim, &launch, c.ins.iter().copied().flatten().chain([out]))
    }
}

/// Runs a lowered call on real tensors.
pub fn run_lowered(l: &Lowered, ins: &[Option<&Tensor>], outs: &[Tensor]) -> Result<()> {
    let find = |slot: Slot| -> Result<&Tensor> {
        let t = match slot {
            Slot::In(i) => ins.get(i as usize).copied().flatten(),
            Slot::Out(i) => outs.get(i as usize),
        };
        t.ok_or_else(|| Error::runtime(format!("{}: an operand is missing", l.prim.name)))
    };
    let first = l.outs.iter().chain(&l.ins).flatten().next();
    let device = first.map(|o| find(o.slot)).transpose()?.map_or(Device::CPU, Tensor::device);
    if let ([Some(i)], [Some(o)]) = (&l.ins[..], &l.outs[..])
        && std::ptr::eq(l.prim, &COPY)
        && (i.layout.is_none() && o.layout.is_none())
    {
        let (src, out) = (find(i.slot)?, find(o.slot)?);
        let alike = src.dtype() == out.dtype() && src.sizes() == out.sizes();
        if src.device() != out.device() && alike && src.is_contiguous() && out.is_contiguous() {
            return transfer(src, out, !transfers().non_blocking);
        }
    }
    let mut moved: SmallVec<[Tensor; 2]> = SmallVec::new();
    for o in l.ins.iter().flatten() {
        let t = find(o.slot)?;
        if t.device() != device {
            moved.push(moved_operand(t, o, device)?);
        }
    }
    let mut next_moved = moved.iter().peekable();
    let mut in_views: SmallVec<[Option<View<'_>>; 4]> = SmallVec::new();
    for o in &l.ins {
        in_views.push(match o {
            None => None,
            Some(o) => {
                let t = find(o.slot)?;
                let dtype = l.prim.operand(t.dtype())?;
                Some(match next_moved.next_if(|_| t.device() != device) {
                    None => View { dtype, ..view_of(t, o) },
                    // A number keeps the zero strides it is spread by.
                    Some(m) if t.numel() == 1 => View { ptr: m.data_ptr(), dtype, ..view_of(t, o) },
                    Some(m) => View { ptr: m.data_ptr(), dtype, sizes: m.sizes(), strides: m.strides() },
                })
            }
        });
    }
    let mut out_views: SmallVec<[Option<View<'_>>; 2]> = SmallVec::new();
    for o in &l.outs {
        out_views.push(match o {
            None => None,
            Some(o) => {
                let t = find(o.slot)?;
                Some(View { dtype: l.prim.operand(t.dtype())?, ..view_of(t, o) })
            }
        });
    }
    let kernel = l.prim.kernel(device.kind, &in_views, &out_views)?;
    if let (Some(i), Some(out)) = (l.init, outs.first()) {
        let src = find(Slot::In(i.into()))?;
        if !(src.data_ptr() == out.data_ptr() && src.strides() == out.strides()) {
            copy_into(out, src)?;
        }
    }
    let queue = provider(device.kind)?.queue(device.index);
    let launch = Launch { outs: &out_views, ins: &in_views, params: &l.params, expr: l.expr, queue };
    // SAFETY: operands lie inside live storages of this device; `lower` made layouts within them, following the contract.
    unsafe { run_kernel(kernel, &launch, ins.iter().copied().flatten().chain(outs)) }
}

/// An operand of another device as a dense copy on `device`; a number stays one element.
fn moved_operand(t: &Tensor, o: &Operand, device: Device) -> Result<Tensor> {
    match &o.layout {
        Some((sizes, strides, offset)) if t.numel() != 1 => {
            to_device(&t.alias(sizes.clone(), strides.clone(), *offset)?, device)
        }
        _ => to_device(t, device),
    }
}

fn view_of<'a>(t: &'a Tensor, o: &'a Operand) -> View<'a> {
    match &o.layout {
        None => View { ptr: t.data_ptr(), dtype: t.dtype(), sizes: t.sizes(), strides: t.strides() },
        Some((sizes, strides, offset)) => {
            let bytes = (offset - t.offset()) as isize * t.dtype().size() as isize;
            View { ptr: t.data_ptr().wrapping_offset(bytes), dtype: t.dtype(), sizes, strides }
        }
    }
}

/// Copies elements with cast, on one device; `src` broadcasts to `dst`.
pub fn copy_into(dst: &Tensor, src: &Tensor) -> Result<()> {
    if dst.device().is_meta() {
        return Ok(());
    }
    let moved;
    let src = if src.device() == dst.device() {
        src
    } else {
        moved = to_device(src, dst.device())?;
        &moved
    };
    let device = dst.device();
    let strides = expanded_strides(src.sizes(), src.strides(), dst.sizes());
    let ins = [Some(View { ptr: src.data_ptr(), dtype: src.dtype(), sizes: dst.sizes(), strides: &strides })];
    let outs = [Some(View { ptr: dst.data_ptr(), dtype: dst.dtype(), sizes: dst.sizes(), strides: dst.strides() })];
    let queue = provider(device.kind)?.queue(device.index);
    // SAFETY: both views lie inside live storages of this device and have the same sizes.
    unsafe {
        let launch = Launch { outs: &outs, ins: &ins, params: &[], expr: None, queue };
        run_kernel(COPY.on(device.kind)?, &launch, [src, dst].into_iter())
    }
}

fn contiguous(t: &Tensor) -> Result<Tensor> {
    converted(t, t.dtype())
}

/// A copy in another dtype (dense, contiguous).
fn converted(t: &Tensor, dtype: DType) -> Result<Tensor> {
    let n = Tensor::empty(dtype, t.device(), t.sizes())?;
    copy_into(&n, t)?;
    Ok(n)
}

/// A copy of the elements on another device (dense, contiguous).
pub(crate) fn to_device(t: &Tensor, device: Device) -> Result<Tensor> {
    let made;
    let src = if t.is_contiguous() {
        t
    } else {
        made = contiguous(t)?;
        &made
    };
    let out = Tensor::empty(t.dtype(), device, t.sizes())?;
    // Kernels of a device read it in the order of its queue; those of the host read it at once.
    transfer(src, &out, device.is_cpu() || !transfers().non_blocking)?;
    Ok(out)
}

/// Copies the bytes of a contiguous tensor into another one of the same dtype and sizes, on any device. With `wait` false, a copy
/// between a device and pinned memory returns when it is issued.
fn transfer(src: &Tensor, out: &Tensor, wait: bool) -> Result<()> {
    let bytes = src.numel() as usize * src.dtype().size();
    let (from, to) = (src.device(), out.device());
    use oneflow_ep::Copy::*;
    let (at, how) = match (from.is_cpu(), to.is_cpu()) {
        (true, true) => (to, DeviceToDevice),
        (true, false) => (to, HostToDevice),
        (false, true) => (from, DeviceToHost),
        (false, false) if from.kind == to.kind => (to, DeviceToDevice),
        (false, false) => return transfer(&to_device(src, Device::CPU)?, out, wait),
    };
    let p = provider(at.kind)?;
    let (queue, to, from) = (p.queue(at.index), out.data_ptr(), src.data_ptr());
    // SAFETY: both tensors are contiguous and hold `bytes` bytes, on the sides `how` says. Pinned memory outlives a copy that is not
    // waited for, and so does a device's block by the order of the queue.
    let copy = || unsafe {
        if wait { p.copy(queue, how, to, from, bytes) } else { p.copy_async(queue, how, to, from, bytes) }
    };
    if src.numel() < LONG_WORK || !may_release() {
        return copy();
    }
    let _pins = [src.storage().map(Storage::pin), out.storage().map(Storage::pin)];
    let mut result = Ok(());
    without_lock(&mut || result = copy());
    result
}

static READ_WHOLE: OnceLock<fn(&Tensor) -> Result<Tensor>> = OnceLock::new();

/// Says how the elements of a tensor of several ranks come to the host; once, at start-up.
pub fn set_read_whole(read: fn(&Tensor) -> Result<Tensor>) {
    let _ = READ_WHOLE.set(read);
}

/// The elements on the host, row-major. Of a global tensor the whole: a collective call of all its ranks.
pub fn copy_to_host(t: &Tensor) -> Result<Tensor> {
    if t.has_key(bit::LAZY) {
        return Err(Error::runtime(
            "item(), tolist() or another read of values is data-dependent: inside nn.Graph a tensor has no values while build is traced. Choose with where(), a mask or clamp(), or read it outside of build",
        ));
    }
    if t.has_key(bit::BATCH) {
        return Err(Error::runtime(
            "vmap: It looks like you're calling .item() on a Tensor, or using its values in some data-dependent control flow. We don't support vmap over calling .item() on a Tensor, please try to rewrite what you're doing with other operations.",
        ));
    }
    if t.has_key(bit::GLOBAL)
        && let Some(read) = READ_WHOLE.get()
    {
        return read(t);
    }
    t.check_memory()?;
    if t.storage().is_none() {
        return Err(Error::not_implemented(format!(
            "Cannot copy out of {} tensor; no data!",
            if t.device().is_meta() { "meta" } else { "this" }
        )));
    }
    if t.device().is_cpu() { contiguous(t) } else { to_device(t, Device::CPU) }
}
