//! Ranks as processes, connected by TCP, and on one host by shared memory.
//!
//! In a group of up to 16 ranks every pair is connected from the start, in a larger one when it first has something to say;
//! its neighbours in the ring tell a rank of deaths, and it passes aborts on. Three connections per pair: one for collectives,
//! used by whoever runs one, one for point-to-point messages (`mail`), served by a monitor thread and in shared memory by whoever
//! waits for one, and one for goodbyes and aborts, served by the monitor. On one host the bytes of collectives and messages go
//! through memory instead, and their connections only wake sleepers. So a dead or failing rank is known at once, whatever the others
//! are doing. Both ends of a connection prove that they know the job's secret, and where the job says so each is encrypted (`tls`).
//! A rank listens only where the store is reached, and without a secret or certificates only on loopback.

mod connections;
mod direct;
mod form;
mod greeting;
mod lane;
mod mail;
mod mesh;
mod monitor;
mod pulse;
mod shm;
mod spin;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use oneflow_base::Result;

use crate::engine::Group;
use crate::group::ProcessGroup;
pub use form::Site;
pub(crate) use form::random;
use mesh::Mesh;

/// Joins a group of `size` processes. `meeting` bounds the forming of the group, `timeout` every later operation.
pub fn join(
    site: Site,
    name: &str,
    rank: usize,
    size: usize,
    meeting: Duration,
    timeout: Duration,
) -> Result<Arc<dyn ProcessGroup>> {
    let formation = store_timeout(&site, timeout).min(meeting);
    let mesh = Mesh::form(Some(Arc::new(site)), name, rank, (0..size).collect(), formation)?;
    Ok(Arc::new(Group::new(mesh, name, rank, (0..size).collect(), timeout)))
}

/// A group of this process alone; needs no store.
pub fn single(name: &str, timeout: Duration) -> Result<Arc<dyn ProcessGroup>> {
    let mesh = Mesh::form(None, name, 0, vec![0], timeout)?;
    Ok(Arc::new(Group::new(mesh, name, 0, vec![0], timeout)))
}

/// Forming a group is the store's kind of waiting: peers that never started should not take the long deadline of
/// collectives to be noticed.
fn store_timeout(site: &Site, timeout: Duration) -> Duration {
    site.store.timeout().min(timeout)
}
