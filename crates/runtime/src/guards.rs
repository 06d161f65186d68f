//! Guards: what Python asked of sizes while a program was traced, and the answers it got. At sizes that give another answer
//! Python could run other ops, so the program is not for them.
//!
//! A guard is one question about two numbers that follow from the named dimensions. All arithmetic is checked.

use crate::formulas::{Formula, NamedDim, Polynomial, Term};
use std::fmt;

/// What a plan's numbers depend on, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dynamic {
    pub dims: Vec<NamedDim>,
    /// Numbers by their place in the order of `Plan::numbers`, ascending; all others are as they stand in the plan.
    pub numbers: Vec<(u32, Formula)>,
    /// What sizes must meet besides: Python decided by them when the plan was traced.
    pub guards: Vec<Guard>,
}

impl Dynamic {
    /// The first guard that these sizes break.
    pub fn broken(&self, sizes: &[i64]) -> Option<Broken<'_>> {
        self.guards.iter().find(|g| !g.holds(sizes)).map(|guard| Broken { guard, dims: &self.dims })
    }
}

/// What was asked of two integers; Python's meaning of each. Comparisons answer 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Mod,
    And,
    Or,
    Xor,
}

/// Questions by Python's sign for them.
const ASKED: [(&str, Asked); 10] = [
    ("==", Asked::Eq),
    ("!=", Asked::Ne),
    ("<", Asked::Lt),
    ("<=", Asked::Le),
    (">", Asked::Gt),
    (">=", Asked::Ge),
    ("%", Asked::Mod),
    ("&", Asked::And),
    ("|", Asked::Or),
    ("^", Asked::Xor),
];

impl Asked {
    /// By Python's sign (`==`, `%`).
    pub fn parse(sign: &str) -> Option<Asked> {
        ASKED.iter().find(|a| a.0 == sign).map(|a| a.1)
    }

    pub fn sign(self) -> &'static str {
        ASKED.iter().find(|a| a.1 == self).map_or("", |a| a.0)
    }

    /// The answer; `None` where there is none, as of a remainder by zero.
    pub fn of(self, a: i64, b: i64) -> Option<i64> {
        Some(match self {
            Asked::Eq => i64::from(a == b),
            Asked::Ne => i64::from(a != b),
            Asked::Lt => i64::from(a < b),
            Asked::Le => i64::from(a <= b),
            Asked::Gt => i64::from(a > b),
            Asked::Ge => i64::from(a >= b),
            // The remainder has the sign of the divisor.
            Asked::Mod => {
                let rest = a.checked_rem(b)?;
                if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
            }
            Asked::And => a & b,
            Asked::Or => a | b,
            Asked::Xor => a ^ b,
        })
    }
}

/// A question, the numbers it is about, and the answer that a program was traced with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    pub asked: Asked,
    pub a: Polynomial,
    pub b: Polynomial,
    pub answer: i64,
    /// The line of the user's program.
    pub place: String,
}

impl Guard {
    /// Returns whether these sizes give the answer that the program was traced with.
    pub fn holds(&self, sizes: &[i64]) -> bool {
        let (Ok(a), Ok(b)) = (self.a.at(sizes), self.b.at(sizes)) else { return false };
        self.asked.of(a, b) == Some(self.answer)
    }

    /// Returns whether all sizes of the dimensions are known to give that answer. False says nothing.
    pub fn is_certain(&self, dims: &[NamedDim]) -> bool {
        match self.asked {
            Asked::Mod => self.is_certain_rest(dims),
            Asked::And | Asked::Or | Asked::Xor => self.a.is_constant() && self.b.is_constant(),
            _ => {
                let Some(apart) = self.a.minus(&self.b) else { return false };
                let Some((low, high)) = apart.bounds(dims) else { return false };
                // Signs of the difference that may be; all must give the answer.
                let signs = [(-1, low < 0), (0, low <= 0 && high >= 0 && apart.may_be_zero()), (1, high > 0)];
                signs.iter().all(|(sign, may_be)| !may_be || self.asked.of(*sign, 0) == Some(self.answer))
            }
        }
    }

    /// A remainder is the same for all sizes if every step of a dimension adds a multiple of the divisor.
    fn is_certain_rest(&self, dims: &[NamedDim]) -> bool {
        if self.answer == 0 && self.is_multiple(dims) {
            return true;
        }
        let Some(by) = self.b.constant().map(i128::from).filter(|n| *n != 0) else { return false };
        let by = by * i128::from(self.a.denominator);
        self.a.terms.iter().all(|t| {
            let step = match t.dims.as_slice() {
                [] => return true,
                [d] => dims.get(usize::from(*d)).map_or(1, |d| d.step),
                _ => 1,
            };
            i128::from(t.factor) * i128::from(step) % by == 0
        })
    }

    /// Whether every term is a multiple of the divisor, which is one product of dimensions that are never zero.
    fn is_multiple(&self, dims: &[NamedDim]) -> bool {
        let [by] = self.b.terms.as_slice() else { return false };
        let is_positive = |d: &u8| dims.get(usize::from(*d)).is_some_and(|d| d.min > 0);
        let holds = |t: &Term| {
            let mut left = t.dims.clone();
            let found = by.dims.iter().all(|d| left.iter().position(|x| x == d).map(|at| left.remove(at)).is_some());
            found && t.factor.checked_rem(by.factor) == Some(0)
        };
        let whole = self.a.denominator == 1 && self.b.denominator == 1;
        whole && by.dims.iter().all(is_positive) && self.a.terms.iter().all(holds)
    }

