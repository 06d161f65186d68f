//! What the tree says once: the switch from a dtype to a Rust type, how half types are read from memory, the instruction sets,
//! the list of passes. A second copy is a fault.

use crate::lex::{self, Token};
use crate::tree::Source;

/// The one switch.
const SWITCH: &str = "crates/base/src/elements.rs";
/// The only crate whose kernels convert half types by instructions; others use its `Float`.
const REGISTERS: &str = "crates/kernels/prim/src/";
const HALVES: [&str; 4] = ["load_bf16", "load_f16", "store_bf16", "store_f16"];
/// Types of which there is one.
const TYPES: [(&str, &str); 2] = [("enum", "Isa"), ("trait", "Simd")];
const PASSES: &str = "crates/graph/src/passes/";

pub fn check(sources: &[Source]) -> Vec<String> {
    let code: Vec<(&Source, Vec<Token>)> = sources
        .iter()
        .filter(|s| s.path.starts_with("crates/") && s.is_rust() && !s.is_generated())
        .map(|s| (s, lex::tokens(&s.text)))
        .collect();
    let mut faults = Vec::new();
    for (source, tokens) in &code {
        let mut fault = |line: usize, text: &str| faults.push(format!("{}:{line}: {text}", source.path));
        if source.path != SWITCH {
            switches(tokens).for_each(|line| fault(line, "a second switch of dtypes; use `oneflow_base::by_dtype!`"));
        }
        if !source.path.starts_with(REGISTERS) {
            let halves = tokens.iter().filter(|t| t.word().is_some_and(|w| HALVES.contains(&w)));
            halves.for_each(|t| fault(t.line, "reads half types by itself; use `oneflow_kernels_prim::Float`"));
        }
    }
    for (kind, name) in TYPES {
        let found = code.iter().flat_map(|(source, tokens)| {
            let defined = tokens.windows(2).filter(move |w| w[0].is_word(kind) && w[1].is_word(name));
            defined.map(move |w| format!("{}:{}: a second `{kind} {name}`", source.path, w[0].line))
        });
        faults.extend(found.skip(1));
    }
    faults.extend(unlisted(&code));
    faults
}

/// Arms for a dtype that name its type: `BF16 => run::<bf16>(...)`, `BF16 => { type T = oneflow_base::bf16; ... }`.
fn switches(tokens: &[Token]) -> impl Iterator<Item = usize> {
    (0..tokens.len()).filter_map(|i| {
        let rest = &tokens[i..];
        let is_arm = rest.len() > 12 && rest[0].is_word("BF16") && rest[1].is('=') && rest[2].is('>');
        let named = |from: usize| {
            let path = rest[from..].iter().take_while(|t| t.word().is_some() || t.is(':'));
            path.last().is_some_and(|t| t.is_word("bf16")).then_some(rest[0].line)
        };
        match () {
            _ if !is_arm => None,
            _ if rest[3].is('{') && rest[4].is_word("type") => {
                let equals = rest.iter().take(9).skip(5).position(|t| t.is('='))?;
                named(5 + equals + 1)
            }
            _ => {
                let opens = rest[3..].iter().position(|t| t.word().is_none() && !t.is(':'))?;
                rest[3 + opens].is('<').then(|| named(3 + opens + 1))?
            }
        }
    })
}

/// Files of passes whose `run` is not in the list.
fn unlisted(code: &[(&Source, Vec<Token>)]) -> Vec<String> {
    let Some((_, list)) = code.iter().find(|(s, _)| s.path == format!("{PASSES}mod.rs")) else { return Vec::new() };
    let mut faults = Vec::new();
    for (source, tokens) in code.iter().filter(|(s, _)| s.path.starts_with(PASSES)) {
        let file = source.path.trim_end_matches(".rs").trim_end_matches("/mod");
        let name = file.rsplit('/').next().unwrap_or(file);
        let run = tokens.windows(6).find(|w| {
            w[0].is_word("pub") && w[1].is_word("fn") && w[2].is_word("run") && w[3].is('(') && w[4].is_word("g")
        });
        let listed = list.windows(4).any(|w| w[0].is_word(name) && w[1].is(':') && w[3].is_word("run"));
        if let (Some(run), false, false) = (run, listed, source.path.ends_with("passes/mod.rs")) {
            faults.push(format!("{}:{}: this pass stands outside the list `PASSES`", source.path, run[0].line));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_faults(files: &[(&str, &str)]) -> usize {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        check(&sources).len()
    }

    #[test]
    fn planted_copies_are_found() {
        let list = ("crates/graph/src/passes/mod.rs", "static PASSES: &[Pass] = &[rewrite(\"a\", a::run)];");
        for (path, text) in [
            ("crates/kernels/a/src/b.rs", "match d { DType::BF16 => run::<bf16>(x, y, z, w, v, u), _ => 0 }"),
            ("crates/kernels/a/src/b.rs", "match d { DType::BF16 => { type T = oneflow_base::bf16; run::<T>(x, y) } }"),
            ("crates/comm/src/b.rs", "match d { BF16 => a::run::<oneflow_base::bf16>(own, rank, parts, op) }"),
            ("crates/kernels/a/src/b.rs", "let v = S::F32::load_bf16(p);"),
            ("crates/graph/src/passes/b.rs", "pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {}"),
        ] {
            assert_eq!(n_faults(&[list, (path, text)]), 1, "{text}");
        }
        let isa = |path| (path, "pub enum Isa { A }");
        assert_eq!(n_faults(&[isa("crates/a/src/b.rs"), isa("crates/c/src/d.rs")]), 1);
    }

    #[test]
    fn what_stands_once_is_fine() {
        for (path, text) in [
            (SWITCH, "match d { DType::BF16 => { type T = oneflow_base::bf16; run::<T>(x, y) } }"),
            ("crates/a/src/b.rs", "match d { DType::BF16 => bf16::MAX.to_f64() as f64 + x, _ => 0 }"),
            ("crates/a/src/b.rs", "match d { DType::BF16 => Some(fold::<S, bf16, F>(p, n, x, y)) }"),
            ("crates/kernels/prim/src/float.rs", "half!(bf16, load_bf16);"),
            ("crates/graph/src/passes/a.rs", "pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {}"),
            ("tests/provider/src/a.rs", "match d { DType::BF16 => run::<bf16>(x, y, z, w, v, u), _ => 0 }"),
        ] {
            let list = ("crates/graph/src/passes/mod.rs", "static PASSES: &[Pass] = &[rewrite(\"a\", a::run)];");
            assert_eq!(n_faults(&[list, (path, text)]), 0, "{text}");
        }
    }
}
