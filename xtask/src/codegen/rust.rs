//! Generated methods: how Rust code calls an op. Gradient rules then read `g.mul(&x)?.sum(&[0], false)?`.
//!
//! Positional parameters are all passed; keyword-only ones with a default are left out of `name` and given to `name_with`.
//! Only what the tree calls is written: everybody compiles it.

use super::scan::{Face, Op};
use super::schema::{Param, Schema, Type};
use std::collections::HashSet;

/// The methods and functions whose names are among `words`, those of the tree's own sources.
pub fn methods(ops: &[Op], words: &HashSet<&str>) -> String {
    let mut methods = Vec::new();
    let mut impls = Vec::new();
    let mut functions = Vec::new();
    for form in ops.iter().flat_map(forms).filter(|f| words.contains(f.name.trim_start_matches("r#"))) {
        if form.is_method {
            methods.push(format!("{}{};", form.doc, form.head));
            impls.push(format!("#[inline]\n{} {{ {} }}", form.head, form.body));
        } else {
            functions.push(format!("{}#[inline]\npub {} {{ {} }}", form.doc, form.head, form.body));
        }
    }
    format!(
        "//! Written by `cargo xtask codegen` from the signatures of the ops that this tree calls; edit those.\n\
         #![allow(non_snake_case, clippy::wrong_self_convention, clippy::should_implement_trait, unused_imports)]\n\n\
         use crate::Operand;\n\
         use crate::call::{{OptInts, ints, list, many, none, one, rng, split, sym}};\n\
         use oneflow_base::{{Arg, DType, Device, NdSbpId, PlacementId, Result, Scalar}};\n\
         use oneflow_core::{{Call, Dest, Generator, Tensor}};\n\
         use smallvec::SmallVec;\n\n\
         /// Ops whose first parameter is a tensor, as methods.\n\
         pub trait TensorOps {{\n{}\n}}\n\n\
         impl TensorOps for Tensor {{\n{}\n}}\n\n\
         /// Ops without a tensor in front.\n\
         pub mod functions {{\nuse super::*;\n\n{}\n}}\n",
        methods.join("\n"),
        impls.join("\n\n"),
        functions.join("\n\n"),
    )
}

/// One generated function.
struct Form {
    name: String,
    doc: String,
    head: String,
    body: String,
    is_method: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Dest {
    Fresh,
    Inplace,
    Out,
}

fn forms(op: &Op) -> Vec<Form> {
    let all_kw = op.schema.params.iter().filter(|p| p.keyword_only && p.default.is_some()).count() > 0;
    let mut forms = Vec::new();
    let mut both = |dest: Dest| {
        forms.push(form(op, dest, false));
        if all_kw {
            forms.push(form(op, dest, true));
        }
    };
    both(Dest::Fresh);
    if op.has(Face::Inplace) {
        both(Dest::Inplace);
    }
    if op.has(Face::Out) && op.schema.returns.len() == 1 {
        both(Dest::Out);
    }
    forms
}

fn form(op: &Op, dest: Dest, full: bool) -> Form {
    let schema = &op.schema;
    let is_method = schema.params.first().is_some_and(|p| p.ty.is("Tensor") && p.ty.list.is_none() && !p.ty.optional);
    let mut call = CallText::default();
    for (i, param) in schema.params.iter().enumerate() {
        let given = full || !param.keyword_only || param.default.is_none();
        call.add(param, is_method && i == 0, given);
    }
    let (dest_text, returned) = match dest {
        Dest::Fresh => ("Dest::Fresh", result_type(schema)),
        Dest::Inplace => ("Dest::Into(&[self])", "()".to_string()),
        Dest::Out => {
            call.params.push("out: &Tensor".into());
            ("Dest::Into(&[out])", "()".to_string())
        }
    };
    let returned_by = if dest == Dest::Fresh { returned_by(schema) } else { "none" };
    if call.collected {
        // The inputs are collected in one list: all of them live equally long.
        for p in &mut call.params {
            *p = match p.as_str() {
                "&self" => "&'a self".into(),
                p if p.contains("&Tensor") => p.replace("&Tensor", "&'a Tensor"),
                p => p.into(),
            };
        }
    }
    let generics = if call.params.iter().any(|p| p.contains("'a")) { "<'a>" } else { "" };
    let name = name(schema, dest, full);
    let head = format!("fn {name}{generics}({}) -> Result<{returned}>", call.params.join(", "));
    let body = format!(
        "{}let call = Call {{ op: &{}, ins: {}, args: &[{}], dest: {dest_text} }};\n{returned_by}(&call)",
        call.setup,
        op.path,
        call.ins(),
        call.args.join(", "),
    );
    let doc = format!("/// `{}`\n", schema.text);
    Form { name, doc, head, body, is_method }
}

/// `max.dim` is `max_dim`. `clone` would hide the handle's own, keywords are raw.
fn name(schema: &Schema, dest: Dest, full: bool) -> String {
    let mut name = match schema.name.as_str() {
        "clone" => "cloned".to_string(),
        name => name.to_string(),
    };
    if !schema.overload.is_empty() {
        name += &format!("_{}", schema.overload);
    }
    if full {
        name += "_with";
    }
    match dest {
        Dest::Fresh => {}
        Dest::Inplace => name.push('_'),
        Dest::Out => name += "_out",
    }
    if matches!(name.as_str(), "where" | "type" | "move" | "match" | "mod") { format!("r#{name}") } else { name }
}

fn result_type(schema: &Schema) -> String {
    match &schema.returns[..] {
        [one] if one.ty.list.is_some() => "SmallVec<[Tensor; 2]>".to_string(),
        [_] => "Tensor".to_string(),
        several => format!("[Tensor; {}]", several.len()).replace("[Tensor; 0]", "()"),
    }
}

fn returned_by(schema: &Schema) -> &'static str {
    match &schema.returns[..] {
        [] => "none",
        [one] if one.ty.list.is_some() => "list",
        [_] => "one",
        _ => "many",
    }
}

