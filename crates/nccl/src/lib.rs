//! Process groups over memory of NVIDIA GPUs: collectives and messages by NCCL, in the order of the device's queues.
//!
//! A group here stands beside a group of `comm`, whose ranks are connected already: it brings the ids by which communicators
//! form, and the news of a failure. Nothing is linked: without the library, or with one that is too old, asking for a group is
//! an error that names the package. Knows no tensor, and no memory but by its address.
//!
//! - `calls`: what the library is asked for each request.
//! - `captured`: operations in captured graphs, which are watched each time that the graph is launched.
//! - `communicators`: of all ranks, and of pairs that exchange messages; each owns its queue.
//! - `group`: operations between the caller's queue and the communicator's.
//! - `watchdog`: the thread that sees operations end, or not.

mod calls;
mod captured;
mod communicators;
mod group;
mod watchdog;

use oneflow_base::{DeviceType, Error, Result};
use oneflow_comm::DeviceBackend;
use oneflow_ep::cuda;

/// Lets groups of `comm` serve memory of NVIDIA GPUs.
pub fn register() {
    oneflow_comm::set_device_backend(DeviceBackend {
        make: group::beside,
        serves: |device| device.kind == DeviceType::CUDA && available().is_ok(),
    });
}

/// Whether groups over GPUs can be made here.
///
/// # Errors
/// The reason why not: no GPU, no library, or one that is too old.
pub fn available() -> Result<()> {
    match cuda::unavailable_reason() {
        Some(reason) => Err(Error::runtime(format!("CUDA is not available: {reason}"))),
        None => cuda::nccl::nccl().map(drop),
    }
}

/// The version of the library, as (2, 27, 5).
///
/// # Errors
/// The library is missing or too old.
pub fn version() -> Result<(i32, i32, i32)> {
    cuda::nccl::nccl().map(|nccl| nccl.version)
}
