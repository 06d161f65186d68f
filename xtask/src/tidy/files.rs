//! Rules about one file at a time: its size, its header, words that must not stand in it.

use crate::lex;
use crate::tree::Source;

/// A file is a room; beyond this it is split. Generated files and pure tables (`// tidy: table` on top) are not read
/// from end to end and may be longer.
const MAX_LINES: usize = 800;
const TABLE: &str = "tidy: table";

const FORBIDDEN_MACROS: [&str; 3] = ["todo", "dbg", "unimplemented"];

/// What a library says goes through `tracing`: only who embeds it knows where to print.
const PRINTS: [&str; 4] = ["print", "println", "eprint", "eprintln"];
/// The binding, which prints for the libraries, and what only tests and benches link.
const MAY_PRINT: [&str; 2] = ["crates/python/", "crates/kernels/testing/"];

/// Words that choose by device, which an op does not.
const DEVICES: [&str; 2] = ["is_cpu", "is_cuda"];
const OPS: &str = "crates/ops/src/";

pub fn check(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .flat_map(|s| {
            [size(s), header(s)]
                .into_iter()
                .flatten()
                .chain(macros(s))
                .chain(prints(s))
                .chain(devices(s))
                .chain(machine_paths(s))
        })
        .collect()
}

fn size(source: &Source) -> Option<String> {
    let code = source.is_rust() || source.path.ends_with(".py");
    let table = source.text.lines().take(10).any(|l| l.starts_with(['/', '#']) && l.ends_with(TABLE));
    let lines = source.text.lines().count();
    (code && !table && !source.is_generated() && lines > MAX_LINES)
        .then(|| format!("{}:{MAX_LINES}: {lines} lines; split it by meaning", source.path))
}

fn header(source: &Source) -> Option<String> {
    (source.is_rust() && !source.is_generated() && !source.text.starts_with("//!"))
        .then(|| format!("{}:1: begin with `//!`: what this is, and what it deliberately does not do", source.path))
}

fn macros(source: &Source) -> Vec<String> {
    if !source.is_rust() {
        return Vec::new();
    }
    let tokens = lex::tokens(&source.text);
    let calls = tokens.windows(2).filter(|w| w[1].is('!'));
    let bad = calls.filter_map(|w| Some((w[0].line, w[0].word().filter(|w| FORBIDDEN_MACROS.contains(w))?)));
    bad.map(|(line, name)| format!("{}:{line}: `{name}!` has no place in a tree that works", source.path)).collect()
}

fn prints(source: &Source) -> Vec<String> {
    let of_a_library = source.path.starts_with("crates/")
        && source.path.contains("/src/")
        && source.is_rust()
        && !MAY_PRINT.iter().any(|p| source.path.starts_with(p));
    if !of_a_library {
        return Vec::new();
    }
    let tokens = lex::tokens(&source.text);
    let calls = tokens.windows(2).filter(|w| w[1].is('!'));
    let bad = calls.filter_map(|w| Some((w[0].line, w[0].word().filter(|w| PRINTS.contains(w))?)));
    bad.map(|(line, name)| format!("{}:{line}: `{name}!` in a library; use `tracing`", source.path)).collect()
}

/// An op that asks for its device: the primitive says what a device takes.
fn devices(source: &Source) -> Vec<String> {
    if !source.path.starts_with(OPS) || !source.is_rust() {
        return Vec::new();
    }
    let tokens = lex::tokens(&source.text);
    let asked = tokens.iter().filter(|t| t.word().is_some_and(|w| DEVICES.contains(&w)));
    asked
        .map(|t| format!("{}:{}: an op asks for its device; `Primitive` says what a device takes", source.path, t.line))
        .collect()
}

/// Paths of one person's or one machine's home. Written in halves, or this file would be its own fault.
fn machine_paths(source: &Source) -> Vec<String> {
    let homes = ["home", "root", "Users", "work"].map(|h| format!("/{h}/"));
    let mut faults = Vec::new();
    for (i, line) in source.text.lines().enumerate() {
        for home in &homes {
            let absolute = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || ")}~.$_-/".contains(c));
            if line.match_indices(home.as_str()).any(|(at, _)| absolute(at)) {
                faults.push(format!("{}:{}: a path below {home} exists on one machine only", source.path, i + 1));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_faults(path: &str, text: &str) -> usize {
        check(&[Source::new(path, text)]).len()
    }

    #[test]
    fn planted_faults_are_found() {
        let long = "x\n".repeat(MAX_LINES + 1);
        let path = format!("open(\"/{}/me/data\")", "home");
        for (file, text) in [
            ("a.py", long.as_str()),
            ("a.rs", "fn f() {}\n"),
            ("a.rs", "//! a\nfn f() { todo!() }\n"),
            ("a.rs", "//! a\nfn f() { dbg!(1); }\n"),
            ("crates/runtime/src/a.rs", "//! a\nfn f() { eprintln!(\"waits\"); }\n"),
            ("crates/ops/src/a.rs", "//! a\nfn f(t: &Tensor) { if t.device().is_cpu() {} }\n"),
            ("a.py", path.as_str()),
        ] {
            assert_eq!(n_faults(file, text), 1, "{file}: {text:.60}");
        }
    }

    #[test]
    fn what_is_allowed_is_not_a_fault() {
        let table = format!("//! Names.\n// tidy: table\n{}", "x\n".repeat(MAX_LINES));
        for (file, text) in [
            ("a.rs", table.as_str()),
            ("crates/a/generated/b.rs", "fn f() {}"),
            ("a.rs", "//! a `todo!`\n// todo!()\nconst A: &str = \"todo!\";\n"),
            ("crates/python/src/a.rs", "//! a\nfn f() { eprintln!(\"waits\"); }\n"),
            ("crates/runtime/tests/a.rs", "//! a\nfn f() { println!(\"{:?}\", d.is_cpu()); }\n"),
            ("a.md", "see $HOME/home/x and a/work/b"),
            ("a.txt", "x\n"),
        ] {
            assert_eq!(n_faults(file, text), 0, "{file}: {text:.60}");
        }
    }
}
