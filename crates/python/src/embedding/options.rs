//! What Python gives as numbers and names: initializers, admission, optimizers; and a store's configuration the other way.

use oneflow_core::base::{Error, Result};
use oneflow_embedding::{Admission, Config, Initializer, Rule};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;

/// How a table admits keys: by its number, with a count, a probability and the bytes of a filter.
pub fn admission((kind, at_least, probability, n_bytes): (u8, u32, f64, usize)) -> Result<Admission> {
    Ok(match kind {
        0 => Admission::Always,
        1 => Admission::Count { at_least },
        2 => Admission::CountingBloom { at_least: at_least.min(255) as u8, n_bytes },
        3 => Admission::Probability(probability),
        _ => return Err(Error::value(format!("one_embedding: there is no admission {kind}"))),
    })
}

/// An initializer by its number: constant, uniform, normal, normal within bounds.
pub fn initializer((kind, n): (u8, [f32; 4])) -> Result<Initializer> {
    Ok(match kind {
        0 => Initializer::Constant(n[0]),
        1 => Initializer::Uniform { low: n[0], high: n[1] },
        2 => Initializer::Normal { mean: n[0], std: n[1] },
        3 => Initializer::TruncNormal { mean: n[0], std: n[1], a: n[2], b: n[3] },
        _ => return Err(Error::value(format!("one_embedding: there is no initializer {kind}"))),
    })
}

/// An optimizer by its name, with its options; those that are not given are 0.
pub fn rule(name: &str, options: &HashMap<String, f64>) -> Result<Rule> {
    let number = |name: &str| options.get(name).copied().unwrap_or(0.0);
    let float = |name: &str| number(name) as f32;
    let flag = |name: &str| number(name) != 0.0;
    let weight_decay = float("weight_decay");
    Ok(match name {
        "sgd" => Rule::Sgd {
            momentum: float("momentum"),
            dampening: float("dampening"),
            nesterov: flag("nesterov"),
            weight_decay,
            maximize: flag("maximize"),
        },
        "adam" => Rule::Adam {
            betas: [number("beta1"), number("beta2")],
            eps: float("eps"),
            weight_decay,
            decoupled: flag("decoupled"),
            bias_correction: flag("bias_correction"),
            maximize: flag("maximize"),
        },
        "smart_decay_adam" => Rule::SmartDecayAdam {
            betas: [number("beta1"), number("beta2")],
            eps: float("eps"),
            weight_decay,
            bias_correction: flag("bias_correction"),
            maximize: flag("maximize"),
        },
        "adagrad" => {
            Rule::Adagrad { eps: float("eps"), weight_decay, initial: float("initial"), maximize: flag("maximize") }
        }
        "row_wise_adagrad" => Rule::RowWiseAdagrad { eps: float("eps"), weight_decay, initial: float("initial") },
        "ftrl" => Rule::Ftrl {
            lr_power: float("lr_power"),
            lambda1: float("lambda1"),
            lambda2: float("lambda2"),
            beta: float("beta"),
            weight_decay,
            initial: float("initial"),
        },
        _ => return Err(Error::not_implemented(format!("one_embedding: rows have no optimizer {name}"))),
    })
}

pub fn describe<'py>(py: Python<'py>, config: &Config) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("column_dims", &config.column_dims)?;
    d.set_item("state_width", config.state_width)?;
    d.set_item("n_tables", config.tables.len())?;
    d.set_item("seed", config.seed)?;
    Ok(d)
}
