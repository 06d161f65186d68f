//! The signature grammar, PyTorch's native schema language with a few types more:
//! `softmax(Tensor input, int dim, *, DType? dtype=None) -> Tensor`.
//!
//! The framework parses the same text at compile time in `core`; this parser keeps what only generated code and pages
//! want (argument types as written, defaults as text). It checks no meaning beyond the grammar.

/// A parsed signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// As it was written.
    pub text: String,
    /// The public name, `max` in `max.dim`.
    pub name: String,
    /// `dim` in `max.dim`, empty without one.
    pub overload: String,
    pub params: Vec<Param>,
    pub returns: Vec<Return>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub ty: Type,
    pub name: String,
    pub default: Option<String>,
    pub keyword_only: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    pub ty: Type,
    /// Named results make a named tuple; empty without a name.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct Type {
    /// `Tensor`, or the alternatives of `Tensor|Scalar`.
    pub kinds: Vec<String>,
    /// `(a)`: shares memory with what bears the same letter; `(a!)`: is written.
    pub alias: Option<(String, bool)>,
    pub optional: bool,
    pub list: Option<List>,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct List {
    /// `int[2]`: two, or one for both.
    pub len: Option<usize>,
    /// `Tensor?[]`: elements may be absent.
    pub optional_items: bool,
}

impl Type {
    pub fn is(&self, kind: &str) -> bool {
        self.kinds.len() == 1 && self.kinds[0] == kind
    }
    /// Whether it takes input slots of a call: a tensor, several, or `Tensor|Scalar`.
    pub fn has_tensor(&self) -> bool {
        self.kinds.iter().any(|k| k == "Tensor")
    }
}

impl Schema {
    pub fn parse(text: &str) -> Result<Schema, String> {
        Parser { text, at: 0 }.schema().map_err(|e| format!("{e} in `{text}`"))
    }

    /// `max.dim`, or the bare name.
    pub fn full_name(&self) -> String {
        if self.overload.is_empty() { self.name.clone() } else { format!("{}.{}", self.name, self.overload) }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

type Parsed<T> = Result<T, String>;

impl<'a> Parser<'a> {
    fn schema(&mut self) -> Parsed<Schema> {
        let name = self.word()?;
        let overload = if self.eat(".") { self.word()? } else { String::new() };
        self.expect("(")?;
        let params = self.params()?;
        self.expect("->")?;
        let returns = self.returns()?;
        if !self.rest().is_empty() {
            return Err(format!("unexpected `{}`", self.rest()));
        }
        Ok(Schema { text: self.text.to_string(), name, overload, params, returns })
    }

    fn params(&mut self) -> Parsed<Vec<Param>> {
        let mut params: Vec<Param> = Vec::new();
        let mut keyword_only = false;
        while !self.eat(")") {
            if self.eat("*") {
                keyword_only = true;
            } else {
                let ty = self.ty()?;
                let name = self.word()?;
                let default = if self.eat("=") { Some(self.default()?) } else { None };
                let late = default.is_none() && !keyword_only && params.iter().any(|p| p.default.is_some());
                if late || params.iter().any(|p| p.name == name) {
                    return Err(format!(
                        "parameter `{name}` is given twice, or has no default where one before it has"
                    ));
                }
                params.push(Param { ty, name, default, keyword_only });
            }
            if !self.rest().starts_with(')') {
                self.expect(",")?;
            }
        }
        Ok(params)
    }

    fn returns(&mut self) -> Parsed<Vec<Return>> {
        if !self.eat("(") {
            return Ok(vec![Return { ty: self.ty()?, name: String::new() }]);
        }
        let mut returns = Vec::new();
        while !self.eat(")") {
            let ty = self.ty()?;
            let named = self.rest().starts_with(|c: char| c.is_alphabetic());
            returns.push(Return { ty, name: if named { self.word()? } else { String::new() } });
            if !self.rest().starts_with(')') {
                self.expect(",")?;
            }
        }
        Ok(returns)
    }

    /// `Tensor`, `Tensor(a!)`, `Tensor?[]`, `int[2]?`, `Tensor|Scalar`.
    fn ty(&mut self) -> Parsed<Type> {
        let mut ty = Type { kinds: vec![self.word()?], ..Type::default() };
        while self.eat("|") {
            ty.kinds.push(self.word()?);
        }
        if self.eat("(") {
            let set = self.word()?;
            ty.alias = Some((set, self.eat("!")));
            self.expect(")")?;
        }
        ty.optional = self.eat("?");
        if self.eat("[") {
            let digits: String = self.rest().chars().take_while(char::is_ascii_digit).collect();
            self.at += digits.len();
            self.expect("]")?;
            let optional_items = std::mem::replace(&mut ty.optional, self.eat("?"));
            ty.list = Some(List { len: digits.parse().ok(), optional_items });
        }
        Ok(ty)
    }

    /// The text of a default: a number, a name, a quoted string or a list in brackets.
    fn default(&mut self) -> Parsed<String> {
        let rest = self.rest();
        let len = match rest.chars().next() {
            Some(q @ ('"' | '\'')) => rest[1..].find(q).map(|i| i + 2),
            Some('[') => rest.find(']').map(|i| i + 1),
            _ => rest.find([',', ')']),
        };
        let text = rest[..len.ok_or("unfinished default")?].trim();
        if text.is_empty() {
            return Err("empty default".into());
        }
        self.at = self.text.len() - rest.len() + len.unwrap_or(0);
        Ok(text.to_string())
    }

    fn word(&mut self) -> Parsed<String> {
        let rest = self.rest();
        let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if len == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("expected a name before `{rest}`"));
        }
        let word = rest[..len].to_string();
        self.at = self.text.len() - rest.len() + len;
        Ok(word)
    }

