//! Files as memory, and the slots of a step as memory to fill.

use memmap2::Mmap;
use oneflow_base::{Error, Result};
use oneflow_runtime::Piece;
use std::fs::File;
use std::path::Path;

/// A file whose pages are read by the system as they are touched.
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    let cannot = |e: std::io::Error| Error::runtime(format!("{}: {e}", path.display()));
    let file = File::open(path).map_err(cannot)?;
    // SAFETY: the map is only read, byte by byte; a file cut short by somebody else meanwhile is the one hazard left, as for
    // every reader of maps.
    unsafe { Mmap::map(&file) }.map_err(cannot)
}

/// Element types of registers: any bytes are a valid value.
pub(crate) trait Item: Copy {}
impl Item for u8 {}
impl Item for i64 {}

/// The first `n` items of a slot.
pub(crate) fn fill<'a, T: Item>(what: &str, piece: &'a mut Piece, n: usize) -> Result<&'a mut [T]> {
    let fits = n.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= piece.bytes);
    if !fits || !piece.ptr.cast::<T>().is_aligned() {
        let bytes = n.saturating_mul(size_of::<T>());
        return Err(Error::value(format!("{what}: its register holds {} bytes, a batch has {bytes}", piece.bytes)));
    }
    // SAFETY: the piece is this actor's until it is given on, aligned and large enough.
    Ok(unsafe { std::slice::from_raw_parts_mut(piece.ptr.cast::<T>(), n) })
}

/// Little-endian numbers from a byte slice.
pub(crate) fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
