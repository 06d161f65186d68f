//! The promises of every backend: one body, run by the ranks of any backend.

use oneflow_base::{DType, ErrorKind, Result, bf16};
use oneflow_comm::{Kind, ProcessGroup, ReduceOp};

pub fn bytes<T: Copy>(v: &[T]) -> Vec<u8> {
    // SAFETY: plain numbers without padding, read as bytes.
    unsafe { std::slice::from_raw_parts(v.as_ptr().cast(), size_of_val(v)) }.to_vec()
}

fn f32s(n: usize, f: impl Fn(usize) -> f32) -> Vec<u8> {
    bytes(&(0..n).map(f).collect::<Vec<_>>())
}

/// Values whose sum depends on the order of the ranks.
fn value(rank: usize, i: usize) -> f32 {
    ((i * 2_654_435_761 + rank * 40_503) % 1_000_003) as f32 * 1.7e-3 - 700.0
}

/// One operation with a root, where this rank names `root`.
pub fn with_root(group: &dyn ProcessGroup, kind: Kind, root: usize) -> Result<()> {
    let (n, at_root) = (group.size(), group.rank() == root);
    let (mut small, mut all) = (vec![1u8; 8], vec![2u8; 8 * n]);
    match kind {
        Kind::Broadcast => group.broadcast(&mut small, DType::U8, root),
        Kind::Reduce => group.reduce(&mut small, DType::U8, ReduceOp::Sum, root),
        Kind::Gather => group.gather(if at_root { &mut all } else { &mut [] }, &small, DType::U8, root),
        _ => group.scatter(&mut small, if at_root { &all } else { &[] }, DType::U8, root),
    }
}

/// The operations that have a root.
pub const ROOTED: [Kind; 4] = [Kind::Broadcast, Kind::Reduce, Kind::Gather, Kind::Scatter];

/// Roots that ranks may name by mistake.
pub const MIXED_ROOTS: [&[usize]; 5] = [&[0, 1], &[1, 0], &[0, 0, 1], &[2, 1, 1], &[1, 2, 0]];

/// Runs every operation with known results. `Ok` when all were right.
pub fn check_all(group: &dyn ProcessGroup) -> Result<()> {
    for count in [0, 1, 5, 1000, 40_000, 700_001] {
        check_reductions(group, count)?;
        check_moves(group, count)?;
    }
    check_uneven(group)?;
    check_point_to_point(group)?;
    check_bytes(group)?;
    check_groups(group)?;
    check_async(group)?;
    check_arguments(group);
    group.barrier()
}

fn check_reductions(group: &dyn ProcessGroup, count: usize) -> Result<()> {
    let (n, rank) = (group.size(), group.rank());
    let sum = |i: usize| (1..n).fold(value(0, i), |acc, r| acc + value(r, i));
    let mine = f32s(count, |i| value(rank, i));

    let mut data = mine.clone();
    group.all_reduce(&mut data, DType::F32, ReduceOp::Sum)?;
    assert!(data == f32s(count, sum), "all_reduce sum of {count}: not in rank order");
    let mut data = mine.clone();
    group.all_reduce(&mut data, DType::F32, ReduceOp::Avg)?;
    assert!(data == f32s(count, |i| sum(i) / n as f32), "all_reduce avg of {count}");
    let mut data = mine.clone();
    group.all_reduce(&mut data, DType::F32, ReduceOp::Max)?;
    assert!(data == f32s(count, |i| (0..n).map(|r| value(r, i)).fold(f32::MIN, f32::max)), "all_reduce max of {count}");

    let half = |r: usize, i: usize| bf16::from_f32(value(r, i));
    let mut data = bytes(&(0..count).map(|i| half(rank, i)).collect::<Vec<_>>());
    group.all_reduce(&mut data, DType::BF16, ReduceOp::Sum)?;
    let expected = |i: usize| bf16::from_f32((1..n).fold(half(0, i).to_f32(), |acc, r| acc + half(r, i).to_f32()));
    assert!(data == bytes(&(0..count).map(expected).collect::<Vec<_>>()), "all_reduce bfloat16 of {count}");

    for root in 0..n {
        let mut data = mine.clone();
        group.reduce(&mut data, DType::F32, ReduceOp::Sum, root)?;
        let expected = if rank == root { f32s(count, sum) } else { mine.clone() };
        assert!(data == expected, "reduce of {count} to {root}");
    }

    let input = f32s(count * n, |i| value(rank, i));
    let mut output = vec![0; count * 4];
    group.reduce_scatter(&mut output, &input, DType::F32, ReduceOp::Sum)?;
    assert!(output == f32s(count, |i| sum(rank * count + i)), "reduce_scatter of {count}");
    Ok(())
}

