//! The old order of arguments: factors in front of what they multiply, as in `add(x, 2, y)` and `addmm(2, x, 3, a, b)`.
//!
//! Only calls that fit no signature come here.

use crate::gate::OrPending;
use crate::object::{is_tensor, tensor_of};
use crate::overload::{Form, Overload};
use crate::parse::Given;
use oneflow_core::Ty;
use oneflow_core::base::Result;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;

/// The arguments of a call in the order of today: factors as keywords.
pub struct OldOrder<'py> {
    args: SmallVec<[*mut PyObject; 8]>,
    n_positional: usize,
    names: Bound<'py, PyTuple>,
    factors: SmallVec<[&'static str; 2]>,
}

impl OldOrder<'_> {
    pub fn given(&self) -> Given {
        Given { args: self.args.as_ptr(), n: self.n_positional, names: self.names.as_ptr() }
    }
    /// The deprecation warning.
    pub fn notice(&self, name: &str, form: Form) -> String {
        let name = format!("{name}{}", if form.is_inplace() { "_" } else { "" });
        let factors = self.factors.join(", ");
        format!(
            "This overload of {name} is deprecated: a number stands before what it multiplies. Pass it as a keyword behind the tensors ({factors})."
        )
    }
}

/// The call in today's order, if it is in the old one: a number for `beta` before the tensor itself, one for
/// `alpha` or `value` after it, and nothing but operands else.
///
/// # Safety
/// The given objects are alive and the interpreter is held.
pub unsafe fn old_order<'py>(
    py: Python<'py>,
    overloads: &[Overload],
    form: Form,
    given: Given,
) -> Result<Option<OldOrder<'py>>> {
    for o in overloads {
        let has = |name: &str| o.params.iter().any(|p| p.kw_only && p.ty == Ty::Scalar && p.name == name);
        let own = if has("alpha") { "alpha" } else { "value" };
        let are_operands =
            o.positional.iter().all(|i| matches!(o.params[*i as usize].ty, Ty::Tensor | Ty::TensorOrScalar));
        if !has(own) || !are_operands || given.n <= o.positional.len() {
            continue;
        }
        // SAFETY: the caller's promise.
        let args = unsafe { std::slice::from_raw_parts(given.args, given.n) };
        // SAFETY: live objects.
        let is_tensor = |i: usize| args.get(i).is_some_and(|a| unsafe { is_tensor(*a) });
        // SAFETY: live objects.
        let is_scalar = |i: usize| args.get(i).is_some_and(|a| unsafe { tensor_of(*a) }.is_some_and(|t| t.ndim() == 0));
        // A tensor without dimensions is a number where the operand behind it is one.
        let is_number = |i: usize| i < given.n && (!is_tensor(i) || is_scalar(i) && !is_tensor(given.n - 1));
        let mut factors: SmallVec<[(usize, &'static str); 2]> = SmallVec::new();
        if has("beta") && is_number(0) {
            factors.push((0, "beta"));
        }
        let after = factors.len() + !form.is_method() as usize;
        if is_number(after) && (!has("beta") || !factors.is_empty()) {
            factors.push((after, own));
        }
        if factors.is_empty() || given.n - factors.len() != o.positional.len() {
            continue;
        }
        let is_factor = |i: usize| factors.iter().any(|f| f.0 == i);
        let mut all: SmallVec<[*mut PyObject; 8]> = (0..given.n).filter(|i| !is_factor(*i)).map(|i| args[i]).collect();
        let names = PyList::empty(py);
        if !given.names.is_null() {
            // SAFETY: a live tuple of names, and as many objects behind the positional ones.
            unsafe {
                for k in 0..ffi::PyTuple_Size(given.names) {
                    let name = Bound::from_borrowed_ptr(py, ffi::PyTuple_GetItem(given.names, k));
                    names.append(name).pend(py)?;
                    all.push(*given.args.add(given.n + k as usize));
                }
            }
        }
        for (i, name) in &factors {
            names.append(*name).pend(py)?;
            all.push(args[*i]);
        }
        let factors = factors.iter().map(|f| f.1).collect();
        return Ok(Some(OldOrder { args: all, n_positional: o.positional.len(), names: names.to_tuple(), factors }));
    }
    Ok(None)
}
