//! The tensor: a cheap intrusive handle to layout, storage, an autograd slot and the identity of its Python object.
//!
//! No arithmetic here: every op, also the methods one thinks of as built in, goes through dispatch.

use crate::{Storage, bit};
use oneflow_base::{DType, Device, Dims, Error, Meta, Result, contiguous_strides, is_contiguous, numel};
use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};

/// A handle. Cloning counts a reference; dropping the last one frees the tensor.
pub struct Tensor(NonNull<Impl>);

/// A layer's data on a tensor of its world: a global tensor's placement and shard, a traced tensor's value.
pub trait Ext: Any + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    /// Version of the data if the tensor has no storage of its own (a traced value's alias group).
    fn version(&self) -> u32 {
        0
    }
    fn bump_version(&self) {}
}

/// The autograd crate's state of a tensor. Opaque here.
pub type TensorSlot = Option<Box<dyn Any + Send>>;

struct Impl {
    /// Reference count times two, plus `HAS_PY` while a Python object represents this tensor.
    rc: AtomicUsize,
    py: AtomicPtr<()>,
    keys: AtomicU32,
    flags: AtomicU8,
    slot_lock: AtomicU8,
    body: UnsafeCell<Body>,
    slot: UnsafeCell<TensorSlot>,
}

struct Body {
    dtype: DType,
    device: Device,
    sizes: Dims,
    strides: Dims,
    offset: i64,
    numel: i64,
    contiguous: bool,
    storage: Option<Storage>,
    /// The tensor this one is a view of: never a view itself.
    base: Option<Tensor>,
    ext: Option<Arc<dyn Ext>>,
}

const HAS_PY: usize = 1;
const ONE: usize = 2;
const ONE_WITH_PY: usize = ONE | HAS_PY;

const NO_VERSION: u8 = 1;
const INFERENCE: u8 = 2;
const MULTI_VIEW: u8 = 4;
const NO_GRAD_VIEW: u8 = 8;
const FOREIGN_VIEW: u8 = 16;
const INFERENCE_VIEW: u8 = 32;

// SAFETY: counts and keys are atomic, the slot has its lock, and the body is replaced only through `set_body_from`, whose
// callers hold the language's global lock or own the only handle. Threads that run without that lock own the tensors they
// read, or read copies that were made under it (`release.rs`).
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

/// How the language above keeps its object alive while Rust holds the tensor.
#[derive(Clone, Copy)]
pub struct PyHooks {
    pub incref: unsafe fn(*mut ()),
    pub decref: unsafe fn(*mut ()),
}

static HOOKS: OnceLock<PyHooks> = OnceLock::new();

/// Installs the hooks; called once by the binding.
pub fn set_py_hooks(hooks: PyHooks) {
    let _ = HOOKS.set(hooks);
}

impl Tensor {
    /// A tensor that has a meta and nothing else yet. The layer that owns its world fills it.
    #[inline]
    pub fn shell(dtype: DType, device: Device, sizes: Dims, strides: Dims) -> Result<Tensor> {
        let n = numel(&sizes)?;
        if n < 0 || sizes.iter().any(|s| *s < 0) {
            return Err(Error::runtime(format!(
                "Trying to create tensor with negative dimension: {:?}",
                sizes.as_slice()
            )));
        }
        if n.checked_mul(dtype.size() as i64).is_none() {
            return Err(Error::runtime(format!(
                "Storage size calculation overflowed with sizes={:?}",
                sizes.as_slice()
            )));
        }
        // Sizes without elements may still be too large for strides.
        if n == 0 && sizes.iter().skip(1).try_fold(1i64, |p, s| p.checked_mul((*s).max(1))).is_none() {
            return Err(Error::runtime(format!("Stride calculation overflowed with sizes={:?}", sizes.as_slice())));
        }
        let contiguous = is_contiguous(&sizes, &strides);
        let keys = if device.is_meta() { 1 << bit::META } else { 1 << bit::LOCAL };
        Ok(Self::alloc(
            Body {
                dtype,
                device,
                sizes,
                strides,
                offset: 0,
                numel: n,
                contiguous,
                storage: None,
                base: None,
                ext: None,
            },
            keys,
        ))
    }

