//! One call of an op: borrowed, on the caller's stack, never on the heap.

use crate::{AnyArg, At, In, Ins, LastIn, OpDef, Param, Tensor, Ty};
use oneflow_base::{Arg, Args, DType, Error, Result};

/// An op, its inputs (flat, in signature order) and its other arguments.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub op: &'static OpDef,
    pub ins: &'a [Option<&'a Tensor>],
    pub args: Args<'a>,
    pub dest: Dest<'a>,
}

/// The destination of results: fresh tensors, or existing ones (in-place and `out=`).
#[derive(Clone, Copy)]
pub enum Dest<'a> {
    Fresh,
    Into(&'a [&'a Tensor]),
}

impl<'a> Call<'a> {
    #[inline]
    pub fn new(op: &'static OpDef, ins: &'a [Option<&'a Tensor>], args: Args<'a>) -> Call<'a> {
        Call { op, ins, args, dest: Dest::Fresh }
    }

    pub fn name(&self) -> &'static str {
        self.op.sig.name
    }

    /// A tensor that must be there.
    #[inline]
    pub fn t(&self, at: In) -> Result<&'a Tensor> {
        match self.ins.get(at.index()) {
            Some(Some(t)) => Ok(t),
            _ => Err(self.missing_input(at.index())),
        }
    }
    /// A tensor, if it was given.
    #[inline]
    pub fn opt(&self, at: In) -> Option<&'a Tensor> {
        self.ins.get(at.index()).copied().flatten()
    }
    /// The position of an input after a list in this call.
    #[inline]
    pub fn place(&self, at: LastIn) -> In {
        at.of(self.ins.len())
    }
    #[inline]
    pub fn arg(&self, at: impl Into<AnyArg>) -> Arg<'a> {
        self.nth_arg(at.into().index())
    }
    #[inline]
    pub fn int(&self, at: At<i64>) -> Result<i64> {
        self.nth_arg(at.index()).int().ok_or_else(|| self.bad_arg(at.index(), "int"))
    }
    #[inline]
    pub fn float(&self, at: At<f64>) -> Result<f64> {
        self.nth_arg(at.index()).float().ok_or_else(|| self.bad_arg(at.index(), "float"))
    }
    #[inline]
    pub fn bool(&self, at: At<bool>) -> bool {
        self.nth_arg(at.index()).bool()
    }
    #[inline]
    pub fn ints(&self, at: At<[i64]>) -> Result<&'a [i64]> {
        self.nth_arg(at.index()).ints().ok_or_else(|| self.bad_arg(at.index(), "list of ints"))
    }
    #[inline]
    pub fn dtype_or(&self, at: At<DType>, default: DType) -> DType {
        self.nth_arg(at.index()).dtype().unwrap_or(default)
    }
    pub fn str(&self, at: At<str>) -> Result<&'static str> {
        self.nth_arg(at.index()).str().ok_or_else(|| self.bad_arg(at.index(), "str"))
    }
    /// The tensors of a list.
    pub fn list(&self, at: Ins) -> &'a [Option<&'a Tensor>] {
        self.ins.get(at.range(self.args)).unwrap_or(&[])
    }

    /// The number of inputs that a parameter takes; the length of a list is in argument `arg`.
    pub fn n_inputs_of(&self, p: &Param, arg: usize) -> usize {
        match (p.ty, self.nth_arg(arg)) {
            (Ty::TensorList, Arg::Len(n)) => n as usize,
            (Ty::TensorList, _) => 0,
            _ => p.is_input() as usize,
        }
    }

    #[inline]
    fn nth_arg(&self, i: usize) -> Arg<'a> {
        self.args.get(i).copied().unwrap_or(Arg::None)
    }

    #[cold]
    fn missing_input(&self, i: usize) -> Error {
        let name = self.op.sig.params().iter().filter(|p| p.is_input()).nth(i).map_or("input", |p| p.name);
        Error::type_(format!("{}(): argument '{name}' must be Tensor, not None", self.name()))
    }
    #[cold]
    fn bad_arg(&self, i: usize, want: &str) -> Error {
        let name = self.op.sig.params().iter().filter(|p| p.is_arg()).nth(i).map_or("?", |p| p.name);
        Error::type_(format!("{}(): argument '{name}' must be {want}, not {:?}", self.name(), self.nth_arg(i)))
    }

    /// "add(): " and the inputs in words, for error texts.
    #[cold]
    pub fn describe(&self) -> String {
        let mut s = String::new();
        for (i, t) in self.ins.iter().enumerate() {
            if i > 0 {
                s.push_str(", ");
            }
            match t {
                Some(t) => s.push_str(&format!("{}{:?} on {}", t.dtype(), t.sizes(), t.device())),
                None => s.push_str("None"),
            }
        }
        s
    }
}
