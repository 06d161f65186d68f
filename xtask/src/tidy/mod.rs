//! The house rules as checks over the tree's text. Each rule is a function from sources to faults ("path:line: what"),
//! and each is tested by a planted fault. Style that rustfmt, clippy and ruff know is left to them.

mod circles;
mod files;
mod layers;
mod names;
mod once;
mod op_files;
mod operands;
mod quotes;
mod table;
mod unit_tests;

use crate::codegen;
use crate::tree::{self, Source};

/// All faults of the tree.
pub fn check(sources: &[Source]) -> Vec<String> {
    let ops = codegen::ops(sources);
    let names = ops.iter().flat_map(|op| [op.schema.name.clone(), op.schema.full_name()]).collect();
    let mut faults = layers::check(sources);
    faults.extend(circles::check(sources));
    faults.extend(files::check(sources));
    faults.extend(names::check(sources, &names));
    faults.extend(once::check(sources));
    faults.extend(op_files::check(&ops));
    faults.extend(quotes::check(sources));
    faults.extend(table::check(sources, &ops));
    faults.extend(operands::check(sources, &ops));
    faults.extend(unit_tests::check(sources));
    faults.extend(codegen::check(&tree::root()));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let faults = check(&tree::read());
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }
}
