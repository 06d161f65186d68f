//! House-keeping: `cargo xtask codegen [--check]` writes what follows from the op table, `cargo xtask tidy` checks the
//! house rules, `cargo xtask licenses [--check]` lists the dependencies' licences. Reads the tree as text and links no other
//! crate of it: generated methods are part of what those link.

mod codegen;
mod lex;
mod licenses;
mod tidy;
mod tree;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let faults = match args[..] {
        ["tidy"] => tidy::check(&tree::read()),
        ["codegen"] => codegen::write(&tree::root()),
        ["codegen", "--check"] => codegen::check(&tree::root()),
        ["licenses"] => licenses::write(&tree::root()),
        ["licenses", "--check"] => licenses::check(&tree::root()),
        _ => vec!["usage: cargo xtask tidy | codegen [--check] | licenses [--check]".to_string()],
    };
    for fault in &faults {
        eprintln!("{fault}");
    }
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
