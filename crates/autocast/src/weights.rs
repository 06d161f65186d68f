//! Casts of a region's weights, many in a launch.
//!
//! A device that works by launches casts the weights of an op together, and at the start of a region all weights that the last
//! region with the same first weight has cast. Weights that no region used are never cast ahead, and nothing is kept alive
//! between regions: what is expected is held by weak references. A copy that was made ahead serves if its weight was not written
//! since, on the stream that it was made on, and if the thread did not wait for other work meanwhile, which may be that of a
//! write. The host, which has no launches, casts each weight alone.

use oneflow_autograd::{GradGuard, custom_node, is_forward_mode, is_grad_enabled};
use oneflow_base::{DType, DeviceType, Dims, Result};
use oneflow_core::ep::{Queue, provider};
use oneflow_core::{Storage, Tensor, WeakStorage, bit};
use oneflow_ops::elementwise::is_dense;
use oneflow_ops::optim::rules::COPY;
use oneflow_ops::{TensorOps, f};
use std::cell::RefCell;
use std::collections::HashMap;

/// Expectations kept before all are forgotten.
const MAX_REGIONS: usize = 64;

/// Where a weight's elements are, and how often they were written.
#[derive(Clone)]
struct Place {
    storage: WeakStorage,
    address: usize,
    dtype: DType,
    sizes: Dims,
    strides: Dims,
    offset: i64,
}

impl Place {
    fn of(t: &Tensor, storage: &Storage) -> Place {
        Place {
            storage: storage.downgrade(),
            address: storage.address(),
            dtype: t.dtype(),
            sizes: Dims::from_slice(t.sizes()),
            strides: Dims::from_slice(t.strides()),
            offset: t.offset(),
        }
    }

    fn is_of(&self, t: &Tensor, storage: &Storage) -> bool {
        // An address may be that of another storage by now; the weak reference would have ended.
        self.address == storage.address()
            && self.storage.upgrade().is_some()
            && (self.dtype, self.offset) == (t.dtype(), t.offset())
            && self.sizes.as_slice() == t.sizes()
            && self.strides.as_slice() == t.strides()
    }

    /// The elements, if they are still there.
    fn tensor(&self) -> Option<Tensor> {
        let storage = self.storage.upgrade().filter(is_ours)?;
        Tensor::from_storage(storage, self.dtype, self.sizes.clone(), self.strides.clone(), self.offset).ok()
    }
}

/// A weight that was cast before an op asked for it.
struct Ready {
    place: Place,
    /// Writes to the storage and its address by then.
    written: (u64, usize),
    queue: Queue,
    copy: Tensor,
}

type Ids = (usize, DType);

/// What this thread's region has cast, and what later ones are expected to.
#[derive(Default)]
struct Region {
    used: Vec<(usize, Place)>,
    first: Option<Ids>,
    /// From here on weights are cast at their use.
    has_waited: bool,
    ready: HashMap<Ids, Ready>,
    expected: HashMap<Ids, Vec<(usize, Place)>>,
}

thread_local! {
    static REGION: RefCell<Region> = RefCell::new(Region::default());
}

/// Memory that only this library writes.
fn is_ours(storage: &Storage) -> bool {
    !storage.is_written_elsewhere() && storage.device().kind != DeviceType::CPU
}

/// The storage of a weight that may be cast beside others: a plain tensor without gaps, of a device that works by launches.
fn plain(t: &Tensor) -> Option<&Storage> {
    let keys = 1 << bit::LOCAL | 1 << bit::AUTOGRAD;
    t.storage().filter(|s| t.keys() & !keys == 0 && t.numel() > 0 && is_dense(t) && is_ours(s))
}

fn written(storage: &Storage) -> (u64, usize) {
    (storage.writes(), storage.ptr() as usize)
}

fn queue_of(t: &Tensor) -> Result<Queue> {
    Ok(provider(t.device().kind)?.queue(t.device().index))
}

