//! What a hook may ask of the backward that runs it: which one it is, and whether it will reach a node.

use crate::addresses::AddressSet;
use crate::node::Node;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) type Keys = Arc<AddressSet>;

struct Running {
    number: u64,
    roots: SmallVec<[Arc<Node>; 1]>,
    /// Nodes on a way to what the gradients are wanted of, where only those run.
    needed: Option<Keys>,
    reached: Option<Keys>,
}

thread_local! {
    static STACK: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

static NUMBER: AtomicU64 = AtomicU64::new(1);

/// Ends the run it was made for when dropped.
pub(crate) struct InRun;

impl InRun {
    pub fn new(roots: SmallVec<[Arc<Node>; 1]>, needed: Option<Keys>) -> InRun {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        STACK.with_borrow_mut(|s| s.push(Running { number, roots, needed, reached: None }));
        InRun
    }
}

impl Drop for InRun {
    fn drop(&mut self) {
        let gone = STACK.with_borrow_mut(Vec::pop);
        drop(gone);
    }
}

/// The number of the backward that runs on this thread; 0 outside.
pub fn backward_number() -> u64 {
    STACK.with_borrow(|s| s.last().map_or(0, |r| r.number))
}

/// Whether the backward that runs on this thread runs only what leads to some tensors.
pub fn backward_is_partial() -> bool {
    STACK.with_borrow(|s| s.last().is_some_and(|r| r.needed.is_some()))
}

/// Whether the backward that runs on this thread reaches a node.
pub fn will_run(node: &Arc<Node>) -> bool {
    STACK.with_borrow_mut(|s| {
        let Some(r) = s.last_mut() else { return false };
        let key = Arc::as_ptr(node) as usize;
        match &r.needed {
            Some(n) => n.contains(&key),
            None => r.reached.get_or_insert_with(|| reach(&r.roots)).contains(&key),
        }
    })
}

fn reach(roots: &[Arc<Node>]) -> Keys {
    let mut seen = AddressSet::default();
    let mut stack: Vec<Arc<Node>> = roots.to_vec();
    while let Some(n) = stack.pop() {
        if seen.insert(Arc::as_ptr(&n) as usize) {
            stack.extend(n.next().iter().flatten().map(|e| e.node.clone()));
        }
    }
    Arc::new(seen)
}
