//! An op as Python calls it: its signature prepared for parsing. One for each definition and form, created at start-up.

use oneflow_core::base::{Arg, DType, intern};
use oneflow_core::{OpDef, Param, Ty};
use pyo3::ffi::{self, PyObject};
use smallvec::SmallVec;

/// Most parameters a signature has (`oneflow_core::Sig`).
pub const MAX_PARAMS: usize = 20;

/// The form of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Function,
    /// `oneflow.relu_(x)`
    InplaceFunction,
    Method,
    /// `x.relu_()`
    Inplace,
}

impl Form {
    pub fn is_method(self) -> bool {
        matches!(self, Form::Method | Form::Inplace)
    }
    pub fn is_inplace(self) -> bool {
        matches!(self, Form::InplaceFunction | Form::Inplace)
    }
}

/// One parameter.
pub struct P {
    pub name: &'static str,
    /// The name and its NumPy-style aliases, interned.
    pub keys: SmallVec<[usize; 3]>,
    pub ty: Ty,
    /// `None` may be passed.
    pub optional: bool,
    /// Elements of a tensor list may be `None`.
    pub optional_items: bool,
    pub list_len: u8,
    pub required: bool,
    pub kw_only: bool,
    /// Among the arguments, for types that take a slot there.
    pub arg: u8,
}

