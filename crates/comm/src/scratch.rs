//! Memory of a thread for what comes before it is reduced. The pages of fresh memory would cost more than a step that fits the cache.

use std::cell::Cell;

pub(crate) struct Scratch(pub Vec<u8>);

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Scratch {
    pub fn take(len: usize) -> Scratch {
        let mut data = SCRATCH.take();
        data.resize(len, 0);
        Scratch(data)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A thread that ends has no place for it any more.
        let _ = SCRATCH.try_with(|place| place.set(std::mem::take(&mut self.0)));
    }
}
