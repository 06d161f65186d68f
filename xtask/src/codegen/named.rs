//! Names of parameters and results: for each op a module of constants, by which its definition reads a call, an argument, a
//! saved tensor or a result.
//!
//! Constants are cheap to compile; no structures, no functions.

use super::schema::{Param, Schema};

/// One constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    pub name: String,
    /// `In`, `LastIn`, `Ins`, `At<f64>`, `Out`.
    pub ty: String,
    /// What makes it: `In::nth(0)`.
    pub value: String,
}

impl Position {
    /// The number behind it, and of what: `In::nth(0)` and `At::nth(0)` are different places.
    pub fn place(&self) -> &str {
        &self.value
    }
}

/// The generated file of a crate's ops, or what is wrong with a signature.
pub fn module<'a>(schemas: impl IntoIterator<Item = &'a Schema>) -> Result<String, String> {
    let (mut text, mut types) = (String::new(), String::new());
    for schema in schemas {
        text += &format!("\n/// `{}`\npub mod {} {{\nuse super::*;\n", schema.text, module_name(schema));
        for p in positions(schema)? {
            text += &format!("pub const {}: {} = {};\n", p.name, p.ty, p.value);
            types += &p.ty;
            types.push(' ');
        }
        text += "}\n";
    }
    let used = |all: &[&str]| {
        let is_used = |name: &&&str| types.split(|c: char| !c.is_alphanumeric()).any(|word| word == **name);
        all.iter().filter(is_used).copied().collect::<Vec<_>>().join(", ")
    };
    let base = used(&["DType", "Device", "NdSbpId", "PlacementId", "Scalar"]);
    let core = used(&["At", "In", "Ins", "LastIn", "Out", "Rng"]);
    Ok(format!(
        "//! Written by `cargo xtask codegen` from the signatures of the ops; edit those. Names of what an op takes and gives.\n\
         #![allow(dead_code)]\n\n\
         use oneflow_base::{{{base}}};\n\
         use oneflow_core::{{{core}}};\n{text}"
    ))
}

/// `max.dim` is `max_dim`; a keyword gets an underscore.
pub fn module_name(schema: &Schema) -> String {
    let name = schema.full_name().replace('.', "_").to_lowercase();
    if matches!(name.as_str(), "where" | "type" | "move" | "match" | "mod" | "self") {
        format!("{name}_")
    } else {
        name
    }
}

/// The constants of an op, in signature order; results last.
pub fn positions(schema: &Schema) -> Result<Vec<Position>, String> {
    let mut found: Vec<Position> = Vec::new();
    let mut add = |name: &str, ty: &str, value: String| {
        let name = name.to_uppercase();
        match found.iter().any(|p| p.name == name) {
            true => Err(format!("two things are called {name} in `{}`", schema.text)),
            false => {
                found.push(Position { name, ty: ty.into(), value });
                Ok(())
            }
        }
    };
    let is_list = |p: &Param| p.ty.has_tensor() && p.ty.list.is_some();
    let inputs: Vec<&Param> = schema.params.iter().filter(|p| p.ty.has_tensor()).collect();
    let first_list = inputs.iter().position(|p| is_list(p)).unwrap_or(inputs.len());
    let after_lists = inputs.iter().rposition(|p| is_list(p)).map_or(0, |i| i + 1);
    let mut args = (0..).zip(schema.params.iter().filter(|p| !p.ty.is("Tensor") || is_list(p)));
    let mut first_len = None;
    for param in &schema.params {
        let name = param.name.as_str();
        let arg = if !param.ty.is("Tensor") || is_list(param) { args.next().map_or(0, |(i, _)| i) } else { 0 };
        let input = inputs.iter().position(|p| p.name == param.name);
        match input {
            Some(i) if is_list(param) => {
                let first = *first_len.get_or_insert(arg);
                if arg - first != i - first_list {
                    return Err(format!("lists of tensors do not stand next to each other in `{}`", schema.text));
                }
                add(name, "Ins", format!("Ins::new({first_list}, {first}, {arg})"))?;
            }
            Some(i) if i < first_list => add(name, "In", format!("In::nth({i})"))?,
            Some(i) if i >= after_lists => {
                add(name, "LastIn", format!("LastIn::nth_from_end({})", inputs.len() - i))?;
            }
            Some(_) => return Err(format!("`{name}` stands between lists of tensors in `{}`", schema.text)),
            None => {
                let ty = argument(param);
                add(name, &format!("At<{ty}>"), format!("At::nth({arg})"))?;
            }
        }
        if input.is_some() && !param.ty.is("Tensor") && !is_list(param) {
            add(&format!("{name}_scalar"), "At<Scalar>", format!("At::nth({arg})"))?;
        }
    }
    for (i, result) in schema.returns.iter().enumerate() {
        let name = match (result.name.as_str(), schema.returns.len()) {
            ("", 1) => "result".to_string(),
            ("", _) => format!("result_{i}"),
            (name, _) => name.to_string(),
        };
        add(&name, "Out", format!("Out::nth({i})"))?;
    }
    Ok(found)
}

/// The type of an argument.
fn argument(param: &Param) -> &'static str {
    let kind = param.ty.kinds[0].as_str();
    match (kind, param.ty.list.is_some()) {
        ("float", true) => "[f64]",
        (_, true) | ("Ints", _) => "[i64]",
        ("int", _) => "i64",
        ("float", _) => "f64",
        ("bool", _) => "bool",
        ("Scalar", _) => "Scalar",
        ("DType", _) => "DType",
        ("Device", _) => "Device",
        ("Placement", _) => "PlacementId",
        ("Sbp", _) => "NdSbpId",
        ("Generator", _) => "Rng",
        _ => "str",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(sig: &str) -> String {
        let schema = Schema::parse(sig).unwrap();
        match positions(&schema) {
            Ok(all) => all.iter().map(|p| format!("{} {}", p.name, p.value)).collect::<Vec<_>>().join(", "),
            Err(e) => e,
        }
    }

    #[test]
    fn every_parameter_and_result_has_a_position() {
        for (sig, expected) in [
            (
                "norm(Tensor x, int[] shape, Tensor? weight=None, float eps=1e-5) -> (Tensor output, Tensor mean)",
                "X In::nth(0), SHAPE At::nth(0), WEIGHT In::nth(1), EPS At::nth(1), OUTPUT Out::nth(0), MEAN Out::nth(1)",
            ),
            (
                "add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
                "INPUT In::nth(0), OTHER In::nth(1), OTHER_SCALAR At::nth(0), ALPHA At::nth(1), RESULT Out::nth(0)",
            ),
            (
                "step(Tensor(a!)[] params, Tensor[] grads, Tensor lr, *, str rule, Tensor? found=None) -> ()",
                "PARAMS Ins::new(0, 0, 0), GRADS Ins::new(0, 0, 1), LR LastIn::nth_from_end(2), RULE At::nth(2), \
                 FOUND LastIn::nth_from_end(1)",
            ),
            (
                "index_put(Tensor input, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
                "INPUT In::nth(0), INDICES Ins::new(1, 0, 0), VALUES LastIn::nth_from_end(1), ACCUMULATE At::nth(1), \
                 RESULT Out::nth(0)",
            ),
        ] {
            assert_eq!(shown(sig), expected);
        }
    }

    #[test]
    fn names_that_clash_are_faults() {
        assert!(shown("f(Tensor n, int N) -> Tensor").contains("two things"));
        assert!(shown("f(Tensor[] a, Tensor b, Tensor[] c) -> Tensor").contains("between lists"));
    }
}
