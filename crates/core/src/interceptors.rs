//! Interceptors: what stands between autograd and the layers below it. Each sees a call after autograd has recorded it, runs it
//! or gives results of its own. Selective checkpoints keep results there and give them back; `TorchDispatchMode` is one.
//!
//! Keeps nothing itself. A thread without an interceptor does not have the layer's bit, so its calls pay nothing.

use crate::{Call, Dest, Guard, Outs, Tensor, Tls, bit, redispatch, register_layer, tls, with_tls};
use oneflow_base::{Error, Result};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Once};

/// Sees the calls of a thread.
pub trait Interceptor: Send + Sync {
    /// Stands for a call, which `run` runs, at most once. Returns the results, or `None` for those that running it gives.
    fn around(&self, c: &Call<'_>, run: &mut dyn FnMut() -> Result<Vec<Tensor>>) -> Result<Option<Vec<Tensor>>>;
}

thread_local! {
    static INTERCEPTORS: RefCell<Vec<Arc<dyn Interceptor>>> = const { RefCell::new(Vec::new()) };
    /// How many of them may still see the call: an interceptor does not see what it calls itself.
    static ACTIVE: Cell<usize> = const { Cell::new(0) };
}

/// Lets `interceptor` see the calls of this thread, before those that were pushed earlier.
pub fn push_interceptor(interceptor: Arc<dyn Interceptor>) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| register_layer(bit::INTERCEPT, intercept));
    INTERCEPTORS.with_borrow_mut(|l| l.push(interceptor));
    set_active(INTERCEPTORS.with_borrow(Vec::len));
}

/// Ends the latest `push_interceptor`.
pub fn pop_interceptor() {
    let gone = INTERCEPTORS.with_borrow_mut(Vec::pop);
    set_active(INTERCEPTORS.with_borrow(Vec::len));
    drop(gone);
}

fn set_active(n: usize) {
    ACTIVE.set(n);
    let t = tls();
    let on = if n > 0 { t.on | 1 << bit::INTERCEPT } else { t.on & !(1 << bit::INTERCEPT) };
    // For good: until the next push or pop.
    std::mem::forget(with_tls(Tls { on, ..t }));
}

/// Only the first `n` interceptors see calls, until dropped.
struct Fewer {
    before: usize,
    _tls: Guard,
}

impl Fewer {
    fn new(n: usize) -> Fewer {
        let t = tls();
        let on = if n > 0 { t.on | 1 << bit::INTERCEPT } else { t.on & !(1 << bit::INTERCEPT) };
        Fewer { before: ACTIVE.replace(n), _tls: with_tls(Tls { on, ..t }) }
    }
}

impl Drop for Fewer {
    fn drop(&mut self) {
        ACTIVE.set(self.before);
    }
}

fn intercept(c: &Call<'_>, below: u32, outs: &mut Outs) -> Result<()> {
    let n = ACTIVE.get();
    let interceptor = n.checked_sub(1).and_then(|i| INTERCEPTORS.with_borrow(|l| l.get(i).cloned()));
    let Some(interceptor) = interceptor else { return redispatch(c, below, outs) };
    let _fewer = Fewer::new(n - 1);
    let more = if n > 1 { 1 << bit::INTERCEPT } else { 0 };
    let mut made: Option<Outs> = None;
    let found = interceptor.around(c, &mut || {
        if made.is_some() {
            return Err(Error::runtime(format!("{}(): an interceptor runs a call once", c.name())));
        }
        let mut results = Outs::new();
        redispatch(c, below | more, &mut results)?;
        Ok(made.insert(results).tensors().to_vec())
    })?;
    match (found, made) {
        (None, None) => redispatch(c, below | more, outs)?,
        (None, Some(made)) => *outs = made,
        (Some(found), made) => match (c.dest, made) {
            (Dest::Fresh, _) => found.into_iter().for_each(|t| outs.give(t)),
            // What was to be written is in its place, or the interceptor wants it unwritten.
            (Dest::Into(_), Some(made)) => *outs = made,
            (Dest::Into(dest), None) => dest.iter().for_each(|t| outs.give((*t).clone())),
        },
    }
    Ok(())
}
