//! Signatures as Python writes them, and the stub of the compiled module: `crates/python/_oneflow.pyi.in` holds what is
//! written by hand, functions and methods of the op table are put in at its marks.

use super::scan::{Face, Op};
use super::schema::{Schema, Type};

pub const TEMPLATE: &str = "crates/python/_oneflow.pyi.in";
const METHODS: &str = "    # methods of the op table\n";
const FUNCTIONS: &str = "# functions of the op table\n";

/// The whole stub.
pub fn stub(template: &str, ops: &[Op]) -> Result<String, String> {
    for mark in [METHODS, FUNCTIONS] {
        if template.matches(mark).count() != 1 {
            return Err(format!("{TEMPLATE}:1: needs the line `{}` once", mark.trim_end()));
        }
    }
    // Other classes may have methods of the same name.
    let tensor = template.split_once("\nclass Tensor").map_or("", |(_, rest)| rest);
    let tensor = tensor.split_once(METHODS).map_or("", |(methods, _)| methods);
    let by_hand = |kind: &str, name: &str| {
        let place = if kind == "def" { template } else { tensor };
        place.lines().any(|l| l.starts_with(kind) && l.trim_start().starts_with(&format!("def {name}(")))
    };
    let mut functions: Vec<(String, String)> = Vec::new();
    let mut private: Vec<(String, String)> = Vec::new();
    let mut methods: Vec<(String, String)> = Vec::new();
    let mut tuples = String::new();
    for op in ops {
        let name = op.schema.name.as_str();
        if is_named(&op.schema) {
            tuples += &named_tuple(&op.schema);
        }
        if op.has(Face::Private) {
            private.extend(forms(op, Form::Function).into_iter().map(|text| (name.to_string(), text)));
        }
        if (op.has(Face::Fn) || op.has(Face::Nn)) && !by_hand("def", name) {
            functions.extend(forms(op, Form::Function).into_iter().map(|text| (name.to_string(), text)));
            if op.has(Face::Inplace) && !by_hand("def", &format!("{name}_")) {
                functions.push((format!("{name}_"), signature(op, Form::InplaceFunction, false)));
            }
        }
        if op.has(Face::Method) && !by_hand("    def", name) {
            methods.extend(forms(op, Form::Method).into_iter().map(|text| (name.to_string(), text)));
        }
        if op.has(Face::Inplace) && !by_hand("    def", &format!("{name}_")) {
            methods.push((format!("{name}_"), signature(op, Form::Inplace, false)));
        }
    }
    let mut table = format!("{tuples}{}", definitions(&mut functions, "", ""));
    if !private.is_empty() {
        // A module in truth; a stub file can only say so with a class.
        table += &format!("\nclass _C(_Private):\n{}", definitions(&mut private, "    ", "@staticmethod"));
    }
    let text = template.replace(METHODS, &definitions(&mut methods, "    ", "")).replace(FUNCTIONS, &table);
    Ok(format!("# Written by `cargo xtask codegen` from {TEMPLATE} and the op table; edit those.\n{text}"))
}

#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    Function,
    Method,
    Inplace,
    InplaceFunction,
}

/// `(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor`, once more with bare numbers where a list of any
/// length may be written so (`x.view(2, 3)`).
fn forms(op: &Op, form: Form) -> Vec<String> {
    let mut forms = vec![signature(op, form, false)];
    if spread_at(&op.schema, form).is_some() {
        forms.push(signature(op, form, true));
    }
    forms
}

/// The parameter that takes bare numbers: a list of any length, first after the tensor, alone or with defaults after it.
fn spread_at(schema: &Schema, form: Form) -> Option<usize> {
    let at = usize::from(schema.params.first().is_some_and(|p| p.ty.is("Tensor") && p.ty.list.is_none()));
    if form == Form::Function && at == 1 {
        return None;
    }
    let param = schema.params.get(at)?;
    let open_list = param.ty.list.as_ref().is_some_and(|l| l.len.is_none()) && param.ty.is("int");
    let last = schema.params.iter().skip(at + 1).all(|p| p.keyword_only);
    (open_list && last && !param.ty.optional && !param.keyword_only).then_some(at)
}

