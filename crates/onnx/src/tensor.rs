//! The elements of a tensor, from whichever field holds them, as little-endian bytes.

use crate::Folder;
use crate::proto::TensorProto;
use oneflow_base::{Error, Result};
use prost::bytes::Bytes;

/// A tensor's elements. Those of less than a byte take a byte each: two's complement for signed ones, the code for float4.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    Bytes(Bytes),
    Strings(Vec<Bytes>),
}

const STRING: i32 = 8;

/// Bits of one element of an ONNX type, or None for a type that is unknown or has no fixed size.
pub fn element_bits(elem: i32) -> Option<usize> {
    Some(match elem {
        2 | 3 | 9 | 17..=20 | 24 => 8,
        4 | 5 | 10 | 16 => 16,
        1 | 6 | 12 => 32,
        7 | 11 | 13 | 14 => 64,
        15 => 128,
        21..=23 => 4,
        25 | 26 => 2,
        _ => return None,
    })
}

pub fn element_name(elem: i32) -> &'static str {
    const NAMES: [&str; 29] = [
        "undefined",
        "float",
        "uint8",
        "int8",
        "uint16",
        "int16",
        "int32",
        "int64",
        "string",
        "bool",
        "float16",
        "double",
        "uint32",
        "uint64",
        "complex64",
        "complex128",
        "bfloat16",
        "float8e4m3fn",
        "float8e4m3fnuz",
        "float8e5m2",
        "float8e5m2fnuz",
        "uint4",
        "int4",
        "float4e2m1",
        "float8e8m0",
        "uint2",
        "int2",
        "float6e2m3",
        "float6e3m2",
    ];
    usize::try_from(elem).ok().and_then(|i| NAMES.get(i).copied()).unwrap_or("unknown")
}

fn error(t: &TensorProto, what: &str) -> Error {
    let elem = t.data_type.unwrap_or(0);
    let (name, kind) = (t.name.as_deref().unwrap_or(""), element_name(elem));
    Error::value(format!("ONNX: the tensor {name:?} of {kind} with sizes {:?}: {what}", t.dims))
}

/// The number of elements.
fn numel(t: &TensorProto) -> Result<usize> {
    let mut n = 1usize;
    for &d in &t.dims {
        let d = usize::try_from(d).map_err(|_| error(t, "a size is negative"))?;
        n = n.checked_mul(d).filter(|n| *n <= isize::MAX as usize / 16).ok_or_else(|| error(t, "it is too large"))?;
    }
    Ok(n)
}

/// Reads a tensor's elements. `folder` is where files beside the model lie.
pub fn decode(t: &TensorProto, folder: Option<&Folder>) -> Result<Elements> {
    let (elem, n) = (t.data_type.unwrap_or(0), numel(t)?);
    if t.segment.is_some() {
        return Err(error(t, "tensors in segments are not provided"));
    }
    if elem == STRING {
        if t.string_data.len() != n {
            return Err(error(t, &format!("it has {} strings, {n} are expected", t.string_data.len())));
        }
        return Ok(Elements::Strings(t.string_data.clone()));
    }
    let Some(bits) = element_bits(elem) else {
        return Err(error(t, &format!("element type {elem} is not provided")));
    };
    let packed = (n * bits).div_ceil(8);
    let raw = if t.data_location == Some(1) {
        let Some(folder) = folder else {
            return Err(error(t, "it lies in another file, and this model has no folder: load it by its path"));
        };
        Some(Bytes::from(folder.read(t, packed)?))
    } else {
        t.raw_data.clone()
    };
    let Some(raw) = raw else {
        return typed(t, elem, n, bits);
    };
    if raw.len() != packed {
        return Err(error(t, &format!("it has {} bytes, {packed} are expected", raw.len())));
    }
    Ok(Elements::Bytes(if bits < 8 { unpacked(&raw, elem, bits, n) } else { raw }))
}

/// One byte for each element; the first one lies in the lowest bits.
fn unpacked(packed: &[u8], elem: i32, bits: usize, n: usize) -> Bytes {
    let (per, signed) = (8 / bits, matches!(elem, 22 | 26));
    let one = |i: usize| {
        let code = packed[i / per] >> (i % per * bits) & ((1u8 << bits) - 1);
        if signed && code >> (bits - 1) == 1 { code | (0xffu8 << bits) } else { code }
    };
    (0..n).map(one).collect::<Vec<u8>>().into()
}

/// Elements in the fields of numbers, each of which serves several types.
fn typed(t: &TensorProto, elem: i32, n: usize, bits: usize) -> Result<Elements> {
    let count = |have: usize, want: usize| {
        if have == want { Ok(()) } else { Err(error(t, &format!("it has {have} numbers, {want} are expected"))) }
    };
    let data: Vec<u8> = match elem {
        1 | 14 => {
            count(t.float_data.len(), n * bits / 32)?;
            t.float_data.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        11 | 15 => {
            count(t.double_data.len(), n * bits / 64)?;
            t.double_data.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        7 => {
            count(t.int64_data.len(), n)?;
            t.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        12 | 13 => {
            count(t.uint64_data.len(), n)?;
            t.uint64_data.iter().flat_map(|v| v.to_le_bytes()[..bits / 8].to_vec()).collect()
        }
        _ if bits < 8 => {
            // Each number holds the bits of a packed byte.
            count(t.int32_data.len(), (n * bits).div_ceil(8))?;
            let packed: Vec<u8> = t.int32_data.iter().map(|v| *v as u8).collect();
            return Ok(Elements::Bytes(unpacked(&packed, elem, bits, n)));
        }
        _ => {
            count(t.int32_data.len(), n)?;
            t.int32_data.iter().flat_map(|v| v.to_le_bytes()[..bits / 8].to_vec()).collect()
        }
    };
    Ok(Elements::Bytes(data.into()))
}
