//! Code that a guide quotes is the code of the tree: a block under `<!-- from: path -->` stands in that file word for word.
//! The guide may leave lines out with `...` on a line of its own.

use crate::tree::Source;

const MARK: &str = "<!-- from: ";

pub fn check(sources: &[Source]) -> Vec<String> {
    let guides = sources.iter().filter(|s| s.path.ends_with(".md"));
    guides.flat_map(|guide| check_guide(guide, sources)).collect()
}

fn check_guide(guide: &Source, sources: &[Source]) -> Vec<String> {
    let lines: Vec<&str> = guide.text.lines().collect();
    let mut faults = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let Some(path) = line.strip_prefix(MARK).and_then(|l| l.strip_suffix(" -->")) else { continue };
        let block: Vec<&str> = lines.iter().skip(i + 2).take_while(|l| !l.starts_with("```")).copied().collect();
        let quoted = sources.iter().find(|s| s.path == path).is_some_and(|s| has_parts(&s.text, &block));
        if !quoted || block.iter().all(|l| l.trim().is_empty()) {
            faults.push(format!("{}:{}: {path} does not read like this", guide.path, i + 1));
        }
    }
    faults
}

/// Whether the parts between `...` lines stand in the text, one after the other.
fn has_parts(text: &str, block: &[&str]) -> bool {
    let mut rest = text;
    block.split(|l| l.trim() == "...").all(|part| {
        let part = part.join("\n");
        rest.find(&part).is_some_and(|at| {
            rest = &rest[at + part.len()..];
            true
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n_faults(block: &str) -> usize {
        let guide = format!("Text.\n\n<!-- from: a.rs -->\n```rust\n{block}\n```\n");
        check(&[Source::new("guide.md", &guide), Source::new("a.rs", "fn a() {\n    1\n}\n\nfn b() {}\n")]).len()
    }

    #[test]
    fn a_planted_change_is_found() {
        for (block, expected) in [
            ("fn a() {\n    1\n}", 0),
            ("fn a() {\n...\nfn b() {}", 0),
            ("fn a() {\n    2\n}", 1),
            ("fn b() {}\n...\nfn a() {", 1),
            ("", 1),
        ] {
            assert_eq!(n_faults(block), expected, "{block}");
        }
        assert_eq!(check(&[Source::new("guide.md", "<!-- from: gone.rs -->\n```\nx\n```\n")]).len(), 1);
    }
}
