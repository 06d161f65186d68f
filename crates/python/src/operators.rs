//! Python's operators, named after their ops, and the few ops that implement indexing and conversion.
//!
//! The one file of this crate that names ops.

use crate::call::call_binary;
use crate::entry::{Action, Entry, find};
use crate::gate::{checked, enter};
use crate::object::{is_tensor, self_tensor};
use crate::overload::Form;
use crate::overrides::{ask_slot, heard};
use oneflow_core::base::{Arg, Error, Result};
use oneflow_core::{Call, Dest, OpDef, Outs, Tensor, bit, dispatch, op_by_name};
use pyo3::Python;
use pyo3::ffi::{self, PyObject};
use pyo3::types::PyAnyMethods;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Python's operators on integers and their signs.
pub const SIGNS: [(&str, &str); 10] = [
    ("eq", "=="),
    ("ne", "!="),
    ("lt", "<"),
    ("le", "<="),
    ("gt", ">"),
    ("ge", ">="),
    ("mod", "%"),
    ("and", "&"),
    ("or", "|"),
    ("xor", "^"),
];

/// An op that this crate calls by name.
pub struct Named {
    name: &'static str,
    def: OnceLock<Option<&'static OpDef>>,
}

impl Named {
    const fn new(name: &'static str) -> Named {
        Named { name, def: OnceLock::new() }
    }

    pub fn def(&self) -> Result<&'static OpDef> {
        self.def
            .get_or_init(|| op_by_name(self.name))
            .ok_or_else(|| Error::not_implemented(format!("{}() is not implemented", self.name)))
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether the op table has it.
    pub fn exists(&self) -> bool {
        self.def().is_ok()
    }

    /// Calls the op; one result.
    pub fn one(&self, py: Python<'_>, ins: &[Option<&Tensor>], args: &[Arg<'_>]) -> Result<Tensor> {
        let mut outs = Outs::new();
        crate::call::run(py, &Call::new(self.def()?, ins, args), &mut outs)?;
        outs.into_tensors().pop().ok_or_else(|| Error::runtime(format!("{}(): gave no result", self.name)))
    }

    /// Calls the op; all results.
    pub fn all(&self, py: Python<'_>, ins: &[Option<&Tensor>], args: &[Arg<'_>]) -> Result<Outs> {
        let mut outs = Outs::new();
        crate::call::run(py, &Call::new(self.def()?, ins, args), &mut outs)?;
        Ok(outs)
    }

    /// Calls the op in place on its first input.
    pub fn inplace(&self, ins: &[Option<&Tensor>], args: &[Arg<'_>]) -> Result<()> {
        let Some(Some(dest)) = ins.first() else {
            return Err(Error::runtime(format!("{}_(): no input", self.name)));
        };
        let call = Call { op: self.def()?, ins, args, dest: Dest::Into(&[dest]) };
        if dest.has_key(bit::GLOBAL) {
            // Other ranks may be threads that need the interpreter.
            return crate::gate::attach(|py| crate::call::run(py, &call, &mut Outs::new()));
        }
        dispatch(&call, &mut Outs::new())
    }
}

// Indexing and conversion.
pub static AS_STRIDED: Named = Named::new("as_strided");
pub static SELECT: Named = Named::new("select");
pub static SLICE: Named = Named::new("slice");
pub static UNSQUEEZE: Named = Named::new("unsqueeze");
pub static EXPAND: Named = Named::new("expand");
pub static PERMUTE: Named = Named::new("permute");
pub static TRANSPOSE: Named = Named::new("transpose");
pub static UNBIND: Named = Named::new("unbind");
pub static NONZERO: Named = Named::new("nonzero");
pub static INDEX: Named = Named::new("index");
pub static INDEX_PUT: Named = Named::new("index_put");
pub static MASKED_FILL: Named = Named::new("masked_fill");
pub static VIEW: Named = Named::new("view");
pub static COPY: Named = Named::new("copy");
pub static FILL: Named = Named::new("fill");
pub static TO_COPY: Named = Named::new("to_copy");
pub static CLONE: Named = Named::new("clone");
pub static TO_GLOBAL: Named = Named::new("to_global");

