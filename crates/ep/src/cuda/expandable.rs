//! Expandable segments: one range of addresses a pool, at whose end memory is mapped as the pool grows. A request that no free
//! block holds takes the free end along, so sizes that change from step to step leave no holes of segments that are too small.
//!
//! Memory is given back from the end alone. Chosen by `expandable_segments:True` in ONEFLOW_CUDA_ALLOC_CONF or
//! PYTORCH_CUDA_ALLOC_CONF; where the driver has no virtual memory, segments are as ever.

use super::driver::{self, Access, Address, Code, Location, Physical, PhysicalProperties};
use super::graph;

/// The memory of a pool.
pub(super) struct Expandable {
    index: u16,
    base: usize,
    granule: usize,
    reserved: usize,
    /// What is mapped from the base on, a granule each.
    handles: Vec<Physical>,
    /// The first chunk, while anything is mapped.
    pub head: Option<u32>,
}

/// Returns true if the environment asks for expandable segments.
pub(super) fn wanted() -> bool {
    let names = ["ONEFLOW_CUDA_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"];
    let conf = names.into_iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
    is_on(&conf)
}

fn is_on(conf: &str) -> bool {
    let pairs = conf.split(',').filter_map(|pair| pair.split_once(':'));
    pairs.filter(|(key, _)| key.trim() == "expandable_segments").any(|(_, v)| v.trim().eq_ignore_ascii_case("true"))
}

impl Expandable {
    /// Addresses for all of a device's memory and a little more, none of it mapped.
    pub fn new(index: u16, granule: usize, total: usize) -> Result<Expandable, Code> {
        let reserved = (total + total / 8).next_multiple_of(granule);
        // SAFETY: only addresses are reserved.
        let base = unsafe { driver::value(|p| driver::address_reserve(p, reserved, 0, 0, 0)) }?;
        Ok(Expandable { index, base: base as usize, granule, reserved, handles: Vec::new(), head: None })
    }

    pub fn base(&self) -> usize {
        self.base
    }

    /// So many bytes in whole granules.
    pub fn rounded(&self, bytes: usize) -> usize {
        bytes.next_multiple_of(self.granule)
    }

    pub fn mapped(&self) -> usize {
        self.handles.len() * self.granule
    }

    /// Maps so many bytes more, whole granules: all of them or none.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Code> {
        if self.mapped() + bytes > self.reserved {
            return Err(Code::OUT_OF_MEMORY);
        }
        let before = self.mapped();
        while self.mapped() < before + bytes {
            if let Err(e) = graph::outside_of_captures(|| self.map_next()) {
                self.shrink(before);
                return Err(e);
            }
        }
        Ok(())
    }

    fn map_next(&mut self) -> Result<(), Code> {
        let here = Location::device(self.index);
        let (properties, access) = (PhysicalProperties::pinned(here), Access::read_and_write(here));
        let (at, bytes) = ((self.base + self.mapped()) as Address, self.granule);
        // SAFETY: the places are live; the addresses are reserved and nothing is mapped there.
        unsafe {
            let handle = driver::value(|p| driver::physical_create(p, bytes, &properties, 0))?;
            if let Err(e) = driver::map(at, bytes, 0, handle, 0) {
                let _ = driver::physical_release(handle);
                return Err(e);
            }
            if let Err(e) = driver::set_access(at, bytes, &access, 1) {
                let _ = (driver::unmap(at, bytes), driver::physical_release(handle));
                return Err(e);
            }
            self.handles.push(handle);
        }
        Ok(())
    }

    /// Unmaps what lies behind the first `bytes`. Nobody uses it and no work that does is under way: unmapping does not wait.
    pub fn shrink(&mut self, bytes: usize) {
        while self.mapped() > bytes
            && let Some(handle) = self.handles.pop()
        {
            let at = (self.base + self.mapped()) as Address;
            // SAFETY: this granule was mapped here, and is used no more by the caller's promise.
            let _ = unsafe { (driver::unmap(at, self.granule), driver::physical_release(handle)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_is_one_of_several() {
        for on in ["expandable_segments:True", "max_split_size_mb:64, expandable_segments:true"] {
            assert!(is_on(on), "{on}");
        }
        for off in ["", "expandable_segments:False", "expandable_segments", "other:True"] {
            assert!(!is_on(off), "{off}");
        }
    }
}
