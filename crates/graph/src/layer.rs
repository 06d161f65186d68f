//! The lazy layer: what a call becomes while a trace is under way.
//!
//! A node for ops with a kernel, the composition for ops without, a refusal for ops whose result depends on data. It does
//! not box, place or run anything.

use crate::trace::{note_line, value_of, with_trace};
use oneflow_base::{Error, Result};
use oneflow_core::{
    Call, Dest, In, Kernel, Outs, ShapeOf, Tensor, Tls, Traits, bit, narrow_operands, redispatch, register_layer, tls,
    with_tls,
};
use oneflow_ops::TensorOps;
use oneflow_runtime::can_lower;
use smallvec::SmallVec;

/// Puts the layer into the stack.
pub fn register() {
    register_layer(bit::LAZY, lazy);
}

fn lazy(c: &Call<'_>, below: u32, outs: &mut Outs) -> Result<()> {
    if c.op.shape == ShapeOf::Data {
        return Err(Error::runtime(format!(
            "{}(): the size of its result depends on data, which is not known while nn.Graph traces build (inputs: {})",
            c.name(),
            c.describe()
        )));
    }
    if below & (1 << bit::GLOBAL) != 0 {
        // Layouts are chosen first; what is recorded is this rank's work on its shards, boxing included.
        return redispatch(c, below, outs);
    }
    if c.ins.iter().flatten().any(|t| t.device().is_meta()) {
        return redispatch(c, below & !(1 << bit::LAZY), outs);
    }
    note_line()?;
    if with_trace(|t| Ok(t.begin_expansion(c.op)))? {
        let done = compose(c, outs);
        with_trace(|t| {
            t.end_expansion();
            Ok(())
        })?;
        return done;
    }
    let call = with_trace(|t| Ok(t.count_call(c)))?;
    match c.op.kernel {
        Kernel::None => return compose(c, outs),
        Kernel::Host(_) if c.op.compose.is_some() => return within_call(|| compose(c, outs)),
        Kernel::Host(f) => return within_call(|| host(c, f, outs)),
        Kernel::Layer(f) => return f(c, outs),
        Kernel::View => {
            (c.op.infer)(c, outs)?;
            let Some(i) = outs.alias_of() else {
                outs.clear();
                return compose(c, outs);
            };
            let base = c.t(In::nth(i))?;
            // Not noted: a view of a view may be the first tensor again here, so views follow their inputs by the rule.
            with_trace(|t| t.record_view(c.op, c.args, base, c.ins, outs.tensors()))?;
            outs.tensors().iter().for_each(|t| t.set_base(base));
            return Ok(());
        }
        Kernel::Elementwise(_) | Kernel::Prim { .. } => {}
    }
    (c.op.infer)(c, outs)?;
    if outs.tensors().iter().any(|t| t.device().is_meta()) {
        outs.clear();
        return redispatch(c, below & !(1 << bit::LAZY), outs);
    }
    if c.op.traits.has(Traits::MUTATES) {
        return update(c, outs);
    }
    if c.op.traits.has(Traits::NEEDS_CONTIGUOUS) && c.ins.iter().flatten().any(|t| !t.is_contiguous()) {
        let _guard = with_tls(this_and_below());
        let ins: SmallVec<[Option<Tensor>; 4]> =
            within_call(|| c.ins.iter().map(|t| t.map(|t| t.contiguous()).transpose()).collect::<Result<_>>())?;
        let ins: SmallVec<[Option<&Tensor>; 4]> = ins.iter().map(Option::as_ref).collect();
        return node(&Call { ins: &ins, ..*c }, call, outs);
    }
    if matches!(c.op.kernel, Kernel::Elementwise(_)) {
        let cast = narrow_operands::cast_inputs(c, outs[0].dtype(), |t, to| {
            let _guard = with_tls(this_and_below());
            within_call(|| t.to_copy_with(Some(to), None))
        })?;
        if let Some(cast) = cast {
            let ins: SmallVec<[Option<&Tensor>; 4]> = c.ins.iter().zip(&cast).map(|(t, n)| n.as_ref().or(*t)).collect();
            return node(&Call { ins: &ins, ..*c }, call, outs);
        }
    }
    node(c, call, outs)
}

/// Runs what a call that layouts are chosen for does inside: its own calls are not counted.
fn within_call<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    with_trace(|t| {
        t.inside_calls += 1;
        Ok(())
    })?;
    let done = f();
    with_trace(|t| {
        t.inside_calls -= 1;
        Ok(())
    })?;
    done
}