/// An operator slot.
struct Operator {
    name: &'static str,
    /// In-place form: `x += y`.
    inplace: bool,
    /// `2 + x` is `x + 2`.
    commutes: bool,
    /// The op that `2 - x` is, where it has its own.
    reflected: &'static str,
    /// The methods that classes and modes hear of, of `x op 2` and of `2 op x`, where they are not named as the op.
    methods: [&'static str; 2],
    entry: OnceLock<Option<&'static Entry>>,
    reflected_entry: OnceLock<Option<&'static Entry>>,
}

impl Operator {
    /// `methods`: see the field.
    const fn new(name: &'static str, methods: [&'static str; 2]) -> Operator {
        Self::make(name, "", methods, false, false)
    }
    const fn commuting(name: &'static str, method: &'static str) -> Operator {
        Self::make(name, "", [method, ""], true, false)
    }
    const fn inplace(name: &'static str, method: &'static str) -> Operator {
        Self::make(name, "", [method, ""], false, true)
    }
    const fn reflected(name: &'static str, reflected: &'static str, methods: [&'static str; 2]) -> Operator {
        Self::make(name, reflected, methods, false, false)
    }
    const fn make(
        name: &'static str,
        reflected: &'static str,
        methods: [&'static str; 2],
        commutes: bool,
        inplace: bool,
    ) -> Operator {
        Operator {
            name,
            inplace,
            commutes,
            reflected,
            methods,
            entry: OnceLock::new(),
            reflected_entry: OnceLock::new(),
        }
    }

    fn entry(&self) -> Option<&'static Entry> {
        *self.entry.get_or_init(|| {
            if self.inplace {
                return find(self.name, Form::Inplace);
            }
            find(self.name, Form::Function).or_else(|| find(self.name, Form::Method))
        })
    }

    fn reflected_entry(&self) -> Option<&'static Entry> {
        *self.reflected_entry.get_or_init(|| find(self.reflected, Form::Function))
    }
}

fn not_implemented() -> *mut PyObject {
    // SAFETY: an immortal object; the interpreter is held by whoever calls a slot.
    unsafe {
        ffi::Py_INCREF(ffi::Py_NotImplemented());
        ffi::Py_NotImplemented()
    }
}

/// # Safety
/// Live objects, one of them a tensor.
#[inline]
unsafe fn binary(op: &Operator, a: *mut PyObject, b: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: the operands of a slot call.
        unsafe {
            let (mut entry, mut x, mut y, mut methods) = (op.entry(), a, b, op.methods);
            if !is_tensor(a) {
                if op.commutes {
                    (x, y, methods) = (b, a, ["", ""]);
                } else if let Some(e) = op.reflected_entry() {
                    (entry, x, y, methods) = (Some(e), b, a, [op.methods[1], ""]);
                }
            }
            match entry.map(|e| &e.action) {
                Some(Action::Op { form, overloads }) => {
                    Ok(call_binary(py, overloads, *form, methods, x, y)?.unwrap_or_else(not_implemented))
                }
                _ => Ok(not_implemented()),
            }
        }
    })
}

/// # Safety
/// A tensor object.
#[inline]
unsafe fn unary(op: &Operator, a: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| match op.entry().map(|e| &e.action) {
        Some(Action::Op { form, overloads }) => {
            let (slf, n) = if form.is_method() { (a, 0) } else { (null_mut(), 1) };
            let given = crate::parse::Given { args: &a, n, names: null_mut() };
            // SAFETY: the operand of a slot call.
            unsafe { crate::call::call_op(py, overloads, *form, slf, given) }
        }
        _ => Err(Error::not_implemented(format!("{}() is not implemented", op.name))),
    })
}

