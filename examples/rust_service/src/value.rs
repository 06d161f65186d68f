//! Numbers as JSON, as rows and as tensors.

use oneflow_runtime::{DType, Error, Meta, Number, Result, Tensor, numbers, tensor};
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

    /// Numbers as a flat list; what JSON has no number for (infinities, NaN) is null.
    pub fn to_json(&self) -> Value {
        match self {
            Row::F32(v) => json!(v),
            Row::I64(v) => json!(v),
        }
    }

    /// The numbers, if they are whole.
    pub fn integers(&self) -> &[i64] {
        match self {
            Row::I64(v) => v,
            Row::F32(_) => &[],
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
        DType::F32 => joined(n, sizes, rows.filter_map(|r| if let Row::F32(v) = r { Some(v) } else { None })),
        DType::I64 => joined(n, sizes, rows.filter_map(|r| if let Row::I64(v) = r { Some(v) } else { None })),
        d => Err(unsupported(d)),
    }
}

fn joined<'a, T: Number + 'a>(n: usize, sizes: &[i64], rows: impl Iterator<Item = &'a Vec<T>>) -> Result<Tensor> {
    let mut all: Vec<T> = Vec::with_capacity(n);
    rows.for_each(|row| all.extend_from_slice(row));
    all.resize(n, T::default());
    tensor(&all, sizes)
}

/// The first `count` rows of a tensor.
pub fn rows_of(t: &Tensor, count: usize) -> Result<Vec<Row>> {
    let n = t.sizes()[1..].iter().product::<i64>() as usize;
    fn parts<T: Number>(all: &[T], n: usize, count: usize, row: fn(Vec<T>) -> Row) -> Vec<Row> {
        (0..count).map(|i| row(all[i * n..(i + 1) * n].to_vec())).collect()
    }
    match t.dtype() {
        DType::F32 => Ok(parts(&numbers::<f32>(t)?, n, count, Row::F32)),
        DType::I64 => Ok(parts(&numbers::<i64>(t)?, n, count, Row::I64)),
        d => Err(unsupported(d)),
    }
}