fn check_moves(group: &dyn ProcessGroup, count: usize) -> Result<()> {
    let (n, rank) = (group.size(), group.rank());
    let mine = f32s(count, |i| value(rank, i));
    let everyone = f32s(count * n, |i| value(i / count.max(1), i % count.max(1)));

    let mut output = vec![0; count * n * 4];
    group.all_gather(&mut output, &mine, DType::F32)?;
    assert!(output == everyone, "all_gather of {count}");

    for root in 0..n {
        let mut data = if rank == root { mine.clone() } else { vec![7; count * 4] };
        group.broadcast(&mut data, DType::F32, root)?;
        assert!(data == f32s(count, |i| value(root, i)), "broadcast of {count} from {root}");

        let mut output = if rank == root { vec![0; count * n * 4] } else { vec![] };
        group.gather(&mut output, &mine, DType::F32, root)?;
        assert!(rank != root || output == everyone, "gather of {count} to {root}");

        let input = if rank == root { everyone.clone() } else { vec![] };
        let mut output = vec![0; count * 4];
        group.scatter(&mut output, &input, DType::F32, root)?;
        assert!(output == mine, "scatter of {count} from {root}");
    }

    // Piece j of rank r is r's vector shifted by j.
    let input: Vec<u8> = (0..n).flat_map(|j| f32s(count, |i| value(rank, i + j))).collect();
    let expected: Vec<u8> = (0..n).flat_map(|r| f32s(count, |i| value(r, i + rank))).collect();
    let mut output = vec![0; count * n * 4];
    group.all_to_all(&mut output, &input, DType::F32)?;
    assert!(output == expected, "all_to_all of {count}");
    Ok(())
}

fn check_uneven(group: &dyn ProcessGroup) -> Result<()> {
    let (n, rank) = (group.size(), group.rank());
    let counts: Vec<usize> = (0..n).map(|r| r * 3).collect();
    let total: usize = counts.iter().sum();

    let mut output = vec![0; total * 8];
    let block = |r: usize| bytes(&(0..counts[r]).map(|i| (100 * r + i) as i64).collect::<Vec<_>>());
    group.all_gather_v(&mut output, &block(rank), &counts, DType::I64)?;
    assert_eq!(output, (0..n).flat_map(block).collect::<Vec<_>>());

    let input = bytes(&(0..total as i64).map(|i| i + rank as i64).collect::<Vec<_>>());
    let mut output = vec![0; counts[rank] * 8];
    group.reduce_scatter_v(&mut output, &input, &counts, DType::I64, ReduceOp::Sum)?;
    let start: usize = counts[..rank].iter().sum();
    let ranks_sum = (0..n as i64).sum::<i64>();
    let expected = |i: usize| (start + i) as i64 * n as i64 + ranks_sum;
    assert_eq!(output, bytes(&(0..counts[rank]).map(expected).collect::<Vec<_>>()));

    // Rank r sends r + j elements of value 10 r + j to rank j.
    let (send, recv): (Vec<_>, Vec<_>) = (0..n).map(|j| (rank + j, j + rank)).unzip();
    let input: Vec<u8> = (0..n).flat_map(|j| vec![(10 * rank + j) as u8; rank + j]).collect();
    let mut output = vec![0; recv.iter().sum()];
    group.all_to_all_v(&mut output, &recv, &input, &send, DType::U8)?;
    assert_eq!(output, (0..n).flat_map(|r| vec![(10 * r + rank) as u8; r + rank]).collect::<Vec<_>>());
    Ok(())
}

