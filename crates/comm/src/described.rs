//! A rank of a group whose other ranks are not there: what traces and dry runs of a described cluster see as their world.
//!
//! Nothing is sent. What a rank gets is what it would get if all others had brought the same as it has: a reduction leaves
//! its input, a gathering repeats it. Long data are left as they are, so that memory nobody filled is not touched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use crate::group::{Counters, ProcessGroup};
use crate::registry::DEFAULT_TIMEOUT;
use crate::request::{Request, Span};
use crate::work::Work;

/// Up to this many bytes of a rank are answered: shapes, numbers and names that ranks exchange.
const SHORT: usize = 1 << 10;

/// Rank `rank` of `size`.
///
/// # Errors
/// ValueError: there is no such rank.
pub fn group(rank: usize, size: usize) -> Result<Arc<dyn ProcessGroup>> {
    if rank >= size {
        return Err(Error::value(format!("rank {rank} is not one of {size}")));
    }
    Ok(Arc::new(Described::new(rank, (0..size).collect(), "world".into())))
}

struct Described {
    rank: usize,
    ranks: Vec<usize>,
    name: String,
    timeout: AtomicU64,
    counters: Counters,
}

impl Described {
    fn new(rank: usize, ranks: Vec<usize>, name: String) -> Described {
        let timeout = AtomicU64::new(DEFAULT_TIMEOUT.as_millis() as u64);
        Described { rank, ranks, name, timeout, counters: Counters::default() }
    }
}

/// Fills `output` with copies of `input`.
///
/// # Safety
/// The promise of `ProcessGroup::issue` holds for both.
unsafe fn repeat(output: Span, input: Span) {
    if input.len > SHORT || input.len == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    let (to, from) = unsafe { (output.bytes_mut(), input.bytes()) };
    for part in to.chunks_mut(from.len()) {
        part.copy_from_slice(&from[..part.len()]);
    }
}

impl ProcessGroup for Described {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.ranks.len()
    }
    fn ranks(&self) -> &[usize] {
        &self.ranks
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn backend(&self) -> &'static str {
        "described"
    }
    fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout.load(Ordering::Relaxed))
    }
    fn set_timeout(&self, timeout: Duration) {
        self.timeout.store(timeout.as_millis() as u64, Ordering::Relaxed);
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }

    unsafe fn issue(&self, request: Request) -> Result<Work> {
        request.check(self.rank, self.ranks.len())?;
        self.counters.add_call(request.kind());
        // SAFETY: in every arm the caller's promise.
        unsafe {
            match &request {
                Request::AllGather { output, input, .. }
                | Request::ReduceScatter { output, input, .. }
                | Request::AllToAll { output, input, .. }
                | Request::Gather { output, input, .. }
                | Request::Scatter { output, input, .. } => repeat(*output, *input),
                // Of a receive there is nothing to know.
                Request::Recv { data, .. } if data.len <= SHORT => data.bytes_mut().fill(0),
                _ => {}
            }
        }
        let work = Work::of(request.kind().to_string(), Instant::now(), Box::new(|_| {}));
        work.complete(Ok(()));
        Ok(work)
    }

    fn new_group(&self, ranks: &[usize], _by_all: bool) -> Result<Option<Arc<dyn ProcessGroup>>> {
        if let Some(r) = ranks.iter().find(|r| **r >= self.ranks.len()) {
            return Err(Error::value(format!("new_group(): rank {r} is not one of {}", self.ranks.len())));
        }
        let Some(rank) = ranks.iter().position(|r| *r == self.rank) else { return Ok(None) };
        let members = ranks.iter().map(|r| self.ranks[*r]).collect();
        Ok(Some(Arc::new(Described::new(rank, members, format!("{}/{ranks:?}", self.name)))))
    }

    fn abort(&self, _reason: &str) {}
    fn close(&self) {}
    fn failure(&self) -> Option<Error> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ReduceOp;
    use oneflow_base::DType;

    #[test]
    fn the_others_bring_the_same() {
        let g = group(2, 4).unwrap();
        let mut all = [0u8; 8];
        g.all_gather(&mut all, &[1, 2], DType::U8).unwrap();
        assert_eq!(all, [1, 2, 1, 2, 1, 2, 1, 2]);
        let mut data = [3u8];
        g.all_reduce(&mut data, DType::U8, ReduceOp::Sum).unwrap();
        g.barrier().unwrap();
        assert_eq!(data, [3]);
        let part = g.new_group(&[0, 2], true).unwrap().unwrap();
        assert_eq!((part.rank(), part.ranks()), (1, &[0, 2][..]));
        assert!(g.new_group(&[0, 1], true).unwrap().is_none());
        assert!(g.new_group(&[4], true).is_err() && group(4, 4).is_err());
    }
}
