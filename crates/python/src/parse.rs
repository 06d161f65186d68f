//! Arguments of one call: bound to parameters, converted, laid out for a `Call`. All on the stack.
//!
//! This file is independent of ops: the signature decides everything.

use crate::gate::{OrPending, pending_set};
use crate::generator::PyGenerator;
use crate::hand::flag;
use crate::object::{is_tensor, tensor_of};
use crate::overload::{Form, MAX_PARAMS, Overload, P, is_key, is_key_text};
use crate::overrides::answers;
use crate::{classes, scalar, value};
use oneflow_core::base::{Arg, DType, Error, Result, Scalar, intern};
use oneflow_core::{Generator, Tensor, Traits, Ty, bit, default_dtype, default_generator};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Arguments in the fast call protocol.
#[derive(Clone, Copy)]
pub struct Given {
    pub args: *const *mut PyObject,
    pub n: usize,
    /// A tuple of names, or null.
    pub names: *mut PyObject,
}

impl Given {
    /// # Safety
    /// `i < n`.
    #[inline]
    unsafe fn at(&self, i: usize) -> *mut PyObject {
        // SAFETY: the caller's promise.
        unsafe { *self.args.add(i) }
    }
}

/// Why arguments do not fit an overload.
pub enum Misfit {
    TooMany,
    Missing,
    Unexpected(*mut PyObject),
    Duplicate(usize),
    /// Parameter, object, and the place of the wrong item in a list.
    Type(usize, *mut PyObject, Option<usize>),
}

type Fit = std::result::Result<(), Misfit>;

const INLINE_INTS: usize = 24;

