//! An op reads its call by the names of its own signature: the constants that codegen writes for it, and no number.
//!
//! A definition that reads another op's constant is a fault. A function that several ops share may use the names of one of
//! them, where the other ops have the same kind of thing at the same place, or nothing there. Functions are followed by
//! their names, through files as far as paths and imports tell.
//!
//! What launches a kernel and what it reads as parameters go through the primitive's struct; words are read by number
//! nowhere else.

use crate::codegen::named::{Position, module_name, positions};
use crate::codegen::{Op, definitions};
use crate::lex::{self, Token};
use crate::tree::Source;
use std::collections::{BTreeMap, BTreeSet};

const OPS: &str = "crates/ops/src/";
/// Where ops outside the table are defined; files there that define none serve any op.
const LAYOUTS: &str = "crates/global/src/";

/// Who lowers and who reads launches. The structs themselves, and what keeps and patches words, stand elsewhere.
const LAUNCHES: [&str; 4] = ["crates/kernels/", OPS, LAYOUTS, "tests/provider/src/"];
const STRUCTS: &str = "crates/kernels/prim/";

/// What makes a position of a number.
const MAKERS: [(&str, &str); 6] =
    [("In", "nth"), ("Out", "nth"), ("At", "nth"), ("AnyArg", "nth"), ("Ins", "new"), ("LastIn", "nth_from_end")];

/// Methods that read a call, a gradient's call or results, or name an operand of a launch.
const READERS: [&str; 31] = [
    "t",
    "opt",
    "place",
    "list",
    "arg",
    "int",
    "float",
    "bool",
    "ints",
    "dtype_or",
    "str",
    "x",
    "opt_x",
    "xs",
    "y",
    "in_meta",
    "out_meta",
    "g_of",
    "needs",
    "set",
    "input",
    "opt_input",
    "input_as",
    "input_expanded",
    "output",
    "output_as",
    "written_input",
    "starts_as",
    "sized",
    "typed",
    "Sizes",
];

/// Constructors whose lists name inputs or results.
const SETS: [&str; 4] = ["Save", "InMask", "OutMask", "Localize"];

pub fn check(sources: &[Source], ops: &[Op]) -> Vec<String> {
    let files: Vec<File> = sources
        .iter()
        .filter(|s| s.path.starts_with(OPS) && s.is_rust() && !s.is_generated())
        .map(File::read)
        .collect();
    let mut faults: Vec<String> = files.iter().flat_map(numbers).collect();
    let of_layouts = sources.iter().filter(|s| s.path.starts_with(LAYOUTS) && s.is_rust() && !s.is_generated());
    faults.extend(of_layouts.filter(|s| s.text.contains(": OpDef = ")).map(File::read).flat_map(|f| numbers(&f)));
    let named: BTreeMap<String, Vec<Position>> =
        ops.iter().filter_map(|op| Some((module_name(&op.schema), positions(&op.schema).ok()?))).collect();
    for (i, file) in files.iter().enumerate() {
        for definition in definitions(&sources_of(sources, &file.path)) {
            let Some(op) = ops.iter().find(|op| op.path == definition.path()) else { continue };
            let own = module_name(&op.schema);
            let mut reads = file.reads(&definition.body);
            reads.retain(|r| r.module != own);
            faults.extend(reads.iter().map(|r| {
                format!(
                    "{}:{}: `{}` reads {}::{}, which is another op's",
                    file.path,
                    r.line,
                    op.schema.full_name(),
                    r.module,
                    r.name
                )
            }));
            for (f, function) in reached(&files, i, &definition.body) {
                faults.extend(shared(&files[f], function, &own, op, &named));
            }
        }
    }
    faults.extend(sources.iter().flat_map(words));
    faults.sort();
    faults.dedup();
    faults
}

/// Parameters of a launch that are read or pushed as words: `l.params[0]`, `l.params.push(...)`.
fn words(source: &Source) -> Vec<String> {
    let lowers = source.is_rust() && LAUNCHES.iter().any(|l| source.path.starts_with(l));
    if !lowers || source.path.starts_with(STRUCTS) || !source.path.contains("/src/") {
        return Vec::new();
    }
    let tokens = lex::tokens(&source.text);
    let of_a_launch = |w: &&[Token]| {
        let by_number = w[3].is('[') || w[3].is('.') && w[4].word().is_some_and(|m| ["get", "push"].contains(&m));
        ["l", "launch"].iter().any(|l| w[0].is_word(l)) && w[1].is('.') && w[2].is_word("params") && by_number
    };
    let found = tokens.windows(5).filter(of_a_launch);
    found.map(|w| format!("{}:{}: a parameter by number; use the primitive's struct", source.path, w[0].line)).collect()
}

fn sources_of(sources: &[Source], path: &str) -> Vec<Source> {
    let found = sources.iter().find(|s| s.path == path);
    found.map(|s| Source { path: s.path.clone(), text: s.text.clone() }).into_iter().collect()
}

