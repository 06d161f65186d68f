//! Import direction: a crate depends only on crates listed above it, and a few outside libraries have one home.

use crate::tree::Source;

/// From the bottom of the house to its roof. A call that must go the other way goes through the layer table of `core`.
const ORDER: &[&str] = &[
    "oneflow-base",
    "oneflow-ep",
    "oneflow-testing",
    "oneflow-kernels-prim",
    "oneflow-kernels-testing",
    "oneflow-kernels-elementwise",
    "oneflow-kernels-gemm",
    "oneflow-kernels-decompose",
    "oneflow-kernels-linalg",
    "oneflow-kernels-attention",
    "oneflow-kernels-rnn",
    "oneflow-kernels-conv",
    "oneflow-kernels-nn",
    "oneflow-kernels-index",
    "oneflow-kernels-cuda",
    "oneflow-kernels",
    "oneflow-comm",
    "oneflow-nccl",
    "oneflow-core",
    "oneflow-profiler",
    "oneflow-ops",
    "oneflow-autograd",
    "oneflow-sparse",
    "oneflow-batch",
    "oneflow-autocast",
    "oneflow-global",
    "oneflow-runtime",
    "oneflow-data",
    "oneflow-embedding",
    "oneflow-graph",
    "oneflow-simulate",
    "oneflow-onnx",
    "oneflow-python",
];

/// Outside libraries that only some crates may use, and why.
const HOMES: [(&str, &[&str], &str); 3] = [
    ("pyo3", &["oneflow-python"], "only the binding knows Python"),
    ("cudarc", &["oneflow-ep"], "only the provider knows the driver's interface"),
    (
        "libloading",
        &["oneflow-ep", "oneflow-comm", "oneflow-kernels-cuda", "oneflow-nccl"],
        "only these open libraries at run time",
    ),
];

pub fn check(sources: &[Source]) -> Vec<String> {
    let manifests = sources.iter().filter(|s| s.path == "Cargo.toml" || s.path.ends_with("/Cargo.toml"));
    manifests.flat_map(check_manifest).collect()
}

fn check_manifest(source: &Source) -> Vec<String> {
    let Some(package) = package_name(&source.text) else { return Vec::new() };
    let rank = ORDER.iter().position(|c| *c == package);
    let of_the_house = source.path.starts_with("crates/");
    let mut faults = Vec::new();
    if of_the_house && rank.is_none() {
        faults
            .push(format!("{}:1: crate {package} has no place in the order of xtask/src/tidy/layers.rs", source.path));
    }
    for (line, dependency) in dependencies(&source.text) {
        let mut fault = |text: String| faults.push(format!("{}:{line}: {package} {text}", source.path));
        if let Some((_, homes, why)) = HOMES.iter().find(|(name, ..)| *name == dependency)
            && !homes.contains(&package.as_str())
        {
            fault(format!("must not depend on {dependency}: {why}"));
        }
        let theirs = ORDER.iter().position(|c| *c == dependency);
        match (rank, theirs) {
            (Some(ours), Some(theirs)) if theirs >= ours => {
                fault(format!("imports {dependency}, which stands above it; use the layer table instead"));
            }
            (_, Some(_)) if package == "xtask" => fault(format!("links {dependency}: it must read the tree as text")),
            (Some(_), None) if dependency.starts_with("oneflow-") => {
                fault(format!("imports {dependency}, which is no crate of the framework"));
            }
            _ => {}
        }
    }
    faults
}

pub fn package_name(manifest: &str) -> Option<String> {
    let mut lines = manifest.lines().skip_while(|l| l.trim() != "[package]").skip(1);
    let line = lines.by_ref().take_while(|l| !l.starts_with('[')).find(|l| l.trim_start().starts_with("name"))?;
    Some(line.split('"').nth(1)?.to_string())
}

/// Names in every dependency table, with their lines: also of tests and build scripts, a cycle there is one too.
pub fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (i, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if let Some(section) = line.strip_prefix('[').and_then(|s| s.strip_suffix(']')) {
            let workspace = section.starts_with("workspace.");
            inside = !workspace && section.ends_with("dependencies");
            if !workspace && let Some((_, name)) = section.split_once("dependencies.") {
                found.push((i + 1, name.to_string()));
            }
        } else if inside && line.contains('=') {
            let name = line.split(['=', '.', ' ']).next().unwrap_or("");
            found.push((i + 1, name.trim_matches('"').to_string()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, manifest: &str) -> Vec<String> {
        check(&[Source::new(path, manifest)])
    }

    #[test]
    fn a_planted_upward_import_is_found() {
        for (name, body) in [
            ("oneflow-core", "[dependencies]\noneflow-autograd.workspace = true"),
            ("oneflow-core", "[dev-dependencies]\noneflow-ops = { path = \"../ops\" }"),
            ("oneflow-ep", "[target.'cfg(unix)'.dependencies]\noneflow-kernels = \"1\""),
            ("oneflow-base", "[dependencies.oneflow-ep]\npath = \"../ep\""),
            ("oneflow-global", "[dependencies]\npyo3 = \"0.30\""),
            ("oneflow-runtime", "[dependencies]\noneflow-toy = \"1\""),
            ("oneflow-novelty", "[dependencies]"),
        ] {
            let manifest = format!("[package]\nname = \"{name}\"\n\n{body}\n");
            assert_eq!(faults("crates/x/Cargo.toml", &manifest).len(), 1, "{manifest}");
        }
        let linked = "[package]\nname = \"xtask\"\n[dependencies]\noneflow-ops.workspace = true\n";
        assert_eq!(faults("xtask/Cargo.toml", linked).len(), 1);
    }

    #[test]
    fn a_downward_import_is_fine() {
        let manifest =
            "[package]\nname = \"oneflow-ops\"\n\n[dependencies]\noneflow-core.workspace = true\nhalf = \"2\"\n";
        assert_eq!(faults("crates/ops/Cargo.toml", manifest), Vec::<String>::new());
    }
}
