//! A symbol: arithmetic on it writes the body of a C++ or CUDA function.
//!
//! Nodes live in a thread-local arena, so a symbol is a copyable index and equal subterms are one node.

use super::{Ints, Lanes, Num};
use oneflow_base::DType;
use std::cell::RefCell;
use std::fmt::Write;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// An index into the arena.
#[derive(Clone, Copy, Debug)]
pub struct Sym(u32);

/// A symbolic condition.
#[derive(Clone, Copy, Debug)]
pub struct SymMask(u32);

#[derive(PartialEq)]
enum Node {
    Input(usize),
    Param(usize),
    Const(u64),
    /// A template with `{0}`, `{1}`, `{2}` for its arguments; `bool`: a condition.
    Term(&'static str, [u32; 3], bool),
}

struct Arena {
    dtype: DType,
    nodes: Vec<Node>,
}

thread_local! {
    static ARENA: RefCell<Arena> = const { RefCell::new(Arena { dtype: DType::F32, nodes: Vec::new() }) };
}

const NONE: u32 = u32::MAX;

fn node(n: Node) -> u32 {
    ARENA.with_borrow_mut(|a| match a.nodes.iter().position(|m| *m == n) {
        Some(i) => i as u32,
        None => {
            a.nodes.push(n);
            a.nodes.len() as u32 - 1
        }
    })
}

fn term(template: &'static str, args: &[u32]) -> u32 {
    let mut a = [NONE; 3];
    a[..args.len()].copy_from_slice(args);
    node(Node::Term(template, a, false))
}

fn cond(template: &'static str, args: &[u32]) -> SymMask {
    let mut a = [NONE; 3];
    a[..args.len()].copy_from_slice(args);
    SymMask(node(Node::Term(template, a, true)))
}

/// Picks a template by the dtype being written.
fn by_dtype(float: &'static str, double: &'static str, long: &'static str) -> &'static str {
    match ARENA.with_borrow(|a| a.dtype) {
        DType::F64 => double,
        DType::I64 => long,
        _ => float,
    }
}

/// The body of `T f(T x0, .., T p0, ..)` for a formula, and how many parameters it reads.
pub(crate) fn text(dtype: DType, arity: usize, n_params: usize, f: impl Fn(&[Sym], &[Sym]) -> Sym) -> (String, usize) {
    let (mut out, values, n_used) = write_all(dtype, arity, n_params, |x, p| vec![f(x, p)]);
    let _ = write!(out, "return {};", values.concat());
    (out, n_used)
}

/// As `text` for a formula with several results: the shared terms, and each result over them.
pub(crate) fn texts(
    dtype: DType,
    arity: usize,
    n_params: usize,
    f: impl Fn(&[Sym], &[Sym]) -> Vec<Sym>,
) -> (String, Vec<String>) {
    let (out, values, _) = write_all(dtype, arity, n_params, f);
    (out, values)
}

fn write_all(
    dtype: DType,
    arity: usize,
    n_params: usize,
    f: impl Fn(&[Sym], &[Sym]) -> Vec<Sym>,
) -> (String, Vec<String>, usize) {
    ARENA.with_borrow_mut(|a| {
        a.dtype = dtype;
        a.nodes.clear();
    });
    let xs: Vec<Sym> = (0..arity).map(|i| Sym(node(Node::Input(i)))).collect();
    let ps: Vec<Sym> = (0..n_params).map(|i| Sym(node(Node::Param(i)))).collect();
    let roots = f(&xs, &ps);
    ARENA.with_borrow(|a| {
        let mut uses = vec![0u32; a.nodes.len()];
        roots.iter().for_each(|r| count(&a.nodes, r.0, &mut uses));
        let n_used = (0..n_params).filter(|i| uses[ps[*i].0 as usize] > 0).map(|i| i + 1).max().unwrap_or(0);
        let type_name = match dtype {
            DType::F64 => "double",
            DType::I64 => "long long",
            _ => "float",
        };
        let mut out = String::new();
        let mut names: Vec<Option<String>> = vec![None; a.nodes.len()];
        // A node's arguments come before it: one pass in index order names every shared term before its use.
        for i in 0..a.nodes.len() as u32 {
            let is_only_root = roots.len() == 1 && roots[0].0 == i;
            if let Node::Term(_, _, is_cond) = a.nodes[i as usize]
                && uses[i as usize] > 1
                && !is_only_root
            {
                let value = write(a, i, &names);
                let type_name = if is_cond { "bool" } else { type_name };
                let _ = writeln!(out, "const {type_name} t{i} = {};", unwrapped(&value));
                names[i as usize] = Some(format!("t{i}"));
            }
        }
        let values = roots.iter().map(|r| unwrapped(&write(a, r.0, &names)).to_string()).collect();
        (out, values, n_used)
    })
}

/// Without one pair of outer parentheses, where they match each other.
fn unwrapped(s: &str) -> &str {
    let Some(inner) = s.strip_prefix('(').and_then(|s| s.strip_suffix(')')) else { return s };
    let mut depth = 0i32;
    for c in inner.chars() {
        depth += (c == '(') as i32 - (c == ')') as i32;
        if depth < 0 {
            return s;
        }
    }
    inner
}

/// Counts how often each node will be written; a template may use an argument several times.
fn count(nodes: &[Node], i: u32, uses: &mut [u32]) {
    uses[i as usize] += 1;
    if uses[i as usize] > 1 {
        return;
    }
    if let Node::Term(template, args, _) = nodes[i as usize] {
        for (slot, a) in SLOTS.into_iter().zip(args).filter(|(_, a)| *a != NONE) {
            (0..template.matches(slot).count()).for_each(|_| count(nodes, a, uses));
        }
    }
}

const SLOTS: [&str; 3] = ["{0}", "{1}", "{2}"];

fn write(arena: &Arena, i: u32, names: &[Option<String>]) -> String {
    if let Some(name) = &names[i as usize] {
        return name.clone();
    }
    match arena.nodes[i as usize] {
        Node::Input(k) => format!("x{k}"),
        Node::Param(k) => format!("p{k}"),
        Node::Const(bits) => literal(f64::from_bits(bits), arena.dtype),
        Node::Term(template, args, _) => {
            let mut out = template.to_string();
            for (slot, a) in SLOTS.into_iter().zip(args).filter(|(_, a)| *a != NONE) {
                if out.contains(slot) {
                    out = out.replace(slot, &write(arena, a, names));
                }
            }
            out
        }
    }
}

fn literal(v: f64, dtype: DType) -> String {
    let text = match dtype {
        DType::I64 if v as i64 == i64::MIN => return "(-9223372036854775807LL - 1)".into(),
        DType::I64 => format!("{}LL", v as i64),
        DType::F64 if v.is_finite() => format!("{v:?}"),
        _ if v.is_finite() && (v as f32).is_finite() => format!("{:?}f", v as f32),
        // Non-finite constants without a header.
        DType::F64 if v.is_nan() => "(0.0 / 0.0)".into(),
        DType::F64 if v > 0.0 => "(1.0 / 0.0)".into(),
        DType::F64 => "(-1.0 / 0.0)".into(),
        _ if v.is_nan() => "(0.0f / 0.0f)".into(),
        _ if v > 0.0 => "(1.0f / 0.0f)".into(),
        _ => "(-1.0f / 0.0f)".into(),
    };
    if text.starts_with('-') { format!("({text})") } else { text }
}

macro_rules! operators {
    ($($trait:ident $method:ident $type:ident $text:literal),*) => {$(
        impl $trait for $type {
            type Output = $type;
            fn $method(self, o: $type) -> $type {
                $type(operators!(@make $type $text self o))
            }
        }
    )*};
    (@make Sym $text:literal $a:ident $b:ident) => { term($text, &[$a.0, $b.0]) };
    (@make SymMask $text:literal $a:ident $b:ident) => { cond($text, &[$a.0, $b.0]).0 };
}
operators!(Add add Sym "({0} + {1})", Sub sub Sym "({0} - {1})", Mul mul Sym "({0} * {1})", Div div Sym "({0} / {1})",
    BitAnd bitand SymMask "({0} && {1})", BitOr bitor SymMask "({0} || {1})", BitXor bitxor SymMask "({0} != {1})");

impl Neg for Sym {
    type Output = Sym;
    fn neg(self) -> Sym {
        Sym(term("(-{0})", &[self.0]))
    }
}
impl Not for SymMask {
    type Output = SymMask;
    fn not(self) -> SymMask {
        cond("(!{0})", &[self.0])
    }
}

impl Num for Sym {
    type Mask = SymMask;
    fn splat(v: f64) -> Self {
        Sym(node(Node::Const(v.to_bits())))
    }
    fn eq(self, o: Self) -> SymMask {
        cond("({0} == {1})", &[self.0, o.0])
    }
    fn ne(self, o: Self) -> SymMask {
        cond("({0} != {1})", &[self.0, o.0])
    }
    fn lt(self, o: Self) -> SymMask {
        cond("({0} < {1})", &[self.0, o.0])
    }
    fn le(self, o: Self) -> SymMask {
        cond("({0} <= {1})", &[self.0, o.0])
    }
    fn is_nan(self) -> SymMask {
        cond(by_dtype("({0} != {0})", "({0} != {0})", "false"), &[self.0])
    }
    fn select(m: SymMask, a: Self, b: Self) -> Self {
        Sym(term("({0} ? {1} : {2})", &[m.0, a.0, b.0]))
    }
    fn abs(self) -> Self {
        Sym(term(by_dtype("fabsf({0})", "fabs({0})", "({0} < 0 ? -{0} : {0})"), &[self.0]))
    }
    fn mul_add(self, a: Self, b: Self) -> Self {
        Sym(term(by_dtype("fmaf({0}, {1}, {2})", "fma({0}, {1}, {2})", "({0} * {1} + {2})"), &[self.0, a.0, b.0]))
    }
    fn maximum(self, o: Self) -> Self {
        let float = "({0} > {1} || {0} != {0} ? {0} : {1})";
        Sym(term(by_dtype(float, float, "({0} > {1} ? {0} : {1})"), &[self.0, o.0]))
    }
    fn minimum(self, o: Self) -> Self {
        let float = "({0} < {1} || {0} != {0} ? {0} : {1})";
        Sym(term(by_dtype(float, float, "({0} < {1} ? {0} : {1})"), &[self.0, o.0]))
    }
    fn div_floor(self, o: Self) -> Self {
        if by_dtype("f", "d", "i") == "i" {
            let (q, r, zero) = (self.div_trunc(o), self.rem_trunc(o), Self::splat(0.0));
            return Self::select(r.ne(zero) & (r.lt(zero) ^ o.lt(zero)), q - Self::splat(1.0), q);
        }
        super::math::div_floor(self, o)
    }
    fn div_trunc(self, o: Self) -> Self {
        Sym(term(
            by_dtype("truncf({0} / {1})", "trunc({0} / {1})", "({1} == 0 ? 0 : {1} == -1 ? -{0} : {0} / {1})"),
            &[self.0, o.0],
        ))
    }
    fn rem_floor(self, o: Self) -> Self {
        super::math::rem_floor(self, o)
    }
    fn rem_trunc(self, o: Self) -> Self {
        Sym(term(
            by_dtype("fmodf({0}, {1})", "fmod({0}, {1})", "({1} == 0 || {1} == -1 ? 0 : {0} % {1})"),
            &[self.0, o.0],
        ))
    }
    fn pow(self, e: Self) -> Self {
        // Integers: square and multiply in a lambda, as `I64` does.
        let long = "[](long long b, long long e) { if (e < 0) return b == 1 ? 1LL : b == -1 ? 1 - 2 * (e & 1) : 0LL; \
            long long r = 1; for (; e > 0; e >>= 1, b *= b) if (e & 1) r *= b; return r; }({0}, {1})";
        Sym(term(by_dtype("powf({0}, {1})", "pow({0}, {1})", long), &[self.0, e.0]))
    }
}

impl Ints for Sym {
    fn gcd(self, o: Self) -> Self {
        let long = "[](long long a, long long b) { while (b) { long long t = b == -1 ? 0 : a % b; a = b; b = t; } \
            return a < 0 ? -a : a; }({0}, {1})";
        Sym(term(long, &[self.0, o.0]))
    }
    fn bit_and(self, o: Self) -> Self {
        Sym(term("({0} & {1})", &[self.0, o.0]))
    }
    fn bit_or(self, o: Self) -> Self {
        Sym(term("({0} | {1})", &[self.0, o.0]))
    }
    fn bit_xor(self, o: Self) -> Self {
        Sym(term("({0} ^ {1})", &[self.0, o.0]))
    }
    fn bit_not(self) -> Self {
        Sym(term("(~{0})", &[self.0]))
    }
    fn shl(self, o: Self) -> Self {
        Sym(term("({1} < 0 || {1} > 63 ? 0LL : (long long)((unsigned long long){0} << {1}))", &[self.0, o.0]))
    }
    fn shr(self, o: Self) -> Self {
        Sym(term("({0} >> ({1} < 0 || {1} > 63 ? 63LL : {1}))", &[self.0, o.0]))
    }
}

macro_rules! calls {
    ($($method:ident),*) => {$(
        fn $method(self) -> Self {
            Sym(term(
                by_dtype(concat!(stringify!($method), "f({0})"), concat!(stringify!($method), "({0})"), ""),
                &[self.0],
            ))
        }
    )*};
}

impl Lanes for Sym {
    calls!(
        sqrt, floor, ceil, trunc, exp, exp2, expm1, log, log2, log10, log1p, sin, cos, tan, asin, acos, atan, sinh,
        cosh, tanh, asinh, acosh, atanh, erf, erfc, lgamma
    );
    fn fma(self, a: Self, b: Self) -> Self {
        self.mul_add(a, b)
    }
    fn next_after(self, o: Self) -> Self {
        Sym(term(by_dtype("nextafterf({0}, {1})", "nextafter({0}, {1})", ""), &[self.0, o.0]))
    }
    fn round(self) -> Self {
        Sym(term(by_dtype("rintf({0})", "rint({0})", ""), &[self.0]))
    }
    fn copysign(self, s: Self) -> Self {
        Sym(term(by_dtype("copysignf({0}, {1})", "copysign({0}, {1})", ""), &[self.0, s.0]))
    }
    fn ldexp(self, n: Self) -> Self {
        Sym(term(by_dtype("ldexpf({0}, (int){1})", "ldexp({0}, (int){1})", ""), &[self.0, n.0]))
    }
    fn atan2(self, x: Self) -> Self {
        Sym(term(by_dtype("atan2f({0}, {1})", "atan2({0}, {1})", ""), &[self.0, x.0]))
    }
}