fn check_point_to_point(group: &dyn ProcessGroup) -> Result<()> {
    let (n, rank) = (group.size(), group.rank());
    if n == 1 {
        return Ok(());
    }
    let (right, left) = ((rank + 1) % n, (rank + n - 1) % n);
    for count in [0usize, 3, 300_000] {
        let mut incoming = [vec![0u8; count], vec![0u8; count]];
        let outgoing = [vec![rank as u8; count], vec![rank as u8 + 100; count]];
        // Receives first, tags crossed: nothing here may depend on the order.
        let [in_0, in_1] = &mut incoming;
        // SAFETY: the buffers outlive the waits below and are not touched before.
        let works = unsafe {
            use oneflow_comm::{Request::*, Span};
            [
                group.issue(Recv { data: Span::of_mut(in_1), dtype: DType::U8, src: left, tag: 1 })?,
                group.issue(Send { data: Span::of(&outgoing[0]), dtype: DType::U8, dst: right, tag: 0 })?,
                group.issue(Send { data: Span::of(&outgoing[1]), dtype: DType::U8, dst: right, tag: 1 })?,
                group.issue(Recv { data: Span::of_mut(in_0), dtype: DType::U8, src: left, tag: 0 })?,
            ]
        };
        // A collective in between does not disturb them.
        group.barrier()?;
        works.iter().try_for_each(|work| work.wait(None))?;
        assert!(incoming[0].iter().all(|&b| b == left as u8) && incoming[1].iter().all(|&b| b == left as u8 + 100));
    }
    if rank == 0 {
        group.send(&bytes(&[1.5f32]), DType::F32, 1, 9)?;
    } else if rank == 1 {
        let mut data = [0; 4];
        group.recv(&mut data, DType::F32, 0, 9)?;
        assert_eq!(f32::from_le_bytes(data), 1.5);
    }
    Ok(())
}

/// Bytes on the wire equal theory.
fn check_bytes(group: &dyn ProcessGroup) -> Result<()> {
    let (n, rank) = (group.size(), group.rank());
    // Divisible by 2, 3 and 4, short and long.
    for count in [12usize, 12_000, 1_200_000] {
        let size = count as u64 * 4;
        let parts = size / n as u64;
        let others = n as u64 - 1;
        let sent = |kind: Kind, f: &mut dyn FnMut() -> Result<()>| -> Result<u64> {
            let (bytes, calls) = (group.counters().bytes(kind), group.counters().calls(kind));
            f()?;
            assert_eq!(group.counters().calls(kind), calls + 1);
            Ok(group.counters().bytes(kind) - bytes)
        };
        let mut data = vec![0u8; count * 4];
        let mut part = vec![0u8; count * 4 / n];
        let all_reduce = sent(Kind::AllReduce, &mut || group.all_reduce(&mut data, DType::F32, ReduceOp::Sum))?;
        assert_eq!(all_reduce, 2 * others * parts, "all_reduce of {count}");
        let all_gather = sent(Kind::AllGather, &mut || group.all_gather(&mut data, &part, DType::F32))?;
        assert_eq!(all_gather, others * parts, "all_gather of {count}");
        let reduce_scatter =
            sent(Kind::ReduceScatter, &mut || group.reduce_scatter(&mut part, &data, DType::F32, ReduceOp::Sum))?;
        assert_eq!(reduce_scatter, others * parts, "reduce_scatter of {count}");
        let input = data.clone();
        let all_to_all = sent(Kind::AllToAll, &mut || group.all_to_all(&mut data, &input, DType::F32))?;
        assert_eq!(all_to_all, others * parts, "all_to_all of {count}");
        let reduce = sent(Kind::Reduce, &mut || group.reduce(&mut data, DType::F32, ReduceOp::Sum, 0))?;
        assert_eq!(reduce, if rank == 0 { others * parts } else { size }, "reduce of {count}");
        // Whatever the tree: together the ranks send the data once to each rank but the root.
        let broadcast = sent(Kind::Broadcast, &mut || group.broadcast(&mut data, DType::F32, 0))?;
        let mut sum = broadcast.to_le_bytes();
        group.all_reduce(&mut sum, DType::I64, ReduceOp::Sum)?;
        assert_eq!(u64::from_le_bytes(sum), others * size, "broadcast of {count}");
    }
    Ok(())
}

