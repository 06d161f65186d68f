//! Autocast: the layer that chooses the dtype an op computes in, by the op's own `amp` field.
//!
//! It casts floating inputs and passes the call on; results keep the dtype they come in. An op that follows its inputs
//! is left alone, and what it is composed of is seen here again. Names no op, and holds no list of ops.

mod state;
mod weights;

pub use state::{
    State, clear_cache, decrement_nesting, increment_nesting, is_any_enabled, set_cache_enabled, set_dtype,
    set_enabled, state,
};
pub use weights::note_wait;

use oneflow_autograd::{is_grad_enabled, is_leaf, requires_grad};
use oneflow_base::{DType, DeviceType, Result};
use oneflow_core::{
    Amp, AmpCast, Call, Dest, Grad, Kernel, Outs, Tensor, Tls, bit, redispatch, register_layer, tls, with_tls,
};
use oneflow_ops::TensorOps;
use smallvec::SmallVec;

/// Puts the layer into the stack.
pub fn register() {
    register_layer(bit::AUTOCAST, autocast);
}

fn autocast(c: &Call<'_>, below: u32, outs: &mut Outs) -> Result<()> {
    // A destination fixes the dtype already.
    if matches!(c.dest, Dest::Into(_)) {
        return redispatch(c, below, outs);
    }
    let now = state();
    let on = |c: &Call<'_>| c.ins.iter().flatten().map(|t| t.device().kind).find(|k| now.is_enabled(*k));
    let kind = if c.op.amp == Amp::FOLLOW { None } else { on(c) };
    let (kind, cast) = match kind.map(|k| (k, c.op.amp.on(k))) {
        Some((kind, cast)) if cast != AmpCast::Follow => (kind, cast),
        // Below they would be composed out of this layer's sight.
        _ => {
            return match (c.op.compose, c.op.kernel, c.op.grad) {
                (Some(f), Kernel::None, Grad::Compose) => f(c, outs),
                _ => redispatch(c, below, outs),
            };
        }
    };
    let lower = now.dtype(kind);
    let wide = || c.ins.iter().flatten().any(|t| is_eligible(t, kind) && t.dtype() == DType::F32);
    let target = match cast {
        AmpCast::Widest if wide() => DType::F32,
        AmpCast::Float32 => DType::F32,
        _ => lower,
    };
    // What the op is made of has its dtype already.
    let t = tls();
    let _guard = with_tls(Tls { on: t.on & !(1 << bit::AUTOCAST), ..t });
    if !c.ins.iter().flatten().any(|t| is_eligible(t, kind) && t.dtype() != target) {
        return redispatch(c, below, outs);
    }
    let cast = cast_all(c.ins, target, &now, kind)?;
    let ins: SmallVec<[Option<&Tensor>; 4]> = c.ins.iter().zip(&cast).map(|(old, new)| new.as_ref().or(*old)).collect();
    redispatch(&Call { ins: &ins, ..*c }, below, outs)
}

/// Floating, not float64, and on the device kind.
#[inline]
fn is_eligible(t: &Tensor, kind: DeviceType) -> bool {
    t.dtype().is_float() && t.dtype() != DType::F64 && t.device().kind == kind
}

type Casts = SmallVec<[Option<Tensor>; 4]>;

/// The inputs that have to be cast in the other dtype. Parameters are cast once while autocast is on.
fn cast_all(ins: &[Option<&Tensor>], to: DType, now: &State, kind: DeviceType) -> Result<Casts> {
    let with_grad = is_grad_enabled();
    let mut cast = Casts::from_elem(None, ins.len());
    let mut leaves: SmallVec<[usize; 4]> = SmallVec::new();
    for (i, t) in ins.iter().enumerate() {
        let Some(t) = t.filter(|t| is_eligible(t, kind) && t.dtype() != to) else { continue };
        if !may_keep(t, to, now, kind) {
            cast[i] = Some(t.to_copy_with(Some(to), None)?);
            continue;
        }
        cast[i] = state::cached(t, to, with_grad);
        if cast[i].is_none() {
            leaves.push(i);
        }
    }
    let tensors: SmallVec<[&Tensor; 4]> = leaves.iter().filter_map(|i| ins[*i]).collect();
    if tensors.is_empty() {
        return Ok(cast);
    }
    let made = match weights::cast(&tensors, to)? {
        Some(made) => made,
        None => tensors.iter().map(|t| t.to_copy_with(Some(to), None)).collect::<Result<_>>()?,
    };
    for ((i, t), made) in leaves.iter().zip(tensors).zip(made) {
        state::keep(t, to, with_grad, &made);
        cast[*i] = Some(made);
    }
    Ok(cast)
}

/// Whether the copy may serve later calls of the region.
fn may_keep(t: &Tensor, to: DType, now: &State, kind: DeviceType) -> bool {
    // A traced cast is a node: it must not outlive its trace, and equal ones are merged there.
    now.cache_enabled
        && to == now.dtype(kind)
        && t.dtype() == DType::F32
        && t.base().is_none()
        && requires_grad(t)
        && is_leaf(t)
        && tls().on >> bit::LAZY & 1 == 0
}
