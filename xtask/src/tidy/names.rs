//! No op is mentioned by name outside its rooms: what must know one op belongs in the op's own file.

use super::layers;
use crate::lex::{self, Token};
use crate::tree::Source;
use std::collections::BTreeSet;

/// The crate of the ops themselves.
const TABLE: &str = "oneflow-ops";

/// Where in them ops may be named, and why. A path ends with `/` if all below it is meant.
const ROOMS: [(&str, &str); 3] = [
    ("crates/autograd/src/view.rs", "a write through a view is recorded as strided views and their scatter"),
    ("crates/graph/src/passes/fusion/", "a fused op replaces a pattern of ops"),
    ("crates/python/src/operators.rs", "Python's operator slots are named after ops"),
];

/// Single names elsewhere: (path or folder, name, why).
const EXCEPTIONS: [(&str, &str, &str); 9] = [
    ("crates/graph/src/trace.rs", "as_strided", "a traced write through a view is recorded as eager records it"),
    (
        "crates/graph/src/dynamic.rs",
        "contiguous",
        "a copy in the order of its dimensions has the sizes of what it copies",
    ),
    ("crates/graph/src/dynamic.rs", "clone", "a copy in the order of its dimensions has the sizes of what it copies"),
    ("crates/graph/src/ir.rs", "as_strided", "a whole memory is seen in another layout"),
    ("crates/graph/src/trace.rs", "to_copy", "a traced write of another dtype is a cast"),
    ("crates/runtime/src/lower.rs", "to_copy", "in an elementwise chain a cast between floats is the identity"),
    ("crates/graph/src/passes/fold.rs", "fill", "a fill costs less than reading what it would have written"),
    ("crates/python/src/", "copy", "a keyword of `to`, `asarray`, NumPy and DLPack"),
    ("crates/python/src/index.rs", "slice", "Python's slice object"),
];

pub fn check(sources: &[Source], ops: &BTreeSet<String>) -> Vec<String> {
    let folders = folders(sources);
    let checked = |s: &&Source| s.is_rust() && folders.iter().any(|c| s.path.starts_with(c));
    let files = sources.iter().filter(checked).filter(|s| !ROOMS.iter().any(|(room, _)| s.path.starts_with(room)));
    files.flat_map(|s| check_file(s, ops)).collect()
}

/// The folders of the crates that know tensors and could ask which op they hold: `core` and all that import it. Below them
/// `add` is only a word.
fn folders(sources: &[Source]) -> Vec<&str> {
    let knows_tensors = |s: &&Source| {
        let imports = layers::dependencies(&s.text).iter().any(|(_, name)| name == "oneflow-core");
        let name = layers::package_name(&s.text);
        name.as_deref() == Some("oneflow-core") || imports && name.is_some_and(|name| name != TABLE)
    };
    let manifests = sources.iter().filter(|s| s.path.starts_with("crates/") && s.path.ends_with("/Cargo.toml"));
    manifests.filter(knows_tensors).filter_map(|s| s.path.strip_suffix("Cargo.toml")).collect()
}

fn check_file(source: &Source, ops: &BTreeSet<String>) -> Vec<String> {
    let of_tests = ["/tests/", "/benches/", "/tests.rs", "_tests.rs"];
    if of_tests.iter().any(|t| source.path.contains(t)) {
        return Vec::new();
    }
    let tokens = lex::tokens(&source.text);
    let code = &tokens[..start_of_tests(&tokens)];
    let mut faults = Vec::new();
    let mut fault = |line: usize, name: &str| {
        let known = EXCEPTIONS.iter().any(|(path, n, _)| source.path.starts_with(path) && *n == name);
        if !known {
            faults.push(format!(
                "{}:{line}: names the op `{name}` outside its rooms (xtask/src/tidy/names.rs)",
                source.path
            ));
        }
    };
    for token in code {
        if let Some(name) = token.str().and_then(|text| named_by(text, ops)) {
            fault(token.line, name);
        }
    }
    for path in code.windows(4) {
        // `gelu::OP`
        if let (Some(name), true, true, true) =
            (path[0].word(), path[1].is(':'), path[2].is(':'), path[3].is_word("OP"))
            && ops.contains(name)
        {
            fault(path[0].line, name);
        }
    }
    for pair in code.windows(2) {
        // a method of an op made by hand: the generated ones are the only ones
        if let (true, Some(name)) = (pair[0].is_word("fn"), pair[1].word().and_then(|n| n.strip_prefix("op_")))
            && ops.contains(name)
        {
            fault(pair[1].line, name);
        }
    }
    faults
}

/// The op that a string names: "gelu", "gelu_", "max.dim", or the head of a message, "gelu(): ...".
fn named_by<'a>(text: &'a str, ops: &BTreeSet<String>) -> Option<&'a str> {
    let head = text.split(['(', '.']).next().unwrap_or(text);
    let rest = &text[head.len()..];
    let of_an_op = rest.is_empty() || rest.starts_with("()") || ops.contains(text);
    let base = head.strip_suffix('_').unwrap_or(head);
    (of_an_op && (ops.contains(head) || ops.contains(base))).then_some(base)
}

/// Tests stand last in a file and may name what they test.
fn start_of_tests(tokens: &[Token]) -> usize {
    let is_cfg_test = |w: &[Token]| w[0].is('#') && w[2].is_word("cfg") && w[4].is_word("test");
    tokens.windows(6).position(is_cfg_test).unwrap_or(tokens.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_faults(path: &str, text: &str) -> usize {
        let ops = ["copy", "gelu", "max", "max.dim", "sum"].map(String::from).into();
        let manifest = |folder: &str, body: &str| {
            let text = format!("[package]\nname = \"oneflow-{folder}\"\n[dependencies]\n{body}\n");
            Source::new(&format!("crates/{folder}/Cargo.toml"), &text)
        };
        let core = "oneflow-core.workspace = true";
        let crates = [("base", ""), ("core", ""), ("ops", core), ("graph", core), ("python", core)];
        let mut sources = Vec::from(crates.map(|(folder, body)| manifest(folder, body)));
        sources.push(Source::new(path, text));
        check(&sources, &ops).len()
    }

    #[test]
    fn planted_names_are_found() {
        for text in [
            "if op.name() == \"gelu\" {}",
            "match name { \"max.dim\" => 1, _ => 0 }",
            "fail(\"gelu(): expected a tensor\")",
            "let inplace = \"gelu_\";",
            "dispatch(&oneflow_ops::unary::gelu::OP)",
            "fn op_gelu(x: &Tensor) {}",
        ] {
            assert_eq!(n_faults("crates/core/src/a.rs", text), 1, "{text}");
        }
    }

    #[test]
    fn rooms_tests_and_other_words_are_free() {
        for (path, text) in [
            ("crates/ops/src/unary/gelu.rs", "\"gelu\""),
            ("crates/core/src/a.rs", "let a = \"gelus\"; // \"gelu\""),
            ("crates/core/src/a.rs", "let a = \"the gelu of a tensor\";"),
            ("crates/core/src/a.rs", "#[cfg(test)]\nmod tests { const A: &str = \"gelu\"; }"),
            ("crates/core/src/a_tests.rs", "\"gelu\""),
            ("crates/core/tests/a.rs", "\"gelu\""),
            ("crates/base/src/sbp.rs", "\"sum\""),
            ("crates/python/src/convert.rs", "\"copy\""),
            ("crates/graph/src/passes/fusion/gelu.rs", "\"gelu\""),
            ("xtask/src/a.rs", "\"gelu\""),
        ] {
            assert_eq!(n_faults(path, text), 0, "{path}: {text}");
        }
    }
}
