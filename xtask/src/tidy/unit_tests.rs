//! A library says whether it has unit tests and documentation tests, and says the truth: cargo compiles a crate once more
//! to run either, which for the largest crates takes minutes, and does not run tests of a crate that says it has none.

use crate::tree::Source;

pub fn check(sources: &[Source]) -> Vec<String> {
    let manifests = sources.iter().filter_map(|s| Some((s, s.path.strip_suffix("Cargo.toml")?)));
    manifests.flat_map(|(manifest, folder)| check_crate(manifest, &format!("{folder}src/"), sources)).collect()
}

fn check_crate(manifest: &Source, src: &str, sources: &[Source]) -> Vec<String> {
    let files = || sources.iter().filter(|s| s.is_rust() && s.path.starts_with(src));
    if !files().any(|s| s.path == format!("{src}lib.rs")) {
        return Vec::new();
    }
    let tests = files().any(|s| s.text.lines().any(|l| l.trim() == "#[test]"));
    let examples = files().any(|s| has_example(&s.text));
    [("test", tests), ("doctest", examples)]
        .into_iter()
        .filter(|(key, has)| manifest.text.lines().any(|l| l == format!("{key} = false")) == *has)
        .map(|(key, has)| match has {
            true => format!("{}:1: `{key} = false`, but {src} has some: they would never run", manifest.path),
            false => format!("{}:1: {src} has none: say `{key} = false` under [lib]", manifest.path),
        })
        .collect()
}

/// Whether documentation has a block of code that is compiled: one that names no other language.
fn has_example(text: &str) -> bool {
    let docs = text.lines().filter_map(|l| l.trim().strip_prefix("//!").or_else(|| l.trim().strip_prefix("///")));
    let fences = docs.filter_map(|l| l.trim().strip_prefix("```"));
    fences.step_by(2).any(|language| ["", "no_run", "rust", "should_panic"].contains(&language))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(manifest: &str, code: &str) -> usize {
        check(&[Source::new("crates/a/Cargo.toml", manifest), Source::new("crates/a/src/lib.rs", code)]).len()
    }

    #[test]
    fn a_manifest_tells_the_truth() {
        const NONE: &str = "[lib]\ntest = false\ndoctest = false\n";
        const BOTH: &str = "/// ```\n/// f();\n/// ```\nfn f() {}\n    #[test]\n";
        for (manifest, code, expected) in [
            (NONE, "fn f() {}\n", 0),
            ("", "fn f() {}\n", 2),
            (NONE, BOTH, 2),
            ("", BOTH, 0),
            (NONE, "//! ```text\n//! f\n//! ```\n", 0),
            (NONE, "//! ```text\n//! ```\n/// ```no_run\n/// ```\n", 1),
        ] {
            assert_eq!(faults(manifest, code), expected, "{manifest}{code}");
        }
        assert!(check(&[Source::new("crates/a/Cargo.toml", ""), Source::new("crates/a/src/main.rs", "")]).is_empty());
    }
}