/// A parsed call. Must stay where it is once parsed: arguments borrow its numbers.
pub struct Frame<'a> {
    pub ins: SmallVec<[Option<&'a Tensor>; 8]>,
    pub args: SmallVec<[Arg<'a>; 8]>,
    slots: [*mut PyObject; MAX_PARAMS],
    spread: bool,
    ints: [MaybeUninit<i64>; INLINE_INTS],
    n_ints: usize,
    more_ints: Vec<Box<[i64]>>,
    floats: Vec<Box<[f64]>>,
    /// Numbers that were converted to tensors. Boxed: inputs borrow them while more are added.
    #[allow(clippy::vec_box)]
    made: Vec<Box<Tensor>>,
    rng: Option<(u8, Option<Generator>)>,
    pub out: *mut PyObject,
    /// The result lies in pinned memory.
    pub pinned: bool,
    /// A 0-dim tensor is no number: an overload that takes a tensor there comes first.
    pub tensors_first: bool,
    /// The reason why an overload was skipped.
    pub passed_over: bool,
    /// Arguments whose classes handle the call themselves.
    pub answering: Vec<*mut PyObject>,
}

/// Whether an argument, which may be missing, is a sparse tensor.
///
/// # Safety
/// Null or a live object; the interpreter is held.
unsafe fn is_sparse(object: *mut PyObject) -> bool {
    // SAFETY: the caller's promise.
    !object.is_null() && unsafe { tensor_of(object) }.is_some_and(|t| t.has_key(bit::SPARSE))
}

impl<'a> Frame<'a> {
    #[inline]
    pub fn new() -> Frame<'a> {
        Frame {
            ins: SmallVec::new(),
            args: SmallVec::new(),
            slots: [null_mut(); MAX_PARAMS],
            spread: false,
            ints: [const { MaybeUninit::uninit() }; INLINE_INTS],
            n_ints: 0,
            more_ints: Vec::new(),
            floats: Vec::new(),
            made: Vec::new(),
            rng: None,
            out: null_mut(),
            pinned: false,
            tensors_first: false,
            passed_over: false,
            answering: Vec::new(),
        }
    }

    fn reset(&mut self, n: usize) {
        self.ins.clear();
        self.args.clear();
        self.slots[..n].fill(null_mut());
        self.n_ints = 0;
        self.rng = None;
        self.out = null_mut();
        self.pinned = false;
        self.answering.clear();
    }

    /// The tensor of an argument. Classes other than Tensor itself may override the call.
    #[inline]
    unsafe fn operand(&mut self, object: *mut PyObject) -> Option<&'a Tensor> {
        // SAFETY: live objects that outlive the call, the interpreter is held.
        unsafe {
            let t = tensor_of(object);
            if t.is_some() && answers(object) {
                self.answer(object);
            }
            t
        }
    }

    #[cold]
    fn answer(&mut self, object: *mut PyObject) {
        if !self.answering.contains(&object) {
            self.answering.push(object);
        }
    }

    /// Binds and converts. `Ok(Err(_))`: these arguments are not for this overload.
    ///
    /// # Safety
    /// The given objects are alive for `'a` and the interpreter is held.
    #[inline]
    pub unsafe fn parse(
        &mut self,
        py: Python<'_>,
        o: &Overload,
        form: Form,
        self_object: *mut PyObject,
        given: Given,
    ) -> Result<Fit> {
        self.reset(o.params.len());
        // SAFETY: the caller's promise.
        unsafe {
            if let Err(why) = self.bind(py, o, form, self_object, given)? {
                return Ok(Err(why));
            }
            self.args.extend_from_slice(&o.defaults);
            for (i, p) in o.params.iter().enumerate() {
                let object = self.slots[i];
                if object.is_null() {
                    if p.required && !(self.spread && o.positional[0] as usize == i) {
                        return Ok(Err(Misfit::Missing));
                    }
                    if matches!(p.ty, Ty::Tensor | Ty::TensorOrScalar) {
                        self.ins.push(None);
                    } else if p.ty == Ty::Generator {
                        self.rng = Some((p.arg, None));
                    } else if self.spread && o.positional[0] as usize == i {
                        let items = std::slice::from_raw_parts(given.args, given.n);
                        if let Err(why) = self.spread_ints(py, p, i, items)? {
                            return Ok(Err(why));
                        }
                    }
                } else if let Err(why) = self.convert(py, o, i, p, object)? {
                    return Ok(Err(why));
                }
            }
        }
        Ok(Ok(()))
    }

    #[inline]
    unsafe fn bind(
        &mut self,
        py: Python<'_>,
        o: &Overload,
        form: Form,
        self_object: *mut PyObject,
        given: Given,
    ) -> Result<Fit> {
        // SAFETY: the caller's promise; `given.n` arguments are there, and as many more as there are names.
        unsafe {
            if form.is_method() {
                self.slots[o.self_at] = self_object;
            }
            self.spread = false;
            let unspread = || o.params[o.positional[0] as usize].optional && given.at(0) == ffi::Py_None();
            if given.n > o.positional.len() || (o.spreads && given.n == 1 && !unspread()) {
                // `x.view(2, 3)` and `x.view(2)`, but not `x.view((2, 3))`.
                if !o.spreads || value::is_sequence(given.at(0)) {
                    if given.n > o.positional.len() {
                        return Ok(Err(Misfit::TooMany));
                    }
                    self.slots[o.positional[0] as usize] = given.at(0);
                } else {
                    self.spread = true;
                }
            } else {
                for i in 0..given.n {
                    self.slots[o.positional[i] as usize] = given.at(i);
                }
            }
            if !given.names.is_null() {
                let n = ffi::PyTuple_Size(given.names) as usize;
                for k in 0..n {
                    let name = ffi::PyTuple_GetItem(given.names, k as ffi::Py_ssize_t);
                    let object = given.at(given.n + k);
                    if let Err(why) = self.keyword(py, o, form, name, object)? {
                        return Ok(Err(why));
                    }
                }
            }
        }
        Ok(Ok(()))
    }

    unsafe fn keyword(
        &mut self,
        py: Python<'_>,
        o: &Overload,
        form: Form,
        name: *mut PyObject,
        object: *mut PyObject,
    ) -> Result<Fit> {
        // SAFETY: live objects, the interpreter is held.
        unsafe {
            let by_pointer = o.params.iter().position(|p| is_key(p, name));
            let found = by_pointer.or_else(|| o.params.iter().position(|p| is_key_text(p, name)));
            if let Some(i) = found
                && !(form.is_method() && i == o.self_at)
            {
                if !self.slots[i].is_null() || (self.spread && o.positional[0] as usize == i) {
                    return Ok(Err(Misfit::Duplicate(i)));
                }
                self.slots[i] = object;
                return Ok(Ok(()));
            }
            let Some(text) = value::text(name)? else { return Ok(Err(Misfit::Unexpected(name))) };
            match text {
                "out" if o.takes_out => {
                    if object != ffi::Py_None() {
                        self.out = object;
                        if answers(object) {
                            self.answer(object);
                        }
                    }
                }
                // Other layouts than the input's are forms, which are looked for once no overload fits.
                "layout" if o.factory => {
                    let strided = classes::strided(py).pend(py)?;
                    let is_strided =
                        object == strided.as_ptr() && !self.slots[..o.params.len()].iter().any(|o| is_sparse(*o));
                    if object != ffi::Py_None() && !is_strided {
                        return Ok(Err(Misfit::Unexpected(name)));
                    }
                }
                "pin_memory" if o.factory && object == ffi::Py_None() => {}
                "pin_memory" if o.factory => self.pinned = flag(py, o.op.sig.name, "pin_memory", object, false)?,
                _ => return Ok(Err(Misfit::Unexpected(name))),
            }
        }
        Ok(Ok(()))
    }

    /// The numbers of a list, kept in this frame.
    #[inline]
    fn keep_ints(&mut self, values: &[i64]) -> Arg<'a> {
        let n = values.len();
        let p = if self.n_ints + n <= INLINE_INTS {
            let at = self.n_ints;
            self.n_ints += n;
            for (slot, v) in self.ints[at..].iter_mut().zip(values) {
                slot.write(*v);
            }
            self.ints[at..].as_ptr().cast::<i64>()
        } else {
            self.more_ints.push(values.into());
            self.more_ints[self.more_ints.len() - 1].as_ptr()
        };
        // SAFETY: `n` numbers were just written there, and the frame neither moves nor reuses the place while it is parsed and
        // called (`parse` starts over before it writes again).
        Arg::Ints(unsafe { std::slice::from_raw_parts(p, n) })
    }

    unsafe fn spread_ints(&mut self, py: Python<'_>, p: &P, at: usize, items: &[*mut PyObject]) -> Result<Fit> {
        let mut values: SmallVec<[i64; 8]> = SmallVec::new();
        for o in items {
            // SAFETY: live objects, the interpreter is held.
            match unsafe { value::int(py, *o)? } {
                Some(v) => values.push(v),
                None => return Ok(Err(Misfit::Type(at, *o, None))),
            }
        }
        let arg = self.keep_ints(&values);
        self.args[p.arg as usize] = arg;
        Ok(Ok(()))
    }

    /// Converts one argument into its slots.
    #[inline]
    unsafe fn convert(&mut self, py: Python<'_>, o: &Overload, i: usize, p: &P, object: *mut PyObject) -> Result<Fit> {
        // SAFETY: live objects that outlive the call, the interpreter is held.
        unsafe {
            let fits = match p.ty {
                Ty::Tensor => match self.operand(object) {
                    Some(t) => {
                        self.ins.push(Some(t));
                        true
                    }
                    None => return self.no_tensor(py, o, i, p, object),
                },
                Ty::TensorOrScalar => match self.operand(object) {
                    Some(t) => {
                        self.ins.push(Some(t));
                        self.args[p.arg as usize] = Arg::None;
                        true
                    }
                    None => {
                        self.ins.push(None);
                        match self.number(py, object)? {
                            Some(s) => {
                                self.args[p.arg as usize] = s.into();
                                true
                            }
                            None => {
                                self.args[p.arg as usize] = Arg::None;
                                p.optional && object == ffi::Py_None() || self.duck(object)
                            }
                        }
                    }
                },
                _ if object == ffi::Py_None() && p.ty != Ty::TensorList && p.ty != Ty::Generator => {
                    self.args[p.arg as usize] = Arg::None;
                    p.optional
                }
                Ty::TensorList => return self.tensors(i, p, object),
                _ => match self.plain(py, p, object)? {
                    Some(arg) => {
                        self.args[p.arg as usize] = arg;
                        true
                    }
                    None => {
                        let item = value::each(object, |_, _| Ok(true))?.map(|_| self.wrong_item(py, p, object));
                        return Ok(Err(Misfit::Type(i, object, item.flatten())));
                    }
                },
            };
            Ok(if fits { Ok(()) } else { Err(Misfit::Type(i, object, None)) })
        }
    }

    /// Everything that takes one argument slot.
    /// A number; one beyond int64 beside a tensor or a dtype of uint64 is one of those.
    #[inline]
    unsafe fn number(&self, py: Python<'_>, object: *mut PyObject) -> Result<Option<Scalar>> {
        // SAFETY: live objects, the interpreter is held.
        unsafe {
            value::scalar(py, object).or_else(|e| {
                let is_unsigned = |x: &*mut PyObject| match tensor_of(*x) {
                    Some(t) => t.dtype() == DType::U64,
                    None => classes::dtype_of(&Bound::from_borrowed_ptr(py, *x)) == Some(DType::U64),
                };
                value::unsigned(py, object, e, || self.slots.iter().filter(|x| !x.is_null()).any(is_unsigned))
            })
        }
    }

    #[inline]
    unsafe fn plain(&mut self, py: Python<'_>, p: &P, object: *mut PyObject) -> Result<Option<Arg<'a>>> {
        // SAFETY: live objects, the interpreter is held.
        unsafe {
            Ok(match p.ty {
                Ty::Int => value::int(py, object)?.map(Arg::Int),
                Ty::Bool => value::boolean(py, object)?.map(Arg::Bool),
                Ty::Float => value::float(py, object)?.map(Arg::Float),
                Ty::Scalar if self.tensors_first && is_tensor(object) => {
                    self.passed_over = true;
                    None
                }
                Ty::Scalar => self.number(py, object)?.map(Arg::from),
                Ty::Ints => return self.int_list(py, p, object),
                Ty::Floats => return self.float_list(py, p, object),
                Ty::Str => value::text(object)?.map(|s| Arg::Sym(intern(s))),
                Ty::DType => classes::dtype_of(&Bound::from_borrowed_ptr(py, object)).map(Arg::DType),
                Ty::Device => classes::device_of(&Bound::from_borrowed_ptr(py, object)).pend(py)?.map(Arg::Device),
                Ty::MemoryFormat => {
                    let b = Bound::from_borrowed_ptr(py, object);
                    b.cast::<classes::PyMemoryFormat>().ok().map(|m| Arg::Sym(intern(m.get().0)))
                }
                Ty::Generator => {
                    let b = Bound::from_borrowed_ptr(py, object);
                    let g = match b.cast::<PyGenerator>() {
                        Ok(g) => Some(g.get().handle()),
                        Err(_) if object == ffi::Py_None() => None,
                        Err(_) => return Ok(None),
                    };
                    self.rng = Some((p.arg, g));
                    Some(Arg::None)
                }
                Ty::Placement => crate::global::placement_of(&Bound::from_borrowed_ptr(py, object)).pend(py)?,
                Ty::Sbp => crate::global::sbp_of(&Bound::from_borrowed_ptr(py, object)).pend(py)?,
                Ty::Tensor | Ty::TensorList | Ty::TensorOrScalar => None,
            })
        }
    }

    /// Returns whether an object that is no tensor overrides the call in a tensor's place.
    unsafe fn duck(&mut self, object: *mut PyObject) -> bool {
        // SAFETY: live objects, the interpreter is held.
        let answers = unsafe { answers(object) };
        if answers {
            self.answer(object);
        }
        answers
    }

    /// A tensor parameter that received something else.
    #[cold]
    unsafe fn no_tensor(
        &mut self,
        py: Python<'_>,
        o: &Overload,
        i: usize,
        p: &P,
        object: *mut PyObject,
    ) -> Result<Fit> {
        // SAFETY: live objects, the interpreter is held.
        unsafe {
            if p.optional && object == ffi::Py_None() {
                self.ins.push(None);
                return Ok(Ok(()));
            }
            if self.duck(object) {
                self.ins.push(None);
                return Ok(Ok(()));
            }
            let beside = self.slots.iter().take(o.params.len()).filter(|s| !s.is_null()).find_map(|s| tensor_of(*s));
            let traits = o.op.traits;
            let first = traits.has(Traits::NUMBER_FIRST) && i == o.self_at && beside.is_some();
            if (first || traits.has(Traits::NUMBERS))
                && let Some(s) = value::scalar(py, object)?
            {
                let (s, dtype) = scalar::beside(s, beside, default_dtype());
                let made = Box::new(crate::global::like(scalar::tensor(s, dtype)?, beside)?);
                let borrowed: *const Tensor = &*made;
                self.made.push(made);
                // The box keeps its address while the frame lives.
                self.ins.push(Some(&*borrowed));
                return Ok(Ok(()));
            }
        }
        Ok(Err(Misfit::Type(i, object, None)))
    }

    unsafe fn tensors(&mut self, i: usize, p: &P, object: *mut PyObject) -> Result<Fit> {
        let before = self.ins.len();
        // SAFETY: live objects; the items outlive the call since the sequence does and is not changed during parsing.
        unsafe {
            if object == ffi::Py_None() && p.optional {
                self.args[p.arg as usize] = Arg::Len(0);
                return Ok(Ok(()));
            }
            let mut wrong = None;
            let all = value::each(object, |k, item| {
                let t = self.operand(item);
                let ok = t.is_some() || (p.optional_items && item == ffi::Py_None()) || self.duck(item);
                if !ok {
                    wrong = Some(k);
                }
                self.ins.push(t);
                Ok(ok)
            })?;
            if all != Some(true) {
                return Ok(Err(Misfit::Type(i, object, wrong)));
            }
        }
        self.args[p.arg as usize] = Arg::Len((self.ins.len() - before) as u32);
        Ok(Ok(()))
    }

    #[inline]
    unsafe fn int_list(&mut self, py: Python<'_>, p: &P, object: *mut PyObject) -> Result<Option<Arg<'a>>> {
        // SAFETY: live objects, the interpreter is held.
        unsafe {
            let mut values: SmallVec<[i64; 8]> = SmallVec::new();
            let all = value::each(object, |_, item| {
                let v = value::int(py, item)?;
                values.extend(v);
                Ok(v.is_some())
            })?;
            match all {
                Some(true) => {}
                Some(false) => return Ok(None),
                None if p.list_len > 0 => match value::int(py, object)? {
                    Some(v) => values.resize(p.list_len as usize, v),
                    None => return Ok(None),
                },
                None => return Ok(None),
            }
            Ok(Some(self.keep_ints(&values)))
        }
    }

    unsafe fn float_list(&mut self, py: Python<'_>, p: &P, object: *mut PyObject) -> Result<Option<Arg<'a>>> {
        let mut values: Vec<f64> = Vec::new();
        // SAFETY: live objects, the interpreter is held.
        unsafe {
            let all = value::each(object, |_, item| {
                let v = value::float(py, item)?;
                values.extend(v);
                Ok(v.is_some())
            })?;
            match all {
                Some(true) => {}
                None if p.list_len > 0 => match value::float(py, object)? {
                    Some(v) => values.resize(p.list_len as usize, v),
                    None => return Ok(None),
                },
                _ => return Ok(None),
            }
        }
        self.floats.push(values.into());
        let kept = &self.floats[self.floats.len() - 1];
        // SAFETY: the box keeps its address while the frame lives.
        Ok(Some(Arg::Floats(unsafe { std::slice::from_raw_parts(kept.as_ptr(), kept.len()) })))
    }

    /// The first item of a list that does not fit, for the error text.
    unsafe fn wrong_item(&self, py: Python<'_>, p: &P, object: *mut PyObject) -> Option<usize> {
        let mut at = None;
        // SAFETY: live objects, the interpreter is held.
        let _ = unsafe {
            value::each(object, |i, item| {
                let ok = match p.ty {
                    Ty::Ints => value::int(py, item)?.is_some(),
                    Ty::Floats => value::float(py, item)?.is_some(),
                    _ => true,
                };
                if !ok {
                    at = Some(i);
                }
                Ok(ok)
            })
        };
        at
    }

    /// Takes the generator's next position; called once the overload is chosen.
    #[inline]
    pub fn draw(&mut self) {
        if let Some((arg, g)) = self.rng.take() {
            let (seed, offset) = match g {
                // A trace refuses the call: the generator stays where it is.
                Some(g) if oneflow_graph::is_tracing() && !g.same(&default_generator()) => (g.seed(), g.offset()),
                g => g.unwrap_or_else(default_generator).take(1),
            };
            self.args[arg as usize] = Arg::Rng { seed, offset };
        }
    }

    /// Two operands, the second a tensor or a number, everything else left to its default. `false`: not of these types.
    ///
    /// # Safety
    /// As for `parse`; `o.binary` is set.
    #[inline]
    pub unsafe fn binary(
        &mut self,
        py: Python<'_>,
        o: &Overload,
        arg: u8,
        a: &'a Tensor,
        b: *mut PyObject,
    ) -> Result<bool> {
        // SAFETY: the caller's promise.
        let scalar = unsafe {
            match self.operand(b) {
                Some(t) => {
                    self.ins.extend([Some(a), Some(t)]);
                    None
                }
                None => {
                    match value::scalar(py, b).or_else(|e| value::unsigned(py, b, e, || a.dtype() == DType::U64))? {
                        Some(s) => {
                            self.ins.extend([Some(a), None]);
                            Some(s)
                        }
                        None => return Ok(false),
                    }
                }
            }
        };
        self.args.extend_from_slice(&o.defaults);
        self.args[arg as usize] = scalar.map_or(Arg::None, Scalar::into);
        Ok(true)
    }
}

/// The error of a call whose arguments fit no overload, in PyTorch's words.
#[cold]
pub fn misfit(py: Python<'_>, overloads: &[Overload], form: Form, given: Given, why: &Misfit) -> Error {
    let o = &overloads[0];
    let name = if form.is_inplace() { format!("{}_", o.op.sig.name) } else { o.op.sig.name.to_owned() };
    if overloads.len() > 1 {
        return invalid_combination(py, overloads, form, given, &name);
    }
    // SAFETY: the objects of the call are alive and the interpreter is held.
    let text_of = |k: *mut PyObject| unsafe { value::text(k).ok().flatten().unwrap_or("?").to_owned() };
    Error::type_(match why {
        Misfit::TooMany => {
            let n = o.positional.len();
            let s = if n == 1 { "" } else { "s" };
            let were = if given.n == 1 { "was" } else { "were" };
            format!("{name}() takes {n} positional argument{s} but {} {were} given", given.n)
        }
        Misfit::Missing => {
            let missing: Vec<String> = missing(o, form, given);
            let s = if missing.len() == 1 { "" } else { "s" };
            format!("{name}() missing {} required positional argument{s}: {}", missing.len(), missing.join(", "))
        }
        Misfit::Unexpected(k) => format!("{name}() got an unexpected keyword argument '{}'", text_of(*k)),
        Misfit::Duplicate(i) => format!("{name}() got multiple values for argument '{}'", o.params[*i].name),
        Misfit::Type(i, object, item) => {
            let p = &o.params[*i];
            let at = o.positional.iter().position(|k| *k as usize == *i).filter(|k| *k < given.n);
            let at = at.map(|k| format!(" (position {})", k + 1)).unwrap_or_default();
            let found = match item {
                Some(k) => {
                    // SAFETY: as above.
                    let mut name = String::from("object");
                    let item = |n: usize, x: *mut PyObject| {
                        if n == *k {
                            name = value::type_name(py, x);
                        }
                        Ok(true)
                    };
                    // SAFETY: as above.
                    let _ = unsafe { value::each(*object, item) };
                    format!("but found element of type {name} at pos {k}")
                }
                None => format!("not {}", value::type_name(py, *object)),
            };
            format!("{name}(): argument '{}'{at} must be {}, {found}", p.name, describe(p.ty))
        }
    })
}

fn missing(o: &Overload, form: Form, given: Given) -> Vec<String> {
    let mut names = Vec::new();
    for (i, p) in o.params.iter().enumerate() {
        if !p.required || (form.is_method() && i == o.self_at) {
            continue;
        }
        let by_position = o.positional.iter().position(|k| *k as usize == i).is_some_and(|k| k < given.n);
        // SAFETY: the names of the call are alive and the interpreter is held.
        let by_name = !given.names.is_null()
            && unsafe {
                (0..ffi::PyTuple_Size(given.names)).any(|k| is_key_text(p, ffi::PyTuple_GetItem(given.names, k)))
            };
        if !by_position && !by_name {
            names.push(format!("\"{}\"", p.name));
        }
    }
    names
}

fn invalid_combination(py: Python<'_>, overloads: &[Overload], form: Form, given: Given, name: &str) -> Error {
    let mut got: Vec<String> = Vec::new();
    // SAFETY: the objects of the call are alive and the interpreter is held.
    unsafe {
        for i in 0..given.n {
            got.push(value::type_name(py, given.at(i)));
        }
        if !given.names.is_null() {
            for k in 0..ffi::PyTuple_Size(given.names) as usize {
                let key =
                    value::text(ffi::PyTuple_GetItem(given.names, k as ffi::Py_ssize_t)).ok().flatten().unwrap_or("?");
                got.push(format!("{key}={}", value::type_name(py, given.at(given.n + k))));
            }
        }
    }
    let forms: Vec<String> = overloads.iter().map(|o| format!(" * ({})", typed_parameters(o, form))).collect();
    Error::type_(format!(
        "{name}() received an invalid combination of arguments - got ({}), but expected one of:\n{}",
        got.join(", "),
        forms.join("\n")
    ))
}

/// Parameters with their types and defaults, without the tensor that a method is called on.
fn typed_parameters(o: &Overload, form: Form) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut named_only = false;
    for (i, (p, declared)) in o.params.iter().zip(o.op.sig.params()).enumerate() {
        if form.is_method() && i == o.self_at {
            continue;
        }
        if p.kw_only && !named_only {
            named_only = true;
            parts.push("*".to_owned());
        }
        let default = if p.required { String::new() } else { format!(" = {}", declared.default) };
        parts.push(format!("{} {}{default}", describe(p.ty), p.name));
    }
    parts.join(", ")
}

fn describe(ty: Ty) -> &'static str {
    match ty {
        Ty::Tensor => "Tensor",
        Ty::TensorOrScalar => "Tensor or Number",
        Ty::TensorList => "tuple of Tensors",
        Ty::Scalar => "Number",
        Ty::Int => "int",
        Ty::Float => "float",
        Ty::Bool => "bool",
        Ty::Str => "str",
        Ty::DType => "dtype",
        Ty::Device => "device",
        Ty::Ints => "tuple of ints",
        Ty::Floats => "tuple of floats",
        Ty::MemoryFormat => "memory_format",
        Ty::Generator => "Generator",
        Ty::Placement => "placement",
        Ty::Sbp => "sbp",
    }
}

/// The tensors of an `out=` argument.
///
/// # Safety
/// As for `Frame::parse`.
pub unsafe fn out_tensors<'a>(o: &Overload, object: *mut PyObject) -> Result<SmallVec<[&'a Tensor; 2]>> {
    let name = o.op.sig.name;
    let n = o.op.sig.returns().len();
    let mut outs = SmallVec::new();
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(t) = tensor_of(object)
            && n == 1
        {
            outs.push(t);
            return Ok(outs);
        }
        let all = value::each(object, |_, item| {
            outs.extend(tensor_of(item));
            Ok(true)
        })?;
        if all.is_none() || outs.len() != n || n == 1 {
            if !ffi::PyErr_Occurred().is_null() {
                return Err(pending_set());
            }
            let want = if n == 1 { "Tensor".to_owned() } else { format!("tuple of {n} Tensors") };
            return Err(Error::type_(format!("{name}(): argument 'out' must be {want}")));
        }
    }
    Ok(outs)
}
