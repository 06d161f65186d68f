//! Counts the messages of a file before it is parsed, so that a small file cannot become a large tree.

use oneflow_base::{Error, Result};

/// The most messages of a file. A model of a hundred thousand nodes has about a million.
const MAX_MESSAGES: usize = 4 << 20;
/// The deepest nesting. A graph inside a node's attribute takes three levels.
const MAX_DEPTH: usize = 96;

/// Of each kind of message the fields that are messages: (number, kind).
const NESTED: &[&[(u64, usize)]] = &[
    // ModelProto
    &[(7, 3), (8, 1), (14, 2), (25, 16)],
    // OperatorSetIdProto
    &[],
    // StringStringEntryProto
    &[],
    // GraphProto
    &[(1, 4), (5, 6), (11, 9), (12, 9), (13, 9), (15, 8), (16, 2)],
    // NodeProto
    &[(5, 5), (9, 2)],
    // AttributeProto
    &[(5, 6), (6, 3), (10, 6), (11, 3), (14, 10), (15, 10), (22, 8), (23, 8)],
    // TensorProto
    &[(3, 7), (13, 2)],
    // Segment
    &[],
    // SparseTensorProto
    &[(1, 6), (2, 6)],
    // ValueInfoProto
    &[(2, 10), (4, 2)],
    // TypeProto
    &[(1, 11), (4, 12), (5, 13), (8, 11), (9, 12)],
    // TensorType
    &[(2, 14)],
    // ElementType
    &[(1, 10)],
    // MapType
    &[(2, 10)],
    // TensorShapeProto
    &[(1, 15)],
    // Dimension
    &[],
    // FunctionProto
    &[(7, 4), (9, 1), (11, 5), (12, 9), (14, 2)],
];

/// Walks a model's bytes and returns how many messages it has.
pub fn check(bytes: &[u8]) -> Result<usize> {
    let mut n = 0;
    walk(bytes, 0, 0, &mut n)?;
    Ok(n)
}

fn walk(mut bytes: &[u8], kind: usize, depth: usize, n: &mut usize) -> Result<()> {
    *n += 1;
    if *n > MAX_MESSAGES {
        return Err(Error::value(format!("ONNX: the file has more than {MAX_MESSAGES} messages")));
    }
    if depth > MAX_DEPTH {
        return Err(Error::value(format!("ONNX: the file is nested deeper than {MAX_DEPTH} levels")));
    }
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        match key & 7 {
            0 => drop(varint(&mut bytes)?),
            1 => drop(take(&mut bytes, 8)?),
            5 => drop(take(&mut bytes, 4)?),
            2 => {
                let len = varint(&mut bytes)?;
                let part = take(&mut bytes, len)?;
                if let Some((_, inner)) = NESTED[kind].iter().find(|(number, _)| *number == key >> 3) {
                    walk(part, *inner, depth + 1, n)?;
                }
            }
            wire => return Err(Error::value(format!("ONNX: the file is damaged: wire type {wire} is unknown"))),
        }
    }
    Ok(())
}

fn take<'a>(bytes: &mut &'a [u8], n: u64) -> Result<&'a [u8]> {
    let n = usize::try_from(n).ok().filter(|n| *n <= bytes.len());
    let n =
        n.ok_or_else(|| Error::value("ONNX: the file ends inside a field: it is truncated or damaged".to_owned()))?;
    let (head, tail) = bytes.split_at(n);
    *bytes = tail;
    Ok(head)
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0u64;
    for i in 0..10 {
        let byte = take(bytes, 1)?[0];
        // The tenth byte has one bit left.
        if i == 9 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 127) << (7 * i);
        if byte < 128 {
            return Ok(value);
        }
    }
    Err(Error::value("ONNX: the file is damaged: a number is longer than 64 bits".to_owned()))
}
