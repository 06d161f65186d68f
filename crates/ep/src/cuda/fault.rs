//! Errors that kernels find in values, an index out of range for one. A kernel cannot raise: it leaves its output without
//! the bad element, writes the fault into memory the host sees, and the next synchronisation raises it.

use super::driver::{self, Code};
use oneflow_base::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The report of a kernel. `kind` is written last; zero means no fault.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault {
    /// One of the constants.
    pub kind: i64,
    pub value: i64,
    pub dim: i64,
    pub size: i64,
}

impl Fault {
    pub const INDEX: i64 = 1;
    pub const TARGET: i64 = 2;
    /// Of a Poisson distribution.
    pub const RATE: i64 = 3;
    /// Of bags.
    pub const OFFSETS: i64 = 4;
    pub const SORTER: i64 = 5;
    /// Of LU factorisations.
    pub const PIVOTS: i64 = 6;
    /// Decompositions of a batch that did not converge: the item, how many there are, and the number of values.
    pub const EIGH: i64 = 7;
    pub const SVD: i64 = 8;
    /// Of CTC: steps of a sample, labels of one, and a label.
    pub const CTC_STEPS: i64 = 9;
    pub const CTC_LENGTH: i64 = 10;
    pub const CTC_LABEL: i64 = 11;

    fn error(self, device: u16) -> Error {
        let Fault { kind, value, dim, size } = self;
        let what = match kind {
            Fault::TARGET => format!("Target {value} is out of bounds."),
            Fault::RATE => "poisson(): invalid Poisson rate, expected rate to be non-negative".into(),
            Fault::OFFSETS => {
                format!(
                    "embedding_bag: offsets have to start with 0, not to decrease, and to end by {size}, got {value}"
                )
            }
            Fault::PIVOTS => format!("lu_unpack: LU_pivots[{dim}] is {value}, of {size} rows"),
            Fault::EIGH | Fault::SVD => {
                let (op, values) =
                    if kind == Fault::EIGH { ("eigh", "eigenvalues") } else { ("svd", "singular values") };
                let item = if dim > 1 { format!("(Batch element {value}): ") } else { String::new() };
                format!(
                    "linalg.{op}: {item}The algorithm failed to converge because the input matrix is ill-conditioned, has too many repeated {values}, or contains non-finite values (error code: {size})."
                )
            }
            Fault::CTC_STEPS => format!(
                "Expected input_lengths to have value at most {size}, but got value {value} (while checking arguments for ctc_loss)"
            ),
            Fault::CTC_LENGTH => format!(
                "Expected tensor to have size at least {value} at dimension 1, but got size {size} for argument targets (while checking arguments for ctc_loss)"
            ),
            Fault::CTC_LABEL => format!("ctc_loss: target {value} is outside the {size} classes"),
            Fault::SORTER => "searchsorted(): sorter index out of range".into(),
            _ => format!("index {value} is out of bounds for dimension {dim} with size {size}"),
        };
        let text = format!("{what} (found on cuda:{device} by an operation issued before this synchronisation)");
        match kind {
            Fault::INDEX | Fault::TARGET => Error::index(text),
            Fault::EIGH | Fault::SVD => Error::linalg(text),
            _ => Error::runtime(text),
        }
    }
}

/// The shared word of one device.
pub(super) struct Faults {
    index: u16,
    host: *mut Fault,
    device: *mut Fault,
    /// What the host found out after work was issued.
    reported: Mutex<Option<Error>>,
    is_reported: AtomicBool,
}

// SAFETY: the memory is shared with a device anyway; all access is volatile.
unsafe impl Send for Faults {}
// SAFETY: as above.
unsafe impl Sync for Faults {}

impl Faults {
    /// The device's context is current. The memory stays until the process ends.
    pub fn new(index: u16) -> std::result::Result<Faults, Code> {
        // SAFETY: the memory is written before a kernel sees it; the device pointer belongs to it.
        unsafe {
            let flags = driver::HOST_PORTABLE | driver::HOST_DEVICEMAP;
            let host = driver::value(|p| driver::host_alloc(p, size_of::<Fault>(), flags))?.cast::<Fault>();
            host.write_volatile(Fault::default());
            let device = driver::value(|p| driver::host_address(p, host.cast(), 0))? as *mut Fault;
            Ok(Faults { index, host, device, reported: Mutex::new(None), is_reported: AtomicBool::new(false) })
        }
    }

    pub fn on_device(&self) -> *mut Fault {
        self.device
    }

    /// Keeps an error for the next `raise`; the first one counts.
    pub fn report(&self, error: Error) {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.is_reported.store(true, Ordering::Release);
    }

    /// Raises what was reported and forgets it. The work that may report has been waited for.
    pub fn raise(&self) -> Result<()> {
        if self.is_reported.load(Ordering::Acquire) {
            self.is_reported.store(false, Ordering::Relaxed);
            if let Some(error) = self.reported.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Err(error);
            }
        }
        // SAFETY: the memory is live; a kernel of another stream may write at the same time, each word for itself.
        let fault = unsafe { self.host.read_volatile() };
        if fault.kind == 0 {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { self.host.write_volatile(Fault::default()) };
        Err(fault.error(self.index))
    }
}