/// One form of an op as a reader writes it: the stub's own names for types without their underscore.
pub fn plain_signature(op: &Op, form: Form) -> String {
    let mut text = signature(op, form, false);
    for name in ["int", "float", "bool", "dtype", "device", "layout", "placement", "sbp"] {
        for before in [" ", "[", "*", "= "] {
            text = text.replace(&format!("{before}_{name}"), &format!("{before}{name}"));
        }
    }
    text.replace("(self, ", "(").replace("(self)", "()")
}

/// One form of an op in the stub, from the opening bracket on.
fn signature(op: &Op, form: Form, spread: bool) -> String {
    let schema = &op.schema;
    let spread = if spread { spread_at(schema, form) } else { None };
    let method = matches!(form, Form::Method | Form::Inplace);
    let mut parts: Vec<String> = Vec::new();
    let mut keyword_only = false;
    for (i, param) in schema.params.iter().enumerate() {
        if method && i == 0 {
            parts.push("self".into());
            continue;
        }
        if spread == Some(i) {
            parts.push(format!("*{}: _int", param.name));
            keyword_only = true;
            continue;
        }
        if param.keyword_only && !keyword_only {
            parts.push("*".into());
            keyword_only = true;
        }
        let default = param.default.as_ref().map(|d| format!(" = {}", python_default(d))).unwrap_or_default();
        parts.push(format!("{}: {}{default}", safe(&param.name), python_type(&param.ty)));
    }
    // What creates tensors of a given dtype and device takes these, too (`crates/python/src/parse.rs`).
    if schema.params.iter().any(|p| p.ty.is("DType")) && schema.params.iter().any(|p| p.ty.is("Device")) {
        if !keyword_only {
            parts.push("*".into());
            keyword_only = true;
        }
        parts.extend(["layout: _layout | None = None".into(), "pin_memory: _bool = False".into()]);
    }
    if form == Form::Function && op.has(Face::Out) {
        if !keyword_only {
            parts.push("*".into());
        }
        let several = schema.returns.iter().map(|_| "Tensor").collect::<Vec<_>>().join(", ");
        let out = if schema.returns.len() > 1 { format!("tuple[{several}]") } else { "Tensor".into() };
        parts.push(format!("out: {out} | None = None"));
    }
    let returned = if matches!(form, Form::Inplace | Form::InplaceFunction) { "Tensor".into() } else { result(schema) };
    format!("({}) -> {returned}", parts.join(", "))
}

fn result(schema: &Schema) -> String {
    match &schema.returns[..] {
        [] => "None".into(),
        [one] if one.ty.list.is_some() => "tuple[Tensor, ...]".into(),
        [_] => "Tensor".into(),
        _ if is_named(schema) => tuple_name(schema),
        several => format!("tuple[{}]", several.iter().map(|_| "Tensor").collect::<Vec<_>>().join(", ")),
    }
}

fn is_named(schema: &Schema) -> bool {
    schema.returns.len() > 1 && schema.returns.iter().all(|r| !r.name.is_empty())
}

fn tuple_name(schema: &Schema) -> String {
    format!("_{}", schema.full_name().replace('.', "_"))
}

fn named_tuple(schema: &Schema) -> String {
    let fields: String = schema.returns.iter().map(|r| format!("    {}: Tensor\n", r.name)).collect();
    format!("class {}(NamedTuple):\n{fields}\n", tuple_name(schema))
}

/// Sorted definitions; a name with several forms is overloaded.
fn definitions(entries: &mut [(String, String)], indent: &str, decorator: &str) -> String {
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let mut text = String::new();
    for group in entries.chunk_by(|a, b| a.0 == b.0) {
        for (name, signature) in group {
            if group.len() > 1 {
                text += &format!("{indent}@overload\n");
            }
            if !decorator.is_empty() {
                text += &format!("{indent}{decorator}\n");
            }
            text += &format!("{indent}def {name}{signature}: ...\n");
        }
    }
    text
}

/// A type of the stub. `int` and others are names of dtypes there, `dtype` and others of properties: all get an underscore.
fn python_type(ty: &Type) -> String {
    let mut text = match ty.kinds[0].as_str() {
        "Tensor" if ty.kinds.len() > 1 => "Tensor | Number",
        "int" => "_int",
        "float" => "_float",
        "bool" => "_bool",
        "str" => "str",
        "Tensor" => "Tensor",
        "Scalar" => "Number",
        "DType" => "_dtype",
        "Device" => "_device | str | _int",
        "Generator" => "Generator",
        "MemoryFormat" => "memory_format",
        "Placement" => "_placement",
        "Sbp" => "_sbp | Sequence[_sbp]",
        _ => "Any",
    }
    .to_string();
    if let Some(list) = &ty.list {
        let items = if list.optional_items { format!("{text} | None") } else { text.clone() };
        text = match list.len {
            Some(_) => format!("{text} | Sequence[{items}]"),
            None => format!("Sequence[{items}]"),
        };
    }
    if ty.optional { format!("{text} | None") } else { text }
}

