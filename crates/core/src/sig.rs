//! Signatures: torch's schema text, parsed at compile time. A typo in a definition is a compile error.
//!
//! `softmax(Tensor input, int dim, *, DType? dtype=None) -> Tensor`. Alias marks: `Tensor(a)` is viewed, `Tensor(a!)` is
//! written. Beyond torch: `Tensor|Scalar` takes an input slot and an argument slot, one of which is empty.

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    Tensor,
    TensorList,
    /// `Tensor|Scalar`: an optional input and an optional scalar argument.
    TensorOrScalar,
    Scalar,
    Int,
    Float,
    Bool,
    Str,
    DType,
    Device,
    Ints,
    Floats,
    MemoryFormat,
    Generator,
    Placement,
    Sbp,
}

/// One parameter of a signature.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    pub name: &'static str,
    pub ty: Ty,
    /// `Ty?`, or for `TensorList` also `Tensor?[]`: elements may be absent.
    pub optional: bool,
    /// `int[2]`: a single number is expanded to a list of this length. Zero: no such rule.
    pub list_len: u8,
    /// Default text ("None", "1", "True", "\"none\"", "[]"), empty when required.
    pub default: &'static str,
    pub kw_only: bool,
    /// `Tensor(a)`: some output is a view of it.
    pub alias: bool,
    /// `Tensor(a!)`: written in place.
    pub written: bool,
}

/// One result.
#[derive(Clone, Copy, Debug)]
pub struct Return {
    /// Name in a named tuple; empty when unnamed.
    pub name: &'static str,
    pub list: bool,
}

const MAX_PARAMS: usize = 20;
const MAX_RETURNS: usize = 6;

/// A parsed signature.
#[derive(Clone, Copy, Debug)]
pub struct Sig {
    pub text: &'static str,
    /// Name without the overload ("max").
    pub name: &'static str,
    /// Overload name ("dim"), may be empty.
    pub overload: &'static str,
    params: [Param; MAX_PARAMS],
    n_params: u8,
    returns: [Return; MAX_RETURNS],
    n_returns: u8,
}

impl Param {
    const EMPTY: Param = Param {
        name: "",
        ty: Ty::Tensor,
        optional: false,
        list_len: 0,
        default: "",
        kw_only: false,
        alias: false,
        written: false,
    };

    /// Returns true if the parameter is among the inputs.
    pub const fn is_input(&self) -> bool {
        matches!(self.ty, Ty::Tensor | Ty::TensorList | Ty::TensorOrScalar)
    }
    /// Returns true if the parameter is among the arguments.
    pub const fn is_arg(&self) -> bool {
        !matches!(self.ty, Ty::Tensor)
    }
}

impl Sig {
    pub const fn parse(text: &'static str) -> Sig {
        let b = text.as_bytes();
        let mut sig = Sig {
            text,
            name: "",
            overload: "",
            params: [Param::EMPTY; MAX_PARAMS],
            n_params: 0,
            returns: [Return { name: "", list: false }; MAX_RETURNS],
            n_returns: 0,
        };
        let open = find(b, 0, b'(');
        let dot = find(b, 0, b'.');
        if dot < open {
            sig.name = cut(text, 0, dot);
            sig.overload = cut(text, dot + 1, open);
        } else {
            sig.name = cut(text, 0, open);
        }
        let mut i = open + 1;
        let mut kw_only = false;
        loop {
            i = skip_spaces(b, i);
            if b[i] == b')' {
                break;
            }
            if b[i] == b'*' {
                kw_only = true;
                i = skip_spaces(b, i + 1);
                if b[i] == b',' {
                    i += 1;
                }
                continue;
            }
            let (p, next) = parse_param(text, i, kw_only);
            assert!((sig.n_params as usize) < MAX_PARAMS, "too many parameters");
            sig.params[sig.n_params as usize] = p;
            sig.n_params += 1;
            i = skip_spaces(b, next);
            if b[i] == b',' {
                i += 1;
            }
        }
        i = skip_spaces(b, i + 1);
        assert!(i + 1 < b.len() && b[i] == b'-' && b[i + 1] == b'>', "signature: expected ->");
        i = skip_spaces(b, i + 2);
        if b[i] == b'(' && i + 1 < b.len() && b[i + 1] == b')' {
            return sig;
        }
        let tuple = b[i] == b'(';
        if tuple {
            i += 1;
        }
        loop {
            i = skip_spaces(b, i);
            let start = i;
            let mut depth = 0;
            while i < b.len() && (depth > 0 || (b[i] != b',' && b[i] != b' ' && b[i] != b')')) {
                if b[i] == b'(' {
                    depth += 1;
                }
                if b[i] == b')' {
                    depth -= 1;
                }
                i += 1;
            }
            let list = i >= start + 2 && b[i - 1] == b']';
            assert!(starts_with(b, start, b"Tensor"), "signature: results are Tensor or Tensor[]");
            i = skip_spaces(b, i);
            let name_at = i;
            while i < b.len() && b[i] != b',' && b[i] != b')' && b[i] != b' ' {
                i += 1;
            }
            sig.returns[sig.n_returns as usize] = Return { name: cut(text, name_at, i), list };
            sig.n_returns += 1;
            i = skip_spaces(b, i);
            if i >= b.len() || b[i] == b')' {
                break;
            }
            i += 1;
        }
        sig
    }