macro_rules! binary_slots {
    ($($f:ident = $op:expr;)*) => {$(
        unsafe extern "C" fn $f(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject {
            static OP: Operator = $op;
            // SAFETY: the operands of a slot call.
            unsafe { binary(&OP, a, b) }
        }
    )*};
}

macro_rules! unary_slots {
    ($($f:ident = $name:literal;)*) => {$(
        unsafe extern "C" fn $f(a: *mut PyObject) -> *mut PyObject {
            static OP: Operator = Operator::new($name, ["", ""]);
            // SAFETY: the operand of a slot call.
            unsafe { unary(&OP, a) }
        }
    )*};
}

binary_slots! {
    add = Operator::commuting("add", "");
    sub = Operator::reflected("sub", "rsub", ["", "__rsub__"]);
    mul = Operator::commuting("mul", "");
    div = Operator::new("div", ["", "__rdiv__"]);
    floor_divide = Operator::new("floor_divide", ["__floordiv__", "__rfloordiv__"]);
    remainder = Operator::new("remainder", ["", "__rmod__"]);
    matmul = Operator::new("matmul", ["", "__rmatmul__"]);
    and = Operator::commuting("bitwise_and", "__and__");
    or = Operator::commuting("bitwise_or", "__or__");
    xor = Operator::commuting("bitwise_xor", "__xor__");
    lshift = Operator::new("bitwise_left_shift", ["__lshift__", "__rlshift__"]);
    rshift = Operator::new("bitwise_right_shift", ["__rshift__", "__rrshift__"]);
    power = Operator::new("pow", ["", "__rpow__"]);
    iadd = Operator::inplace("add_", "");
    isub = Operator::inplace("sub_", "");
    imul = Operator::inplace("mul_", "");
    idiv = Operator::inplace("div_", "");
    ifloor_divide = Operator::inplace("floor_divide_", "");
    iremainder = Operator::inplace("remainder_", "");
    iand = Operator::inplace("bitwise_and_", "__iand__");
    ior = Operator::inplace("bitwise_or_", "__ior__");
    ixor = Operator::inplace("bitwise_xor_", "__ixor__");
    ilshift = Operator::inplace("bitwise_left_shift_", "__ilshift__");
    irshift = Operator::inplace("bitwise_right_shift_", "__irshift__");
    ipower = Operator::inplace("pow_", "");
}

unary_slots! {
    negative = "neg";
    absolute = "abs";
}

unsafe extern "C" fn invert(a: *mut PyObject) -> *mut PyObject {
    static OP: Operator = Operator::new("bitwise_not", ["", ""]);
    enter(null_mut(), |py| {
        // SAFETY: the operand of a slot call: a tensor object.
        let x = unsafe {
            if heard(a) {
                return ask_slot(py, "__invert__", a, &[], &[a]);
            }
            self_tensor(a)?
        };
        match x.dtype().is_differentiable() {
            true => Err(Error::type_(format!(
                "~ (operator.invert) is only implemented on integer and Boolean-type tensors, got {} {:?}",
                x.dtype(),
                x.sizes()
            ))),
            // SAFETY: the same operand.
            false => Ok(unsafe { unary(&OP, a) }),
        }
    })
}

unsafe extern "C" fn positive(a: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: a new reference to the operand: `+x` is `x`.
        unsafe {
            if heard(a) {
                return ask_slot(py, "positive", a, &[], &[a]);
            }
            ffi::Py_INCREF(a);
            Ok(a)
        }
    })
}

unsafe extern "C" fn pow3(a: *mut PyObject, b: *mut PyObject, _modulo: *mut PyObject) -> *mut PyObject {
    // SAFETY: the operands of a slot call.
    unsafe { power(a, b) }
}

unsafe extern "C" fn ipow3(a: *mut PyObject, b: *mut PyObject, _modulo: *mut PyObject) -> *mut PyObject {
    // SAFETY: the operands of a slot call.
    unsafe { ipower(a, b) }
}

/// A comparison. NumPy would compare element by element through objects, so an array is read as a tensor.
///
/// # Safety
/// The operands of a slot call.
unsafe fn compare_by(op: &Operator, a: *mut PyObject, b: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: the operands of a slot call.
        let other = unsafe { pyo3::Bound::from_borrowed_ptr(py, b) };
        // SAFETY: as above.
        let plain = unsafe { is_tensor(b) };
        if plain || !crate::numpy::is_array(&other) {
            // SAFETY: as above.
            return Ok(unsafe { binary(op, a, b) });
        }
        let array = crate::object::wrap(py, crate::numpy::readable(&other)?)?;
        // SAFETY: `array` is a reference of our own.
        unsafe {
            let result = binary(op, a, array);
            ffi::Py_DECREF(array);
            Ok(result)
        }
    })
}

unsafe extern "C" fn compare(a: *mut PyObject, b: *mut PyObject, how: c_int) -> *mut PyObject {
    static OPS: [Operator; 6] = [
        Operator::new("lt", ["", ""]),
        Operator::new("le", ["", ""]),
        Operator::new("eq", ["__eq__", ""]),
        Operator::new("ne", ["", ""]),
        Operator::new("gt", ["", ""]),
        Operator::new("ge", ["", ""]),
    ];
    match OPS.get(how as usize) {
        // SAFETY: the operands of a slot call.
        Some(op) => unsafe { compare_by(op, a, b) },
        None => not_implemented(),
    }
}