/// The parts of one call's text, in signature order.
#[derive(Default)]
struct CallText {
    params: Vec<String>,
    setup: String,
    /// Inputs one by one; with a list among them they are collected by `setup`.
    inputs: Vec<String>,
    collected: bool,
    args: Vec<String>,
}

impl CallText {
    fn add(&mut self, param: &Param, is_self: bool, given: bool) {
        let ty = &param.ty;
        let name = param.name.as_str();
        if is_self {
            self.params.push("&self".into());
            self.input("Some(self)".into());
        } else if !given {
            if ty.has_tensor() {
                self.input("None".into());
            }
            if !ty.is("Tensor") || ty.list.is_some() {
                self.args.push(default(param));
            }
        } else if ty.has_tensor() && ty.list.is_some() {
            self.list(name, ty);
        } else if ty.is("Tensor") {
            let optional = if ty.optional { "Option<&Tensor>" } else { "&Tensor" };
            self.params.push(format!("{name}: {optional}"));
            self.input(if ty.optional { name.into() } else { format!("Some({name})") });
        } else if ty.has_tensor() {
            self.params.push(format!("{name}: impl Into<Operand<'a>>"));
            self.setup += &format!("let ({name}, {name}_scalar) = split({name});\n");
            self.input(name.into());
            self.args.push(format!("{name}_scalar"));
        } else {
            let (rust, arg) = argument(ty, name);
            self.params.push(format!("{name}: {rust}"));
            self.args.push(arg);
        }
    }

    fn input(&mut self, text: String) {
        if self.collected {
            self.setup += &format!("ins.push({text});\n");
        } else {
            self.inputs.push(text);
        }
    }

    fn list(&mut self, name: &str, ty: &Type) {
        let optional = ty.list.as_ref().is_some_and(|l| l.optional_items);
        let (item, each) = if optional { ("Option<&'a Tensor>", "") } else { ("&'a Tensor", ".into_iter().map(Some)") };
        self.params.push(format!("{name}: impl IntoIterator<Item = {item}>"));
        if !self.collected {
            self.collected = true;
            self.setup += "let mut ins: SmallVec<[Option<&Tensor>; 8]> = SmallVec::new();\n";
            for input in std::mem::take(&mut self.inputs) {
                self.setup += &format!("ins.push({input});\n");
            }
        }
        self.setup += &format!("let n_{name} = ins.len();\nins.extend({name}{each});\n");
        self.setup += &format!("let n_{name} = ins.len() - n_{name};\n");
        self.args.push(format!("Arg::Len(n_{name} as u32)"));
    }

    fn ins(&self) -> String {
        if self.collected { "&ins".into() } else { format!("&[{}]", self.inputs.join(", ")) }
    }
}

/// The Rust type of a parameter and the argument made of it.
fn argument(ty: &Type, name: &str) -> (String, String) {
    if ty.list.is_some() {
        return match (ty.kinds[0].as_str(), ty.optional) {
            ("float", _) => ("&[f64]".into(), format!("Arg::Floats({name})")),
            (_, true) => ("impl Into<OptInts<'a>>".into(), format!("ints({name})")),
            (_, false) => ("&[i64]".into(), format!("Arg::Ints({name})")),
        };
    }
    let (rust, arg) = match ty.kinds[0].as_str() {
        "int" => ("i64", "Arg::Int(v)"),
        "float" => ("f64", "Arg::Float(v)"),
        "bool" => ("bool", "Arg::Bool(v)"),
        "Scalar" if !ty.optional => return ("impl Into<Scalar>".into(), format!("Arg::from({name}.into())")),
        "Scalar" => ("Scalar", "Arg::from(v)"),
        "DType" => ("DType", "Arg::DType(v)"),
        "Device" => ("Device", "Arg::Device(v)"),
        "Placement" => ("PlacementId", "Arg::Placement(v)"),
        "Sbp" => ("NdSbpId", "Arg::Sbp(v)"),
        "Generator" => return ("Option<&Generator>".into(), format!("rng({name})")),
        _ => ("&str", "sym(v)"),
    };
    if ty.optional {
        (format!("Option<{rust}>"), format!("{name}.map_or(Arg::None, {})", arg.trim_end_matches("(v)")))
    } else {
        (rust.into(), arg.replace("(v)", &format!("({name})")))
    }
}

