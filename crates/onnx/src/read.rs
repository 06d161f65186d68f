//! A file or bytes to a model.

use crate::{limits, proto::ModelProto};
use oneflow_base::{Error, Result};
use prost::Message;
use prost::bytes::Bytes;
use std::path::Path;

/// The bytes of a model and where tensors in other files are looked for.
pub struct Source {
    pub model: ModelProto,
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
    let bytes = if meta.len() == 0 {
        Bytes::new()
    } else {
        // SAFETY: the mapping is only read. As with every mapped file, nobody may shorten it meanwhile.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(fail)?;
        Bytes::from_owner(map)
    };
    Ok(Source { model: parse(bytes)?, folder: Some(crate::Folder::of_model(path).map_err(fail)?) })
}
