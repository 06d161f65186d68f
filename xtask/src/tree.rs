//! The tree as text: every source file with its path. Knows nothing of what the files mean.

use std::fs;
use std::path::{Path, PathBuf};

/// One text file. The path is relative to the root and written with `/`.
pub struct Source {
    pub path: String,
    pub text: String,
}

impl Source {
    #[cfg(test)]
    pub fn new(path: &str, text: &str) -> Source {
        Source { path: path.to_string(), text: text.to_string() }
    }
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
    pub fn is_generated(&self) -> bool {
        self.path.contains("/generated/") || self.path.ends_with(".pyi") || self.path.starts_with("docs/api/")
    }
}

const TEXT: [&str; 12] = ["rs", "toml", "py", "pyi", "md", "txt", "sh", "yml", "yaml", "cu", "cuh", "json"];
const SKIPPED: [&str; 3] = ["target", "dist", "__pycache__"];

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// All text files of the checkout, sorted by path.
pub fn read() -> Vec<Source> {
    read_under(&root(), "")
}

/// All text files below a folder of `root`, sorted by path.
pub fn read_under(root: &Path, folder: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    visit(root, &root.join(folder), &mut sources);
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

fn visit(root: &Path, dir: &Path, sources: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            let hidden = name.starts_with('.') && ![".ci", ".cargo", ".github"].contains(&name.as_str());
            if !hidden && !SKIPPED.contains(&name.as_str()) && !path.is_symlink() {
                visit(root, &path, sources);
            }
        } else if is_text(&path, &name) {
            // A file that is not UTF-8, or that vanished meanwhile, is no source of ours.
            if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                sources.push(Source { path, text });
            }
        }
    }
}

fn is_text(path: &Path, name: &str) -> bool {
    match path.extension().and_then(|e| e.to_str()) {
        Some(extension) => TEXT.contains(&extension),
        None => name == "Makefile" || path.parent().and_then(Path::file_name).is_some_and(|dir| dir == ".ci"),
    }
}