unsafe extern "C" fn contains(slf: *mut PyObject, item: *mut PyObject) -> c_int {
    enter(-1, |py| {
        // SAFETY: a slot call; what the class answers is ours.
        unsafe {
            if heard(slf) {
                return crate::index::answered_truth(ask_slot(py, "__contains__", slf, &[item], &[slf])?);
            }
            if !is_tensor(item) && crate::value::scalar(py, item)?.is_none() {
                return Err(Error::runtime(format!(
                    "Tensor.__contains__ only supports Tensor or scalar, but you passed in a {}.",
                    pyo3::Bound::from_borrowed_ptr(py, item).get_type()
                )));
            }
            let equal = checked(compare(slf, item, ffi::Py_EQ))?;
            let any = ffi::PyObject_CallMethodObjArgs(equal, interned_any(), null_mut::<PyObject>());
            ffi::Py_DECREF(equal);
            let any = checked(any)?;
            let r = ffi::PyObject_IsTrue(any);
            ffi::Py_DECREF(any);
            if r < 0 { Err(crate::gate::pending_set()) } else { Ok(r) }
        }
    })
}

fn interned_any() -> *mut PyObject {
    static NAME: OnceLock<usize> = OnceLock::new();
    // SAFETY: the interpreter is held; the name is kept for ever.
    *NAME.get_or_init(|| unsafe { ffi::PyUnicode_InternFromString(c"any".as_ptr()) as usize }) as *mut PyObject
}

/// The operator slots of the class.
pub fn slots() -> Vec<ffi::PyType_Slot> {
    let s = |slot: c_int, f: *mut c_void| ffi::PyType_Slot { slot, pfunc: f };
    vec![
        s(ffi::Py_nb_add, add as *mut c_void),
        s(ffi::Py_nb_subtract, sub as *mut c_void),
        s(ffi::Py_nb_multiply, mul as *mut c_void),
        s(ffi::Py_nb_true_divide, div as *mut c_void),
        s(ffi::Py_nb_floor_divide, floor_divide as *mut c_void),
        s(ffi::Py_nb_remainder, remainder as *mut c_void),
        s(ffi::Py_nb_matrix_multiply, matmul as *mut c_void),
        s(ffi::Py_nb_and, and as *mut c_void),
        s(ffi::Py_nb_or, or as *mut c_void),
        s(ffi::Py_nb_xor, xor as *mut c_void),
        s(ffi::Py_nb_lshift, lshift as *mut c_void),
        s(ffi::Py_nb_rshift, rshift as *mut c_void),
        s(ffi::Py_nb_power, pow3 as *mut c_void),
        s(ffi::Py_nb_inplace_add, iadd as *mut c_void),
        s(ffi::Py_nb_inplace_subtract, isub as *mut c_void),
        s(ffi::Py_nb_inplace_multiply, imul as *mut c_void),
        s(ffi::Py_nb_inplace_true_divide, idiv as *mut c_void),
        s(ffi::Py_nb_inplace_floor_divide, ifloor_divide as *mut c_void),
        s(ffi::Py_nb_inplace_remainder, iremainder as *mut c_void),
        s(ffi::Py_nb_inplace_and, iand as *mut c_void),
        s(ffi::Py_nb_inplace_or, ior as *mut c_void),
        s(ffi::Py_nb_inplace_xor, ixor as *mut c_void),
        s(ffi::Py_nb_inplace_lshift, ilshift as *mut c_void),
        s(ffi::Py_nb_inplace_rshift, irshift as *mut c_void),
        s(ffi::Py_nb_inplace_power, ipow3 as *mut c_void),
        s(ffi::Py_nb_negative, negative as *mut c_void),
        s(ffi::Py_nb_positive, positive as *mut c_void),
        s(ffi::Py_nb_absolute, absolute as *mut c_void),
        s(ffi::Py_nb_invert, invert as *mut c_void),
        s(ffi::Py_tp_richcompare, compare as *mut c_void),
        s(ffi::Py_sq_contains, contains as *mut c_void),
    ]
}
