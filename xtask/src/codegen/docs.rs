//! API pages: one page a family with every public op, and the list of all public names.

use super::python::{Form, plain_signature};
use super::scan::{Face, Op};

/// Paths below `docs/api/` and their texts.
pub fn pages(ops: &[Op]) -> Vec<(String, String)> {
    let public: Vec<&Op> = ops.iter().filter(|op| !names(op).is_empty()).collect();
    let mut families: Vec<&str> = public.iter().map(|op| op.family.as_str()).collect();
    families.sort_unstable();
    families.dedup();
    let mut pages = vec![
        ("docs/api/names.txt".to_string(), name_list(&public)),
        ("docs/api/README.md".into(), index(&public, &families)),
    ];
    for family in families {
        let of_family = public.iter().filter(|op| op.family == family);
        let sections: Vec<String> = of_family.map(|op| section(op)).collect();
        pages.push((format!("docs/api/{family}.md"), format!("# {family}\n\n{}", sections.join("\n"))));
    }
    pages
}

fn name_list(ops: &[&Op]) -> String {
    let mut names: Vec<String> = ops.iter().flat_map(|op| names(op)).collect();
    names.sort();
    names.dedup();
    names.join("\n") + "\n"
}

fn index(ops: &[&Op], families: &[&str]) -> String {
    let mut text = "# Ops\n\nOne page a family, written by `cargo xtask codegen` from the op table.\n\n".to_string();
    for family in families {
        let mut names: Vec<&str> =
            ops.iter().filter(|op| op.family == *family).map(|op| op.schema.name.as_str()).collect();
        names.dedup();
        text += &format!("- [{family}]({family}.md): {}\n", names.join(", "));
    }
    text
}

/// Public names of an op.
fn names(op: &Op) -> Vec<String> {
    let name = &op.schema.name;
    let mut names = Vec::new();
    if op.has(Face::Fn) {
        names.push(format!("oneflow.{name}"));
    }
    if op.has(Face::Nn) {
        names.push(format!("oneflow.nn.functional.{name}"));
    }
    if op.has(Face::Method) {
        names.push(format!("oneflow.Tensor.{name}"));
    }
    if op.has(Face::Inplace) {
        names.push(format!("oneflow.Tensor.{name}_"));
    }
    names
}

fn section(op: &Op) -> String {
    let name = &op.schema.name;
    let mut lines = Vec::new();
    for (face, head, form) in [
        (Face::Fn, format!("oneflow.{name}"), Form::Function),
        (Face::Nn, format!("oneflow.nn.functional.{name}"), Form::Function),
        (Face::Method, format!("Tensor.{name}"), Form::Method),
        (Face::Inplace, format!("Tensor.{name}_"), Form::Inplace),
    ] {
        if op.has(face) {
            lines.push(format!("{head}{}", plain_signature(op, form)));
        }
    }
    let doc = op.doc.trim();
    let doc = if doc.is_empty() { String::new() } else { format!("\n{}\n", fence_examples(doc)) };
    format!("## {}\n\n```python\n{}\n```\n{doc}", op.schema.full_name(), lines.join("\n"))
}

/// Examples (`>>> ...` up to an empty line) go into code blocks; the rest of a doc text is Markdown already.
fn fence_examples(doc: &str) -> String {
    let mut text = String::new();
    let mut indent = None;
    for line in doc.lines().map(str::trim_end) {
        let body = line.trim_start();
        if indent.is_none() && body.starts_with(">>>") {
            text += "```python\n";
            indent = Some(line.len() - body.len());
        } else if indent.is_some() && body.is_empty() {
            text += "```\n";
            indent = None;
        }
        text += match indent {
            Some(n) => line.get(n..).unwrap_or(body),
            None if line == "Example::" => "Example:",
            None => line,
        };
        text.push('\n');
    }
    if indent.is_some() {
        text += "```\n";
    }
    text.trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::scan;
    use crate::tree::Source;

    #[test]
    fn a_page_shows_forms_and_examples() {
        let text = r#"static OP: OpDef = OpDef { sig: Sig::parse("neg(Tensor input) -> Tensor"), faces: Faces::ALL,
            doc: "Negative.\n\n    >>> oneflow.tensor(1).neg()\n      tensor(-1)\n\nSee also." };"#;
        let (ops, _) = scan::ops(&[Source::new("crates/ops/src/unary/neg.rs", text)]);
        let pages = pages(&ops);
        let page = &pages.iter().find(|(path, _)| path == "docs/api/unary.md").unwrap().1;
        assert!(
            page.contains("oneflow.neg(input: Tensor, *, out: Tensor | None = None) -> Tensor\nTensor.neg() -> Tensor"),
            "{page}"
        );
        assert!(page.contains("```python\n>>> oneflow.tensor(1).neg()\n  tensor(-1)\n```\n"), "{page}");
        assert_eq!(pages[0].1, "oneflow.Tensor.neg\noneflow.Tensor.neg_\noneflow.neg\n");
    }

    #[test]
    fn private_ops_have_no_page() {
        let text = "static OP: OpDef = OpDef { sig: Sig::parse(\"a(Tensor x) -> Tensor\"), faces: Faces::PRIVATE };";
        let (ops, _) = scan::ops(&[Source::new("crates/ops/src/a.rs", text)]);
        assert_eq!(pages(&ops).len(), 2);
    }
}
