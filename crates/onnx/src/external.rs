//! Tensors in files beside the model, which must lie in its folder.
//!
//! A path in a model may come from anybody: an absolute path, one with `..`, and a link that leads elsewhere would read any
//! file of the machine into a tensor.

use crate::proto::TensorProto;
use oneflow_base::{Error, Result};
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

/// Where the files of a model lie.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    /// The folder without links, and the one that the model itself lies in, if it is a link: caches keep all files of a model
    /// under one folder and link to them.
    roots: Vec<PathBuf>,
    /// The model has several names itself, as every file of a cache that is made of hard links.
    has_hard_links: bool,
}

impl Folder {
    pub fn of_model(model: &Path) -> std::io::Result<Folder> {
        let path = match model.parent() {
            Some(p) if !p.as_os_str().is_empty() => p.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut roots = vec![path.canonicalize()?];
        if let Some(p) = model.canonicalize()?.parent() {
            roots.push(p.to_owned());
        }
        Ok(Folder { path, roots, has_hard_links: n_names(&model.metadata()?) > 1 })
    }

    /// Reads the elements of a tensor that says where they are, at most `expected` bytes.
    pub fn read(&self, t: &TensorProto, expected: usize) -> Result<Vec<u8>> {
        let (mut location, mut offset, mut length) = (None, 0u64, None);
        for entry in &t.external_data {
            let value = entry.value.as_deref().unwrap_or("");
            let number = || value.parse::<u64>().map_err(|_| self.error(t, &format!("{:?} is no size", value)));
            match entry.key.as_deref() {
                Some("location") => location = Some(value),
                Some("offset") => offset = number()?,
                Some("length") => length = Some(number()?),
                _ => {}
            }
        }
        let location = location.ok_or_else(|| self.error(t, "it does not say in which file"))?;
        if length.is_some_and(|n| n != expected as u64) {
            return Err(self.error(t, &format!("it has {} bytes there, {expected} are expected", length.unwrap_or(0))));
        }
        let mut file = self.open(t, location)?;
        let size = file.metadata().map_err(|e| self.error(t, &e.to_string()))?.len();
        if offset.checked_add(expected as u64).is_none_or(|end| end > size) {
            return Err(
                self.error(t, &format!("bytes {offset} to {offset} + {expected} end after the {size} of {location:?}"))
            );
        }
        let mut data = vec![0; expected];
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(&mut data))
            .map_err(|e| self.error(t, &format!("{location:?}: {e}")))?;
        Ok(data)
    }

    fn open(&self, t: &TensorProto, location: &str) -> Result<File> {
        let relative = Path::new(location);
        let plain = relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        if !plain || location.is_empty() || location.contains('\\') || location.contains('\0') {
            return Err(self.error(t, &format!("the path {location:?} leaves the folder of the model")));
        }
        let path = self.path.join(relative);
        let real = path.canonicalize().map_err(|e| self.error(t, &format!("{location:?}: {e}")))?;
        if !self.roots.iter().any(|root| real.starts_with(root)) {
            return Err(self.error(t, &format!("{location:?} is a link that leaves the folder of the model")));
        }
        let file = File::open(&real).map_err(|e| self.error(t, &format!("{location:?}: {e}")))?;
        let meta = file.metadata().map_err(|e| self.error(t, &format!("{location:?}: {e}")))?;
        if !meta.is_file() {
            return Err(self.error(t, &format!("{location:?} is no file")));
        }
        if n_names(&meta) > 1 && !self.has_hard_links {
            return Err(
                self.error(t, &format!("{location:?} is a hard link, which may lead out of the folder of the model"))
            );
        }
        Ok(file)
    }

    fn error(&self, t: &TensorProto, what: &str) -> Error {
        Error::value(format!("ONNX: the tensor {:?} lies in another file: {what}", t.name.as_deref().unwrap_or("")))
    }
}

#[cfg(unix)]
fn n_names(meta: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(meta)
}

#[cfg(not(unix))]
fn n_names(_: &Metadata) -> u64 {
    1
}
