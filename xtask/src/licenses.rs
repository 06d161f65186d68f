//! Licences of dependencies: `cargo xtask licenses` writes `THIRD_PARTY_LICENSES.txt`, which every wheel carries, and
//! `--check` also checks that each dependency's licence and source is allowed by `deny.toml`. Reads what cargo says of the
//! locked versions and the files of the crates; known vulnerabilities, which need a network, are left to `cargo deny`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE: &str = "THIRD_PARTY_LICENSES.txt";
const POLICY: &str = "deny.toml";
const TARGET: &str = "x86_64-unknown-linux-gnu";
const INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A crate from a registry.
struct Crate {
    name: String,
    version: String,
    license: String,
    repository: String,
}

/// Writes the file; returns faults.
pub fn write(root: &Path) -> Vec<String> {
    match text(root).and_then(|text| fs::write(root.join(FILE), text).map_err(|e| format!("{FILE}: {e}"))) {
        Ok(()) => policy(root),
        Err(e) => vec![e],
    }
}

/// Faults: licences and sources that are not allowed, a file that is not current.
pub fn check(root: &Path) -> Vec<String> {
    let mut faults = policy(root);
    match text(root) {
        Ok(text) if fs::read_to_string(root.join(FILE)).ok().as_ref() == Some(&text) => {}
        Ok(_) => faults.push(format!("{FILE}:1: not current; run `cargo xtask licenses`")),
        Err(e) => faults.push(e),
    }
    faults
}

/// Licences and sources of everything in the workspace, tests and build scripts included.
fn policy(root: &Path) -> Vec<String> {
    let read = |file: &str| fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"));
    let (policy, lock) = match (read(POLICY), read("Cargo.lock")) {
        (Ok(policy), Ok(lock)) => (policy, lock),
        (Err(e), _) | (_, Err(e)) => return vec![e],
    };
    let allowed = allowed(&policy);
    let mut faults = sources(&lock);
    match crates(root, &["--workspace", "--edges", "normal,build,dev"]) {
        Ok(crates) => faults.extend(crates.iter().filter(|c| !satisfied(&c.license, &allowed)).map(|c| {
            let Crate { name, version, license, .. } = c;
            format!("Cargo.lock:1: {name} {version} has the licence `{license}`, which {POLICY} does not allow")
        })),
        Err(e) => faults.push(e),
    }
    faults
}

/// Sources in the lock file other than the public registry.
fn sources(lock: &str) -> Vec<String> {
    let places = lock.lines().enumerate().filter_map(|(i, line)| Some((i, line.strip_prefix("source = ")?)));
    let other = places.filter(|(_, source)| source.trim_matches('"') != INDEX);
    other.map(|(i, source)| format!("Cargo.lock:{}: a dependency comes from {source}", i + 1)).collect()
}

/// The `allow` list of the section `[licenses]`.
fn allowed(policy: &str) -> Vec<String> {
    let section = policy.split("[licenses]").nth(1).unwrap_or_default();
    let list = section.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or_default());
    let entries = lines.flat_map(|line| line.split(',').map(|entry| entry.trim().trim_matches('"').to_string()));
    entries.filter(|entry| !entry.is_empty()).collect()
}

/// Whether the allowed licences satisfy an SPDX expression, in which older crates write `/` for `OR`.
fn satisfied(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    any_of(&mut rest, allowed) == Some(true) && rest.is_empty()
}

/// Whether an expression at the front of `rest` is satisfied; None where there is none.
fn any_of(rest: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut value = all_of(rest, allowed)?;
    while let ["OR", tail @ ..] = *rest {
        *rest = tail;
        value |= all_of(rest, allowed)?;
    }
    Some(value)
}

fn all_of(rest: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut value = one(rest, allowed)?;
    while let ["AND", tail @ ..] = *rest {
        *rest = tail;
        value &= one(rest, allowed)?;
    }
    Some(value)
}

fn one(rest: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let (wanted, tail) = match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let value = any_of(rest, allowed)?;
            *rest = rest.strip_prefix(&[")"])?;
            return Some(value);
        }
        [id, "WITH", exception, tail @ ..] => (format!("{id} WITH {exception}"), tail),
        [id, tail @ ..] => (id.to_string(), tail),
        [] => return None,
    };
    *rest = tail;
    Some(allowed.contains(&wanted))
}

