//! Ranks as processes of an MPI job: the messages of a group go through the MPI library that is installed, over whatever
//! network it knows. Order, algorithms, deadlines and records are those of every other group.
//!
//! A group is a range of tags of one communicator, so forming one costs no message. There are no heartbeats: `mpirun`
//! ends a job whose rank dies. Who listens to point-to-point messages is a thread of each group (`transport`).

mod library;
mod transport;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oneflow_base::{Error, Result};

use crate::engine::Group;
use crate::group::ProcessGroup;
use crate::registry::set_process_group;
use crate::security::Security;
pub(crate) use library::is_available;
use transport::Wire;

/// Whether an MPI library can be loaded here. Starts nothing.
pub fn is_mpi_available() -> bool {
    is_available()
}

/// Joins the world group of the job that `mpirun` has started and makes it the world of this process. `expected` is the
/// number of ranks that the environment tells. Returns the MPI library's name and version.
pub fn init(expected: usize, timeout: Duration) -> Result<String> {
    let said = |cause: String| Error::runtime(format!("backend 'mpi': {cause}"));
    if Security::from_env()?.tls.is_some() {
        return Err(said(
            "ONEFLOW_TLS=1, but an MPI library sends in the clear: use the backend 'gloo', or unset it".to_owned(),
        ));
    }
    let mpi = library::start().map_err(said)?;
    if mpi.size != expected {
        return Err(said(format!(
            "{} says that the job has {} ranks, the environment says {expected}: start the program with the mpirun of \
             this library, or name the library of that mpirun in ONEFLOW_MPI_LIBRARY",
            mpi.version, mpi.size
        )));
    }
    // Messages of a world that was left are none of the next one.
    static EPOCH: AtomicU64 = AtomicU64::new(0);
    let epoch = EPOCH.fetch_add(1, Ordering::Relaxed);
    let ranks: Vec<usize> = (0..mpi.size).collect();
    let wire = Wire::start(mpi, "world", mpi.rank, ranks.clone(), epoch)?;
    set_process_group(Some(Arc::new(Group::new(wire, "world", mpi.rank, ranks, timeout)) as Arc<dyn ProcessGroup>));
    Ok(mpi.version.clone())
}
