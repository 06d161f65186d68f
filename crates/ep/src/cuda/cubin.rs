//! Machine code on disk: each kernel is compiled once a machine, not once a process. Failures to read or write are no
//! errors, the kernel is compiled again. The text of what was compiled is kept beside it, so that it can be compiled ahead for
//! other GPUs. The compiler's release is no part of a name: code made elsewhere serves.

use super::kernel::Text;
use super::nvrtc::Nvrtc;
use oneflow_base::Result;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Part of every key; raised when the format of the files changes.
const FORMAT: &[u8] = b"oneflow cubin 2";

/// The code of a kernel for an architecture, from disk or compiled now.
pub fn load_or_compile(nvrtc: &Nvrtc, text: &Text, arch: &str) -> Result<Vec<u8>> {
    let path = directory().map(|d| d.join(format!("{}.cubin", key(text, arch))));
    if let Some(code) = path.as_deref().and_then(read) {
        return Ok(code);
    }
    let code = nvrtc.compile(&text.name, &text.source, arch, text.options)?;
    if let Some(path) = path {
        let _ = write(&path, &code);
        let _ = write_text(&path.with_file_name(format!("{}.{TEXT}", key(text, ""))), text);
    }
    Ok(code)
}

/// Drops a file that the driver refused.
pub fn forget(text: &Text, arch: &str) {
    if let Some(d) = directory() {
        let _ = std::fs::remove_file(d.join(format!("{}.cubin", key(text, arch))));
    }
}

/// The directory that `ONEFLOW_CUBIN_CACHE` names, else `$XDG_CACHE_HOME/oneflow/cubin`; none where no home is known or the
/// cache is switched off (`0`).
pub fn directory() -> Option<PathBuf> {
    if let Some(set) = std::env::var_os("ONEFLOW_CUBIN_CACHE").filter(|v| !v.is_empty() && v != "1") {
        return (set != "0").then(|| PathBuf::from(set));
    }
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").filter(|p| p.is_absolute()).or_else(|| set("HOME").map(|h| h.join(".cache")))?;
    Some(base.join("oneflow").join("cubin"))
}

/// What the files of texts end with: a line with the name, one with the options, then the source.
const TEXT: &str = "text";

/// Keeps the text of a kernel.
fn write_text(path: &Path, text: &Text) -> std::io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    whole(path, |file| write!(file, "{}\n{}\n{}", text.name, text.options.join(" "), text.source))
}

fn key(text: &Text, arch: &str) -> String {
    let mut h = Sha256::new();
    let options = text.options.join(" ");
    for part in [FORMAT, arch.as_bytes(), options.as_bytes(), text.source.as_bytes()] {
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
    whole(path, |file| {
        file.write_all(&Sha256::digest(code))?;
        file.write_all(code)
    })
}

/// Writes a file that readers see whole or not at all.
fn whole(path: &Path, fill: impl FnOnce(&mut std::fs::File) -> std::io::Result<()>) -> std::io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let temporary = path.with_extension(format!("tmp{}-{:?}", std::process::id(), std::thread::current().id()));
    let mut file = std::fs::File::create(&temporary)?;
    fill(&mut file)?;
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
