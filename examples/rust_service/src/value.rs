//! Numbers as JSON, as rows and as tensors.

use oneflow_base::{DType, Device, Error, Meta, Result};
use oneflow_core::Tensor;
use serde_json::{Value, json};

/// One row of an input or output: numbers row-major.
#[derive(Clone, Debug)]
pub enum Row {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

impl Row {
    /// Reads a (nested) list of numbers.
    pub fn parse(value: &Value, dtype: DType) -> Result<Row> {
        let mut numbers = Vec::new();
        leaves(value, &mut numbers);
        let wrong = || Error::value(format!("expected numbers of {dtype}"));
        match dtype {
            DType::F32 => numbers
                .iter()
                .map(|x| x.as_f64().map(|x| x as f32).ok_or_else(wrong))
                .collect::<Result<_>>()
                .map(Row::F32),
            DType::I64 => numbers.iter().map(|x| x.as_i64().ok_or_else(wrong)).collect::<Result<_>>().map(Row::I64),
            d => Err(unsupported(d)),
        }
    }

    pub fn to_json(&self) -> Value {
        match self {
            Row::F32(v) => json!(v),
            Row::I64(v) => json!(v),
        }
    }

    pub fn check(&self, want: &Meta) -> Result<()> {
        let (n, dtype) = match self {
            Row::F32(v) => (v.len(), DType::F32),
            Row::I64(v) => (v.len(), DType::I64),
        };
        if n as i64 == want.numel() && dtype == want.dtype {
            return Ok(());
        }
        let (count, sizes) = (want.numel(), want.sizes.as_slice());
        Err(Error::value(format!("expected {count} numbers of {} (shape {sizes:?}), got {n} of {dtype}", want.dtype)))
    }
}

fn unsupported(d: DType) -> Error {
    Error::not_implemented(format!("this service takes and gives float32 and int64, the program has {d}"))
}

fn leaves<'a>(value: &'a Value, out: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|v| leaves(v, out)),
        v => out.push(v),
    }
}

/// A tensor of these rows, and zeros after them.
pub fn tensor_of<'a>(dtype: DType, sizes: &[i64], rows: impl Iterator<Item = &'a Row>) -> Result<Tensor> {
    let n = sizes.iter().product::<i64>() as usize;
    match dtype {
        DType::F32 => {
            let mut all: Vec<f32> = Vec::with_capacity(n);
            rows.for_each(|r| {
                if let Row::F32(v) = r {
                    all.extend_from_slice(v)
                }
            });
            all.resize(n, 0.0);
            // SAFETY: f32 is the Rust type of F32.
            unsafe { Tensor::from_host(&all, dtype, sizes) }
        }
        DType::I64 => {
            let mut all: Vec<i64> = Vec::with_capacity(n);
            rows.for_each(|r| {
                if let Row::I64(v) = r {
                    all.extend_from_slice(v)
                }
            });
            all.resize(n, 0);
            // SAFETY: i64 is the Rust type of I64.
            unsafe { Tensor::from_host(&all, dtype, sizes) }
        }
        d => Err(unsupported(d)),
    }
}

/// Row `i` of a contiguous host tensor.
pub fn row_of(t: &Tensor, i: usize) -> Result<Row> {
    let n = t.sizes()[1..].iter().product::<i64>() as usize;
    debug_assert!(t.is_contiguous() && t.device() == Device::CPU);
    match t.dtype() {
        DType::F32 => {
            // SAFETY: a contiguous host tensor holds `n` elements of its dtype in every row.
            let row = unsafe { std::slice::from_raw_parts(t.data_ptr().cast::<f32>().add(i * n), n) };
            Ok(Row::F32(row.to_vec()))
        }
        DType::I64 => {
            // SAFETY: as above.
            let row = unsafe { std::slice::from_raw_parts(t.data_ptr().cast::<i64>().add(i * n), n) };
            Ok(Row::I64(row.to_vec()))
        }
        d => Err(unsupported(d)),
    }
}
