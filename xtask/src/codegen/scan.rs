//! Finds the op definitions: every `static NAME: OpDef = ...;` below `crates/ops/src`, with its signature, documentation
//! and faces. Reads literals only: what an op computes is not looked at.

use super::schema::Schema;
use crate::lex::{self, Tok, Token};
use crate::tree::Source;

pub const OPS: &str = "crates/ops/src/";
/// Ops of a layer: what global tensors are made, moved and taken apart by.
pub const GLOBAL_OPS: &str = "crates/global/src/";

/// One op as its definition states it.
pub struct Op {
    /// Path of the static, `crate::unary::gelu::OP`.
    pub path: String,
    /// The folder, or the file of a family that has no folder.
    pub family: String,
    pub schema: Schema,
    pub doc: String,
    pub faces: Vec<Face>,
}

/// The public forms of an op, as `core` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    Fn,
    Method,
    Inplace,
    Out,
    Private,
    Nn,
}

impl Op {
    pub fn has(&self, face: Face) -> bool {
        self.faces.contains(&face)
    }
}

/// All ops by name, and what is wrong with the definitions.
pub fn ops(sources: &[Source]) -> (Vec<Op>, Vec<String>) {
    let files = sources.iter().filter(|s| s.path.starts_with(OPS) && s.is_rust() && !s.is_generated());
    let definitions: Vec<Definition> = files.flat_map(definitions_in).collect();
    let mut ops = Vec::new();
    let mut faults = Vec::new();
    for definition in definitions.iter().filter(|d| d.is_op) {
        match op_of(definition, &definitions) {
            Ok(op) => ops.push(op),
            Err(e) => faults.push(format!("{}:{}: {}: {e}", definition.file, definition.line, definition.name)),
        }
    }
    ops.sort_by_key(|op| op.schema.full_name());
    for pair in ops.windows(2) {
        if pair[0].schema.full_name() == pair[1].schema.full_name() {
            faults.push(format!("{} and {} define one op", pair[0].path, pair[1].path));
        }
    }
    (ops, faults)
}

/// The signatures of ops outside the table, by name.
pub fn schemas(sources: &[Source]) -> Result<Vec<Schema>, String> {
    let mut found = Vec::new();
    for op in definitions(sources).iter().filter(|d| d.is_op) {
        let sig = op.body.iter().find_map(Token::str).ok_or("has no signature literal");
        let schema = sig.map_err(String::from).and_then(Schema::parse);
        found.push(schema.map_err(|e| format!("{}:{}: {}: {e}", op.file, op.line, op.name))?);
    }
    found.sort_by_key(Schema::full_name);
    Ok(found)
}

/// `static OP: OpDef = OpDef { ... };`, or a `const` of the same type from which ops take what they leave out.
pub struct Definition {
    file: String,
    line: usize,
    module: String,
    name: String,
    is_op: bool,
    pub body: Vec<Token>,
}

impl Definition {
    /// Path of the static or constant.
    pub fn path(&self) -> String {
        format!("{}::{}", self.module, self.name)
    }
}

/// The definitions of these files.
pub fn definitions(sources: &[Source]) -> Vec<Definition> {
    sources.iter().flat_map(definitions_in).collect()
}

fn definitions_in(source: &Source) -> Vec<Definition> {
    let tokens = lex::tokens(&source.text);
    let mut found = Vec::new();
    let mut modules = vec![(module_of(&source.path), tokens.len())];
    for (i, w) in tokens.windows(5).enumerate() {
        modules.retain(|(_, end)| i < *end);
        if w[0].is_word("mod") && w[2].is('{') {
            let outer = modules.last().map_or("", |(path, _)| path);
            modules.push((format!("{outer}::{}", w[1].word().unwrap_or("")), lex::matching(&tokens, i + 2)));
        }
        let is_op = w[0].is_word("static");
        let is_def = (is_op || w[0].is_word("const")) && w[2].is(':') && w[3].is_word("OpDef") && w[4].is('=');
        if let (true, Some(name)) = (is_def, w[1].word()) {
            found.push(Definition {
                file: source.path.clone(),
                line: w[0].line,
                module: modules.last().map_or_else(String::new, |(path, _)| path.clone()),
                name: name.to_string(),
                is_op,
                body: tokens[i + 5..end_of_statement(&tokens, i + 5)].to_vec(),
            });
        }
    }
    found
}

