//! A thread's autocast state: on or off and the dtype for each device type, nesting, and the cache of cast parameters.

use oneflow_base::{DType, DeviceType, Error, Result};
use oneflow_core::{Tensor, Tls, bit, tls, with_tls};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Autocast's state on this thread.
#[derive(Clone, Copy)]
pub struct State {
    enabled: u32,
    dtypes: [DType; DeviceType::MAX],
    pub cache_enabled: bool,
    nesting: u32,
}

impl State {
    const START: State = {
        let mut dtypes = [DType::BF16; DeviceType::MAX];
        dtypes[DeviceType::CUDA.0 as usize] = DType::F16;
        State { enabled: 0, dtypes, cache_enabled: true, nesting: 0 }
    };
    #[inline]
    pub fn is_enabled(&self, kind: DeviceType) -> bool {
        self.enabled >> kind.0 & 1 == 1
    }
    #[inline]
    pub fn dtype(&self, kind: DeviceType) -> DType {
        self.dtypes[kind.0 as usize]
    }
}

/// A parameter and its copy; the parameter is held so that its identity stays its own.
struct Entry {
    #[allow(dead_code)]
    of: Tensor,
    version: u32,
    copy: Tensor,
}

/// By the parameter, the dtype, and whether the cast was recorded.
type Key = (usize, DType, bool);

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::START) };
    static CACHE: RefCell<HashMap<Key, Entry>> = RefCell::new(HashMap::new());
}

/// This thread's state.
#[inline]
pub fn state() -> State {
    STATE.get()
}

fn change(f: impl FnOnce(&mut State)) {
    let mut s = STATE.get();
    f(&mut s);
    STATE.set(s);
}

pub fn is_any_enabled() -> bool {
    STATE.get().enabled != 0
}

pub fn set_enabled(kind: DeviceType, on: bool) {
    change(|s| s.enabled = s.enabled & !(1 << kind.0) | (on as u32) << kind.0);
    let (t, bit) = (tls(), 1 << bit::AUTOCAST);
    let on = if is_any_enabled() { t.on | bit } else { t.on & !bit };
    std::mem::forget(with_tls(Tls { on, ..t }));
}

pub fn set_dtype(kind: DeviceType, dtype: DType) -> Result<()> {
    if !dtype.is_float() {
        return Err(Error::runtime(format!("autocast: {dtype} is no floating dtype")));
    }
    change(|s| s.dtypes[kind.0 as usize] = dtype);
    Ok(())
}

pub fn set_cache_enabled(on: bool) {
    change(|s| s.cache_enabled = on);
}

pub fn increment_nesting() -> u32 {
    change(|s| s.nesting += 1);
    STATE.get().nesting
}

pub fn decrement_nesting() -> u32 {
    change(|s| s.nesting = s.nesting.saturating_sub(1));
    STATE.get().nesting
}

/// Forgets all copies.
pub fn clear_cache() {
    // Dropped outside the borrow: a tensor's end may run other code.
    let old = CACHE.with_borrow_mut(std::mem::take);
    drop(old);
    crate::weights::end();
}

pub(crate) fn cached(t: &Tensor, to: DType, with_grad: bool) -> Option<Tensor> {
    CACHE.with_borrow(|cache| {
        let entry = cache.get(&(t.id(), to, with_grad))?;
        (entry.version == t.version()).then(|| entry.copy.clone())
    })
}

pub(crate) fn keep(t: &Tensor, to: DType, with_grad: bool, copy: &Tensor) {
    let entry = Entry { of: t.clone(), version: t.version(), copy: copy.clone() };
    let old = CACHE.with_borrow_mut(|cache| cache.insert((t.id(), to, with_grad), entry));
    drop(old);
}
