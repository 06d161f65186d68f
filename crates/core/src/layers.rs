//! The layer stack: a bit per layer, the highest active one runs and passes the bits below it on.
//!
//! Dispatch is the only way an op happens.

use crate::watch::watched;
use crate::{Call, Dest, Outs, Tensor, local};
use oneflow_base::{Error, Result};
use std::cell::Cell;
use std::sync::OnceLock;

/// Layer bits, from the bottom up.
pub mod bit {
    pub const LOCAL: u32 = 0;
    pub const META: u32 = 1;
    pub const SPARSE: u32 = 2;
    pub const GLOBAL: u32 = 3;
    pub const LAZY: u32 = 4;
    /// Tensors of a class that answers ops itself, below autograd. No thread leaves it out: such tensors may have no memory.
    pub const SUBCLASS: u32 = 5;
    /// Batches of `vmap`.
    pub const BATCH: u32 = 6;
    /// Interceptors of this thread. On by `Tls::on`.
    pub const INTERCEPT: u32 = 7;
    pub const AUTOGRAD: u32 = 8;
    pub const AUTOCAST: u32 = 9;
    /// The profiler. On by `set_watching`, for all threads.
    pub const WATCH: u32 = 10;
}

/// A layer: does its part and calls `redispatch` with the bits below it.
pub type LayerFn = fn(&Call<'_>, u32, &mut Outs) -> Result<()>;

const N_LAYERS: usize = 11;
static LAYERS: [OnceLock<LayerFn>; N_LAYERS] = [const { OnceLock::new() }; N_LAYERS];

/// Puts a layer into the stack. Once a layer, at start-up.
pub fn register_layer(bit: u32, f: LayerFn) {
    let _ = LAYERS[bit as usize].set(f);
}

/// The registered layer.
pub fn layer(bit: u32) -> Option<LayerFn> {
    LAYERS.get(bit as usize)?.get().copied()
}

/// A thread's part in dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Layers on for every call (tracing, autocast).
    pub on: u32,
    /// Layers that may run at all (`no_grad` clears autograd).
    pub allowed: u32,
}

thread_local! {
    static TLS: Cell<Tls> = const { Cell::new(Tls { on: 0, allowed: u32::MAX }) };
}

#[inline]
pub fn tls() -> Tls {
    TLS.get()
}

/// Sets the thread's state until the guard is dropped.
pub fn with_tls(new: Tls) -> Guard {
    let old = TLS.replace(new);
    Guard { old, _not_send: std::marker::PhantomData }
}

/// Restores the thread's state when dropped.
pub struct Guard {
    old: Tls,
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        TLS.set(self.old);
    }
}

/// Runs an op from the top of the stack.
#[inline]
pub fn dispatch(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let tls = TLS.get();
    let mut bits = tls.on | watched() | (c.op.keys)(c.args);
    for t in c.ins.iter().flatten() {
        bits |= t.keys();
    }
    if let Dest::Into(dest) = c.dest {
        for t in dest {
            bits |= t.keys();
        }
    }
    redispatch(c, bits & (tls.allowed | 1 << bit::SUBCLASS), outs)
}

/// Runs the highest of `bits`.
#[inline]
pub fn redispatch(c: &Call<'_>, bits: u32, outs: &mut Outs) -> Result<()> {
    if bits <= 1 << bit::LOCAL {
        return local::local(c, bits, outs);
    }
    let top = 31 - bits.leading_zeros();
    let below = bits & !(1 << top);
    match top {
        bit::META => local::local(c, below, outs),
        _ => match LAYERS.get(top as usize).and_then(OnceLock::get) {
            Some(f) => f(c, below, outs),
            None => Err(Error::runtime(format!("{}(): layer {top} is not registered", c.name()))),
        },
    }
}

/// Runs an op with one result.
#[inline]
pub fn dispatch_one(c: &Call<'_>) -> Result<Tensor> {
    let mut outs = Outs::new();
    dispatch(c, &mut outs)?;
    outs.into_tensors().pop().ok_or_else(|| Error::runtime(format!("{}(): gave no result", c.name())))
}