/// One file of ops: its tokens, what its imports call the modules of names, and its functions.
struct File {
    path: String,
    tokens: Vec<Token>,
    modules: BTreeMap<String, String>,
    functions: Vec<Function>,
}

struct Function {
    name: String,
    line: usize,
    body: Vec<Token>,
}

/// `module::CONSTANT` where a reader takes it.
struct Read {
    module: String,
    name: String,
    line: usize,
}

impl File {
    fn read(source: &Source) -> File {
        let tokens = lex::tokens(&source.text);
        let mut functions = Vec::new();
        for (i, w) in tokens.windows(2).enumerate() {
            if !w[0].is_word("fn") {
                continue;
            }
            let Some(open) = (i + 2..tokens.len()).find(|k| tokens[*k].is('{') || tokens[*k].is(';')) else { continue };
            let end = lex::matching(&tokens, open);
            if let (true, Some(name)) = (tokens[open].is('{'), w[1].word()) {
                let body = tokens[open..end.min(tokens.len())].to_vec();
                functions.push(Function { name: name.to_string(), line: w[0].line, body });
            }
        }
        File { path: source.path.clone(), modules: imports(&tokens), tokens, functions }
    }

    /// Constants that readers take in these tokens. A function's own `use x as at;` names a module too.
    fn reads(&self, body: &[Token]) -> Vec<Read> {
        let mut modules = self.modules.clone();
        for w in body.windows(4) {
            if let (true, Some(module), true, Some(alias)) =
                (w[0].is_word("use"), w[1].word(), w[2].is_word("as"), w[3].word())
                && let Some(of) = self.modules.get(module)
            {
                modules.insert(alias.to_string(), of.clone());
            }
        }
        let mut found = Vec::new();
        for (i, token) in body.iter().enumerate() {
            let opens = token.is('(') && i > 0 && body[i - 1].word().is_some_and(|w| READERS.contains(&w));
            let is_set =
                token.is('(') && i > 3 && body[i - 2].is(':') && body[i - 4].word().is_some_and(|w| SETS.contains(&w));
            let indexes = token.is('[') && i > 0 && ["outs", "o"].iter().any(|w| body[i - 1].is_word(w));
            let end = match (opens || indexes, is_set) {
                (_, true) => lex::matching(body, i),
                // The first thing in the brackets; a helper's call comes before it.
                (true, _) => (i + 7).min(body.len()),
                _ => continue,
            };
            let mut at = i + 1;
            while at + 3 < end.min(body.len()) {
                let path = &body[at..at + 4];
                if let (Some(module), true, true, Some(name)) =
                    (path[0].word(), path[1].is(':'), path[2].is(':'), path[3].word())
                    && let Some(module) = modules.get(module)
                    && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
                {
                    found.push(Read { module: module.clone(), name: name.to_string(), line: path[0].line });
                    if !is_set {
                        break;
                    }
                }
                if !is_set && !body[at].is(',') && body[at].word().is_none() {
                    break;
                }
                at += 1;
            }
        }
        found
    }
}

/// What a file calls the modules of names: `use crate::named::{add, exp as at};`.
fn imports(tokens: &[Token]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (i, w) in tokens.windows(7).enumerate() {
        let is_named = w[0].is_word("use") && w[1].is_word("crate") && w[4].is_word("named");
        if !is_named {
            continue;
        }
        let end = (i..tokens.len()).find(|k| tokens[*k].is(';')).unwrap_or(tokens.len());
        for item in tokens[i + 5..end].split(|t| t.is(',') || t.is('{') || t.is('}') || t.is(':')) {
            let words: Vec<&str> = item.iter().filter_map(Token::word).collect();
            match words[..] {
                [module] => found.insert(module.to_string(), module.to_string()),
                [module, "as", alias] => found.insert(alias.to_string(), module.to_string()),
                _ => None,
            };
        }
    }
    found
}

/// Positions made by number.
fn numbers(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    for w in file.tokens.windows(4) {
        let made = MAKERS.iter().any(|(ty, maker)| w[0].is_word(ty) && w[3].is_word(maker));
        if made && w[1].is(':') && w[2].is(':') {
            let line = w[0].line;
            faults.push(format!("{}:{line}: makes a position by number; use the op's names", file.path));
        }
    }
    faults
}

