//! The modules of a crate import each other one way: no circle of `use`. A folder below `src` counts as one module.

use crate::lex::{self, Token};
use crate::tree::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Crates whose modules still form circles. None is added here.
const CIRCULAR: [&str; 12] = [
    "crates/base/",
    "crates/batch/",
    "crates/core/",
    "crates/embedding/",
    "crates/ep/",
    "crates/global/",
    "crates/kernels/conv/",
    "crates/kernels/elementwise/",
    "crates/kernels/gemm/",
    "crates/kernels/index/",
    "crates/ops/",
    "crates/python/",
];

/// What a crate's modules import of each other: by module, the others and the line.
type Imports = BTreeMap<String, BTreeMap<String, (String, usize)>>;

pub fn check(sources: &[Source]) -> Vec<String> {
    let roots: BTreeSet<&str> = sources.iter().filter_map(|s| root_of(&s.path)).collect();
    roots.into_iter().filter(|root| !CIRCULAR.contains(root)).flat_map(|root| of_crate(sources, root)).collect()
}

/// `crates/comm/` of `crates/comm/src/tcp/mesh.rs`.
fn root_of(path: &str) -> Option<&str> {
    let at = path.find("/src/").filter(|_| path.starts_with("crates/") && path.ends_with(".rs"))?;
    Some(&path[..=at])
}

fn of_crate(sources: &[Source], root: &str) -> Vec<String> {
    let files = || sources.iter().filter(|s| root_of(&s.path) == Some(root));
    let module = |path: &str| {
        let rest = &path[root.len() + "src/".len()..];
        rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs").to_string()
    };
    let modules: BTreeSet<String> = files().map(|s| module(&s.path)).filter(|m| m != "lib" && m != "main").collect();
    let lib = files().find(|s| module(&s.path) == "lib").map_or(Vec::new(), |s| lex::tokens(&s.text));
    let homes = exports(&lib, &modules);
    let mut imports = Imports::new();
    for file in files().filter(|s| modules.contains(&module(&s.path))) {
        let own = module(&file.path);
        for (name, line) in names_of_crate(&lex::tokens(&file.text)) {
            let to = homes.get(&name).cloned().unwrap_or(name);
            if modules.contains(&to) && to != own {
                imports.entry(own.clone()).or_default().entry(to).or_insert((file.path.clone(), line));
            }
        }
    }
    let mut faults = Vec::new();
    for (from, targets) in &imports {
        // Each circle is said where it goes up the alphabet, as it must somewhere.
        for (to, (path, line)) in targets {
            if reaches(&imports, to, from) && from < to {
                faults.push(format!(
                    "{path}:{line}: `{from}` imports `{to}`, which imports `{from}`, if only through others"
                ));
            }
        }
    }
    faults
}

fn reaches(imports: &Imports, from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            next.extend(imports.get(module).into_iter().flat_map(|targets| targets.keys().map(String::as_str)));
        }
    }
    false
}

/// Where names that the crate's root exports come from: `pub use work::Work;`.
fn exports(lib: &[Token], modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut homes = BTreeMap::new();
    for (i, w) in lib.windows(3).enumerate() {
        let Some(module) = w[1].word().filter(|m| w[0].is_word("use") && w[2].is(':') && modules.contains(*m)) else {
            continue;
        };
        let end = (i..lib.len()).find(|k| lib[*k].is(';')).unwrap_or(lib.len());
        let names = lib[i + 2..end].iter().filter_map(Token::word);
        homes.extend(names.map(|name| (name.to_string(), module.to_string())));
    }
    homes
}

/// What follows `crate::` outside tests: a name, or the names of a list.
fn names_of_crate(tokens: &[Token]) -> Vec<(String, usize)> {
    let is_tests = |w: &[Token]| w[0].is('#') && w[2].is_word("cfg") && w[4].is_word("test");
    let tokens = &tokens[..tokens.windows(6).position(is_tests).unwrap_or(tokens.len())];
    let mut found = Vec::new();
    for (i, w) in tokens.windows(4).enumerate() {
        if !(w[0].is_word("crate") && w[1].is(':') && w[2].is(':')) {
            continue;
        }
        match w[3].word() {
            Some(name) => found.push((name.to_string(), w[3].line)),
            None if w[3].is('{') => {
                let end = lex::matching(tokens, i + 3).min(tokens.len());
                let list = &tokens[i + 3..end];
                let first = list.windows(2).filter(|w| w[0].is('{') || w[0].is(','));
                found.extend(first.filter_map(|w| Some((w[1].word()?.to_string(), w[1].line))));
            }
            None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_faults(files: &[(&str, &str)]) -> usize {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        check(&sources).len()
    }

    #[test]
    fn planted_circles_are_found() {
        let a = ("crates/comm/src/a.rs", "use crate::b::f;");
        for other in [
            &[("crates/comm/src/b.rs", "fn f() { crate::a::g() }")][..],
            &[("crates/comm/src/b/inner.rs", "use crate::{a::g, c};")],
            &[("crates/comm/src/b.rs", "use crate::c;"), ("crates/comm/src/c.rs", "use crate::a;")],
            &[("crates/comm/src/lib.rs", "pub use a::G;"), ("crates/comm/src/b.rs", "use crate::G;")],
        ] {
            assert!(n_faults(&[&[a], other].concat()) > 0, "{other:?}");
        }
    }

    #[test]
    fn one_way_is_fine() {
        let a = ("crates/comm/src/a.rs", "use crate::b::f;");
        for other in [
            ("crates/comm/src/b.rs", "use super::a;\n#[cfg(test)]\nmod tests { use crate::a; }"),
            ("crates/comm/src/b.rs", "// crate::a\nuse crate::c;"),
            ("crates/other/src/b.rs", "use crate::a;"),
            ("crates/comm/tests/b.rs", "use crate::a;"),
        ] {
            assert_eq!(n_faults(&[a, other]), 0, "{other:?}");
        }
        assert_eq!(
            n_faults(&[("crates/core/src/a.rs", "use crate::b;"), ("crates/core/src/b.rs", "use crate::a;")]),
            0
        );
    }
}
