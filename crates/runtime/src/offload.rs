//! Variables whose memory is a file: what is offloaded to a disk, and when a run brings its pages and lets them go. And those of a
//! device whose memory is the host's, where the device reads and writes them in place: a run does nothing for them.
//!
//! The bytes are there for whoever reads or writes the addresses; the system moves pages. A session adds hints by the order of
//! its plan: pages come before the instruction that needs them (`FileMemory::prefetch`) and go once the next one that does is
//! far (`FileMemory::let_go`). A hint at the wrong time costs time and never a byte. The files have no names, so they go with the
//! process.

use crate::plan::{Home, Plan, Work};
use oneflow_base::{Error, Result};
use oneflow_core::Storage;
use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Mapped pages of a nameless file.
pub struct FileMemory {
    ptr: *mut u8,
    bytes: usize,
    /// How many bytes of such memory may stay between instructions that need them.
    window: usize,
    #[cfg(target_os = "linux")]
    file: std::fs::File,
}

// SAFETY: an address range with one owner; who may use the memory behind it is up to that owner.
unsafe impl Send for FileMemory {}
// SAFETY: as above; the hints are system calls that any thread may make.
unsafe impl Sync for FileMemory {}

/// By address, what lies in files.
static ALL: Mutex<Option<HashMap<usize, Weak<FileMemory>>>> = Mutex::new(None);
/// Areas that wait for the thread that writes; who finds so many waits.
const WAITING: usize = 4;

/// Moves a storage of the host into a new file of a folder. Of what lies in a file the number `window` alone changes.
///
/// # Safety
/// As for `Storage::resize`: the caller holds the language's lock, and nobody keeps a pointer into the storage.
///
/// # Errors
/// ValueError: the storage is not on the host, or the folder lies in memory (tmpfs). RuntimeError: others share the memory, the
/// folder cannot be written, or its disk is full.
pub unsafe fn move_to_file(storage: &Storage, folder: &Path, window: usize) -> Result<()> {
    if !storage.device().is_cpu() {
        return Err(Error::value(format!("offload: expected memory of the host, got memory of {}", storage.device())));
    }
    if storage.bytes() == 0 || storage.is_reserved() || file_of(storage).is_some() {
        return Ok(());
    }
    if !storage.is_resizable() {
        return Err(Error::runtime("offload: the tensor shares its memory with another library, as NumPy's arrays do"));
    }
    let made = Arc::new(FileMemory::new(folder, storage.bytes(), window)?);
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_default();
    all.retain(|_, known| known.strong_count() > 0);
    all.insert(made.ptr as usize, Arc::downgrade(&made));
    // SAFETY: new memory of this size, which `made` owns; the rest is this function's contract.
    unsafe { storage.move_into(made.ptr, Box::new(made.clone())) };
    made.let_go();
    Ok(())
}

/// Moves a storage of a device into pinned memory of the host, where the device goes on to read and write it.
///
/// # Safety
/// As for `move_to_file`.
///
/// # Errors
/// ValueError: the storage is on the host. RuntimeError: others share the memory. NotImplementedError: the device cannot reach
/// memory of the host.
pub unsafe fn move_to_host(storage: &Storage) -> Result<()> {
    if storage.device().is_cpu() {
        return Err(Error::value("offload: the tensor is in host memory already"));
    }
    if storage.bytes() == 0 || storage.is_on_host() {
        return Ok(());
    }
    if !storage.is_resizable() {
        return Err(Error::runtime("offload: the tensor shares its memory with another library"));
    }
    // SAFETY: this function's contract.
    unsafe { storage.move_to_host() }
}

/// The file that a storage lies in.
pub fn file_of(storage: &Storage) -> Option<Arc<FileMemory>> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.as_ref()?.get(&(storage.ptr() as usize))?.upgrade()
}

/// Brings the pages of a storage that lies in a file, or lets them go; of others nothing.
pub fn hint(storage: &Storage, comes: bool) {
    if let Some(file) = file_of(storage) {
        if comes { file.prefetch() } else { file.let_go() }
    }
}

/// Bytes of storages that lie in files or, of a device, on the host, and how many of those in files are in memory now.
pub fn of_storages(storages: &[Storage]) -> (usize, usize) {
    let mut seen: Vec<Arc<FileMemory>> = Vec::new();
    for file in storages.iter().filter_map(file_of) {
        if !seen.iter().any(|known| Arc::ptr_eq(known, &file)) {
            seen.push(file);
        }
    }
    let mut on_host: Vec<&Storage> = storages.iter().filter(|s| s.is_on_host()).collect();
    on_host.sort_by_key(|s| s.address());
    on_host.dedup_by_key(|s| s.address());
    let bytes = on_host.iter().map(|s| s.bytes()).chain(seen.iter().map(|f| f.bytes)).sum();
    (bytes, seen.iter().map(|f| f.resident()).sum())
}

