//! A file or bytes to a model.

use crate::{limits, proto::ModelProto};
use memmap2::Mmap;
use oneflow_base::{Error, Result};
use prost::Message;
use prost::bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// A file as memory, which tensors are parts of.
#[derive(Clone)]
pub struct MappedFile(Arc<Mmap>);

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl MappedFile {
    /// Gives the memory of `part` back to the system once it is copied: whoever reads it again reads the file again.
    pub fn forget(&self, part: &[u8]) {
        #[cfg(unix)]
        {
            const PAGE: usize = 4096;
            let start = (part.as_ptr() as usize).wrapping_sub(self.0.as_ptr() as usize);
            let Some(end) = start.checked_add(part.len()).filter(|end| *end <= self.0.len()) else { return };
            let (first, last) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
            if first < last {
                // SAFETY: pages of a file that is mapped for reading; the system reads them again when they are touched.
                let advised =
                    unsafe { self.0.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, first, last - first) };
                // It is a hint: where the system does not take it (larger pages), memory stays held a little longer.
                drop(advised);
            }
        }
    }
}

/// The bytes of a model and where tensors in other files are looked for.
pub struct Source {
    pub model: ModelProto,
    /// The file that tensors of the model are parts of.
    pub file: Option<MappedFile>,
    /// None for a model that is no file: it may have no tensors in other files.
    pub folder: Option<crate::Folder>,
}

/// Parses the bytes of a model. Tensors in the result are parts of `bytes`, not copies.
pub fn parse(bytes: Bytes) -> Result<ModelProto> {
    if bytes.is_empty() {
        return Err(Error::value("ONNX: the file is empty".to_owned()));
    }
    limits::check(&bytes)?;
    ModelProto::decode(bytes).map_err(|e| Error::value(format!("ONNX: the file is no ONNX model: {e}")))
}

/// Reads the model in a file.
pub fn read_file(path: &Path) -> Result<Source> {
    let fail = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => Error::value(format!("ONNX: there is no file {}", path.display())),
        _ => Error::runtime(format!("ONNX: {}: {e}", path.display())),
    };
    let file = std::fs::File::open(path).map_err(fail)?;
    let meta = file.metadata().map_err(fail)?;
    if !meta.is_file() {
        return Err(Error::value(format!("ONNX: {} is no file", path.display())));
    }
    let mut mapped = None;
    let bytes = if meta.len() == 0 {
        Bytes::new()
    } else {
        // SAFETY: the mapping is only read. As with every mapped file, nobody may shorten it meanwhile.
        let map = unsafe { Mmap::map(&file) }.map_err(fail)?;
        let map = mapped.insert(MappedFile(Arc::new(map)));
        Bytes::from_owner(map.clone())
    };
    Ok(Source { model: parse(bytes)?, file: mapped, folder: Some(crate::Folder::of_model(path).map_err(fail)?) })
}