    fn rest(&self) -> &'a str {
        self.text[self.at..].trim_start()
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let rest = self.rest();
        let found = rest.starts_with(symbol);
        if found {
            self.at = self.text.len() - rest.len() + symbol.len();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.eat(symbol) { Ok(()) } else { Err(format!("expected `{symbol}` before `{}`", self.rest())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signature written back from what was parsed.
    fn round_trip(text: &str) -> String {
        fn ty(t: &Type) -> String {
            let mut s = t.kinds.join("|");
            if let Some((set, written)) = &t.alias {
                s += &format!("({set}{})", if *written { "!" } else { "" });
            }
            if let Some(list) = &t.list {
                let len = list.len.map(|n| n.to_string()).unwrap_or_default();
                s += &format!("{}[{len}]", if list.optional_items { "?" } else { "" });
            }
            s + if t.optional { "?" } else { "" }
        }
        let schema = Schema::parse(text).unwrap();
        let mut params = Vec::new();
        for (i, p) in schema.params.iter().enumerate() {
            if p.keyword_only && (i == 0 || !schema.params[i - 1].keyword_only) {
                params.push("*".to_string());
            }
            let default = p.default.as_ref().map(|d| format!("={d}")).unwrap_or_default();
            params.push(format!("{} {}{default}", ty(&p.ty), p.name));
        }
        let named = |r: &Return| format!("{} {}", ty(&r.ty), r.name).trim_end().to_string();
        let returns = schema.returns.iter().map(named).collect::<Vec<_>>().join(", ");
        let returns = if schema.returns.len() == 1 { returns } else { format!("({returns})") };
        format!("{}({}) -> {returns}", schema.full_name(), params.join(", "))
    }

    #[test]
    fn signatures_come_back_as_they_were() {
        for text in [
            "softmax(Tensor input, int dim, *, DType? dtype=None) -> Tensor",
            "gelu(Tensor input, *, str approximate=\"none\") -> Tensor",
            "add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
            "max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
            "view(Tensor(a) input, int[] size) -> Tensor(a)",
            "index(Tensor input, Tensor?[] indices) -> Tensor",
            "adamw_(Tensor(a!)[] params, Tensor? found_inf=None, *, float lr=1e-3) -> ()",
            "zeros(int[] size, *, DType? dtype=None, Device? device=None) -> Tensor",
            "pool(Tensor input, int[2] kernel, int[2]? stride=None, int[2] padding=[0, 0]) -> Tensor",
            "split(Tensor(a) input, int[] sizes, int dim=-1) -> Tensor(a)[]",
        ] {
            assert_eq!(round_trip(text), text);
        }
    }

    #[test]
    fn typos_are_faults() {
        for text in [
            "",
            "gelu",
            "gelu(Tensor input)",
            "gelu(Tensor input -> Tensor",
            "gelu(Tensor) -> Tensor",
            "gelu(Tensor input,, int dim) -> Tensor",
            "gelu(Tensor input, int dim=) -> Tensor",
            "gelu(Tensor input, str how=\"none) -> Tensor",
            "gelu(Tensor input, Tensor input) -> Tensor",
            "gelu(int dim=1, Tensor input) -> Tensor",
            "gelu(Tensor(a input) -> Tensor",
            "gelu(Tensor input) -> Tensor, extra",
        ] {
            assert!(Schema::parse(text).is_err(), "{text}");
        }
    }
}
