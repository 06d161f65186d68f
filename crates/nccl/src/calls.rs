//! The library's calls for each request. What only moves is moved as bytes, so every dtype can be; pieces of unequal size go by
//! broadcasts, reductions or messages that the library runs as one.

use oneflow_base::{DType, Error, Result};
use oneflow_comm::{ANY_RANK, Kind, ReduceOp, Request};
use oneflow_ep::cuda::nccl::{Call, Op, Type};

/// Where this rank stands among those of the communicator.
#[derive(Clone, Copy)]
pub struct Place {
    pub rank: usize,
    pub size: usize,
}

/// The calls of a checked request. `scratch` is a byte of the device for barriers.
pub fn of(request: &Request, place: Place, scratch: *mut u8) -> Result<Vec<Call>> {
    let kind = request.kind();
    let mut calls = Vec::new();
    match request {
        Request::AllReduce { data, dtype, op } => {
            let Unit { of, op, bytes } = unit(kind, *dtype, *op)?;
            calls.push(Call::AllReduce { from: data.ptr, to: data.ptr, count: data.len / bytes, of, op });
        }
        Request::Reduce { data, dtype, op, root } => {
            let Unit { of, op, bytes } = unit(kind, *dtype, *op)?;
            calls.push(Call::Reduce { from: data.ptr, to: data.ptr, count: data.len / bytes, of, op, root: *root });
        }
        Request::Broadcast { data, root, .. } => {
            calls.push(Call::Broadcast { from: data.ptr, to: data.ptr, count: data.len, of: Type::U8, root: *root });
        }
        Request::AllGather { output, input, counts, .. } if even(counts) => {
            calls.push(Call::AllGather { from: input.ptr, to: output.ptr, count: input.len, of: Type::U8 });
        }
        Request::AllGather { output, input, counts, dtype } => {
            for (root, (at, count)) in pieces(counts, dtype.size()).enumerate() {
                let to = output.ptr.wrapping_add(at);
                let from = if root == place.rank { input.ptr } else { to };
                calls.push(Call::Broadcast { from, to, count, of: Type::U8, root });
            }
        }
        Request::ReduceScatter { output, input, counts, dtype, op } => {
            let Unit { of, op, bytes } = unit(kind, *dtype, *op)?;
            if even(counts) {
                let count = output.len / bytes;
                calls.push(Call::ReduceScatter { from: input.ptr, to: output.ptr, count, of, op });
            } else {
                for (root, (at, len)) in pieces(counts, dtype.size()).enumerate() {
                    let from = input.ptr.wrapping_add(at);
                    // Only the root's destination is written.
                    let to = if root == place.rank { output.ptr } else { from };
                    calls.push(Call::Reduce { from, to, count: len / bytes, of, op, root });
                }
            }
        }
        Request::AllToAll { output, recv_counts, input, send_counts, dtype } => {
            for (peer, (at, count)) in pieces(send_counts, dtype.size()).enumerate() {
                calls.push(Call::Send { from: input.ptr.wrapping_add(at), count, of: Type::U8, peer });
            }
            for (peer, (at, count)) in pieces(recv_counts, dtype.size()).enumerate() {
                calls.push(Call::Recv { to: output.ptr.wrapping_add(at), count, of: Type::U8, peer });
            }
        }
        Request::Gather { output, input, root, .. } => {
            calls.push(Call::Send { from: input.ptr, count: input.len, of: Type::U8, peer: *root });
            for peer in (0..place.size).filter(|_| place.rank == *root) {
                let to = output.ptr.wrapping_add(peer * input.len);
                calls.push(Call::Recv { to, count: input.len, of: Type::U8, peer });
            }
        }
        Request::Scatter { output, input, root, .. } => {
            for peer in (0..place.size).filter(|_| place.rank == *root) {
                let from = input.ptr.wrapping_add(peer * output.len);
                calls.push(Call::Send { from, count: output.len, of: Type::U8, peer });
            }
            calls.push(Call::Recv { to: output.ptr, count: output.len, of: Type::U8, peer: *root });
        }
        Request::Barrier => {
            calls.push(Call::AllReduce { from: scratch, to: scratch, count: 1, of: Type::U8, op: Op::Max });
        }
        Request::Send { tag, .. } | Request::Recv { tag, .. } if *tag != 0 => {
            return Err(Error::not_implemented(format!(
                "{kind}: messages between GPUs have no tags (got {tag}): they arrive in the order in which they are sent"
            )));
        }
        Request::Send { data, dst, .. } => {
            calls.push(Call::Send { from: data.ptr, count: data.len, of: Type::U8, peer: *dst });
        }
        Request::Recv { src: ANY_RANK, .. } => {
            return Err(Error::not_implemented(format!("{kind}: a message to a GPU needs a source; name its rank")));
        }
        Request::Recv { data, src, .. } => {
            calls.push(Call::Recv { to: data.ptr, count: data.len, of: Type::U8, peer: *src });
        }
    }
    // Both sides know the sizes, so both leave out what is empty.
    calls.retain(|call| !is_empty(call));
    Ok(calls)
}