    fn alloc(body: Body, keys: u32) -> Tensor {
        let b = Box::new(Impl {
            rc: AtomicUsize::new(ONE),
            py: AtomicPtr::new(std::ptr::null_mut()),
            keys: AtomicU32::new(keys),
            flags: AtomicU8::new(0),
            slot_lock: AtomicU8::new(0),
            body: UnsafeCell::new(body),
            slot: UnsafeCell::new(None),
        });
        Tensor(NonNull::from(Box::leak(b)))
    }

    /// A contiguous, uninitialised tensor.
    pub fn empty(dtype: DType, device: Device, sizes: &[i64]) -> Result<Tensor> {
        let t = Self::shell(dtype, device, Dims::from_slice(sizes), contiguous_strides(sizes))?;
        t.materialize()?;
        Ok(t)
    }

    /// Gives a fresh shell storage for exactly its elements.
    #[inline]
    pub fn materialize(&self) -> Result<()> {
        let b = self.body();
        if b.device.is_meta() || b.storage.is_some() {
            return Ok(());
        }
        let storage = Storage::new(b.device, self.end_of_bytes()?)?;
        // SAFETY: a shell is not shared yet.
        unsafe { (*self.inner().body.get()).storage = Some(storage) };
        Ok(())
    }

    /// Bytes from the start of the storage to the end of the last element.
    pub fn end_of_bytes(&self) -> Result<usize> {
        let b = self.body();
        let elements = match span(&b.sizes, &b.strides)? {
            0 => Some(0),
            n => n.checked_add(b.offset as usize),
        };
        let bytes = elements.and_then(|n| n.checked_mul(b.dtype.size())).filter(|n| i64::try_from(*n).is_ok());
        bytes.ok_or_else(|| size_overflow(&b.sizes, &b.strides))
    }

    /// A tensor over existing storage. The view must lie inside it, at addresses that the dtype may have.
    pub fn from_storage(storage: Storage, dtype: DType, sizes: Dims, strides: Dims, offset: i64) -> Result<Tensor> {
        let t = Self::shell(dtype, storage.device(), sizes, strides)?;
        t.check_inside(&storage, offset)?;
        if t.numel() > 0 {
            check_aligned(storage.ptr(), dtype)?;
        }
        // SAFETY: the tensor was made here and is not shared yet.
        let b = unsafe { &mut *t.inner().body.get() };
        b.offset = offset;
        // A meta tensor has sizes and no storage.
        b.storage = Some(storage).filter(|s| !s.device().is_meta());
        Ok(t)
    }

    fn check_inside(&self, storage: &Storage, offset: i64) -> Result<()> {
        let b = self.body();
        let reach = || -> Option<(i64, i64)> {
            let (mut lo, mut hi) = (offset, offset);
            for (n, s) in b.sizes.iter().zip(&b.strides) {
                let reach = (n - 1).max(0).checked_mul(*s)?;
                if reach < 0 { lo = lo.checked_add(reach)? } else { hi = hi.checked_add(reach)? }
            }
            Some((lo, hi.checked_add(1)?.checked_mul(b.dtype.size() as i64)?))
        };
        let inside = |(lo, end): (i64, i64)| b.numel == 0 || lo >= 0 && end <= storage.bytes() as i64;
        if offset < 0 || !reach().is_some_and(inside) {
            return Err(outside(self, storage, offset));
        }
        Ok(())
    }

    /// An error if the storage has been made too small for this tensor (`untyped_storage().resize_(0)`).
    #[inline]
    pub fn check_memory(&self) -> Result<()> {
        match self.storage() {
            Some(s) if s.is_cut() => self.check_cut(s),
            _ => Ok(()),
        }
    }