fn op_of(definition: &Definition, all: &[Definition]) -> Result<Op, String> {
    let sig = field(&definition.body, "sig").iter().find_map(Token::str).ok_or("has no signature literal")?;
    let path = definition.path();
    let schema = Schema::parse(sig)?;
    let faces = faces_of(inherited(definition, "faces", all)?);
    Ok(Op { path, family: family_of(&definition.file), schema, doc: strings_of(field(&definition.body, "doc")), faces })
}

/// The value of a field, from the definition itself or from what stands after its `..`.
fn inherited<'a>(definition: &'a Definition, name: &str, all: &'a [Definition]) -> Result<&'a [Token], String> {
    let value = field(&definition.body, name);
    if !value.is_empty() {
        return Ok(value);
    }
    let rest: Vec<&str> = rest_of(&definition.body).iter().filter_map(Token::word).collect();
    let Some((base, scope)) = rest.split_last().filter(|_| rest != ["OpDef", "BASE"]) else { return Ok(&[]) };
    let fits = |d: &&Definition| {
        let in_scope =
            scope.last().is_none_or(|s| *s == "self" || *s == "super" || d.module.ends_with(&format!("::{s}")));
        !d.is_op && d.name == *base && in_scope && family_of(&d.file) == family_of(&definition.file)
    };
    let mut candidates: Vec<&Definition> = all.iter().filter(fits).collect();
    if scope.is_empty() && candidates.len() > 1 {
        candidates.retain(|d| d.module == definition.module);
    }
    match candidates[..] {
        [one] => inherited(one, name, all),
        _ => Err(format!("cannot tell where `..{}` leads; state `{name}` here", rest.join("::"))),
    }
}

fn end_of_statement(tokens: &[Token], mut at: usize) -> usize {
    while at < tokens.len() && !tokens[at].is(';') {
        at = match tokens[at].tok {
            Tok::Punct('(' | '[' | '{') => lex::matching(tokens, at) + 1,
            _ => at + 1,
        };
    }
    at.min(tokens.len())
}

/// What stands after `..` in the outermost braces of a definition.
fn rest_of(body: &[Token]) -> &[Token] {
    let Some(open) = body.iter().position(|t| t.is('{')) else { return body };
    let close = lex::matching(body, open);
    let mut at = open + 1;
    while at + 1 < close {
        at = match body[at].tok {
            Tok::Punct('.') if body[at + 1].is('.') => return &body[at + 2..close],
            Tok::Punct('(' | '[' | '{') => lex::matching(body, at) + 1,
            _ => at + 1,
        };
    }
    &[]
}

/// The value of `name: value,` in the outermost braces of a definition.
fn field<'a>(body: &'a [Token], name: &str) -> &'a [Token] {
    let Some(open) = body.iter().position(|t| t.is('{')) else { return &[] };
    let close = lex::matching(body, open);
    let mut at = open + 1;
    while at + 1 < close {
        let start = at + 2;
        let mut end = start;
        while end < close && !body[end].is(',') {
            end = match body[end].tok {
                Tok::Punct('(' | '[' | '{') => lex::matching(body, end) + 1,
                _ => end + 1,
            };
        }
        if body[at].is_word(name) && body[at + 1].is(':') {
            return &body[start.min(end)..end];
        }
        at = end + 1;
    }
    &[]
}

fn strings_of(tokens: &[Token]) -> String {
    tokens.iter().filter_map(Token::str).collect()
}

/// `Faces::FN.or(Faces::METHOD)` and the constants that stand for several.
fn faces_of(tokens: &[Token]) -> Vec<Face> {
    use Face::*;
    if tokens.is_empty() {
        return vec![Fn];
    }
    let mut faces: Vec<Face> = Vec::new();
    for word in tokens.iter().filter_map(Token::word) {
        let more: &[Face] = match word {
            "FN" => &[Fn],
            "METHOD" => &[Method],
            "INPLACE" => &[Inplace],
            "OUT" => &[Out],
            "PRIVATE" => &[Private],
            "NN" => &[Nn],
            "ALL" => &[Fn, Method, Inplace, Out],
            "FN_METHOD_OUT" => &[Fn, Method, Out],
            "FN_METHOD" => &[Fn, Method],
            _ => &[],
        };
        faces.extend(more);
    }
    faces.dedup();
    faces
}