fn check_groups(group: &dyn ProcessGroup) -> Result<()> {
    let (n, rank) = (group.size(), group.rank());
    let reversed: Vec<usize> = (0..n).rev().collect();
    let all = group.new_group(&reversed, true)?.expect("every rank is a member");
    assert_eq!((all.rank(), all.size()), (n - 1 - rank, n));
    let mut data = vec![rank as u8; 3];
    all.broadcast(&mut data, DType::U8, 0)?;
    assert_eq!(data, [n as u8 - 1; 3]);
    assert_eq!(group.new_group(&[0], true)?.is_some(), rank == 0);

    // Even and odd ranks, highest key first.
    let half = group.split(Some(rank as u64 % 2), -(rank as i64))?.expect("every rank has a color");
    let expected: Vec<usize> = (0..n).rev().filter(|r| r % 2 == rank % 2).collect();
    assert_eq!(half.ranks(), expected);
    let mut sum = (rank as i64).to_le_bytes();
    half.all_reduce(&mut sum, DType::I64, ReduceOp::Sum)?;
    assert_eq!(i64::from_le_bytes(sum), expected.iter().sum::<usize>() as i64);
    assert!(group.split((rank > 0).then_some(0), 0)?.is_none_or(|g| g.size() == n - 1 && rank > 0));
    Ok(())
}

/// Queued collectives keep their order, also with blocking ones among them.
fn check_async(group: &dyn ProcessGroup) -> Result<()> {
    use oneflow_comm::{Request, Span};
    let mut buffers: Vec<Vec<u8>> = (0..8).map(|i| bytes(&[i as f32; 1000])).collect();
    let works = buffers.iter_mut().map(|b| {
        let data = Span::of_mut(b);
        // SAFETY: the buffers outlive the waits below and are not touched before.
        unsafe { group.issue(Request::AllReduce { data, dtype: DType::F32, op: ReduceOp::Sum }) }
    });
    let works: Vec<_> = works.collect::<Result<_>>()?;
    group.barrier()?;
    assert!(works.iter().all(|work| work.test().is_some()), "the barrier overtook an earlier operation");
    works.iter().try_for_each(|work| work.wait(None))?;
    for (i, buffer) in buffers.iter().enumerate() {
        assert!(*buffer == bytes(&[(i * group.size()) as f32; 1000]));
    }
    Ok(())
}

/// Wrong arguments are refused before any peer is involved, so the group lives on.
fn check_arguments(group: &dyn ProcessGroup) {
    let n = group.size();
    let check = |result: Result<()>, kind: ErrorKind, words: &str| {
        let error = result.expect_err(words);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.text().contains(words), "{error}");
    };
    let mut buf = vec![0u8; 6];
    check(group.all_reduce(&mut buf, DType::F32, ReduceOp::Sum), ErrorKind::Value, "6 bytes, not a whole number");
    check(
        group.all_reduce(&mut buf[..4], DType::F32, ReduceOp::BitOr),
        ErrorKind::NotImplemented,
        "bor is not defined for float32",
    );
    check(group.broadcast(&mut buf, DType::U8, n), ErrorKind::Value, "root is rank");
    check(group.all_gather_v(&mut buf, &[], &vec![1; n + 1], DType::U8), ErrorKind::Value, "entries");
    check(group.all_gather_v(&mut buf, &[0], &vec![usize::MAX; n], DType::F32), ErrorKind::Value, "");
    check(group.all_gather(&mut vec![0; n + 1], &[0], DType::U8), ErrorKind::Value, "output has");
    check(group.send(&buf, DType::U8, group.rank(), 0), ErrorKind::Value, "its own peer");
    check(group.recv(&mut buf, DType::U8, n + 5, 0), ErrorKind::Value, "src is rank");
    check(group.new_group(&[0, 0], true).map(drop), ErrorKind::Value, "distinct ranks");
    check(group.new_group(&[n], true).map(drop), ErrorKind::Value, "distinct ranks");
    check(group.new_group(&[], true).map(drop), ErrorKind::Value, "at least one");
}
