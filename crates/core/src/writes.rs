//! What happens before a call writes a tensor. A thread's listener hears of it, so that what is saved for backward can be
//! copied first; and a transform of functions refuses writes to tensors that its function only captured.
//!
//! Copies nothing itself. With neither on any thread a call pays one relaxed load.

use crate::{Call, Dest, Tensor, Traits};
use oneflow_base::{Error, Result};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Called with the tensor that an op is about to write.
pub type BeforeWrite = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

thread_local! {
    static LISTENER: RefCell<Option<BeforeWrite>> = const { RefCell::new(None) };
    /// Storages of earlier generations may not be written.
    static OLDEST: Cell<u64> = const { Cell::new(0) };
}

/// Listeners and limits that threads have.
static WATCHES: AtomicUsize = AtomicUsize::new(0);

fn count(was: bool, now: bool) {
    match (was, now) {
        (false, true) => _ = WATCHES.fetch_add(1, Ordering::Relaxed),
        (true, false) => _ = WATCHES.fetch_sub(1, Ordering::Relaxed),
        _ => {}
    }
}

/// Makes `listener` hear of the writes of this thread (`None`: nobody).
pub fn set_before_write(listener: Option<BeforeWrite>) {
    let now = listener.is_some();
    let was = LISTENER.replace(listener).is_some();
    count(was, now);
}

/// From now on this thread's ops fail where they would write a storage of a generation before `oldest` (0: none does). Returns
/// the former limit.
pub fn refuse_writes_before(oldest: u64) -> u64 {
    let was = OLDEST.replace(oldest);
    count(was != 0, oldest != 0);
    was
}

/// Tells this thread's listener what the call is about to write, and refuses what it may not.
#[inline]
pub(crate) fn before_write(c: &Call<'_>) -> Result<()> {
    if WATCHES.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    tell(c)
}

#[cold]
fn tell(c: &Call<'_>) -> Result<()> {
    // Not borrowed during the call: the listener runs ops of its own.
    let (listener, oldest) = (LISTENER.with_borrow(Clone::clone), OLDEST.get());
    let each = |t: &Tensor| {
        if t.storage().is_some_and(|s| s.generation() < oldest) {
            return Err(Error::runtime(format!(
                "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation ({}) that would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to explicitly accept the mutated Tensor(s) as inputs. (shape {:?}, dtype {})",
                c.name(),
                t.sizes(),
                t.dtype()
            )));
        }
        listener.as_ref().map_or(Ok(()), |f| f(t))
    };
    if let Dest::Into(dest) = c.dest {
        dest.iter().try_for_each(|t| each(t))?;
    }
    if c.op.traits.has(Traits::MUTATES) {
        written(c).try_for_each(each)?;
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
