//! Every op that is defined stands in the table, once and in alphabetical order; overloads of a name stay together, in
//! the order in which they are tried. A public op has a documentation with an example.

use crate::codegen::{Face, Op};
use crate::lex;
use crate::tree::Source;

const TABLE: &str = "crates/ops/src/table.rs";

pub fn check(sources: &[Source], ops: &[Op]) -> Vec<String> {
    let Some(table) = sources.iter().find(|s| s.path == TABLE) else { return Vec::new() };
    let entries = entries(&table.text);
    let mut faults = Vec::new();
    for op in ops {
        let n = entries.iter().filter(|(_, path)| *path == op.path).count();
        if n != 1 {
            faults.push(format!("{TABLE}:1: `{}` stands {n} times in the table", op.path));
        }
        // One overload may speak for all of a name.
        let shown = ops.iter().any(|o| o.schema.name == op.schema.name && o.doc.contains(">>> "));
        if !op.has(Face::Private) && !shown {
            faults.push(format!("{TABLE}:1: `{}` has no documentation with an example", op.path));
        }
    }
    let name_of = |path: &str| ops.iter().find(|op| op.path == path).map(|op| op.schema.name.as_str());
    let named: Vec<(usize, &str)> = entries.iter().filter_map(|(line, path)| Some((*line, name_of(path)?))).collect();
    for pair in named.windows(2) {
        if pair[0].1 > pair[1].1 {
            faults.push(format!("{TABLE}:{}: `{}` stands after `{}`", pair[1].0, pair[1].1, pair[0].1));
        }
    }
    faults
}

/// Line and full path of each `&family::op::NAME,`.
fn entries(text: &str) -> Vec<(usize, String)> {
    let tokens = lex::tokens(text);
    let mut entries = Vec::new();
    for item in tokens.split(|t| t.is(',') || t.is('[') || t.is(']')) {
        let words: Vec<&str> = item.iter().filter_map(lex::Token::word).filter(|w| *w != "crate").collect();
        if item.first().is_some_and(|t| t.is('&')) && words.len() > 1 {
            entries.push((item[0].line, format!("crate::{}", words.join("::"))));
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen;

    fn n_faults(table: &str, doc: &str) -> usize {
        let op = |name: &str, doc: &str| {
            let text = format!(
                "static OP: OpDef = OpDef {{ sig: Sig::parse(\"{name}(Tensor x) -> Tensor\"), doc: \"{doc}\" }};"
            );
            Source::new(&format!("crates/ops/src/unary/{name}.rs"), &text)
        };
        let sources =
            [op("abs", doc), op("exp", ">>> 1"), Source::new(TABLE, &format!("static T: &[&OpDef] = &[{table}];"))];
        check(&sources, &codegen::ops(&sources)).len()
    }

    #[test]
    fn planted_faults_are_found() {
        for (table, expected) in [
            ("&unary::abs::OP, &unary::exp::OP", 0),
            ("&unary::abs::OP,\n &crate::unary::exp::OP,\n", 0),
            ("&unary::abs::OP", 1),
            ("&unary::exp::OP, &unary::abs::OP", 1),
            ("&unary::abs::OP, &unary::abs::OP, &unary::exp::OP", 1),
        ] {
            assert_eq!(n_faults(table, ">>> 1"), expected, "{table}");
        }
        assert_eq!(n_faults("&unary::abs::OP, &unary::exp::OP", "No example."), 1);
    }
}