/// Functions that a definition reaches: those of its file by their names, those of another by a path that ends with the
/// file's name, or by an import.
fn reached<'a>(files: &'a [File], at: usize, body: &[Token]) -> Vec<(usize, &'a Function)> {
    let mut found: Vec<(usize, &Function)> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut todo: Vec<(usize, Vec<Token>)> = vec![(at, body.to_vec())];
    while let Some((file, tokens)) = todo.pop() {
        for (i, token) in tokens.iter().enumerate() {
            let Some(name) = token.word() else { continue };
            let after = |k: usize, c: char| i >= k && tokens[i - k].is(c);
            // A method, or a field's name.
            if after(1, '.')
                || tokens.get(i + 1).is_some_and(|t| t.is(':')) && !tokens.get(i + 2).is_some_and(|t| t.is(':'))
            {
                continue;
            }
            let qualifier = (after(1, ':') && after(2, ':') && i > 2).then(|| tokens[i - 3].word()).flatten();
            let home = match qualifier {
                None | Some("self") => Some(file),
                Some("super") => parent(files, file),
                Some(q) => {
                    files.iter().position(|f| f.path.ends_with(&format!("/{q}.rs")) && same_family(f, &files[file]))
                }
            };
            let own = home.map(|h| (h, files[h].functions.iter().filter(|f| f.name == name).collect::<Vec<_>>()));
            for (h, functions) in own.into_iter() {
                for function in functions {
                    if seen.insert((h, function.line)) {
                        found.push((h, function));
                        todo.push((h, function.body.clone()));
                    }
                }
            }
        }
    }
    found
}

fn parent(files: &[File], of: usize) -> Option<usize> {
    let (folder, _) = files[of].path.rsplit_once('/')?;
    files.iter().position(|f| f.path == format!("{folder}/mod.rs"))
}

fn same_family(a: &File, b: &File) -> bool {
    let family = |f: &File| f.path.trim_start_matches(OPS).split('/').next().map(str::to_string);
    family(a) == family(b)
}

/// A function may serve an op if it names the op, or if what it reads by the names of one other op is of the same kind here.
fn shared(
    file: &File,
    function: &Function,
    own: &str,
    op: &Op,
    named: &BTreeMap<String, Vec<Position>>,
) -> Vec<String> {
    let reads = file.reads(&function.body);
    let modules: BTreeSet<&str> = reads.iter().map(|r| r.module.as_str()).collect();
    if modules.is_empty() || modules.contains(own) {
        return Vec::new();
    }
    let mine = &named[own];
    let differs = |r: &&Read| {
        let Some(theirs) = named.get(&r.module).and_then(|all| all.iter().find(|p| p.name == r.name)) else {
            return true;
        };
        mine.iter().any(|p| p.place() == theirs.place() && p.ty != theirs.ty)
    };
    let agrees = modules.iter().any(|m| !reads.iter().filter(|r| r.module == *m).any(|r| differs(&r)));
    let wrong = reads.iter().find(differs);
    match wrong.filter(|_| !agrees) {
        Some(r) => vec![format!(
            "{}:{}: `{}` serves `{}`, which has something else in place of {}::{}",
            file.path,
            r.line,
            function.name,
            op.schema.full_name(),
            r.module,
            r.name
        )],
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen;

    fn faults(body: &str, helper: &str) -> Vec<String> {
        let text = format!(
            "use crate::named::{{neg, scale as at}};
             pub static NEG: OpDef = OpDef {{ sig: Sig::parse(\"neg(Tensor input, int n) -> Tensor\"), infer: |c, outs| {{ {body} }} }};
             pub static SCALE: OpDef = OpDef {{ sig: Sig::parse(\"scale(Tensor input, float by) -> Tensor\"), infer: |c, o| f(c) }};
             fn f(c: &Call<'_>) {{ {helper} }}"
        );
        let sources = [Source::new("crates/ops/src/unary/neg.rs", &text)];
        check(&sources, &codegen::ops(&sources))
    }

    #[test]
    fn planted_names_of_other_ops_are_found() {
        for (body, helper, expected) in [
            ("c.int(neg::N)", "c.float(at::BY)", 0),
            ("c.t(neg::INPUT)?; f(c)", "c.t(at::INPUT)", 0),
            ("c.float(at::BY)", "", 1),
            ("Save::of(neg::INPUT, &[at::INPUT])", "", 1),
            ("outs[at::RESULT]", "", 1),
            ("l.input_as(at::INPUT, a, b, c)", "", 1),
            ("f(c)", "c.float(at::BY)", 1),
            ("f(c)", "c.float(at::BY); c.int(neg::N)", 0),
        ] {
            let found = faults(body, helper);
            assert_eq!(found.len(), expected, "{body} {helper}: {found:?}");
        }
    }

    #[test]
    fn planted_words_are_found() {
        let faults =
            |path: &str, body: &str| words(&Source::new(path, &format!("fn f(l: &Launch<'_>) {{ {body} }}"))).len();
        for body in ["l.params[0].i64()", "l.params.get(2);", "l.params.push(w);"] {
            assert_eq!(faults("crates/kernels/nn/src/a.rs", body), 1, "{body}");
            assert_eq!(faults("tests/provider/src/a.rs", body), 1, "{body}");
            assert_eq!(faults("crates/kernels/prim/src/launch.rs", body), 0, "{body}");
        }
        assert_eq!(faults("crates/ops/src/a.rs", "l.with(DimParams { dim })"), 0);
    }

    #[test]
    fn planted_numbers_are_found() {
        for body in ["c.t(In::nth(0))", "c.arg(AnyArg::nth(1))", "c.int(At::nth(1))", "outs[Out::nth(0)]"] {
            assert_eq!(faults(body, "").len(), 1, "{body}");
        }
    }
}