    #[inline]
    pub const fn params(&self) -> &[Param] {
        self.params.split_at(self.n_params as usize).0
    }
    #[inline]
    pub const fn returns(&self) -> &[Return] {
        self.returns.split_at(self.n_returns as usize).0
    }
    /// "max" or "max.dim".
    pub fn full_name(&self) -> &'static str {
        self.text.split('(').next().unwrap_or(self.name)
    }
    /// Index among the arguments of the parameter with this name.
    pub fn arg_index(&self, name: &str) -> Option<usize> {
        self.params().iter().filter(|p| p.is_arg()).position(|p| p.name == name)
    }
}

const fn parse_param(text: &'static str, start: usize, kw_only: bool) -> (Param, usize) {
    let b = text.as_bytes();
    let mut p = Param { kw_only, ..Param::EMPTY };
    let mut i = start;
    while is_word(b[i]) || b[i] == b'|' {
        i += 1;
    }
    p.ty = base_type(b, start, i);
    if b[i] == b'(' {
        p.alias = true;
        while b[i] != b')' {
            if b[i] == b'!' {
                p.written = true;
                p.alias = false;
            }
            i += 1;
        }
        i += 1;
    }
    if b[i] == b'?' {
        p.optional = true;
        i += 1;
    }
    if b[i] == b'[' {
        i += 1;
        while b[i] != b']' {
            assert!(b[i].is_ascii_digit(), "signature: int[2]");
            p.list_len = p.list_len * 10 + (b[i] - b'0');
            i += 1;
        }
        i += 1;
        p.ty = match p.ty {
            Ty::Tensor => Ty::TensorList,
            Ty::Int => Ty::Ints,
            Ty::Float => Ty::Floats,
            _ => panic!("signature: no list of this type"),
        };
        if b[i] == b'?' {
            p.optional = true;
            i += 1;
        }
    }
    assert!(b[i] == b' ', "signature: a space between type and name");
    i += 1;
    let name_at = i;
    while is_word(b[i]) {
        i += 1;
    }
    assert!(i > name_at, "signature: a parameter has no name");
    p.name = cut(text, name_at, i);
    if b[i] == b'=' {
        i += 1;
        let at = i;
        if b[i] == b'"' {
            i += 1;
            while b[i] != b'"' {
                i += 1;
            }
            i += 1;
        } else if b[i] == b'[' {
            while b[i] != b']' {
                i += 1;
            }
            i += 1;
        } else {
            while b[i] != b',' && b[i] != b')' && b[i] != b' ' {
                i += 1;
            }
        }
        p.default = cut(text, at, i);
    }
    (p, i)
}

const fn base_type(b: &[u8], start: usize, end: usize) -> Ty {
    const NAMES: [(&[u8], Ty); 14] = [
        (b"Tensor", Ty::Tensor),
        (b"Tensor|Scalar", Ty::TensorOrScalar),
        (b"Scalar", Ty::Scalar),
        (b"int", Ty::Int),
        (b"float", Ty::Float),
        (b"bool", Ty::Bool),
        (b"str", Ty::Str),
        (b"DType", Ty::DType),
        (b"Device", Ty::Device),
        (b"MemoryFormat", Ty::MemoryFormat),
        (b"Generator", Ty::Generator),
        (b"Placement", Ty::Placement),
        (b"Sbp", Ty::Sbp),
        (b"Ints", Ty::Ints),
    ];
    let mut k = 0;
    while k < NAMES.len() {
        if NAMES[k].0.len() == end - start && starts_with(b, start, NAMES[k].0) {
            return NAMES[k].1;
        }
        k += 1;
    }
    panic!("signature: unknown parameter type")
}

const fn starts_with(b: &[u8], at: usize, word: &[u8]) -> bool {
    let mut i = 0;
    while i < word.len() {
        if at + i >= b.len() || b[at + i] != word[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

const fn find(b: &[u8], mut i: usize, c: u8) -> usize {
    while i < b.len() && b[i] != c {
        i += 1;
    }
    i
}

const fn skip_spaces(b: &[u8], mut i: usize) -> usize {
    while i < b.len() && b[i] == b' ' {
        i += 1;
    }
    i
}

const fn cut(s: &'static str, from: usize, to: usize) -> &'static str {
    s.split_at(to).0.split_at(from).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_understood() {
        const S: Sig =
            Sig::parse("max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)");
        assert_eq!((S.name, S.overload, S.full_name()), ("max", "dim", "max.dim"));
        assert_eq!(S.params().len(), 3);
        assert_eq!(S.params()[2].default, "False");
        assert_eq!(S.returns()[1].name, "indices");
    }

    #[test]
    fn lists_aliases_and_defaults() {
        const S: Sig = Sig::parse(
            "f(Tensor(a!)[] xs, Tensor?[] ys, Tensor(a) v, Tensor|Scalar other, int[2] pad=0, *, str mode=\"a b\", int[]? dims=None, float[] r=[1, 2]) -> Tensor(a)[]",
        );
        let p = S.params();
        assert!(p[0].ty == Ty::TensorList && p[0].written && !p[0].optional);
        assert!(p[1].ty == Ty::TensorList && p[1].optional);
        assert!(p[2].alias && !p[2].written);
        assert!(p[3].ty == Ty::TensorOrScalar);
        assert!(p[4].ty == Ty::Ints && p[4].list_len == 2 && !p[4].kw_only);
        assert!(p[5].kw_only && p[5].default == "\"a b\"");
        assert!(p[6].ty == Ty::Ints && p[6].optional);
        assert_eq!(p[7].default, "[1, 2]");
        assert!(S.returns()[0].list);
        assert_eq!(S.arg_index("mode"), Some(4));
        const N: Sig = Sig::parse("fill_nothing() -> ()");
        assert_eq!(N.returns().len(), 0);
    }
}