    #[cold]
    fn check_cut(&self, s: &Storage) -> Result<()> {
        self.check_inside(s, self.offset()).map_err(|_| {
            Error::runtime(format!(
                "The tensor has a non-zero number of elements, but its data is not allocated: shape {:?} of {} at storage offset {} does not fit the {} bytes to which its storage was resized",
                self.sizes(),
                self.dtype(),
                self.offset(),
                s.bytes()
            ))
        })
    }

    /// A contiguous host tensor with a copy of these elements.
    ///
    /// # Safety
    /// `T` is the Rust type of `dtype` (same size, any bit pattern allowed).
    pub unsafe fn from_host<T: Copy>(data: &[T], dtype: DType, sizes: &[i64]) -> Result<Tensor> {
        if std::mem::size_of::<T>() != dtype.size() || numel(sizes)? != data.len() as i64 {
            return Err(Error::value(format!("{} elements of {dtype} do not fill shape {sizes:?}", data.len())));
        }
        let t = Self::empty(dtype, Device::CPU, sizes)?;
        // SAFETY: the new storage holds exactly these elements, and host memory is written directly.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr().cast::<u8>(), t.data_ptr(), std::mem::size_of_val(data)) };
        Ok(t)
    }

    #[inline]
    fn inner(&self) -> &Impl {
        // SAFETY: a handle holds a reference, so the pointee is alive.
        unsafe { self.0.as_ref() }
    }
    #[inline]
    fn body(&self) -> &Body {
        // SAFETY: replaced only through `set_body_from`, see the note at `Send`.
        unsafe { &*self.inner().body.get() }
    }
    #[inline]
    pub fn dtype(&self) -> DType {
        self.body().dtype
    }
    #[inline]
    pub fn device(&self) -> Device {
        self.body().device
    }
    /// The logical sizes (of a global tensor: of the whole).
    #[inline]
    pub fn sizes(&self) -> &[i64] {
        &self.body().sizes
    }
    /// Strides in elements.
    #[inline]
    pub fn strides(&self) -> &[i64] {
        &self.body().strides
    }
    /// First element, in elements from the storage's start.
    #[inline]
    pub fn offset(&self) -> i64 {
        self.body().offset
    }
    #[inline]
    pub fn numel(&self) -> i64 {
        self.body().numel
    }
    #[inline]
    pub fn ndim(&self) -> usize {
        self.body().sizes.len()
    }
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.body().contiguous
    }
    #[inline]
    pub fn storage(&self) -> Option<&Storage> {
        self.body().storage.as_ref()
    }
    pub fn meta(&self) -> Meta {
        let b = self.body();
        Meta { dtype: b.dtype, device: b.device, sizes: b.sizes.clone(), strides: b.strides.clone() }
    }
    /// Address of the first element; null without storage.
    #[inline]
    pub fn data_ptr(&self) -> *mut u8 {
        let b = self.body();
        match &b.storage {
            Some(s) => s.ptr().wrapping_offset(b.offset as isize * b.dtype.size() as isize),
            None => std::ptr::null_mut(),
        }
    }
    /// Returns true if two handles name the same tensor.
    #[inline]
    pub fn same(&self, other: &Tensor) -> bool {
        self.0 == other.0
    }
    /// An address that identifies the tensor while it lives.
    #[inline]
    pub fn id(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Layer bits of this tensor. A view takes part in gradients as soon as its base does.
    #[inline]
    pub fn keys(&self) -> u32 {
        let own = self.own_keys();
        match &self.body().base {
            None => own,
            Some(base) => own | self.inherited_keys(base),
        }
    }
    #[inline]
    fn own_keys(&self) -> u32 {
        self.inner().keys.load(Ordering::Relaxed)
    }
    #[inline]
    fn inherited_keys(&self, base: &Tensor) -> u32 {
        let grad = base.own_keys() & (1 << bit::AUTOGRAD);
        if grad != 0 && self.dtype().is_differentiable() { grad } else { 0 }
    }
    pub fn set_key(&self, bit: u32, on: bool) {
        if on {
            self.inner().keys.fetch_or(1 << bit, Ordering::Relaxed);
        } else {
            self.inner().keys.fetch_and(!(1 << bit), Ordering::Relaxed);
        }
    }
    #[inline]
    pub fn has_key(&self, bit: u32) -> bool {
        self.keys() & (1 << bit) != 0
    }

    /// Version of the data; of the layer's payload for tensors without storage.
    #[inline]
    pub fn version(&self) -> u32 {
        match (self.storage(), &self.body().ext) {
            (Some(s), _) => s.version(),
            (None, Some(e)) => e.version(),
            (None, None) => 0,
        }
    }
    /// Called by the writer of the data. `.data` and its views do not count.
    #[inline]
    pub fn bump_version(&self) {
        if self.inner().flags.load(Ordering::Relaxed) & NO_VERSION != 0 {
            return self.storage().into_iter().for_each(Storage::bump_uncounted);
        }
        match (self.storage(), &self.body().ext) {
            (Some(s), _) => s.bump_version(),
            (None, Some(e)) => e.bump_version(),
            (None, None) => {}
        }
    }
    /// Makes writes through this tensor and its views invisible to the version counter (`.data`).
    pub fn hide_version(&self) {
        self.inner().flags.fetch_or(NO_VERSION, Ordering::Relaxed);
    }
    pub fn is_inference(&self) -> bool {
        self.inner().flags.load(Ordering::Relaxed) & INFERENCE != 0
    }
    pub fn set_inference(&self) {
        self.inner().flags.fetch_or(INFERENCE, Ordering::Relaxed);
    }

    /// Returns true if the tensor is one of several views that one call created (or a view of such a one).
    pub fn is_multi_view(&self) -> bool {
        self.inner().flags.load(Ordering::Relaxed) & MULTI_VIEW != 0
    }
    pub fn set_multi_view(&self) {
        self.inner().flags.fetch_or(MULTI_VIEW, Ordering::Relaxed);
    }
    /// Clears the mark of views that one call created: the caller ensures that they do not overlap.
    pub fn clear_multi_view(&self) {
        self.inner().flags.fetch_and(!MULTI_VIEW, Ordering::Relaxed);
    }
    /// Returns true if the view was created while nothing was recorded (or is a view of such a one).
    pub fn is_no_grad_view(&self) -> bool {
        self.inner().flags.load(Ordering::Relaxed) & NO_GRAD_VIEW != 0
    }
    pub fn set_no_grad_view(&self) {
        self.inner().flags.fetch_or(NO_GRAD_VIEW, Ordering::Relaxed);
    }

    /// Returns true if a `no_grad` view was created in inference mode.
    pub fn is_inference_view(&self) -> bool {
        self.inner().flags.load(Ordering::Relaxed) & INFERENCE_VIEW != 0
    }
    pub fn set_inference_view(&self) {
        self.inner().flags.fetch_or(INFERENCE_VIEW, Ordering::Relaxed);
    }

    /// Returns true if the view came out of a function whose backward the user wrote (or is a view of such a one).
    pub fn is_foreign_view(&self) -> bool {
        self.inner().flags.load(Ordering::Relaxed) & FOREIGN_VIEW != 0
    }
    pub fn set_foreign_view(&self) {
        self.inner().flags.fetch_or(FOREIGN_VIEW, Ordering::Relaxed);
    }

    /// A new tensor over the same data with another layout, without autograd. The layout must lie inside the storage.
    #[inline]
    pub fn alias(&self, sizes: Dims, strides: Dims, offset: i64) -> Result<Tensor> {
        let b = self.body();
        let t = Self::shell(b.dtype, b.device, sizes, strides)?;
        if let Some(s) = &b.storage {
            t.check_inside(s, offset)?;
        }
        t.adopt(self, offset);
        Ok(t)
    }

    /// Turns a fresh shell into a view of `base`'s data.
    #[inline]
    pub(crate) fn adopt(&self, base: &Tensor, offset: i64) {
        let from = base.body();
        // SAFETY: a shell is not shared yet.
        let b = unsafe { &mut *self.inner().body.get() };
        b.storage = from.storage.clone();
        b.offset = offset;
        self.inner().flags.store(base.inner().flags.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The tensor whose storage this view shares; `None` for a tensor that is no view. Never a view itself.
    #[inline]
    pub fn base(&self) -> Option<&Tensor> {
        self.body().base.as_ref()
    }

    /// Makes a fresh tensor a view of `of` (or of what `of` is a view of).
    #[inline]
    pub fn set_base(&self, of: &Tensor) {
        let base = of.base().unwrap_or(of).clone();
        // SAFETY: a fresh tensor is not shared yet.
        unsafe { (*self.inner().body.get()).base = Some(base) };
    }

    /// Turns a view with a single owner into a tensor that is no view.
    pub(crate) fn forget_base(&self) {
        // SAFETY: the result of a composition that is about to return it: no other thread has it, and no borrow of it is left.
        unsafe { (*self.inner().body.get()).base = None };
        self.inner().flags.fetch_and(!(MULTI_VIEW | NO_GRAD_VIEW | FOREIGN_VIEW), Ordering::Relaxed);
    }

    /// Another handle on the tensor with this address, unless it is being freed.
    ///
    /// # Safety
    /// The memory of the tensor is still there: the caller holds a lock that its autograd slot takes when it is dropped.
    pub unsafe fn upgrade(id: usize) -> Option<Tensor> {
        let p = NonNull::new(id as *mut Impl)?;
        // SAFETY: by this function's contract.
        let rc = &unsafe { p.as_ref() }.rc;
        let mut n = rc.load(Ordering::Relaxed);
        while n / ONE > 0 {
            match rc.compare_exchange_weak(n, n + ONE, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(ONE_WITH_PY) => {
                    if let Some(h) = HOOKS.get() {
                        // SAFETY: HAS_PY says an object is bound; it owns the one other count, hence is alive.
                        unsafe { (h.incref)(p.as_ref().py.load(Ordering::Acquire)) };
                    }
                    return Some(Tensor(p));
                }
                Ok(_) => return Some(Tensor(p)),
                Err(now) => n = now,
            }
        }
        None
    }

    /// Sets the storage offset of a shell whose data a layer provides later.
    pub fn set_shell_offset(&self, offset: i64) {
        // SAFETY: a shell is not shared yet.
        unsafe { (*self.inner().body.get()).offset = offset };
    }

    /// Same data, layout and world, new identity and no autograd (`detach`).
    pub fn shallow(&self) -> Tensor {
        let b = self.body();
        let t = Self::alloc(
            Body {
                dtype: b.dtype,
                device: b.device,
                sizes: b.sizes.clone(),
                strides: b.strides.clone(),
                offset: b.offset,
                numel: b.numel,
                contiguous: b.contiguous,
                storage: b.storage.clone(),
                base: None,
                ext: b.ext.clone(),
            },
            self.keys() & !(1 << bit::AUTOGRAD),
        );
        // It is no view any more: writes to it are nobody else's business.
        let flags = self.inner().flags.load(Ordering::Relaxed) & (NO_VERSION | INFERENCE);
        t.inner().flags.store(flags, Ordering::Relaxed);
        t
    }

    /// Replaces data, layout, dtype and world by those of `other` (`x.data = y`, in-place on a functionalised tensor).
    ///
    /// # Safety
    /// No other thread reads this tensor meanwhile, and nobody keeps a borrow of its sizes or strides.
    pub unsafe fn set_body_from(&self, other: &Tensor) {
        let b = other.body();
        let new = Body {
            dtype: b.dtype,
            device: b.device,
            sizes: b.sizes.clone(),
            strides: b.strides.clone(),
            offset: b.offset,
            numel: b.numel,
            contiguous: b.contiguous,
            storage: b.storage.clone(),
            base: b.base.clone(),
            ext: b.ext.clone(),
        };
        // SAFETY: exclusive by this function's contract.
        let old = unsafe { std::mem::replace(&mut *self.inner().body.get(), new) };
        drop(old);
        let grad = self.own_keys() & (1 << bit::AUTOGRAD);
        self.inner().keys.store(other.keys() & !(1 << bit::AUTOGRAD) | grad, Ordering::Relaxed);
    }

    /// The layer payload, if it is a `T`.
    pub fn ext<T: Ext>(&self) -> Option<&T> {
        self.body().ext.as_deref().and_then(|e| e.as_any().downcast_ref::<T>())
    }
    pub fn ext_arc(&self) -> Option<Arc<dyn Ext>> {
        self.body().ext.clone()
    }
    /// Hangs a payload on a tensor and moves it into the layer's world: `bit` replaces local and meta.
    ///
    /// # Safety
    /// As for `set_body_from`: the tensor is fresh, or used by this thread alone.
    pub unsafe fn set_ext(&self, ext: Arc<dyn Ext>, world: u32) {
        // SAFETY: exclusive by this function's contract.
        unsafe { (*self.inner().body.get()).ext = Some(ext) };
        let keep = self.own_keys() & (1 << bit::AUTOGRAD);
        self.inner().keys.store(keep | 1 << world, Ordering::Relaxed);
    }

    /// Hangs the payload of a class that answers ops on a tensor: its data, if it has any, stay in their world.
    ///
    /// # Safety
    /// As for `set_ext`.
    pub unsafe fn set_subclass(&self, ext: Arc<dyn Ext>, has_data: bool) {
        let keys = self.own_keys();
        // SAFETY: this function's contract.
        unsafe { self.set_ext(ext, bit::SUBCLASS) };
        if has_data {
            self.inner().keys.fetch_or(keys, Ordering::Relaxed);
        }
    }

    /// Whether the tensor has no data in any world: only a class that answers ops gives it a meaning.
    pub fn is_only_a_subclass(&self) -> bool {
        self.own_keys() & ((1 << (bit::SUBCLASS + 1)) - 1) == 1 << bit::SUBCLASS
    }

    /// Runs `f` on the autograd slot, under the tensor's one-byte lock. `f` must not touch this tensor's slot again.
    #[inline]
    pub fn with_slot<R>(&self, f: impl FnOnce(&mut TensorSlot) -> R) -> R {
        struct Unlock<'a>(&'a AtomicU8);
        impl Drop for Unlock<'_> {
            fn drop(&mut self) {
                self.0.store(0, Ordering::Release);
            }
        }
        let lock = &self.inner().slot_lock;
        while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::hint::spin_loop();
        }
        let _unlock = Unlock(lock);
        // SAFETY: the lock is held.
        f(unsafe { &mut *self.inner().slot.get() })
    }

    // ---- the identity of the language's object

    /// The object bound to this tensor, or null.
    #[inline]
    pub fn py(&self) -> *mut () {
        self.inner().py.load(Ordering::Acquire)
    }

    /// Binds an object, which from now on owns the count of `self` that the caller leaks into it. While Rust holds further
    /// handles, the object is kept alive by one reference.
    ///
    /// # Safety
    /// No object is bound, the caller holds the language's global lock, and hooks are installed.
    pub unsafe fn bind_py(&self, object: *mut ()) {
        self.inner().py.store(object, Ordering::Release);
        let before = self.inner().rc.fetch_or(HAS_PY, Ordering::AcqRel);
        if before / ONE >= 2
            && let Some(h) = HOOKS.get()
        {
            // SAFETY: the object is alive and the global lock is held.
            unsafe { (h.incref)(object) };
        }
    }

    /// Forgets the bound object, which is being freed. Its count of this tensor still has to be dropped.
    pub fn unbind_py(&self) {
        self.inner().rc.fetch_and(!HAS_PY, Ordering::AcqRel);
        self.inner().py.store(std::ptr::null_mut(), Ordering::Release);
    }

    /// Number of handles.
    pub fn use_count(&self) -> usize {
        self.inner().rc.load(Ordering::Relaxed) / ONE
    }

    /// Gives the handle's count away as a raw address.
    pub fn into_raw(self) -> *mut () {
        let p = self.0.as_ptr().cast();
        std::mem::forget(self);
        p
    }
    /// # Safety
    /// `raw` came from `into_raw` and is taken back once.
    pub unsafe fn from_raw(raw: *mut ()) -> Tensor {
        // SAFETY: `into_raw` gave a non-null pointer.
        Tensor(unsafe { NonNull::new_unchecked(raw.cast()) })
    }
    /// Borrows a handle from the address another handle gave away.
    ///
    /// # Safety
    /// `raw` points to a live tensor for as long as the borrow.
    #[inline]
    pub unsafe fn borrow_raw(raw: &*mut ()) -> &Tensor {
        // SAFETY: `Tensor` is one non-null pointer, as `raw` is.
        unsafe { &*(raw as *const *mut ()).cast::<Tensor>() }
    }
}