/// The argument that stands for a default.
fn default(param: &Param) -> String {
    let text = param.default.as_deref().unwrap_or("None");
    let kind = param.ty.kinds[0].as_str();
    if param.ty.has_tensor() && param.ty.list.is_some() {
        return "Arg::Len(0)".into();
    }
    match text {
        _ if kind == "Generator" => "rng(None)".into(),
        "None" => "Arg::None".into(),
        "True" | "False" => format!("Arg::Bool({})", text.to_lowercase()),
        _ if text.starts_with('[') && kind == "float" => format!("Arg::Floats(&{})", floats(text)),
        _ if text.starts_with('[') => format!("Arg::Ints(&{text})"),
        _ if text.starts_with(['"', '\'']) => format!("sym(\"{}\")", text.trim_matches(['"', '\''])),
        "inf" => "Arg::Float(f64::INFINITY)".into(),
        "-inf" => "Arg::Float(f64::NEG_INFINITY)".into(),
        _ if let Some(n) = param.ty.list.as_ref().and_then(|l| l.len) => format!("Arg::Ints(&[{text}; {n}])"),
        _ if text.parse::<i64>().is_ok() && kind != "float" => format!("Arg::Int({text})"),
        _ if text.parse::<f64>().is_ok() => format!("Arg::Float({})", float(text)),
        _ => format!("sym(\"{text}\")"),
    }
}

fn float(text: &str) -> String {
    if text.parse::<i64>().is_ok() { format!("{text}.0") } else { text.to_string() }
}

fn floats(list: &str) -> String {
    let items: Vec<_> = list.trim_matches(['[', ']']).split(',').map(|x| float(x.trim())).collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::scan;
    use crate::tree::Source;

    fn generated(sig: &str, faces: &str) -> String {
        let text = format!(
            "static OP: OpDef = OpDef {{ sig: Sig::parse(\"{}\"), faces: {faces}, ..OpDef::BASE }};",
            sig.replace('"', "\\\"")
        );
        let (ops, faults) = scan::ops(&[Source::new("crates/ops/src/family/file.rs", &text)]);
        assert_eq!(faults, Vec::<String>::new());
        let words = HashSet::from(["add", "add_", "add_out", "cat", "gelu", "gelu_with", "max_dim", "norm", "rand"]);
        let more = ["relu", "step", "sum_dim", "zeros"];
        methods(&ops, &words.into_iter().chain(more).collect())
    }

    #[test]
    fn what_nobody_calls_is_left_out() {
        let text = generated("sub(Tensor input, Tensor other) -> Tensor", "Faces::ALL");
        assert!(!text.contains("fn sub"), "{text}");
    }

    #[test]
    fn calls_follow_the_signature() {
        for (sig, expected) in [
            ("relu(Tensor input) -> Tensor", "ins: &[Some(self)], args: &[], dest: Dest::Fresh"),
            (
                "add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
                "ins: &[Some(self), other], args: &[other_scalar, Arg::Int(1)]",
            ),
            (
                "sum.dim(Tensor input, int[]? dim, bool keepdim=False, *, DType? dtype=None) -> Tensor",
                "fn sum_dim<'a>(&self, dim: impl Into<OptInts<'a>>, keepdim: bool) -> Result<Tensor>",
            ),
            ("gelu(Tensor input, *, str approximate=\"none\") -> Tensor", "args: &[sym(\"none\")]"),
            ("gelu(Tensor input, *, str approximate=\"none\") -> Tensor", "fn gelu_with(&self, approximate: &str)"),
            ("zeros(int[] size, *, DType? dtype=None) -> Tensor", "pub fn zeros(size: &[i64]) -> Result<Tensor>"),
            (
                "norm(Tensor x, Tensor? w=None, *, float eps=1e-5) -> Tensor",
                "ins: &[Some(self), w], args: &[Arg::Float(1e-5)]",
            ),
            ("cat(Tensor[] tensors, int dim=0) -> Tensor", "args: &[Arg::Len(n_tensors as u32), Arg::Int(dim)]"),
            ("max.dim(Tensor x, int dim) -> (Tensor values, Tensor indices)", "-> Result<[Tensor; 2]>"),
            ("step(Tensor(a!)[] params, *, Tensor? found=None) -> ()", "ins.push(None);"),
            ("rand(int[] size, *, Generator? generator=None) -> Tensor", "args: &[Arg::Ints(size), rng(None)]"),
        ] {
            let text = generated(sig, "Faces::FN");
            assert!(text.contains(expected), "{sig}\n{text}");
        }
    }

    #[test]
    fn faces_make_forms() {
        let text = generated("add(Tensor input, Tensor other) -> Tensor", "Faces::ALL");
        assert!(text.contains("fn add_(&self, other: &Tensor) -> Result<()>"), "{text}");
        assert!(text.contains("fn add_out(&self, other: &Tensor, out: &Tensor) -> Result<()>"), "{text}");
        let private = generated("add(Tensor input, Tensor other) -> Tensor", "Faces::PRIVATE");
        assert!(private.contains("fn add(") && !private.contains("fn add_("), "{private}");
    }
}