/// The crates from a registry that `cargo tree` lists for the arguments, sorted by name.
fn crates(root: &Path, arguments: &[&str]) -> Result<Vec<Crate>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["tree", "--locked", "--quiet", "--target", TARGET, "--prefix", "none", "--no-dedupe"]);
    command.args(["--format", "{p}|{l}|{r}"]).args(arguments).current_dir(root);
    let done = command.output().map_err(|e| format!("cargo tree: {e}"))?;
    if !done.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&done.stderr).trim()));
    }
    let mut crates = BTreeMap::new();
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        let mut fields = line.split('|').map(str::trim);
        let (package, license, repository) = (fields.next(), fields.next(), fields.next());
        let mut words = package.unwrap_or_default().split_whitespace();
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        // Packages of the workspace are followed by their path; "(proc-macro)" is the other note.
        if words.any(|note| note.starts_with("(/")) {
            continue;
        }
        let version = version.trim_start_matches('v').to_string();
        let [license, repository] = [license, repository].map(|field| field.unwrap_or_default().to_string());
        crates.insert((name.to_string(), version.clone()), Crate { name: name.into(), version, license, repository });
    }
    Ok(crates.into_values().collect())
}

/// The whole file: the crates that the compiled module contains, then each different text of their licences.
fn text(root: &Path) -> Result<String, String> {
    let crates = crates(root, &["--package", "oneflow-python", "--edges", "normal"])?;
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for c in &crates {
        list += &format!("{} {}: {} <{}>\n", c.name, c.version, c.license, c.repository);
        for text in license_texts(&source_folder(c)?)? {
            texts.entry(text).or_default().push(format!("{} {}", c.name, c.version));
        }
    }
    let mut out = format!(
        "The compiled module of oneflow contains Rust's standard library (MIT OR Apache-2.0) and these Rust crates.\n\
         `cargo xtask licenses` writes this file.\n\n{list}\n\
         The text of the Apache License 2.0 is that of the file LICENSE. The other texts and notices follow.\n"
    );
    let mut sections: Vec<_> = texts.into_iter().map(|(text, crates)| (crates.join(", "), text)).collect();
    sections.sort();
    for (crates, text) in sections {
        out += &format!("\n{}\n{crates}\n{}\n\n{text}\n", "=".repeat(80), "=".repeat(80));
    }
    Ok(out)
}

/// Where cargo unpacked a crate.
fn source_folder(c: &Crate) -> Result<PathBuf, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).unwrap_or_default();
    let name = format!("{}-{}", c.name, c.version);
    let registries = fs::read_dir(home.join("registry/src")).map_err(|e| format!("cargo's registry: {e}"))?;
    let mut folders = registries.flatten().map(|registry| registry.path().join(&name));
    folders.find(|folder| folder.is_dir()).ok_or_else(|| format!("{name}: not unpacked; run `cargo fetch --locked`"))
}

/// The texts of licences and notices in a crate's folder, without copies of the Apache License 2.0.
fn license_texts(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    let mut texts = Vec::new();
    for file in files {
        let name = file.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        let legal = ["license", "licence", "copying", "copyright", "notice", "unlicense"];
        if !legal.iter().any(|word| name.starts_with(word)) || name.ends_with(".rs") {
            continue;
        }
        let text = fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let text = String::from_utf8_lossy(&text).replace('\r', "");
        let text: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
        let text = text.join("\n");
        let apache = text.contains("Apache License") && text.contains("Version 2.0, January 2004");
        if !apache || !text.contains("END OF TERMS AND CONDITIONS") {
            texts.push(text);
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &str =
        "[licenses]\nallow = [\n    \"MIT\", # comment, with a comma\n    \"Zlib\",\n    \"A WITH x\",\n]\n";

    #[test]
    fn expressions() {
        let allowed = allowed(ALLOWED);
        assert_eq!(allowed, ["MIT", "Zlib", "A WITH x"]);
        for yes in
            ["MIT", "MIT/GPL", "GPL OR MIT", "MIT AND Zlib", "(GPL OR MIT) AND Zlib", "A WITH x", "GPL AND B OR MIT"]
        {
            assert!(satisfied(yes, &allowed), "{yes}");
        }
        for no in ["", "GPL", "MIT AND GPL", "(MIT OR Zlib) AND GPL", "A", "A WITH y", "(MIT", "MIT Zlib", "MIT OR"] {
            assert!(!satisfied(no, &allowed), "{no}");
        }
    }

    #[test]
    fn sources_other_than_the_registry() {
        let good = format!("source = \"{INDEX}\"\n");
        assert!(sources(&good).is_empty());
        assert_eq!(sources(&format!("{good}source = \"git+https://example.org/a\"\n")).len(), 1);
    }
}