fn module_of(path: &str) -> String {
    let inner = path.trim_start_matches(OPS).trim_end_matches(".rs").trim_end_matches("/mod");
    format!("crate::{}", inner.replace('/', "::"))
}

fn family_of(path: &str) -> String {
    let inner = path.trim_start_matches(OPS).trim_end_matches(".rs");
    inner.split('/').next().unwrap_or(inner).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GELU: &str = r#"
        //! gelu.
        /// A note: static OP: OpDef = nothing;
        pub static OP: OpDef = OpDef {
            sig: Sig::parse("gelu(Tensor input, *, str approximate=\"none\") -> Tensor"),
            doc: "Gaussian error linear unit.\n\
                  Second line.",
            faces: Faces::FN_METHOD.or(Faces::OUT),
            infer: |c, o| { let doc = "not this"; Ok(()) },
            ..OpDef::BASE
        };
        pub static BACKWARD: OpDef = OpDef { sig: Sig::parse("gelu_backward(Tensor grad) -> Tensor"), ..OpDef::BASE };
    "#;

    #[test]
    fn definitions_are_found() {
        let (ops, faults) = ops(&[Source::new("crates/ops/src/unary/gelu.rs", GELU)]);
        assert_eq!(faults, Vec::<String>::new());
        let [gelu, backward] = &ops[..] else { panic!("{} ops", ops.len()) };
        assert_eq!((gelu.path.as_str(), gelu.family.as_str()), ("crate::unary::gelu::OP", "unary"));
        assert_eq!(gelu.doc, "Gaussian error linear unit.\nSecond line.");
        assert_eq!(gelu.faces, [Face::Fn, Face::Method, Face::Out]);
        assert_eq!(backward.path, "crate::unary::gelu::BACKWARD");
        assert_eq!(backward.faces, [Face::Fn]);
    }

    #[test]
    fn faces_are_inherited() {
        let family = "pub mod unary { pub const SAME: OpDef = OpDef { faces: Faces::ALL, ..OpDef::BASE };
            pub const OTHER: OpDef = OpDef { infer: f, ..SAME }; }
            pub mod binary { pub const SAME: OpDef = OpDef { faces: Faces::NN, ..OpDef::BASE }; }
            pub const BASE: OpDef = OpDef { faces: Faces::PRIVATE, ..OpDef::BASE };";
        let op = |base: &str| {
            format!("static OP: OpDef = OpDef {{ sig: Sig::parse(\"a(Tensor x) -> Tensor\"), ..{base} }};")
        };
        for (base, n_faces) in
            [("unary::OTHER", 4), ("super::unary::SAME", 4), ("binary::SAME", 1), ("BASE", 1), ("OpDef::BASE", 1)]
        {
            let files =
                [Source::new("crates/ops/src/f/mod.rs", family), Source::new("crates/ops/src/f/a.rs", &op(base))];
            let (ops, faults) = ops(&files);
            assert_eq!((ops[0].faces.len(), faults.len()), (n_faces, 0), "{base}");
            assert_eq!(ops[0].has(Face::Private), base == "BASE", "{base}");
        }
        let files = [Source::new("crates/ops/src/f/mod.rs", family), Source::new("crates/ops/src/f/a.rs", &op("SAME"))];
        assert_eq!(ops(&files).1.len(), 1);
    }

    #[test]
    fn planted_faults_are_found() {
        let twice = [Source::new("crates/ops/src/a.rs", GELU), Source::new("crates/ops/src/b.rs", GELU)];
        assert_eq!(ops(&twice).1.len(), 2);
        let typo = Source::new("crates/ops/src/a.rs", &GELU.replace("-> Tensor\"),\n", "-> Tensor extra\"),\n"));
        assert_eq!(ops(&[typo]).1.len(), 1);
        let missing = Source::new("crates/ops/src/a.rs", "static OP: OpDef = make();");
        assert_eq!(ops(&[missing]).1.len(), 1);
    }
}
