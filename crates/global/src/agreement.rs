//! What all ranks must agree on before local tensors become one global tensor: the layout, the dtype, shapes that fit.
//!
//! One all-gather over the world. Every rank sees what every other rank said, so all raise the same error, and a rank outside
//! of the placement learns dtype and shape from those inside.

use crate::mesh::part;
use crate::tensor::Spread;
use oneflow_base::{DType, Dims, Error, Result, Sbp};
use oneflow_comm::world;
use oneflow_core::Tensor;
use std::hash::{DefaultHasher, Hash, Hasher};

const MAX_DIMS: usize = 16;
/// The number of dimensions, the dtype, a hash of the layout, the sizes.
const WORDS: usize = 3 + MAX_DIMS;
/// Of the text of a layout, which ranks exchange once their layouts differ.
const TEXT: usize = 256;

/// The dtype and the sizes of the whole whose shards are the ranks' `x` under `to`. Split dimensions are added up.
pub fn whole_of_shards(x: &Tensor, to: Spread) -> Result<(Dims, DType)> {
    let said = exchange(x, to)?;
    let first_rank = to.placement.ranks[0];
    let first = &said[first_rank as usize];
    to.check(&first.sizes, "to_global()")?;
    let h = &to.placement.hierarchy;
    let mut sizes = first.sizes.clone();
    for (d, size) in sizes.iter_mut().enumerate() {
        let split: Vec<usize> = (0..h.len()).filter(|a| to.sbp[*a] == Sbp::S(d as u8)).collect();
        let line =
            |r: &&u32| to.placement.coords(**r).is_some_and(|c| (0..h.len()).all(|a| split.contains(&a) || c[a] == 0));
        if !split.is_empty() {
            let parts = to.placement.ranks.iter().filter(line).map(|r| said[*r as usize].sizes.get(d).unwrap_or(&0));
            *size = parts.sum();
        }
    }
    for rank in to.placement.ranks.iter().copied() {
        let Some(coords) = to.placement.coords(rank) else { continue };
        let here = &said[rank as usize];
        if here.dtype != first.dtype {
            return Err(Error::runtime(format!(
                "to_global(): the shards have different dtypes: {} on rank {first_rank}, {} on rank {rank}",
                name(first.dtype),
                name(here.dtype)
            )));
        }
        if here.sizes != part(&sizes, to.placement, to.sbp, &coords).sizes {
            return Err(Error::runtime(format!(
                "to_global(): the shards do not form one tensor under {:?} on {}: rank {first_rank} has shape {:?}, rank {rank} has shape {:?}",
                to.sbp, to.placement, first.sizes, here.sizes
            )));
        }
    }
    Ok((sizes, dtype_of(first.dtype)?))
}

/// What one rank said of its shard.
struct Shard {
    dtype: i64,
    sizes: Dims,
}

/// The shards of all ranks of the world, which named the same layout.
fn exchange(x: &Tensor, to: Spread) -> Result<Vec<Shard>> {
    let n = x.ndim();
    if n > MAX_DIMS {
        return Err(Error::runtime(format!(
            "to_global(): tensors of more than {MAX_DIMS} dimensions are not supported"
        )));
    }
    let mut words = [0i64; WORDS];
    words[..3].copy_from_slice(&[n as i64, x.dtype() as i64, layout_hash(to)]);
    words[3..3 + n].copy_from_slice(x.sizes());
    let all = gather(&words.map(i64::to_ne_bytes).concat())?;
    let word = |rank: usize, i: usize| {
        let at = (rank * WORDS + i) * 8;
        i64::from_ne_bytes(all[at..at + 8].try_into().expect("eight bytes"))
    };
    let ranks = all.len() / (WORDS * 8);
    if let Some(other) = (1..ranks).find(|r| word(*r, 2) != word(0, 2)) {
        return Err(layouts_differ(to, other));
    }
    (0..ranks)
        .map(|r| {
            let ndim = usize::try_from(word(r, 0)).ok().filter(|n| *n <= MAX_DIMS);
            let ndim =
                ndim.ok_or_else(|| Error::runtime(format!("to_global(): rank {r} sent {} dimensions", word(r, 0))))?;
            Ok(Shard { dtype: word(r, 1), sizes: (0..ndim).map(|d| word(r, 3 + d)).collect() })
        })
        .collect()
}

/// The error of ranks that named different layouts, which every rank finds and makes together with the others.
fn layouts_differ(to: Spread, other: usize) -> Error {
    let mut own = format!("{:?} on {}", to.sbp, to.placement).into_bytes();
    own.resize(TEXT, 0);
    let all = match gather(&own) {
        Ok(all) => all,
        Err(e) => return e,
    };
    let text = |rank: usize| String::from_utf8_lossy(&all[rank * TEXT..][..TEXT]).trim_end_matches('\0').to_string();
    Error::runtime(format!(
        "to_global(): ranks named different layouts: rank 0 {}, rank {other} {}; every rank of the world, inside the placement or not, must name the same",
        text(0),
        text(other)
    ))
}

/// The same number of bytes of each rank of the world, in the order of ranks.
fn gather(own: &[u8]) -> Result<Vec<u8>> {
    let world = world();
    let mut all = vec![0; world.size() * own.len()];
    world.all_gather(&mut all, own, DType::U8)?;
    Ok(all)
}

/// Equal on ranks that run the same build.
fn layout_hash(to: Spread) -> i64 {
    let mut hasher = DefaultHasher::new();
    (to.placement, to.sbp).hash(&mut hasher);
    hasher.finish() as i64
}

fn dtype_of(word: i64) -> Result<DType> {
    u8::try_from(word)
        .ok()
        .and_then(DType::from_u8)
        .ok_or_else(|| Error::runtime(format!("to_global(): another rank sent the unknown dtype {word}")))
}

fn name(word: i64) -> String {
    dtype_of(word).map_or_else(|_| format!("dtype {word}"), |d| d.to_string())
}
