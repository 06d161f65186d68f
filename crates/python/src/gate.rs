//! The one gate between the languages: errors become exceptions, panics too, and the interpreter is let go for long work.
//!
//! No conversion of values happens here.

use oneflow_core::base::{Error, ErrorKind, Result};
use pyo3::exceptions::{PyIndexError, PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

pyo3::create_exception!(
    oneflow,
    OutOfMemoryError,
    PyRuntimeError,
    "Raised when a device has no memory left for an allocation.

Example::

    >>> try:
    ...     x = oneflow.empty(1 << 60)
    ... except oneflow.OutOfMemoryError:
    ...     print(\"too much\")
    too much"
);

pyo3::create_exception!(
    oneflow.linalg,
    LinAlgError,
    PyRuntimeError,
    "Raised when a matrix is singular, not positive-definite, or a decomposition does not converge.

Example::

    >>> try:
    ...     x = oneflow.linalg.inv(oneflow.zeros(2, 2))
    ... except oneflow.linalg.LinAlgError:
    ...     print(\"singular\")
    singular"
);

thread_local! {
    /// Whether this thread is known to hold the interpreter. Unknown counts as no: a reference is then given back later.
    static ATTACHED: Cell<bool> = const { Cell::new(false) };
}

static HAS_PENDING: AtomicBool = AtomicBool::new(false);
static PENDING: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Gives one reference back, now or, without the interpreter, at the next gate.
///
/// # Safety
/// The caller owns a reference to `object`.
pub unsafe fn decref(object: *mut ()) {
    if ATTACHED.get() {
        // SAFETY: the interpreter is held, the reference is the caller's.
        unsafe { ffi::Py_DECREF(object.cast()) };
    } else {
        PENDING.lock().unwrap_or_else(|e| e.into_inner()).push(object as usize);
        HAS_PENDING.store(true, Ordering::Release);
    }
}

/// Takes one reference.
///
/// # Safety
/// `object` is alive.
pub unsafe fn incref(object: *mut ()) {
    if ATTACHED.get() {
        // SAFETY: the interpreter is held.
        unsafe { ffi::Py_INCREF(object.cast()) };
    } else {
        // SAFETY: attached here.
        held(|_| unsafe { ffi::Py_INCREF(object.cast()) });
    }
}

#[cold]
fn drain() {
    HAS_PENDING.store(false, Ordering::Relaxed);
    let list = std::mem::take(&mut *PENDING.lock().unwrap_or_else(|e| e.into_inner()));
    for p in list {
        // SAFETY: each entry is an owned reference; the interpreter is held by `enter`.
        unsafe { ffi::Py_DECREF(p as *mut PyObject) };
    }
}

/// Marks the thread as holding the interpreter and gives back what was dropped without it.
#[inline]
fn arrive() {
    ATTACHED.set(true);
    if HAS_PENDING.load(Ordering::Acquire) {
        drain();
    }
}

/// Runs a function that Python called and that gives a value of the C API: `fail` stands for "an exception is set".
#[inline]
pub fn enter<R>(fail: R, f: impl FnOnce(Python<'_>) -> Result<R>) -> R {
    arrive();
    // SAFETY: Python calls its slots and functions with the interpreter held.
    let py = unsafe { Python::assume_attached() };
    match catch_unwind(AssertUnwindSafe(|| f(py))) {
        Ok(Ok(r)) => r,
        Ok(Err(e)) => {
            raise(py, e);
            fail
        }
        Err(panic) => {
            raise(py, Error::runtime(format!("internal error: {}", panic_text(&*panic))));
            fail
        }
    }
}

/// As `enter`, for code that works with owned `Py` handles and so wants PyO3 to know that the thread is attached.
pub fn enter_owned<R>(fail: R, f: impl FnOnce(Python<'_>) -> PyResult<R>) -> R {
    enter(fail, |_| held(|py| f(py).map_err(|e| pending(py, e))))
}

/// The body of a `#[pyfunction]` or method of a class.
pub fn run<R>(f: impl FnOnce() -> Result<R>) -> PyResult<R> {
    arrive();
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(r) => r.map_err(to_py),
        Err(panic) => Err(PyRuntimeError::new_err(format!("internal error: {}", panic_text(&*panic)))),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(s), _) => s,
        (_, Some(s)) => s,
        _ => "panic",
    }
}

/// Sets the exception of an error.
#[cold]
pub fn raise(py: Python<'_>, e: Error) {
    to_exception(py, e).restore(py);
}

/// The exception of an error.
#[cold]
pub fn to_py(e: Error) -> PyErr {
    held(|py| to_exception(py, e))
}

fn to_exception(py: Python<'_>, e: Error) -> PyErr {
    if let Some(interrupt) = INTERRUPT.take() {
        return interrupt;
    }
    let oneflows = oneflow_core::oneflow_conventions();
    let text = match oneflows {
        true => in_oneflows_words(py, &e),
        false => e.text().to_owned(),
    };
    match e.kind() {
        ErrorKind::Type | ErrorKind::Value | ErrorKind::Index if oneflows => runtime_too(py, &e, text),
        ErrorKind::Runtime => PyRuntimeError::new_err(text),
        ErrorKind::Type => PyTypeError::new_err(text),
        ErrorKind::Value => PyValueError::new_err(text),
        ErrorKind::Index => PyIndexError::new_err(text),
        ErrorKind::NotImplemented => PyNotImplementedError::new_err(text),
        ErrorKind::OutOfMemory => OutOfMemoryError::new_err(text),
        ErrorKind::LinAlg => LinAlgError::new_err(text),
        ErrorKind::Pending => PyErr::take(py).unwrap_or_else(|| PyRuntimeError::new_err(text)),
    }
}

/// The name of the class that Python has for an error.
fn class_of(e: &Error) -> &'static str {
    match e.kind() {
        ErrorKind::Type => "TypeError",
        ErrorKind::Value => "ValueError",
        ErrorKind::Index => "IndexError",
        ErrorKind::NotImplemented => "NotImplementedError",
        ErrorKind::Pending | ErrorKind::Runtime | ErrorKind::OutOfMemory | ErrorKind::LinAlg => "RuntimeError",
    }
}

/// An error of its class that is a `RuntimeError` as well, which OneFlow raises in its place.
#[cold]
fn runtime_too(py: Python<'_>, e: &Error, text: String) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let made = py.import("oneflow._base.wording")?.call_method1("runtime_too", (class_of(e), &text))?;
        Ok(PyErr::from_value(made))
    };
    made().unwrap_or_else(|_| PyRuntimeError::new_err(text))
}

/// The text of an error as Python completes it under OneFlow's conventions.
#[cold]
fn in_oneflows_words(py: Python<'_>, e: &Error) -> String {
    if matches!(e.kind(), ErrorKind::Pending) {
        return e.text().to_owned();
    }
    let class = class_of(e);
    let worded = || -> PyResult<String> {
        py.import("oneflow._base.wording")?.call_method1("with_oneflows", (class, e.text()))?.extract()
    };
    worded().unwrap_or_else(|_| e.text().to_owned())
}

/// Leaves an exception waiting in the interpreter and says so in the house's own terms.
#[cold]
pub fn pending(py: Python<'_>, e: PyErr) -> Error {
    e.restore(py);
    Error::new(ErrorKind::Pending, "an exception is set")
}

/// The error of a C API call that failed with an exception set.
#[cold]
pub fn pending_set() -> Error {
    Error::new(ErrorKind::Pending, "an exception is set")
}

/// A C API result that is null on failure.
#[inline]
pub fn checked(p: *mut PyObject) -> Result<*mut PyObject> {
    if p.is_null() { Err(pending_set()) } else { Ok(p) }
}

/// Brings `PyResult` into the house's terms.
pub trait OrPending<T> {
    fn pend(self, py: Python<'_>) -> Result<T>;
}

impl<T> OrPending<T> for PyResult<T> {
    fn pend(self, py: Python<'_>) -> Result<T> {
        self.map_err(|e| pending(py, e))
    }
}

/// A closure that is run on this very thread, while another thread may hold the interpreter.
struct Here<F>(F);
// SAFETY: `detach` runs the closure on the calling thread; `Send` is only PyO3's way to keep `Python` tokens out.
unsafe impl<F> Send for Here<F> {}

/// Runs a kernel without the interpreter, where this thread holds it (`set_release`). Nothing dropped meanwhile is given back
/// here, as that may run Python code in the middle of a call.
pub fn release(f: &mut dyn FnMut()) {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            ATTACHED.set(true);
        }
    }
    if !ATTACHED.get() {
        return f();
    }
    // SAFETY: `ATTACHED` says so.
    let py = unsafe { Python::assume_attached() };
    let here = Here(f);
    let _back = Back;
    py.detach(move || {
        let here = here;
        ATTACHED.set(false);
        (here.0)()
    })
}