fn python_default(text: &str) -> &str {
    match text {
        "inf" => "_float(\"inf\")",
        "-inf" => "_float(\"-inf\")",
        text => text,
    }
}

/// A parameter that is a Python keyword gets an underscore, as PyTorch's stubs do.
fn safe(name: &str) -> String {
    if matches!(name, "from" | "lambda" | "in" | "is") { format!("{name}_") } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::scan;
    use crate::tree::Source;

    const TEMPLATE_TEXT: &str = "class Tensor:\n    # methods of the op table\n\n# functions of the op table\n";

    fn stub_of(sigs: &[(&str, &str)]) -> String {
        let text: String = sigs
            .iter()
            .enumerate()
            .map(|(i, (sig, faces))| {
                let sig = sig.replace('"', "\\\"");
                format!("static A{i}: OpDef = OpDef {{ sig: Sig::parse(\"{sig}\"), faces: {faces}, ..OpDef::BASE }};\n")
            })
            .collect();
        let (ops, faults) = scan::ops(&[Source::new("crates/ops/src/a.rs", &text)]);
        assert_eq!(faults, Vec::<String>::new());
        stub(TEMPLATE_TEXT, &ops).unwrap()
    }

    #[test]
    fn forms_follow_faces_and_types() {
        for (sig, faces, expected) in [
            (
                "softmax(Tensor input, int dim, *, DType? dtype=None) -> Tensor",
                "Faces::FN",
                "\ndef softmax(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor: ...",
            ),
            (
                "add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
                "Faces::ALL",
                "\n    def add_(self, other: Tensor | Number, *, alpha: Number = 1) -> Tensor: ...",
            ),
            (
                "neg(Tensor input) -> Tensor",
                "Faces::ALL",
                "\ndef neg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...",
            ),
            (
                "view(Tensor(a) input, int[] size) -> Tensor(a)",
                "Faces::METHOD",
                "\n    def view(self, *size: _int) -> Tensor: ...",
            ),
            ("zeros(int[] size) -> Tensor", "Faces::FN", "\ndef zeros(*size: _int) -> Tensor: ..."),
            (
                "ones(int size, *, DType? dtype=None, Device? device=None) -> Tensor",
                "Faces::FN",
                "device: _device | str | _int | None = None, layout: _layout | None = None, pin_memory: _bool = False)",
            ),
            (
                "pad(Tensor x, int[2] n=0) -> Tensor",
                "Faces::FN",
                "\ndef pad(x: Tensor, n: _int | Sequence[_int] = 0) -> Tensor: ...",
            ),
            ("sort(Tensor x) -> (Tensor values, Tensor indices)", "Faces::FN", "\ndef sort(x: Tensor) -> _sort: ..."),
            (
                "sort(Tensor x) -> (Tensor values, Tensor indices)",
                "Faces::FN",
                "class _sort(NamedTuple):\n    values: Tensor\n",
            ),
        ] {
            let text = stub_of(&[(sig, faces)]);
            assert!(text.contains(expected), "{sig}\n{text}");
        }
    }

    #[test]
    fn overloads_are_marked() {
        let text =
            stub_of(&[("max(Tensor x) -> Tensor", "Faces::FN"), ("max.dim(Tensor x, int dim) -> Tensor", "Faces::FN")]);
        assert_eq!(text.matches("@overload\ndef max(").count(), 2, "{text}");
    }

    #[test]
    fn what_is_written_by_hand_stays() {
        let by_hand = TEMPLATE_TEXT.to_string() + "def neg(x: Tensor) -> Tensor: ...\n";
        let text = "static OP: OpDef = OpDef { sig: Sig::parse(\"neg(Tensor input) -> Tensor\") };";
        let (ops, _) = scan::ops(&[Source::new("crates/ops/src/a.rs", text)]);
        assert_eq!(stub(&by_hand, &ops).unwrap().matches("def neg(").count(), 1);
        assert!(stub("no marks", &ops).is_err());
    }
}
