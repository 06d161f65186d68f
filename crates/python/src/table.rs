//! Puts the op table and the hand-written names into the module and the class.

use crate::class::hand_written;
use crate::entry::{Action, Entry, function, install, method};
use crate::object::tensor_type;
use crate::overload::{Form, Overload};
use oneflow_core::{Faces, OpDef, ops};
use pyo3::ffi;
use pyo3::prelude::*;
use std::collections::HashMap;

/// The namespace of a function.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// `oneflow.name`, exported by `*`.
    Public,
    /// `oneflow._oneflow.name` only: for `nn.functional`.
    Nn,
    /// `oneflow._oneflow._C.name` only.
    Private,
    Method,
    Static,
}

/// Names of one form, in the order of the table, each with its overloads.
fn grouped(all: &[&'static OpDef], face: Faces, form: Form, place: Place, out: &mut Vec<(Place, Entry)>) {
    let mut order: Vec<&'static str> = Vec::new();
    let mut groups: HashMap<&'static str, Vec<&'static OpDef>> = HashMap::new();
    for op in all.iter().filter(|op| op.faces.0 & face.0 == face.0) {
        if form == Form::InplaceFunction && op.faces.0 & (Faces::FN.0 | Faces::NN.0) == 0 {
            continue;
        }
        groups.entry(op.sig.name).or_insert_with(|| {
            order.push(op.sig.name);
            Vec::new()
        });
        if let Some(g) = groups.get_mut(op.sig.name) {
            g.push(op);
        }
    }
    for name in order {
        let ops = groups.remove(name).unwrap_or_default();
        let overloads: Vec<Overload> = ops.iter().map(|op| Overload::new(op, form)).collect();
        let public = if form.is_inplace() { format!("{name}_") } else { name.to_owned() };
        let doc = documentation(&public, &overloads, form);
        out.push((place, Entry { name: public, doc, action: Action::Op { form, overloads } }));
    }
}

fn documentation(name: &str, overloads: &[Overload], form: Form) -> String {
    let words: Vec<&str> = overloads.iter().map(|o| o.op.doc).filter(|d| !d.is_empty()).collect();
    let body = if form.is_inplace() {
        format!("In-place form of `{}`.", name.trim_end_matches('_'))
    } else {
        words.join("\n\n")
    };
    match overloads {
        [one] => format!("{name}{}\n--\n\n{body}", one.python_signature(form)),
        // Several forms: no single signature to inspect, so they stand in the text.
        many => {
            let forms: Vec<String> =
                many.iter().map(|o| format!("{name}{}", o.python_signature(form).replace("$self", "self"))).collect();
            format!("{}\n\n{body}", forms.join("\n"))
        }
    }
}

/// Adds everything callable.
pub fn fill(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    let all = ops();
    let mut entries: Vec<(Place, Entry)> = Vec::new();
    grouped(&all, Faces::FN, Form::Function, Place::Public, &mut entries);
    grouped(&all, Faces::NN, Form::Function, Place::Nn, &mut entries);
    grouped(&all, Faces::PRIVATE, Form::Function, Place::Private, &mut entries);
    grouped(&all, Faces::METHOD, Form::Method, Place::Method, &mut entries);
    grouped(&all, Faces::INPLACE, Form::Inplace, Place::Method, &mut entries);
    grouped(&all, Faces::INPLACE, Form::InplaceFunction, Place::Public, &mut entries);
    let [methods, statics, functions] = hand_written();
    entries.extend(methods.into_iter().map(|e| (Place::Method, e)));
    entries.extend(statics.into_iter().map(|e| (Place::Static, e)));
    entries.extend(functions.into_iter().map(|e| (Place::Public, e)));
    let (places, entries): (Vec<Place>, Vec<Entry>) = entries.into_iter().unzip();
    let entries = install(entries);

    let private = PyModule::new(py, "oneflow._oneflow._C")?;
    let nn = PyModule::new(py, "oneflow._oneflow._C._nn")?;
    let class = tensor_type();
    // SAFETY: the class lives for ever.
    let class_object = unsafe { Bound::from_borrowed_ptr(py, class.cast::<ffi::PyObject>()) };
    for (i, (place, e)) in places.iter().zip(entries).enumerate() {
        match place {
            Place::Public => m.add(e.name.as_str(), function(m, i, e)?)?,
            Place::Nn => {
                let f = function(m, i, e)?;
                nn.setattr(e.name.as_str(), &f)?;
                m.setattr(e.name.as_str(), f)?;
            }
            Place::Private => private.setattr(e.name.as_str(), function(&private, i, e)?)?,
            // SAFETY: the class is a type object.
            Place::Method => class_object.setattr(e.name.as_str(), unsafe { method(py, class, i, e)? })?,
            Place::Static => {
                let f = function(m, i, e)?;
                let builtins = py.import("builtins")?;
                class_object.setattr(e.name.as_str(), builtins.getattr("staticmethod")?.call1((f,))?)?;
            }
        }
    }
    crate::overrides::add(&private)?;
    crate::autograd::add_private(&private)?;
    crate::sparse::add(&private)?;
    crate::classes::add_private(&private)?;
    private.setattr("_nn", nn)?;
    m.setattr("_C", private)
}
