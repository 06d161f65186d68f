//! What the generated methods are made of: arguments on the way in, results on the way out.

use crate::Operand;
use oneflow_base::{Arg, Dims, Error, Result, intern};
use oneflow_core::{Call, Generator, Outs, Tensor, default_generator, dispatch, dispatch_one};
use smallvec::SmallVec;

/// An `int[]?` argument: `&[0]`, `&dims` or `None`.
#[derive(Clone, Copy)]
pub struct OptInts<'a>(Option<&'a [i64]>);

impl<'a> From<&'a [i64]> for OptInts<'a> {
    fn from(v: &'a [i64]) -> Self {
        OptInts(Some(v))
    }
}
impl<'a, const N: usize> From<&'a [i64; N]> for OptInts<'a> {
    fn from(v: &'a [i64; N]) -> Self {
        OptInts(Some(v))
    }
}
impl<'a> From<&'a Vec<i64>> for OptInts<'a> {
    fn from(v: &'a Vec<i64>) -> Self {
        OptInts(Some(v))
    }
}
impl<'a> From<&'a Dims> for OptInts<'a> {
    fn from(v: &'a Dims) -> Self {
        OptInts(Some(v))
    }
}
impl<'a> From<Option<&'a [i64]>> for OptInts<'a> {
    fn from(v: Option<&'a [i64]>) -> Self {
        OptInts(v)
    }
}

pub(crate) fn ints<'a>(v: impl Into<OptInts<'a>>) -> Arg<'a> {
    v.into().0.map_or(Arg::None, Arg::Ints)
}

pub(crate) fn sym(text: &str) -> Arg<'static> {
    Arg::Sym(intern(text))
}

/// The next position of a generator, the default one if none is named.
pub(crate) fn rng(generator: Option<&Generator>) -> Arg<'static> {
    let (seed, offset) = match generator {
        Some(g) => g.take(1),
        None => default_generator().take(1),
    };
    Arg::Rng { seed, offset }
}

/// The input slot and the argument slot of a `Tensor|Scalar` parameter.
pub(crate) fn split<'a>(operand: impl Into<Operand<'a>>) -> (Option<&'a Tensor>, Arg<'a>) {
    match operand.into() {
        Operand::Tensor(t) => (Some(t), Arg::None),
        Operand::Scalar(s) => (None, Arg::from(s)),
    }
}

#[inline]
pub(crate) fn one(c: &Call<'_>) -> Result<Tensor> {
    dispatch_one(c)
}

pub(crate) fn none(c: &Call<'_>) -> Result<()> {
    dispatch(c, &mut Outs::new())
}

pub(crate) fn list(c: &Call<'_>) -> Result<SmallVec<[Tensor; 2]>> {
    let mut outs = Outs::new();
    dispatch(c, &mut outs)?;
    Ok(outs.into_tensors())
}

pub(crate) fn many<const N: usize>(c: &Call<'_>) -> Result<[Tensor; N]> {
    let results = list(c)?.into_iter().collect::<Vec<_>>();
    let n = results.len();
    results.try_into().map_err(|_| Error::runtime(format!("{}(): gave {n} results, {N} were expected", c.name())))
}
