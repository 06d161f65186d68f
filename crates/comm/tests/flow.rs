//! Long reductions between hosts, whose pieces follow each other: the bits and bytes of ranks that are threads, whatever the sizes,
//! and errors of ranks that are out of step or gone.

#[allow(dead_code)]
#[path = "common/ranks.rs"]
mod ranks;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use oneflow_base::{DType, Result};
use oneflow_comm::{ProcessGroup, ReduceOp, fake};
use ranks::{LONG, on_hosts};

/// Bytes of a piece.
const PIECE: usize = 256 << 10;

/// Each rank on a host of its own, or two on each.
fn hosts(n: usize, each: usize) -> Vec<IpAddr> {
    (0..n).map(|rank| IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1 + (rank / each) as u8))).collect()
}

/// Values whose sums depend on their order, and exponents that stay small.
fn data(rank: usize, bytes: usize, dtype: DType) -> Vec<u8> {
    let value = |i: usize| ((i * (2 * rank + 3)) % 1013) as f32 / 7.0 - 60.0;
    match dtype {
        DType::F32 => (0..bytes / 4).flat_map(|i| value(i).to_le_bytes()).collect(),
        DType::F64 => (0..bytes / 8).flat_map(|i| f64::from(value(i)).to_le_bytes()).collect(),
        DType::BF16 => (0..bytes / 2).flat_map(|i| ((value(i).to_bits() >> 16) as u16).to_le_bytes()).collect(),
        _ => (0..bytes).map(|i| ((i * (rank + 2)) >> 3) as u8).collect(),
    }
}

type Found = Vec<(Vec<u8>, u64)>;

fn on_both(n: usize, each: usize, run: impl Fn(&dyn ProcessGroup) -> Result<Vec<u8>> + Sync) -> [Found; 2] {
    let run = |group: Arc<dyn ProcessGroup>| {
        let found = run(&*group)?;
        Ok((found, group.counters().total_bytes()))
    };
    [on_hosts(&hosts(n, each), LONG, run), fake::run_ranks(n, LONG, run)]
        .map(|results| results.into_iter().map(|result| result.unwrap()).collect())
}

#[test]
fn long_all_reduces_have_the_bits_of_threads() {
    let lengths = [PIECE + 64, 3 * PIECE, 9 * PIECE - 16, 13 * PIECE + 4096];
    let kinds = [(DType::F32, ReduceOp::Sum), (DType::BF16, ReduceOp::Avg), (DType::F64, ReduceOp::Max)];
    for (n, each) in [(2, 1), (3, 1), (5, 1), (3, 2)] {
        for (block, (dtype, op)) in lengths.into_iter().flat_map(|length| kinds.map(|kind| (length, kind))) {
            // One element more than the ranks divide.
            let bytes = n * block / 8 * 8 + 8;
            let [hosts, threads] = on_both(n, each, |group| {
                let mut data = data(group.rank(), bytes, dtype);
                group.all_reduce(&mut data, dtype, op)?;
                Ok(data)
            });
            assert!(hosts.iter().all(|found| found.0 == hosts[0].0), "{n} {bytes} {dtype}");
            assert!(hosts == threads, "{n} {bytes} {dtype} {op:?}");
        }
    }
}

#[test]
fn long_reduce_scatters_of_uneven_blocks_do_too() {
    let per = PIECE / 4;
    for counts in [vec![7 * per + 3, per - 1], vec![0, 5 * per + 1, 17], vec![2 * per, 2 * per, 2 * per]] {
        let [hosts, threads] = on_both(counts.len(), 1, |group| {
            let input = data(group.rank(), counts.iter().sum::<usize>() * 4, DType::F32);
            let mut output = vec![0; counts[group.rank()] * 4];
            group.reduce_scatter_v(&mut output, &input, &counts, DType::F32, ReduceOp::Sum)?;
            assert!(input == data(group.rank(), input.len(), DType::F32), "the input was written");
            Ok(output)
        });
        assert!(hosts == threads, "{counts:?}");
    }
}

#[test]
fn many_follow_each_other_beside_short_ones() {
    let found = on_hosts(&hosts(3, 1), LONG, |group| {
        for turn in 0..8usize {
            let mut data = vec![(turn + group.rank()) as u8; 3 * PIECE + turn * 100_000];
            group.all_reduce(&mut data, DType::U8, ReduceOp::Max)?;
            assert!(data.iter().all(|&byte| usize::from(byte) == turn + 2));
            group.barrier()?;
        }
        Ok(())
    });
    assert!(found.iter().all(Result::is_ok), "{found:?}");
}

#[test]
fn ranks_out_of_step_or_late_are_named() {
    let results = on_hosts(&hosts(2, 1), LONG, |group| {
        let mut data = vec![0; (8 + group.rank()) * PIECE];
        group.all_reduce(&mut data, DType::F32, ReduceOp::Sum)
    });
    for (rank, result) in results.into_iter().enumerate() {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("desync") || text.contains(&format!("rank {}", 1 - rank)), "{text}");
    }
    let results = on_hosts(&hosts(3, 1), Duration::from_millis(300), |group| match group.rank() {
        2 => {
            std::thread::sleep(Duration::from_millis(900));
            Ok(())
        }
        _ => group.all_reduce(&mut vec![0; 12 * PIECE], DType::F32, ReduceOp::Sum),
    });
    for result in &results[..2] {
        let text = result.as_ref().unwrap_err().to_string();
        assert!(text.contains("all_reduce") && text.contains('2'), "{text}");
    }
}
