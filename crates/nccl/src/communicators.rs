//! The communicators of a group on one device: one of all ranks for collectives and batches, and one for each pair of ranks
//! that exchange single messages, since the others do not come. Made on first use.
//!
//! Ids go through the group that is connected already: its ranks met in the job's store and have proved who they are, and the
//! store need not stay.

use oneflow_base::{DType, Error, Result};
use oneflow_comm::{ProcessGroup, Request, Span};
use oneflow_ep::cuda::Cuda;
use oneflow_ep::cuda::nccl::{Communicator, UniqueId, nccl};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tags of the messages that bring ids; programs and boxing use others.
const TAG_OF_ALL: u32 = 0x4e43_434c;
const TAG_OF_PAIR: u32 = TAG_OF_ALL + 1;
/// A byte that tells whether there is an id, then the id or the start of an error's text.
const MESSAGE: usize = 1 + size_of::<UniqueId>() * 4;

/// Which ranks a communicator has: of pairs, the lower one first.
type Pair = Option<(usize, usize)>;

#[derive(Default)]
pub struct Communicators {
    made: Mutex<HashMap<Pair, Arc<Communicator>>>,
    /// Held while one is made: the ranks make them in one order.
    making: Mutex<()>,
}

impl Communicators {
    fn made(&self) -> MutexGuard<'_, HashMap<Pair, Arc<Communicator>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn all(&self) -> Vec<Arc<Communicator>> {
        self.made().values().cloned().collect()
    }

    /// Takes them out: nobody finds them any more.
    pub fn take(&self) -> Vec<Arc<Communicator>> {
        std::mem::take(&mut *self.made()).into_values().collect()
    }

    /// That of all ranks, or with `peer` that of this rank and the peer.
    pub fn get(
        &self,
        host: &dyn ProcessGroup,
        cuda: &'static Cuda,
        device: u16,
        peer: Option<usize>,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Arc<Communicator>> {
        let me = host.rank();
        let pair = peer.map(|peer| (me.min(peer), me.max(peer)));
        if let Some(found) = self.made().get(&pair) {
            return Ok(found.clone());
        }
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.made().get(&pair) {
            return Ok(found.clone());
        }
        let (ranks, tag) = match pair {
            Some((low, high)) => (vec![low, high], TAG_OF_PAIR),
            None => ((0..host.size()).collect(), TAG_OF_ALL),
        };
        let place = ranks.iter().position(|rank| *rank == me).unwrap_or_default();
        let id = share_id(host, &ranks, tag)?;
        let formed = Arc::new(Communicator::form(cuda, device, id, place, ranks.len(), go_on)?);
        self.made().insert(pair, formed.clone());
        Ok(formed)
    }
}

/// The id that the first of `ranks` draws for all of them.
fn share_id(host: &dyn ProcessGroup, ranks: &[usize], tag: u32) -> Result<UniqueId> {
    let mut message = vec![0u8; MESSAGE];
    let root = ranks[0];
    if host.rank() != root {
        // Waits as long as an operation may take.
        let data = Span::of_mut(&mut message);
        // SAFETY: the message lives until the blocking call returns.
        unsafe { host.run(Request::Recv { data, dtype: DType::U8, src: root, tag }) }?;
        if message[0] == 1 {
            let mut id = UniqueId([0; size_of::<UniqueId>()]);
            id.0.copy_from_slice(&message[1..=size_of::<UniqueId>()]);
            return Ok(id);
        }
        let text = String::from_utf8_lossy(&message[1..]);
        return Err(Error::runtime(format!("rank {root} has no NCCL: {}", text.trim_end_matches('\0'))));
    }
    let drawn = nccl().and_then(|nccl| nccl.unique_id());
    match &drawn {
        Ok(id) => {
            message[0] = 1;
            message[1..=id.0.len()].copy_from_slice(&id.0);
        }
        // The others hear at once why there is none.
        Err(e) => {
            let text = e.text().as_bytes();
            let n = text.len().min(MESSAGE - 1);
            message[1..=n].copy_from_slice(&text[..n]);
        }
    }
    for peer in &ranks[1..] {
        let data = Span::of(&message);
        // SAFETY: as above.
        unsafe { host.run(Request::Send { data, dtype: DType::U8, dst: *peer, tag }) }?;
    }
    drawn
}