/// Lets others run for a moment during work that holds the interpreter for long.
pub fn breathe() {
    if oneflow_core::may_release() {
        release(&mut || {});
    }
}

/// Lets other Python threads run during long work that waits for others or owns the tensors that it reads. The closure touches
/// no Python object, and handles that it clones are not borrowed from a wrapper alone.
pub fn detach<R>(py: Python<'_>, f: impl FnOnce() -> R) -> R {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            arrive();
        }
    }
    let here = Here(f);
    let _back = Back;
    py.detach(move || {
        let here = here;
        ATTACHED.set(false);
        Here((here.0)())
    })
    .0
}

/// Sets what is known of the interpreter back at its end.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        ATTACHED.set(self.0);
    }
}

/// Runs Python code from Rust code that may be detached (hooks, `Function`).
pub fn attach<R>(f: impl FnOnce(Python<'_>) -> R) -> R {
    let _restore = Restore(ATTACHED.get());
    held(|py| {
        ATTACHED.set(true);
        f(py)
    })
}

/// As `Python::attach`, but a thread that holds the interpreter is not refused while the interpreter ends: the last
/// objects are freed then.
fn held<R>(f: impl FnOnce(Python<'_>) -> R) -> R {
    if ATTACHED.get() {
        // SAFETY: this thread holds the interpreter, which therefore is there.
        unsafe { Python::attach_unchecked(f) }
    } else {
        // PyO3 gives back what it has kept as soon as it has the interpreter, and again before it lets it go: tensors among
        // that come through `enter`, which says that this thread holds it.
        let _restore = Restore(false);
        Python::attach(f)
    }
}

/// As `attach`, or nothing where the interpreter has ended or ends and this thread does not hold it.
pub fn attach_if_alive(f: impl FnOnce(Python<'_>)) {
    if ATTACHED.get() {
        attach(f);
    } else {
        let _restore = Restore(false);
        Python::try_attach(|_| attach(f));
    }
}

/// Runs what another library calls on any thread, with or without the interpreter: references that it drops are given back at
/// the next gate.
pub fn called_from_outside<R>(f: impl FnOnce() -> R) -> R {
    let _restore = Restore(ATTACHED.replace(false));
    f()
}

/// Raises what Ctrl-C left behind.
pub fn check_signals(py: Python<'_>) -> Result<()> {
    py.check_signals().pend(py)
}

thread_local! {
    /// What Ctrl-C raised while this thread waited without the interpreter.
    static INTERRUPT: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Whether Ctrl-C has come, for waits in crates that know no Python. What it raised takes the place of the error that the
/// wait then ends with.
pub fn interrupted() -> bool {
    attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(e) => {
            INTERRUPT.set(Some(e));
            true
        }
    })
}

/// A Python object that may be dropped on any thread, attached or not.
#[repr(transparent)]
pub struct Shared(usize);

impl Shared {
    pub fn new(object: Bound<'_, PyAny>) -> Shared {
        Shared(object.into_ptr() as usize)
    }
    /// The object, borrowed.
    pub fn as_ptr(&self) -> *mut PyObject {
        self.0 as *mut PyObject
    }
    /// The same reference, for the garbage collector's visits.
    pub fn as_py(&self) -> &Py<PyAny> {
        // SAFETY: both are one pointer, which is not null, and this owns the reference.
        unsafe { &*std::ptr::from_ref(self).cast::<Py<PyAny>>() }
    }
    pub fn bind<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        // SAFETY: this owns a reference.
        unsafe { Bound::from_borrowed_ptr(py, self.0 as *mut PyObject) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this owns the reference.
        unsafe { decref(self.0 as *mut ()) };
    }
}