#[cfg(target_os = "linux")]
impl FileMemory {
    /// Zeros. The disk's blocks are taken at once, so that no later write finds it full.
    fn new(folder: &Path, bytes: usize, window: usize) -> Result<FileMemory> {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::OpenOptionsExt;
        let failed = |why: std::io::Error| {
            Error::runtime(format!("offload: no file of {bytes} bytes in the folder {}: {why}", folder.display()))
        };
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
        let file = options.open(folder).map_err(failed)?;
        // SAFETY: zeros are a value of this structure of numbers.
        let mut system: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor of an open file, and a structure that is written.
        if unsafe { libc::fstatfs(file.as_raw_fd(), &mut system) } == 0 && system.f_type == libc::TMPFS_MAGIC {
            return Err(Error::value(format!(
                "offload: the folder {} lies in memory (tmpfs), where nothing is freed; name one on a disk",
                folder.display()
            )));
        }
        // SAFETY: the descriptor of an open file.
        let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) };
        if code != 0 {
            return Err(failed(std::io::Error::from_raw_os_error(code)));
        }
        let (prot, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping, at an address of the system's choice, of a file that has these bytes.
        let ptr = unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, libc::MAP_SHARED, fd, 0) };
        if ptr == libc::MAP_FAILED {
            return Err(failed(std::io::Error::last_os_error()));
        }
        Ok(FileMemory { ptr: ptr.cast(), bytes, window, file })
    }

    /// Bytes whose pages are in memory now.
    pub fn resident(&self) -> usize {
        // SAFETY: asks for a number alone.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
        let mut pages = vec![0u8; self.bytes.div_ceil(page)];
        // SAFETY: the mapping has these pages, and the vector a byte for each.
        let code = unsafe { libc::mincore(self.ptr.cast(), self.bytes, pages.as_mut_ptr().cast()) };
        if code != 0 { 0 } else { (pages.iter().filter(|p| **p & 1 == 1).count() * page).min(self.bytes) }
    }

    /// Lets the system read the pages while others work.
    pub fn prefetch(&self) {
        // SAFETY: a hint about the whole mapping.
        unsafe { libc::madvise(self.ptr.cast(), self.bytes, libc::MADV_WILLNEED) };
    }

    /// Writes the pages to the disk and frees them.
    fn write_out(&self) {
        use std::os::fd::AsRawFd;
        let (fd, bytes) = (self.file.as_raw_fd(), self.bytes);
        let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: the mapping's own addresses and descriptor. The pages of a shared mapping keep their content: unmapped first,
        // they are written, and dropped where nobody has mapped them again meanwhile.
        unsafe {
            libc::madvise(self.ptr.cast(), bytes, libc::MADV_DONTNEED);
            libc::sync_file_range(fd, 0, bytes as libc::off64_t, all);
            libc::posix_fadvise(fd, 0, bytes as libc::off_t, libc::POSIX_FADV_DONTNEED);
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl FileMemory {
    fn new(_: &Path, _: usize, _: usize) -> Result<FileMemory> {
        Err(Error::not_implemented("offload: memory in files needs Linux"))
    }
    pub fn resident(&self) -> usize {
        self.bytes
    }
    pub fn prefetch(&self) {}
    fn write_out(&self) {}
}

impl FileMemory {
    /// Has a thread write the pages and free them; waits while that thread has much to do, so that what waits stays small.
    pub fn let_go(self: &Arc<Self>) {
        type Writer = (u32, SyncSender<Arc<FileMemory>>);
        static WRITER: OnceLock<Option<Writer>> = OnceLock::new();
        let start = || {
            let (sender, areas) = sync_channel::<Arc<FileMemory>>(WAITING);
            let run = move || areas.iter().for_each(|area| area.write_out());
            std::thread::Builder::new().name("offload".into()).spawn(run).ok().map(|_| (std::process::id(), sender))
        };
        // After a fork the thread is the parent's.
        match WRITER.get_or_init(start) {
            Some((owner, writer)) if *owner == std::process::id() && writer.send(self.clone()).is_ok() => {}
            _ => self.write_out(),
        }
    }
}

impl Drop for FileMemory {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        // SAFETY: mapped with this size, and nobody uses it any more.
        unsafe {
            libc::munmap(self.ptr.cast(), self.bytes);
        }
    }
}

/// What follows an instruction.
#[derive(Clone)]
pub enum Hint {
    Prefetch(Arc<FileMemory>),
    LetGo(Arc<FileMemory>),
}

impl Hint {
    pub fn give(&self) {
        match self {
            Hint::Prefetch(file) => file.prefetch(),
            Hint::LetGo(file) => file.let_go(),
        }
    }
}

/// An instruction that needs a file's pages.
struct Touch {
    task: usize,
    instr: usize,
    file: usize,
}

/// The hints of each task: behind which instruction, and what. In the order of the plan at most a window of bytes stays.
pub fn hints(plan: &Plan, variables: &[Storage]) -> Vec<Vec<(usize, Hint)>> {
    let mut found: Vec<Vec<(usize, Hint)>> = vec![Vec::new(); plan.tasks.len()];
    let mut files: Vec<Arc<FileMemory>> = Vec::new();
    let numbers: Vec<Option<usize>> = variables
        .iter()
        .map(|s| {
            let file = file_of(s)?;
            let known = files.iter().position(|f| Arc::ptr_eq(f, &file));
            Some(known.unwrap_or_else(|| {
                files.push(file);
                files.len() - 1
            }))
        })
        .collect();
    let touches = touches(plan, &numbers);
    let sizes: Vec<usize> = files.iter().map(|f| f.bytes).collect();
    let window = files.iter().map(|f| f.window).min().unwrap_or(0);
    let order: Vec<usize> = touches.iter().map(|t| t.file).collect();
    for (at, file, comes) in schedule(&order, &sizes, window) {
        let t = &touches[at];
        let file = files[file].clone();
        found[t.task].push((t.instr, if comes { Hint::Prefetch(file) } else { Hint::LetGo(file) }));
    }
    for own in &mut found {
        own.sort_by_key(|(instr, _)| *instr);
    }
    found
}

fn touches(plan: &Plan, numbers: &[Option<usize>]) -> Vec<Touch> {
    let mut found = Vec::new();
    for (task, t) in plan.tasks.iter().enumerate() {
        let Work::Compute(instrs) = &t.work else { continue };
        for (instr, i) in instrs.iter().enumerate() {
            let mut seen: Vec<usize> = Vec::new();
            for o in i.ins.iter().chain(&i.outs) {
                let Home::Variable(k) = plan.buffers[o.buffer as usize].home else { continue };
                if let Some(file) = numbers.get(k as usize).copied().flatten()
                    && !seen.contains(&file)
                {
                    seen.push(file);
                    found.push(Touch { task, instr, file });
                }
            }
        }
    }
    found
}

/// Of files that are needed in this order, again and again: behind which need what is let go (false), or comes (true).
fn schedule(order: &[usize], sizes: &[usize], window: usize) -> Vec<(usize, usize, bool)> {
    let (n, mut found) = (order.len(), Vec::new());
    for at in 0..n {
        let file = order[at];
        // Bytes that others need before this one is needed again, counted as far as the window.
        let mut between = 0;
        let next = (at + 1..=at + n).find(|k| {
            if order[k % n] == file || between > window {
                return true;
            }
            between += sizes[order[k % n]];
            false
        });
        let far = between > window;
        if !far || next.is_none() {
            continue;
        }
        found.push((at, file, false));
        // It comes half a window before it is needed.
        let Some(again) = (at + 1..=at + n).find(|k| order[k % n] == file) else { continue };
        let (mut early, mut ahead) = (again - 1, 0);
        while early > at + 1 && ahead + sizes[order[early % n]] <= window / 2 {
            ahead += sizes[order[early % n]];
            early -= 1;
        }
        found.push((early % n, file, true));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn keeps_its_bytes_without_their_pages() -> Result<()> {
        let memory = Arc::new(FileMemory::new(Path::new("."), 3 << 20, 0)?);
        // SAFETY: the mapping's own bytes, and nobody else has it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.ptr, memory.bytes) };
        assert!(bytes.iter().all(|b| *b == 0));
        bytes.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8);
        assert_eq!(memory.resident(), memory.bytes);
        memory.write_out();
        assert!(memory.resident() < memory.bytes / 4, "{}", memory.resident());
        memory.prefetch();
        assert!(bytes.iter().enumerate().all(|(i, b)| *b == i as u8));
        Ok(())
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn says_why_there_is_no_file() {
        let error = |folder| FileMemory::new(Path::new(folder), 8, 0).err().map_or(String::new(), |e| e.to_string());
        assert!(error("/no/such/folder").contains("/no/such/folder"), "{}", error("/no/such/folder"));
        if Path::new("/dev/shm").is_dir() {
            assert!(error("/dev/shm").contains("tmpfs"), "{}", error("/dev/shm"));
        }
    }

    /// The most bytes that are in memory, where each need takes what it needs; and how often one was not there yet.
    fn played(order: &[usize], sizes: &[usize], window: usize) -> (usize, usize) {
        let hints = schedule(order, sizes, window);
        let (mut here, mut most, mut missed) = (vec![false; sizes.len()], 0, 0);
        for step in 0..3 {
            for (at, file) in order.iter().enumerate() {
                missed += usize::from(step == 2 && !here[*file]);
                here[*file] = true;
                let now: usize = (0..sizes.len()).filter(|f| here[*f]).map(|f| sizes[f]).sum();
                most = most.max(now);
                for (_, file, comes) in hints.iter().filter(|h| h.0 == at) {
                    here[*file] = *comes;
                }
            }
        }
        (most, missed)
    }

    #[test]
    fn holds_a_window_and_misses_nothing() {
        // Updates of twenty states one after the other; parameters that a forward, a backward and an update read.
        let sizes = vec![10; 20];
        let updates: Vec<usize> = (0..20).collect();
        let both: Vec<usize> = (0..20).chain((0..20).rev()).chain((0..20).rev()).collect();
        for order in [updates, both] {
            for window in [20, 40, 80] {
                let (most, missed) = played(&order, &sizes, window);
                assert!(most <= 2 * window + 20 && most < 200, "{most} of a window of {window}");
                assert_eq!(missed, 0, "window {window}");
            }
            assert_eq!(played(&order, &sizes, 1000), (200, 0));
        }
    }
}