/// Copies of leaves that share an op, which gradients pass together. `None` where each is to be cast alone.
pub fn cast(leaves: &[&Tensor], to: DType) -> Result<Option<Vec<Tensor>>> {
    if is_forward_mode() {
        return Ok(None);
    }
    let Some(storages) = leaves.iter().map(|t| plain(t)).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let Some(first) = leaves.first() else { return Ok(None) };
    let queue = queue_of(first)?;
    if leaves.iter().any(|t| t.device() != first.device()) {
        return Ok(None);
    }
    // What was cast ahead, unless it was written since, or on a queue that this one does not wait for.
    let mut copies: Vec<Option<Tensor>> = REGION.with_borrow_mut(|region| {
        let ready = leaves.iter().zip(&storages).map(|(t, storage)| {
            let r = region.ready.remove(&(t.id(), to))?;
            (r.place.is_of(t, storage) && r.written == written(storage) && r.queue.raw == queue.raw).then_some(r.copy)
        });
        ready.collect()
    });
    let missing: Vec<&Tensor> = leaves.iter().zip(&copies).filter(|(_, c)| c.is_none()).map(|(t, _)| *t).collect();
    if !missing.is_empty() {
        let ahead = begin(first, leaves, to);
        let all: Vec<Tensor> = missing.iter().map(|t| (*t).clone()).chain(ahead.iter().map(|a| a.2.clone())).collect();
        let mut made = copied(&all, to)?.into_iter();
        for copy in copies.iter_mut().filter(|c| c.is_none()) {
            *copy = made.next();
        }
        REGION.with_borrow_mut(|region| {
            for ((id, place, from), copy) in ahead.into_iter().zip(made) {
                if let Some(storage) = from.storage() {
                    region.ready.insert((id, to), Ready { place, written: written(storage), queue, copy });
                }
            }
        });
    }
    REGION.with_borrow_mut(|region| {
        region.first.get_or_insert((first.id(), to));
        if region.has_waited {
            return;
        }
        region.used.extend(leaves.iter().zip(&storages).map(|(t, s)| (t.id(), Place::of(t, s))));
    });
    let copies: Vec<Tensor> = copies.into_iter().flatten().collect();
    if is_grad_enabled() {
        record(leaves, &copies)?;
    }
    Ok(Some(copies))
}

/// At the start of a region: what the last one that began with this weight used, but for these leaves.
fn begin(first: &Tensor, leaves: &[&Tensor], to: DType) -> Vec<(usize, Place, Tensor)> {
    REGION.with_borrow_mut(|region| {
        if region.first.is_some() {
            return Vec::new();
        }
        let Some(expected) = region.expected.get(&(first.id(), to)) else { return Vec::new() };
        let others = expected.iter().filter(|(id, _)| leaves.iter().all(|t| t.id() != *id));
        let there = others.filter_map(|(id, place)| {
            let t = place.tensor()?;
            (t.device() == first.device()).then(|| (*id, place.clone(), t))
        });
        there.collect()
    })
}

/// In another dtype. Tensors without gaps keep their strides, as in a cast of each alone.
fn copied(from: &[Tensor], to: DType) -> Result<Vec<Tensor>> {
    let _no_grad = GradGuard::new(false);
    let from: Vec<Tensor> = from.iter().map(oneflow_autograd::detach).collect();
    let like = |t: &Tensor| {
        let copy = Tensor::shell(to, t.device(), Dims::from_slice(t.sizes()), Dims::from_slice(t.strides()))?;
        copy.materialize().map(|()| copy)
    };
    let copies = from.iter().map(like).collect::<Result<Vec<_>>>()?;
    let none = || std::iter::empty::<&Tensor>();
    f::_fused_update_(&copies, &from, none(), none(), none(), None, None, None, None, None, COPY.name, &[], false)?;
    Ok(copies)
}

/// Notes that the copies were made of the leaves: gradients are cast back, in one launch.
fn record(leaves: &[&Tensor], copies: &[Tensor]) -> Result<()> {
    let dtype = leaves[0].dtype();
    let ins: Vec<Option<&Tensor>> = leaves.iter().map(|t| Some(*t)).collect();
    let backward = move |grads: &[Option<Tensor>]| -> Result<Vec<Option<Tensor>>> {
        let given: Vec<Tensor> = grads.iter().flatten().cloned().collect();
        // A gradient of this gradient needs ops that are recorded.
        let alone = is_grad_enabled() || given.len() < 2 || given.iter().any(|g| plain(g).is_none());
        let mut cast = match alone {
            true => given.iter().map(|g| g.to_copy_with(Some(dtype), None)).collect::<Result<Vec<_>>>()?,
            false => copied(&given, dtype)?,
        }
        .into_iter();
        Ok(grads.iter().map(|g| g.as_ref().and_then(|_| cast.next())).collect())
    };
    custom_node("ToCopyBackward0", &ins, copies, &[], Box::new(backward), Box::new(|| ()), None)?;
    Ok(())
}

/// The thread, or a stream that it issues to, waits for other work: weights that may be written there are cast after it.
pub fn note_wait() {
    let old = REGION.with_borrow_mut(|region| {
        region.has_waited = region.first.is_some();
        std::mem::take(&mut region.ready)
    });
    drop(old);
}

/// Ends the region: the next one that begins with the same weight is expected to use the same weights.
pub fn end() {
    // Dropped outside the borrow: a tensor's end may run other code.
    let old = REGION.with_borrow_mut(|region| {
        let (used, ready) = (std::mem::take(&mut region.used), std::mem::take(&mut region.ready));
        region.has_waited = false;
        if let Some(first) = region.first.take() {
            if region.expected.len() >= MAX_REGIONS {
                region.expected.clear();
            }
            region.expected.insert(first, used);
        }
        ready
    });
    drop(old);
}