/// The thread's state in which this layer is the highest: those above have had their turn.
fn this_and_below() -> Tls {
    let t = tls();
    Tls { on: t.on, allowed: t.allowed & ((2 << bit::LAZY) - 1) }
}

/// Records one node, or the composition where no kernel takes these layouts.
fn node(c: &Call<'_>, call: Option<(String, usize)>, outs: &mut Outs) -> Result<()> {
    if !can_lower(c, outs)? {
        outs.clear();
        return within_call(|| compose(c, outs));
    }
    with_trace(|t| {
        t.record(c.op, c.args, c.ins, outs.tensors())?;
        t.note_call(call.filter(|_| matches!(c.dest, Dest::Fresh)));
        Ok(())
    })?;
    into_dest(c, outs)
}

fn compose(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let Some(f) = oneflow_core::instead(c) else {
        return Err(Error::not_implemented(format!("\"{}\" is not implemented for {}", c.name(), c.describe())));
    };
    {
        let _guard = with_tls(this_and_below());
        f(&Call { dest: Dest::Fresh, ..*c }, outs)?;
    }
    into_dest(c, outs)
}

/// Work on the host: composed of traced ops, or memory without values.
fn host(c: &Call<'_>, f: fn(&Call<'_>, &mut Outs) -> Result<()>, outs: &mut Outs) -> Result<()> {
    {
        let _guard = with_tls(this_and_below());
        f(&Call { dest: Dest::Fresh, ..*c }, outs).map_err(|e| e.context(format_args!("{}(): ", c.name())))?;
    }
    if outs.tensors().iter().any(|t| !t.has_key(bit::LAZY)) {
        outs.clear();
        (c.op.infer)(c, outs)?;
        with_trace(|t| t.record_empty(c.op, c.args, c.ins, outs.tensors()))?;
    }
    into_dest(c, outs)
}

/// Ops that write some of their inputs.
fn update(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    if !can_lower(c, outs)? {
        return Err(Error::not_implemented(format!("\"{}\" is not implemented for {}", c.name(), c.describe())));
    }
    let mut written: SmallVec<[usize; 8]> = SmallVec::new();
    let (mut i, mut arg) = (0, 0);
    for p in c.op.sig.params() {
        let n = c.n_inputs_of(p, arg);
        if p.written {
            written.extend(i..i + n);
        }
        i += n;
        arg += p.is_arg() as usize;
    }
    with_trace(|t| t.record_update(c.op, c.args, c.ins, &written))
}

/// In-place and `out=`: the fresh results are written into the destinations.
fn into_dest(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let Dest::Into(dest) = c.dest else { return Ok(()) };
    for (i, d) in dest.iter().enumerate() {
        let made = outs[i].clone();
        if made.sizes() != d.sizes() {
            let in_place = c.ins.iter().flatten().any(|t| t.same(d));
            return Err(Error::runtime(if in_place {
                format!(
                    "{}_(): output with shape {:?} doesn't match the broadcast shape {:?}",
                    c.name(),
                    d.sizes(),
                    made.sizes()
                )
            } else {
                format!(
                    "{}(): inside nn.Graph out= must have the result's shape {:?}, got {:?}",
                    c.name(),
                    made.sizes(),
                    d.sizes()
                )
            }));
        }
        if made.dtype().category() > d.dtype().category() {
            return Err(Error::runtime(format!(
                "{}(): result type {} can't be cast to the desired output type {}",
                c.name(),
                made.dtype().scalar_type_name(),
                d.dtype().scalar_type_name()
            )));
        }
        let (to, made) = match oneflow_core::has_internal_overlap(d) {
            false => ((*d).clone(), made),
            true => once(c, d, &made)?,
        };
        let v = value_of(&made)?;
        with_trace(|t| t.write(&to, v))?;
        d.bump_version();
        outs.set(i, (*d).clone());
    }
    Ok(())
}

/// What is written of an expanded tensor that an op fills with one value: each element of its memory once.
fn once(c: &Call<'_>, d: &Tensor, made: &Tensor) -> Result<(Tensor, Tensor)> {
    let (mut to, mut made) = (d.clone(), made.clone());
    if c.op.traits.has(Traits::FILLS) {
        let _guard = with_tls(this_and_below());
        for dim in (0..d.ndim()).filter(|&i| d.strides()[i] == 0 && d.sizes()[i] > 1) {
            (to, made) = (to.narrow(dim as i64, 0, 1)?, made.narrow(dim as i64, 0, 1)?);
        }
    }
    if oneflow_core::has_internal_overlap(&to) {
        return Err(Error::runtime(format!(
            "{}(): unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.",
            c.name()
        )));
    }
    Ok((to, made))
}