/// One overload of a public name.
pub struct Overload {
    pub op: &'static OpDef,
    pub params: Vec<P>,
    /// Parameters that may be passed by position, in order.
    pub positional: SmallVec<[u8; 12]>,
    /// The parameter that a method is called on.
    pub self_at: usize,
    /// Its place among the inputs.
    pub self_input: usize,
    pub defaults: SmallVec<[Arg<'static>; 8]>,
    /// Bare numbers replace the one positional list (`x.view(2, 3)`).
    pub spreads: bool,
    /// The argument `non_blocking`: whether a copy between host and device is waited for.
    pub non_blocking: Option<u8>,
    /// Creates a tensor of a given dtype and device: takes `layout` and `pin_memory` too.
    pub factory: bool,
    /// Creates a tensor: takes `placement` and `sbp` too, in a separate overload or by `placed`.
    pub makes: bool,
    /// The argument `requires_grad`, which is this crate's to fulfil.
    pub requires_grad: Option<u8>,
    /// The argument `device` of a function without tensors: left out, it is the thread's default.
    pub made_on: Option<u8>,
    /// The arguments `dtype` and `device` of a factory: with `out=`, they are those of the tensor that is filled.
    pub made_as: Option<(u8, u8)>,
    /// Creates the numbers up to an end: they fill an `out` of as many elements, whatever its shape.
    pub is_range: bool,
    pub takes_out: bool,
    /// The plain case of two operands and defaults: position of the scalar among the arguments.
    pub binary: Option<u8>,
}

// SAFETY: interned names are immortal pointers that are only compared.
unsafe impl Send for Overload {}
// SAFETY: as above.
unsafe impl Sync for Overload {}

/// Second names of parameters: what NumPy users write, and what OneFlow calls the same argument.
const ALIASES: [(&str, &[&str]); 11] = [
    ("axis0", &["dim0"]),
    ("axis1", &["dim1"]),
    ("dim", &["axis"]),
    ("indices", &["indices_or_sections"]),
    ("input", &["x", "a", "x1"]),
    ("keepdim", &["keepdims"]),
    ("other", &["x2", "y"]),
    ("sections", &["indices_or_sections"]),
    ("size", &["shape"]),
    ("split_size", &["split_size_or_sections"]),
    ("tensors", &["inputs"]),
];

/// An interned, immortal name.
fn interned(name: &str) -> usize {
    let text = std::ffi::CString::new(name).unwrap_or_default();
    // SAFETY: called at start-up with the interpreter held; the reference is kept for ever.
    unsafe { ffi::PyUnicode_InternFromString(text.as_ptr()) as usize }
}

impl Overload {
    pub fn new(op: &'static OpDef, form: Form) -> Overload {
        let sig = &op.sig;
        let taken = |n: &str| sig.params().iter().any(|p| p.name == n);
        let mut params = Vec::new();
        let mut defaults: SmallVec<[Arg<'static>; 8]> = SmallVec::new();
        for p in sig.params() {
            let mut keys: SmallVec<[usize; 3]> = SmallVec::new();
            keys.push(interned(p.name));
            if let Some((_, aliases)) = ALIASES.iter().find(|(n, _)| *n == p.name) {
                keys.extend(aliases.iter().filter(|a| !taken(a)).map(|a| interned(a)));
            }
            let arg = defaults.len() as u8;
            if p.is_arg() {
                defaults.push(default_of(p));
            }
            let list = p.ty == Ty::TensorList;
            params.push(P {
                name: p.name,
                keys,
                ty: p.ty,
                optional: p.optional && !list || p.default == "None",
                optional_items: p.optional && list,
                list_len: p.list_len,
                required: p.default.is_empty(),
                kw_only: p.kw_only,
                arg,
            });
        }
        let self_at = sig
            .params()
            .iter()
            .position(|p| matches!(p.ty, Ty::Tensor | Ty::TensorOrScalar) && p.name == "input")
            .or_else(|| sig.params().iter().position(|p| p.ty == Ty::Tensor))
            .unwrap_or(0);
        let self_input = sig.params().iter().take(self_at).filter(|p| p.is_input()).count();
        let positional: SmallVec<[u8; 12]> = (0..params.len())
            .filter(|i| !(params[*i].kw_only || form.is_method() && *i == self_at))
            .map(|i| i as u8)
            .collect();
        let spreads = positional.len() == 1 && { params[positional[0] as usize].ty == Ty::Ints };
        let has = |ty: Ty| sig.params().iter().any(|p| p.ty == ty);
        let binary = match sig.params() {
            [a, b, rest @ ..]
                if a.ty == Ty::Tensor
                    && b.ty == Ty::TensorOrScalar
                    && rest.iter().all(|p| !p.default.is_empty() && !p.is_input()) =>
            {
                Some(params[1].arg)
            }
            _ => None,
        };
        let find = |ty: Ty| params.iter().find(|p| p.ty == ty).map(|p| p.arg);
        // Several named results can always be written into a tuple of tensors.
        let named = sig.returns().len() > 1
            && sig.returns().iter().all(|r| !r.name.is_empty() && !r.list)
            && op.faces.has(oneflow_core::Faces::FN);
        Overload {
            op,
            positional,
            self_at,
            self_input,
            spreads,
            makes: has(Ty::Device) && params.iter().any(|p| p.name == "requires_grad"),
            factory: has(Ty::DType) && has(Ty::Device),
            // Numbers that may also be tensors (`logspace`) do not say where the result is.
            made_on: match sig.params().iter().any(|p| p.is_input() && p.ty != Ty::TensorOrScalar) {
                true => None,
                false => find(Ty::Device),
            },
            made_as: find(Ty::DType).zip(find(Ty::Device)),
            non_blocking: params.iter().find(|p| p.name == "non_blocking").map(|p| p.arg),
            is_range: has(Ty::DType) && has(Ty::Device) && params.iter().any(|p| p.name == "end"),
            requires_grad: params.iter().find(|p| p.name == "requires_grad").map(|p| p.arg),
            takes_out: form == Form::Function && (op.faces.has(oneflow_core::Faces::OUT) || named),
            binary,
            params,
            defaults,
        }
    }

    /// The signature as Python writes it, for `__text_signature__`.
    pub fn python_signature(&self, form: Form) -> String {
        let mut s = String::from("(");
        let mut star = false;
        let mut sep = "";
        if form.is_method() {
            s.push_str("$self");
            sep = ", ";
        }
        for (i, p) in self.params.iter().enumerate() {
            if form.is_method() && i == self.self_at {
                continue;
            }
            s.push_str(sep);
            if p.kw_only && !star {
                star = true;
                s.push_str("*, ");
            }
            s.push_str(p.name);
            let default = self.op.sig.params()[i].default;
            if !default.is_empty() {
                s.push('=');
                s.push_str(if is_python_literal(default) { default } else { "..." });
            }
            sep = ", ";
        }
        if self.takes_out {
            s.push_str(sep);
            if !star {
                s.push_str("*, ");
            }
            s.push_str("out=None");
        }
        s.push(')');
        s
    }
}

fn is_python_literal(s: &str) -> bool {
    matches!(s, "None" | "True" | "False")
        || s.starts_with(['"', '[', '-'])
        || s.starts_with(|c: char| c.is_ascii_digit())
}

/// The value that a left-out argument has.
fn default_of(p: &Param) -> Arg<'static> {
    let s = p.default;
    if s.is_empty() || s == "None" {
        return Arg::None;
    }
    if let Some(list) = s.strip_prefix('[').and_then(|s| s.strip_suffix(']')) {
        let items = list.split(',').map(str::trim).filter(|x| !x.is_empty());
        return if p.ty == Ty::Floats {
            Arg::Floats(items.filter_map(|x| x.parse().ok()).collect::<Vec<f64>>().leak())
        } else {
            Arg::Ints(items.filter_map(|x| x.parse().ok()).collect::<Vec<i64>>().leak())
        };
    }
    match p.ty {
        Ty::Str | Ty::MemoryFormat => Arg::Sym(intern(s.trim_matches('"'))),
        Ty::DType => DType::from_name(s).map_or(Arg::None, Arg::DType),
        Ty::Ints => s.parse().map_or(Arg::None, |v: i64| Arg::Ints(vec![v; p.list_len.max(1) as usize].leak())),
        Ty::Floats => s.parse().map_or(Arg::None, |v: f64| Arg::Floats(vec![v; p.list_len.max(1) as usize].leak())),
        Ty::Float => s.parse().map_or(Arg::None, Arg::Float),
        _ => match s {
            "True" => Arg::Bool(true),
            "False" => Arg::Bool(false),
            _ => match s.parse::<i64>() {
                Ok(i) => Arg::Int(i),
                Err(_) => s.parse::<f64>().map_or(Arg::None, Arg::Float),
            },
        },
    }
}

/// Returns whether a keyword of a call is this parameter's name.
///
/// # Safety
/// `key` is a live string and the interpreter is held.
#[inline]
pub unsafe fn is_key(p: &P, key: *mut PyObject) -> bool {
    p.keys.contains(&(key as usize))
}

/// As `is_key`, by text: for names that are not interned.
///
/// # Safety
/// As for `is_key`.
#[cold]
pub unsafe fn is_key_text(p: &P, key: *mut PyObject) -> bool {
    // SAFETY: live strings, the interpreter is held.
    p.keys.iter().any(|k| unsafe { ffi::PyUnicode_Compare(key, *k as *mut PyObject) } == 0)
}