/// Elements of storage needed by a layout that starts at its first element.
fn span(sizes: &[i64], strides: &[i64]) -> Result<usize> {
    if sizes.contains(&0) {
        return Ok(0);
    }
    let add = |end: i64, (n, s): (&i64, &i64)| (n - 1).checked_mul(*s)?.checked_add(end);
    let end = sizes.iter().zip(strides).try_fold(1i64, add);
    end.map(|n| n.max(0) as usize).ok_or_else(|| size_overflow(sizes, strides))
}

#[cold]
fn size_overflow(sizes: &[i64], strides: &[i64]) -> Error {
    Error::runtime(format!("Storage size calculation overflowed with sizes={sizes:?} and strides={strides:?}"))
}

#[cold]
/// Refuses memory that others brought at an address where no element of the dtype may lie.
pub fn check_aligned(ptr: *mut u8, dtype: DType) -> Result<()> {
    if ptr.addr().is_multiple_of(dtype.align()) {
        return Ok(());
    }
    let (name, align) = (dtype.name(), dtype.align());
    Err(Error::value(format!(
        "memory at {ptr:?} is not aligned to {name} ({align} bytes); copy it before it is shared"
    )))
}

fn outside(t: &Tensor, storage: &Storage, offset: i64) -> Error {
    Error::runtime(format!(
        "setStorage: sizes {:?}, strides {:?}, storage offset {offset}, and itemsize {} are out of bounds for storage of size {}",
        t.sizes(),
        t.strides(),
        t.dtype().size(),
        storage.bytes()
    ))
}

impl Clone for Tensor {
    #[inline]
    fn clone(&self) -> Self {
        let before = self.inner().rc.fetch_add(ONE, Ordering::Relaxed);
        if before == ONE | HAS_PY
            && let Some(h) = HOOKS.get()
        {
            // SAFETY: HAS_PY says an object is bound; it owns the one other count, hence is alive.
            unsafe { (h.incref)(self.inner().py.load(Ordering::Acquire)) };
        }
        Tensor(self.0)
    }
}

impl Drop for Tensor {
    #[inline]
    fn drop(&mut self) {
        let before = self.inner().rc.fetch_sub(ONE, Ordering::Release);
        if before / ONE == 1 {
            fence(Ordering::Acquire);
            // SAFETY: this was the last handle.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        } else if before == (2 * ONE) | HAS_PY
            && let Some(h) = HOOKS.get()
        {
            // The object owns the remaining count, so the tensor is alive until the hook has run. Read only now: before the
            // decrement, it would race with binding.
            let py = self.inner().py.load(Ordering::Acquire);
            if !py.is_null() {
                // SAFETY: the object is kept alive by the reference given back here.
                unsafe { (h.decref)(py) };
            }
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}, {:?}, {})", self.dtype(), self.sizes(), self.device())
    }
}
