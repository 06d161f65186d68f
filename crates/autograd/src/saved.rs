//! Tensors kept for backward: as they are, or as what the user's hooks made of them.
//!
//! Knows nothing of what the hooks do with a tensor (other memory, recomputation).

use oneflow_base::{Error, Result};
use oneflow_core::{Tensor, bit};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Brings a packed tensor back.
pub type Unpack = Arc<dyn Fn() -> Result<Tensor> + Send + Sync>;
/// Takes a tensor that is to be kept, and says how to bring it back.
pub type Pack = Arc<dyn Fn(&Tensor) -> Result<Unpack> + Send + Sync>;

#[derive(Default)]
struct Hooks {
    stack: Vec<Pack>,
    /// Why hooks may not be used now.
    refused: Option<String>,
}

thread_local! {
    static HOOKS: RefCell<Hooks> = const { RefCell::new(Hooks { stack: Vec::new(), refused: None }) };
}

/// Hooks in use on any thread: where there are none, nothing else is asked.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Packs whatever this thread keeps for backward from now on.
pub fn push_saved_hooks(pack: Pack) -> Result<()> {
    HOOKS.with_borrow_mut(|h| {
        if let Some(why) = &h.refused {
            return Err(Error::runtime(why.clone()));
        }
        h.stack.push(pack);
        IN_USE.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

/// Ends the latest `push_saved_hooks`.
pub fn pop_saved_hooks() {
    let gone = HOOKS.with_borrow_mut(|h| h.stack.pop());
    if gone.is_some() {
        IN_USE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Puts the hooks of this thread back as they were, when dropped: those that a backward meets may enter or leave others.
pub(crate) struct SameHooks(Vec<Pack>);

impl SameHooks {
    pub fn new() -> SameHooks {
        let none = IN_USE.load(Ordering::Relaxed) == 0;
        SameHooks(if none { Vec::new() } else { HOOKS.with_borrow(|h| h.stack.clone()) })
    }
}

impl Drop for SameHooks {
    fn drop(&mut self) {
        if self.0.is_empty() && IN_USE.load(Ordering::Relaxed) == 0 {
            return;
        }
        let before = std::mem::take(&mut self.0);
        IN_USE.fetch_add(before.len(), Ordering::Relaxed);
        let gone = HOOKS.with_borrow_mut(|h| std::mem::replace(&mut h.stack, before));
        IN_USE.fetch_sub(gone.len(), Ordering::Relaxed);
    }
}

/// Refuses hooks on this thread with this text (`None`: allows them again). Returns what was said before.
pub fn refuse_saved_hooks(why: Option<String>) -> Result<Option<String>> {
    HOOKS.with_borrow_mut(|h| match &why {
        Some(text) if !h.stack.is_empty() => Err(Error::runtime(text.clone())),
        _ => Ok(std::mem::replace(&mut h.refused, why)),
    })
}

#[cold]
fn packer() -> Option<Pack> {
    HOOKS.with_borrow(|h| h.stack.last().cloned())
}

/// One kept tensor. Two words: every recorded op carries some.
#[derive(Clone)]
pub struct Kept(Value);

#[derive(Clone)]
enum Value {
    Plain { tensor: Tensor, version: u32 },
    Packed(Arc<Unpack>),
}

impl Kept {
    #[inline]
    pub fn new(tensor: Tensor) -> Result<Kept> {
        if IN_USE.load(Ordering::Relaxed) != 0
            && let Some(pack) = packer()
        {
            // What has no history is packed as the object that it is.
            let given = if tensor.has_key(bit::AUTOGRAD) { tensor.shallow() } else { tensor };
            let version = given.version();
            let unpack = pack(&given)?;
            if given.version() != version {
                return Err(Error::runtime(
                    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not be modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you need to perform in-place operations on the input to a pack hook.",
                ));
            }
            return Ok(Kept(Value::Packed(Arc::new(unpack))));
        }
        let version = tensor.version();
        Ok(Kept(Value::Plain { tensor, version }))
    }

    /// The tensor if it was kept as it is, and the version it should have.
    #[inline]
    pub fn plain(&self) -> Option<(&Tensor, u32)> {
        match &self.0 {
            Value::Plain { tensor, version } => Some((tensor, *version)),
            Value::Packed(_) => None,
        }
    }

    /// The tensor. One that had to be brought back has no history: `relink` gives it one, where it should have one.
    #[inline]
    pub fn open(self, relink: Option<impl FnOnce(&Tensor)>) -> Result<Tensor> {
        match (self.0, relink) {
            (Value::Plain { tensor, .. }, _) => Ok(tensor),
            (Value::Packed(unpack), Some(relink)) => {
                let t = unpack()?.shallow();
                relink(&t);
                Ok(t)
            }
            (Value::Packed(unpack), None) => {
                let t = unpack()?;
                Ok(if t.has_key(bit::AUTOGRAD) { t.shallow() } else { t })
            }
        }
    }

    /// Refuses a tensor that was written since. `what` says what it is.
    #[inline]
    pub fn check_version(&self, what: impl FnOnce() -> String) -> Result<()> {
        match self.plain() {
            Some((t, version)) if t.version() != version => Err(written(t, version, &what())),
            _ => Ok(()),
        }
    }
}

/// A kept tensor was written since.
#[cold]
fn written(t: &Tensor, version: u32, what: &str) -> Error {
    Error::runtime(format!(
        "one of the variables needed for gradient computation has been modified by an inplace operation: [{} {:?}], which is {what}, is at version {}; expected version {version} instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with oneflow.autograd.set_detect_anomaly(True).",
        t.dtype(),
        t.sizes(),
        t.version(),
    ))
}
