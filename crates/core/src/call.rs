//! One call of an op: borrowed, on the caller's stack, never on the heap.

use crate::{OpDef, Tensor};
use oneflow_base::{Arg, Args, DType, Error, Result};

/// An op, its inputs (flat, in signature order) and its other arguments.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub op: &'static OpDef,
    pub ins: &'a [Option<&'a Tensor>],
    pub args: Args<'a>,
    pub dest: Dest<'a>,
}

/// Where results go: into fresh tensors, or into existing ones (in-place and `out=`).
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

    /// Input `i`, which the signature requires.
    #[inline]
    pub fn t(&self, i: usize) -> Result<&'a Tensor> {
        match self.ins.get(i) {
            Some(Some(t)) => Ok(t),
            _ => Err(self.missing_input(i)),
        }
    }
    #[inline]
    pub fn opt(&self, i: usize) -> Option<&'a Tensor> {
        self.ins.get(i).copied().flatten()
    }
    #[inline]
    pub fn arg(&self, i: usize) -> Arg<'a> {
        self.args.get(i).copied().unwrap_or(Arg::None)
    }
    /// Integer argument `i`.
    #[inline]
    pub fn int(&self, i: usize) -> Result<i64> {
        self.arg(i).int().ok_or_else(|| self.bad_arg(i, "int"))
    }
    #[inline]
    pub fn float(&self, i: usize) -> Result<f64> {
        self.arg(i).float().ok_or_else(|| self.bad_arg(i, "float"))
    }
    #[inline]
    pub fn bool(&self, i: usize) -> bool {
        self.arg(i).bool()
    }
    #[inline]
    pub fn ints(&self, i: usize) -> Result<&'a [i64]> {
        self.arg(i).ints().ok_or_else(|| self.bad_arg(i, "list of ints"))
    }
    #[inline]
    pub fn dtype_or(&self, i: usize, default: DType) -> DType {
        self.arg(i).dtype().unwrap_or(default)
    }
    pub fn str(&self, i: usize) -> Result<&'static str> {
        self.arg(i).str().ok_or_else(|| self.bad_arg(i, "str"))
    }

    /// Position of the first input of a list parameter is `start`; its length stands in argument `arg`.
    pub fn list(&self, start: usize, arg: usize) -> &'a [Option<&'a Tensor>] {
        let n = match self.arg(arg) {
            Arg::Len(n) => n as usize,
            _ => 0,
        };
        self.ins.get(start..start + n).unwrap_or(&[])
    }

    #[cold]
    fn missing_input(&self, i: usize) -> Error {
        let name = self.op.sig.params().iter().filter(|p| p.is_input()).nth(i).map_or("input", |p| p.name);
        Error::type_(format!("{}(): argument '{name}' must be Tensor, not None", self.name()))
    }
    #[cold]
    fn bad_arg(&self, i: usize, want: &str) -> Error {
        let name = self.op.sig.params().iter().filter(|p| p.is_arg()).nth(i).map_or("?", |p| p.name);
        Error::type_(format!("{}(): argument '{name}' must be {want}, not {:?}", self.name(), self.arg(i)))
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
