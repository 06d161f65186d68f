//! Numbers that follow from named dimensions: the dimensions, and polynomials of their sizes. All arithmetic is checked.

use oneflow_base::{Error, Result};
use std::fmt::Write;

/// A dimension that has a name and no fixed size.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedDim {
    pub name: String,
    /// The smallest and the largest size.
    pub min: i64,
    pub max: i64,
    /// Sizes differ from `start` by multiples of this.
    pub step: i64,
    pub start: i64,
    /// Where a run's inputs say its size. Without it the caller does.
    pub read: Option<Read>,
}

/// The size of an axis of an input: `factor * dimension + constant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    pub input: u32,
    pub axis: u32,
    pub factor: i64,
    pub constant: i64,
}

/// A number that depends on the named dimensions.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// The polynomial's value, of an integer or of a float.
    Value(Polynomial),
    /// A float: a constant divided by the polynomial's value.
    Quotient(f64, Polynomial),
}

/// A sum of products of dimensions, divided by a number. It stands only for sizes at which it is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Polynomial {
    pub terms: Vec<Term>,
    pub denominator: i64,
}

/// A factor and the dimensions that it is multiplied with, by number; one may stand there more than once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    pub factor: i64,
    pub dims: Vec<u8>,
}

impl Polynomial {
    /// The value at these sizes.
    ///
    /// # Errors
    /// ValueError: it overflows, or is not whole.
    pub fn at(&self, sizes: &[i64]) -> Result<i64> {
        let overflows = || Error::value(format!("{self:?} overflows at {sizes:?}"));
        let mut total = 0i128;
        for t in &self.terms {
            let mut product = i128::from(t.factor);
            for d in &t.dims {
                let size = sizes.get(usize::from(*d)).ok_or_else(|| Error::value("a dimension does not exist"))?;
                product = product.checked_mul((*size).into()).ok_or_else(overflows)?;
            }
            total = total.checked_add(product).ok_or_else(overflows)?;
        }
        let by = i128::from(self.denominator);
        if by <= 0 || total % by != 0 {
            return Err(Error::value(format!("a size is not whole at {sizes:?}: {total}/{by}")));
        }
        i64::try_from(total / by).map_err(|_| overflows())
    }

    /// In words: `2*batch + 1`.
    pub fn shown(&self, dims: &[NamedDim]) -> String {
        let mut text = String::new();
        for t in &self.terms {
            let names: Vec<&str> =
                t.dims.iter().map(|d| dims.get(usize::from(*d)).map_or("?", |d| d.name.as_str())).collect();
            let sign = match (text.is_empty(), t.factor < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            };
            let factor = t.factor.unsigned_abs();
            let product = names.join("*");
            let _ = match (names.is_empty(), factor) {
                (true, _) => write!(text, "{sign}{factor}"),
                (false, 1) => write!(text, "{sign}{product}"),
                (false, _) => write!(text, "{sign}{factor}*{product}"),
            };
        }
        match self.denominator {
            1 if text.is_empty() => "0".into(),
            1 => text,
            n => format!("({text})/{n}"),
        }
    }
}

impl Formula {
    pub(crate) fn polynomial(&self) -> &Polynomial {
        match self {
            Formula::Value(p) | Formula::Quotient(_, p) => p,
        }
    }
}

impl NamedDim {
    /// Returns an error if a size is outside of the range.
    pub fn takes(&self, program: &str, size: i64) -> Result<()> {
        if size < self.min || size > self.max {
            let to = if self.max == i64::MAX { String::new() } else { format!(" and at most {}", self.max) };
            let (name, min) = (&self.name, self.min);
            return Err(Error::value(format!("{program}: {name} is {size}, it has to be at least {min}{to}")));
        }
        self.is_reached(program, size)
    }

    /// Returns an error if a size is not a number of steps from the start.
    pub fn is_reached(&self, program: &str, size: i64) -> Result<()> {
        if size.checked_sub(self.start).is_none_or(|n| n.checked_rem(self.step) != Some(0)) {
            let (name, step, rest) = (&self.name, self.step, self.start.rem_euclid(self.step));
            return Err(Error::value(format!(
                "{program}: {name} is {size}, it has to be a multiple of {step}{}",
                if rest == 0 { String::new() } else { format!(" plus {rest}") }
            )));
        }
        Ok(())
    }
}
