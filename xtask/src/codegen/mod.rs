//! Codegen: from the signature, documentation and faces of every op to its Rust method, the names of its parameters, its
//! Python stub and its API page.
//!
//! Reads `crates/ops/src` as text. The output is committed and `--check` compares it, so that a reader and a search
//! find every function; no procedural macro and no build script hides any.

mod docs;
pub mod named;
mod python;
mod rust;
mod scan;
mod schema;

use crate::tree::{self, Source};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

pub use scan::{Face, Op, definitions};

/// All ops that are defined.
pub fn ops(sources: &[Source]) -> Vec<Op> {
    scan::ops(sources).0
}

/// Writes every generated file that is not current, removes pages of families that are gone; returns faults.
pub fn write(root: &Path) -> Vec<String> {
    apply(root, |path, text| {
        let written = match text {
            Some(text) => fs::create_dir_all(path.parent().unwrap_or(root)).and_then(|()| fs::write(path, text)),
            None => fs::remove_file(path),
        };
        written.err().map(|e| format!("{}: {e}", path.display()))
    })
}

/// Faults: definitions that do not parse, generated files that are not current.
pub fn check(root: &Path) -> Vec<String> {
    apply(root, |path, _| {
        let path = path.strip_prefix(root).unwrap_or(path).display();
        Some(format!("{path}:1: not current; run `cargo xtask codegen`"))
    })
}

/// Calls `differs(path, wanted text)` for each generated file that is not as it should be.
fn apply(root: &Path, differs: impl Fn(&Path, Option<&str>) -> Option<String>) -> Vec<String> {
    let (ops, mut faults) = scan::ops(&tree::read_under(root, scan::OPS));
    let files = match generate(root, &ops) {
        Ok(files) if faults.is_empty() => files,
        Ok(_) => return faults,
        Err(e) => return [faults, vec![e]].concat(),
    };
    for (path, text) in &files {
        let path = root.join(path);
        if fs::read_to_string(&path).ok().as_ref() != Some(text) {
            faults.extend(differs(&path, Some(text)));
        }
    }
    for old in tree::read_under(root, "docs/api") {
        if files.iter().all(|(path, _)| *path != old.path) {
            faults.extend(differs(&root.join(&old.path), None));
        }
    }
    faults
}

/// Every generated file: its path from the root and its text.
fn generate(root: &Path, ops: &[scan::Op]) -> Result<Vec<(String, String)>, String> {
    let template = fs::read_to_string(root.join(python::TEMPLATE)).map_err(|e| format!("{}: {e}", python::TEMPLATE))?;
    let mut files = docs::pages(ops);
    let callers = callers(root);
    let words = callers.iter().flat_map(|s| s.text.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
    files.push(("crates/ops/src/generated/methods.rs".into(), rustfmt(root, &rust::methods(ops, &words))?));
    files.push((
        "crates/ops/src/generated/named.rs".into(),
        rustfmt(root, &named::module(ops.iter().map(|op| &op.schema))?)?,
    ));
    let of_layouts = scan::schemas(&tree::read_under(root, scan::GLOBAL_OPS))?;
    if !of_layouts.is_empty() {
        files.push(("crates/global/src/generated/named.rs".into(), rustfmt(root, &named::module(&of_layouts)?)?));
    }
    files.push(("python/oneflow/_oneflow.pyi".into(), python::stub(&template, ops)?));
    Ok(files)
}

/// Every Rust source that may call an op, documentation with its examples included.
fn callers(root: &Path) -> Vec<Source> {
    let folders = ["crates", "tests", "examples", "docs"];
    let sources = folders.into_iter().flat_map(|folder| tree::read_under(root, folder));
    sources.filter(|s| (s.is_rust() || s.path.ends_with(".md")) && !s.is_generated()).collect()
}

fn rustfmt(root: &Path, text: &str) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("rustfmt: {e}");
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // Written from a thread: both pipes are smaller than the file.
    let mut stdin = child.stdin.take().ok_or("rustfmt: no input")?;
    let text = text.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(failed)?;
    let written = writer.join().is_ok_and(|w| w.is_ok());
    if !written || !output.status.success() {
        return Err("rustfmt does not take the generated methods".into());
    }
    String::from_utf8(output.stdout).map_err(|e| format!("rustfmt: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OP: &str = "static OP: OpDef = OpDef { sig: Sig::parse(\"neg(Tensor input) -> Tensor\") };";

    #[test]
    fn a_planted_stale_file_is_found_and_written() {
        let root = std::env::temp_dir().join(format!("xtask-codegen-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        put("crates/ops/src/unary/neg.rs", OP);
        put(python::TEMPLATE, "class Tensor:\n    # methods of the op table\n# functions of the op table\n");
        assert_eq!(check(&root).len(), 6);
        assert_eq!(write(&root), Vec::<String>::new());
        assert_eq!(check(&root), Vec::<String>::new());
        put("docs/api/unary.md", "edited by hand");
        put("docs/api/gone.md", "of a family that is gone");
        assert_eq!(check(&root).len(), 2);
        write(&root);
        assert!(check(&root).is_empty() && !root.join("docs/api/gone.md").exists());
        put("crates/ops/src/unary/neg.rs", &OP.replace("input", ""));
        assert_eq!(check(&root).len(), 1);
        fs::remove_dir_all(root).unwrap();
    }
}
