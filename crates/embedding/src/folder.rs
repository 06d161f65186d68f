//! The folder of a store: the only code that touches the file system. Tests can make each step fail.
//!
//! Independent of the format. Errors name the step, the file and the system's error.

use oneflow_base::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A step that changes what is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Create,
    /// A write of this many bytes.
    Write(usize),
    /// Waits until a file's bytes are on the disk.
    Sync,
    Rename,
    /// Waits until the folder's names are on the disk.
    SyncFolder,
    Remove,
}

/// A test's effect on a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Go,
    /// The step fails; a write leaves this many of its bytes.
    Fail(usize),
}

/// Decides for each step whether it fails. Released stores never call it.
pub trait Faults: Send + Sync {
    fn judge(&self, op: Op, path: &Path) -> Verdict;
}

pub struct Folder {
    path: PathBuf,
    faults: Option<Arc<dyn Faults>>,
    /// Held locked for as long as the folder is open.
    _lock: Option<File>,
    reads_only: bool,
}

fn failed(what: &str, path: &Path, e: io::Error) -> Error {
    Error::runtime(format!("embedding: cannot {what} {}: {e}", path.display()))
}

/// Opens a file for direct reads, and tries one; None where they are refused.
#[cfg(target_os = "linux")]
pub fn open_direct(path: &Path) -> io::Result<Option<Arc<File>>> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Some(Arc::new(file))),
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(not(target_os = "linux"))]
pub fn open_direct(_path: &Path) -> io::Result<Option<Arc<File>>> {
    Ok(None)
}

impl Folder {
    /// Opens or creates the folder and locks it.
    pub fn open(path: &Path, faults: Option<Arc<dyn Faults>>) -> Result<Folder> {
        std::fs::create_dir_all(path).map_err(|e| failed("make the folder", path, e))?;
        let file = path.join("LOCK");
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&file);
        let lock = open.map_err(|e| failed("write in the folder: opening", &file, e))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path: path.to_path_buf(), faults, _lock: Some(lock), reads_only: false }),
            Err(TryLockError::WouldBlock) => Err(Error::runtime(format!(
                "embedding: {} is in use: a store has one writer, and another holds its LOCK file",
                path.display()
            ))),
            Err(TryLockError::Error(e)) => Err(failed("lock", &file, e)),
        }
    }

    /// Opens a folder that is there, to read. With `locks` a writer is refused meanwhile, and refuses this.
    pub fn open_to_read(path: &Path, locks: bool) -> Result<Folder> {
        let file = path.join("LOCK");
        let mut folder = Folder { path: path.to_path_buf(), faults: None, _lock: None, reads_only: true };
        if !path.is_dir() {
            return Err(Error::value(format!("embedding: there is no folder {}", path.display())));
        }
        if locks && file.exists() {
            let lock = File::open(&file).map_err(|e| failed("open", &file, e))?;
            match lock.try_lock_shared() {
                Ok(()) => folder._lock = Some(lock),
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::runtime(format!(
                        "embedding: {} is in use by a writer: read one of its snapshots, or close it first",
                        path.display()
                    )));
                }
                Err(TryLockError::Error(e)) => return Err(failed("lock", &file, e)),
            }
        }
        Ok(folder)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// How many bytes of a write may be written; an error if the step fails altogether.
    fn judge(&self, op: Op, path: &Path) -> Result<Option<usize>> {
        match self.faults.as_ref().map_or(Verdict::Go, |f| f.judge(op, path)) {
            Verdict::Go => Ok(None),
            Verdict::Fail(n) if matches!(op, Op::Write(_)) => Ok(Some(n)),
            Verdict::Fail(_) => Err(failed("change", path, io::Error::other("a planted fault"))),
        }
    }

    /// Makes or empties a file.
    pub fn create(&self, name: &str) -> Result<File> {
        let path = self.file(name);
        self.judge(Op::Create, &path)?;
        let open = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path);
        open.map_err(|e| failed("create", &path, e))
    }

    pub fn open_file(&self, name: &str) -> Result<File> {
        let path = self.file(name);
        OpenOptions::new().read(true).write(!self.reads_only).open(&path).map_err(|e| failed("open", &path, e))
    }

    /// The file for reads that pass by the system's cache; None where the file system has none.
    pub fn open_direct(&self, name: &str) -> Result<Option<Arc<File>>> {
        let path = self.file(name);
        open_direct(&path).map_err(|e| failed("open", &path, e))
    }

    pub fn write_at(&self, file: &File, name: &str, bytes: &[u8], offset: u64) -> Result<()> {
        let path = self.file(name);
        if let Some(n) = self.judge(Op::Write(bytes.len()), &path)? {
            let torn = file.write_all_at(&bytes[..n.min(bytes.len())], offset);
            return Err(failed("write", &path, torn.err().unwrap_or(io::Error::other("a planted fault"))));
        }
        file.write_all_at(bytes, offset).map_err(|e| failed("write", &path, e))
    }

    pub fn sync(&self, file: &File, name: &str) -> Result<()> {
        let path = self.file(name);
        self.judge(Op::Sync, &path)?;
        file.sync_data().map_err(|e| failed("sync", &path, e))
    }

    /// Gives a file another name, whose old file is gone; both as one step that lasts.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let path = self.file(to);
        self.judge(Op::Rename, &path)?;
        std::fs::rename(self.file(from), &path).map_err(|e| failed("rename to", &path, e))?;
        self.judge(Op::SyncFolder, &self.path)?;
        let parent = path.parent().unwrap_or(&self.path);
        File::open(parent).and_then(|d| d.sync_all()).map_err(|e| failed("sync the folder", parent, e))
    }

    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.file(name);
        self.judge(Op::Remove, &path)?;
        std::fs::remove_file(&path).map_err(|e| failed("remove", &path, e))
    }

    pub fn make_folder(&self, name: &str) -> Result<()> {
        let path = self.file(name);
        std::fs::create_dir_all(&path).map_err(|e| failed("make the folder", &path, e))
    }

    /// Names of the files in the folder, or in one below it.
    pub fn names(&self, below: &str) -> Result<Vec<String>> {
        let path = self.file(below);
        let entries = match std::fs::read_dir(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|e| failed("list", &path, e))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|e| failed("list", &path, e))?.file_name();
            names.extend(name.into_string());
        }
        names.sort();
        Ok(names)
    }

    pub fn size(&self, name: &str) -> Result<u64> {
        let path = self.file(name);
        std::fs::metadata(&path).map(|m| m.len()).map_err(|e| failed("read", &path, e))
    }

    /// Bytes of a file that has so many.
    pub fn read_part(&self, name: &str, offset: u64, n: usize) -> Result<Vec<u8>> {
        let path = self.file(name);
        let mut bytes = vec![0; n];
        let read = File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, offset));
        read.map(|()| bytes).map_err(|e| failed("read", &path, e))
    }

    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.file(name);
        std::fs::read(&path).map_err(|e| failed("read", &path, e))
    }
}
