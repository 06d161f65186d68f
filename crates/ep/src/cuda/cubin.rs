//! Machine code on disk: each kernel is compiled once a machine, not once a process. Failures to read or write are no
//! errors, the kernel is compiled again.

use super::kernel::Text;
use super::nvrtc::Nvrtc;
use oneflow_base::Result;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Part of every key; raised when the format of the files changes.
const FORMAT: &[u8] = b"oneflow cubin 1";

/// The code of a kernel for an architecture, from disk or compiled now.
pub fn load_or_compile(nvrtc: &Nvrtc, text: &Text, arch: &str) -> Result<Vec<u8>> {
    let path = directory().map(|d| d.join(format!("{}.cubin", key(nvrtc, text, arch))));
    if let Some(code) = path.as_deref().and_then(read) {
        return Ok(code);
    }
    let code = nvrtc.compile(&text.name, &text.source, arch, text.options)?;
    if let Some(path) = path {
        let _ = write(&path, &code);
    }
    Ok(code)
}

/// Drops a file that the driver refused.
pub fn forget(nvrtc: &Nvrtc, text: &Text, arch: &str) {
    if let Some(d) = directory() {
        let _ = std::fs::remove_file(d.join(format!("{}.cubin", key(nvrtc, text, arch))));
    }
}

/// The directory that `ONEFLOW_CUBIN_CACHE` names, else `$XDG_CACHE_HOME/oneflow/cubin`; none where no home is known or the
/// cache is switched off (`0`).
fn directory() -> Option<PathBuf> {
    if let Some(set) = std::env::var_os("ONEFLOW_CUBIN_CACHE").filter(|v| !v.is_empty() && v != "1") {
        return (set != "0").then(|| PathBuf::from(set));
    }
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").filter(|p| p.is_absolute()).or_else(|| set("HOME").map(|h| h.join(".cache")))?;
    Some(base.join("oneflow").join("cubin"))
}

fn key(nvrtc: &Nvrtc, text: &Text, arch: &str) -> String {
    let mut h = Sha256::new();
    let version = format!("{}.{}", nvrtc.version.0, nvrtc.version.1);
    let options = text.options.join(" ");
    for part in [FORMAT, version.as_bytes(), arch.as_bytes(), options.as_bytes(), text.source.as_bytes()] {
        h.update((part.len() as u64).to_le_bytes());
        h.update(part);
    }
    h.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// A file is the digest of the code, then the code: a torn or edited file reads as absent.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = std::fs::read(path).ok()?;
    let code = bytes.split_off(bytes.len().min(32));
    (Sha256::digest(&code).as_slice() == bytes.as_slice()).then_some(code)
}

fn write(path: &Path, code: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    // Readers see the whole file or none.
    let temporary = path.with_extension(format!("tmp{}-{:?}", std::process::id(), std::thread::current().id()));
    let mut file = std::fs::File::create(&temporary)?;
    file.write_all(&Sha256::digest(code))?;
    file.write_all(code)?;
    drop(file);
    std::fs::rename(&temporary, path).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_files_read_as_absent() {
        let dir = std::env::temp_dir().join(format!("oneflow-cubin-{}", std::process::id()));
        let path = dir.join("a.cubin");
        write(&path, b"machine code").unwrap();
        assert_eq!(read(&path).unwrap(), b"machine code");
        let whole = std::fs::read(&path).unwrap();
        for n in [0, 5, 32, whole.len() - 1] {
            std::fs::write(&path, &whole[..n]).unwrap();
            assert_eq!(read(&path), None);
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