fn is_empty(call: &Call) -> bool {
    let (Call::AllReduce { count, .. }
    | Call::Broadcast { count, .. }
    | Call::Reduce { count, .. }
    | Call::AllGather { count, .. }
    | Call::ReduceScatter { count, .. }
    | Call::Send { count, .. }
    | Call::Recv { count, .. }) = call;
    *count == 0
}

fn even(counts: &[usize]) -> bool {
    counts.iter().all(|count| *count == counts[0])
}

/// Offset and length of each rank's piece, in bytes.
fn pieces(counts: &[usize], width: usize) -> impl Iterator<Item = (usize, usize)> {
    counts.iter().scan(0, move |at, count| {
        let (start, len) = (*at, count * width);
        *at += len;
        Some((start, len))
    })
}

/// What the library reduces in place of elements of a dtype.
struct Unit {
    of: Type,
    op: Op,
    bytes: usize,
}

/// A truth value is a byte of 0 or 1, and a complex number two real ones, of which sums are those of the parts.
fn unit(kind: Kind, dtype: DType, op: ReduceOp) -> Result<Unit> {
    let none =
        || Err(Error::not_implemented(format!("{kind}: NCCL has no reduce op {op} for {dtype} (of tensors on a GPU)")));
    let of = match dtype {
        DType::F32 | DType::C64 => Type::F32,
        DType::F64 | DType::C128 => Type::F64,
        DType::F16 => Type::F16,
        DType::BF16 => Type::BF16,
        DType::I8 => Type::I8,
        DType::U8 | DType::Bool => Type::U8,
        DType::I32 => Type::I32,
        DType::I64 => Type::I64,
        _ => return none(),
    };
    let bytes = if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() };
    let op = match op {
        ReduceOp::Sum | ReduceOp::BitOr if dtype == DType::Bool => Op::Max,
        ReduceOp::Product | ReduceOp::BitAnd if dtype == DType::Bool => Op::Min,
        ReduceOp::Sum => Op::Sum,
        ReduceOp::Avg => Op::Avg,
        ReduceOp::Product => Op::Product,
        ReduceOp::Min => Op::Min,
        ReduceOp::Max => Op::Max,
        ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => return none(),
    };
    Ok(Unit { of, op, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use oneflow_comm::Span;

    fn span(at: usize, len: usize) -> Span {
        Span { ptr: at as *mut u8, len }
    }

    #[test]
    fn uneven_pieces_go_to_their_places() {
        let place = Place { rank: 1, size: 3 };
        let (output, input) = (span(0x1000, 24), span(0x2000, 8));
        let request = Request::AllGather { output, input, counts: vec![4, 2, 0], dtype: DType::F32 };
        let calls = of(&request, place, std::ptr::null_mut()).unwrap();
        let found: Vec<_> = calls
            .iter()
            .map(|call| match call {
                Call::Broadcast { from, to, count, root, .. } => (from.addr(), to.addr(), *count, *root),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(found, [(0x1000, 0x1000, 16, 0), (0x2000, 0x1010, 8, 1)]);
    }

    #[test]
    fn dtypes_are_reduced_as_numbers_of_the_library() {
        let reduced = |dtype: DType, op| {
            let request = Request::AllReduce { data: span(0x1000, 16), dtype, op };
            of(&request, Place { rank: 0, size: 2 }, std::ptr::null_mut()).map(|calls| match calls[..] {
                [Call::AllReduce { count, of, op, .. }] => (count, of, op),
                _ => panic!("{calls:?}"),
            })
        };
        assert_eq!(reduced(DType::C64, ReduceOp::Sum).unwrap(), (4, Type::F32, Op::Sum));
        assert_eq!(reduced(DType::Bool, ReduceOp::Sum).unwrap(), (16, Type::U8, Op::Max));
        assert_eq!(reduced(DType::BF16, ReduceOp::Avg).unwrap(), (8, Type::BF16, Op::Avg));
        let error = reduced(DType::I16, ReduceOp::Sum).unwrap_err();
        assert!(error.text().contains("no reduce op sum for int16"), "{error}");
        assert!(reduced(DType::I32, ReduceOp::BitXor).is_err() && reduced(DType::Bool, ReduceOp::BitXor).is_err());
    }

    #[test]
    fn messages_name_their_rank_and_have_no_tag() {
        let place = Place { rank: 0, size: 2 };
        for (src, tag, words) in [(ANY_RANK, 0, "needs a source"), (1, 7, "no tags (got 7)")] {
            let request = Request::Recv { data: span(0x1000, 4), dtype: DType::F32, src, tag };
            let error = of(&request, place, std::ptr::null_mut()).unwrap_err();
            assert!(error.text().contains(words), "{error}");
        }
    }
}