    /// In words: `batch != 7`, `batch % 2 == 1`.
    pub fn shown(&self, dims: &[NamedDim]) -> String {
        let (a, b) = (self.a.shown(dims), self.b.shown(dims));
        let not = match (self.asked, self.answer) {
            (Asked::Mod | Asked::And | Asked::Or | Asked::Xor, n) => {
                let a = if a.contains([' ', '*']) { format!("({a})") } else { a };
                return format!("{a} {} {b} == {n}", self.asked.sign());
            }
            (asked, 0) => match asked {
                Asked::Eq => Asked::Ne,
                Asked::Ne => Asked::Eq,
                Asked::Lt => Asked::Ge,
                Asked::Le => Asked::Gt,
                Asked::Gt => Asked::Le,
                _ => Asked::Lt,
            },
            (asked, _) => asked,
        };
        format!("{a} {} {b}", not.sign())
    }
}

/// Why a program is not for some sizes: the guard that they break.
pub struct Broken<'a> {
    pub guard: &'a Guard,
    pub dims: &'a [NamedDim],
}

impl fmt::Display for Broken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it was traced where {}, which Python asked at {}", self.guard.shown(self.dims), self.guard.place)
    }
}

impl Polynomial {
    /// The value, if it depends on no dimension.
    pub fn constant(&self) -> Option<i64> {
        if self.is_constant() { self.at(&[]).ok() } else { None }
    }

    fn is_constant(&self) -> bool {
        self.terms.iter().all(|t| t.dims.is_empty() || t.factor == 0)
    }

    /// The difference times the product of the denominators, which are positive: its sign is that of the difference.
    fn minus(&self, other: &Polynomial) -> Option<Polynomial> {
        if self.denominator < 1 || other.denominator < 1 {
            return None;
        }
        let mut out = Polynomial { terms: Vec::new(), denominator: 1 };
        let both = [(self, other.denominator), (other, self.denominator.checked_neg()?)];
        for (t, by) in both.into_iter().flat_map(|(p, by)| p.terms.iter().map(move |t| (t, by))) {
            let factor = t.factor.checked_mul(by)?;
            match out.terms.iter_mut().find(|x| x.dims == t.dims) {
                Some(x) => x.factor = x.factor.checked_add(factor)?,
                None => out.terms.push(Term { factor, dims: t.dims.clone() }),
            }
        }
        out.terms.retain(|t| t.factor != 0);
        Some(out)
    }

    /// Whether the sum can be zero as far as its factors say: `2 * n + 1` cannot.
    fn may_be_zero(&self) -> bool {
        let (mut by, mut constant) = (0i128, 0i128);
        for t in &self.terms {
            let factor = i128::from(t.factor);
            if t.dims.is_empty() {
                constant += factor;
            } else {
                let mut rest = factor.abs();
                while rest != 0 {
                    (by, rest) = (rest, by % rest);
                }
            }
        }
        if by == 0 { constant == 0 } else { constant % by == 0 }
    }

    /// Bounds of the sum over all sizes of the dimensions, without the denominator. Sizes are counted from the smallest, so
    /// that terms of one sign do not hide each other.
    fn bounds(&self, dims: &[NamedDim]) -> Option<(i128, i128)> {
        let mut counted: Vec<(Vec<u8>, i128)> = Vec::new();
        let mut add = |dims: Vec<u8>, factor: i128| -> Option<()> {
            match counted.iter_mut().find(|x| x.0 == dims) {
                Some(x) => x.1 = x.1.checked_add(factor)?,
                None => counted.push((dims, factor)),
            }
            Some(())
        };
        for t in &self.terms {
            if t.dims.len() > 4 {
                return None;
            }
            // (low + k) * (low' + k') ..., multiplied out: each factor gives its low or its k.
            for choice in 0..1u32 << t.dims.len() {
                let (mut factor, mut left) = (i128::from(t.factor), Vec::new());
                for (i, d) in t.dims.iter().enumerate() {
                    match choice >> i & 1 {
                        0 => factor = factor.checked_mul(dims.get(usize::from(*d))?.min.into())?,
                        _ => left.push(*d),
                    }
                }
                left.sort_unstable();
                add(left, factor)?;
            }
        }
        let (mut low, mut high) = (0i128, 0i128);
        for (left, factor) in counted {
            let mut most = 1i128;
            for d in &left {
                let d = dims.get(usize::from(*d))?;
                most = most.saturating_mul(i128::from(d.max) - i128::from(d.min));
            }
            let end = factor.saturating_mul(most);
            if left.is_empty() {
                (low, high) = (low.saturating_add(factor), high.saturating_add(factor));
            } else if factor < 0 {
                low = low.saturating_add(end);
            } else {
                high = high.saturating_add(end);
            }
        }
        Some((low, high))
    }
}
