//! A listener that hears of each write to a tensor before it happens: what is saved for backward can then be copied first.
//!
//! Copies nothing and decides nothing itself. Without a listener on any thread a call pays one relaxed load.

use crate::{Call, Dest, Tensor, Traits};
use oneflow_base::Result;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Called with the tensor that an op is about to write.
pub type BeforeWrite = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

thread_local! {
    static LISTENER: RefCell<Option<BeforeWrite>> = const { RefCell::new(None) };
}

/// Threads that have a listener.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

/// Makes `listener` hear of the writes of this thread (`None`: nobody).
pub fn set_before_write(listener: Option<BeforeWrite>) {
    let now = listener.is_some();
    let was = LISTENER.replace(listener).is_some();
    match (was, now) {
        (false, true) => _ = LISTENERS.fetch_add(1, Ordering::Relaxed),
        (true, false) => _ = LISTENERS.fetch_sub(1, Ordering::Relaxed),
        _ => {}
    }
}

/// Tells this thread's listener what the call is about to write.
#[inline]
pub(crate) fn before_write(c: &Call<'_>) -> Result<()> {
    if LISTENERS.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    tell(c)
}

#[cold]
fn tell(c: &Call<'_>) -> Result<()> {
    // Not borrowed during the call: the listener runs ops of its own.
    let Some(listener) = LISTENER.with_borrow(Clone::clone) else { return Ok(()) };
    if let Dest::Into(dest) = c.dest {
        dest.iter().try_for_each(|t| listener(t))?;
    }
    if c.op.traits.has(Traits::MUTATES) {
        written(c).try_for_each(|t| listener(t))?;
    }
    Ok(())
}

/// The inputs that the op itself writes.
pub(crate) fn written<'a>(c: &'a Call<'_>) -> impl Iterator<Item = &'a Tensor> {
    let (mut i, mut arg) = (0, 0);
    c.op.sig.params().iter().flat_map(move |p| {
        let n = c.n_inputs_of(p, arg);
        let ins = if p.written { &c.ins[i..i + n] } else { &[] };
        i += n;
        arg += p.is_arg() as usize;
        ins.iter().flatten().copied()
    })
}
