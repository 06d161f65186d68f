//! What each rank has traced of a program on global tensors, compared before the program runs for the first time.
//!
//! While a thread records, every traced call on global tensors and every change of layout becomes a line: op, dtypes, shapes, layouts,
//! arguments. The ranks of a placement must have the same lines in the same order, since later each waits for the others at the
//! communication that they stand for. Equal ranks exchange 16 bytes; where they differ, all of them exchange their lines and raise
//! the same error. Calls on local tensors may differ, and so may calls on placements that a rank is not part of.

use crate::boxing::tracing;
use crate::mesh::{address, groups_at};
use crate::tensor::{Spread, global_of};
use oneflow_base::{Arg, DType, Error, Placement, PlacementId, Result};
use oneflow_comm::{ProcessGroup, world};
use oneflow_core::{Call, Dest, Tensor};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The calls on one placement.
struct Calls {
    placement_id: PlacementId,
    placement: &'static Placement,
    lines: Vec<String>,
}

thread_local! {
    static CALLS: RefCell<Option<Vec<Calls>>> = const { RefCell::new(None) };
}

/// Records this thread's traced calls from now on, or drops what was recorded.
pub fn record(on: bool) {
    CALLS.set(on.then(Vec::new));
}

fn add(of: Spread, line: impl FnOnce() -> String) {
    if !tracing() {
        return;
    }
    CALLS.with_borrow_mut(|calls| {
        let Some(calls) = calls else { return };
        let at = calls.iter().position(|c| c.placement_id == of.placement_id).unwrap_or_else(|| {
            calls.push(Calls { placement_id: of.placement_id, placement: of.placement, lines: Vec::new() });
            calls.len() - 1
        });
        calls[at].lines.push(line());
    });
}

/// A call on tensors of a placement.
pub(crate) fn call(c: &Call<'_>, home: Spread) {
    add(home, || {
        let ins: Vec<String> = c.ins.iter().map(|t| t.map_or_else(|| "None".to_owned(), operand)).collect();
        let args: String = c.args.iter().filter_map(|a| argument(*a)).map(|a| format!("; {a}")).collect();
        let in_place = if matches!(c.dest, Dest::Into(_)) { "_" } else { "" };
        format!("{}{in_place}({}{args})", c.op.name(), ins.join(", "))
    });
}

/// A tensor gets another layout, perhaps on other ranks.
pub(crate) fn boxing(t: &Tensor, from: Spread, to: Spread) {
    let line = || match from.placement_id == to.placement_id {
        true => format!("change of layout of {} to {:?}", operand(t), to.sbp),
        false => format!("change of layout of {} to {:?} on {}", operand(t), to.sbp, to.placement),
    };
    add(from, line);
    if from.placement_id != to.placement_id {
        add(to, line);
    }
}

fn operand(t: &Tensor) -> String {
    let layout = global_of(t).map_or_else(String::new, |g| format!(" {:?}", g.spread.sbp));
    format!("{}{:?}{layout}", t.dtype(), t.sizes())
}

/// Numbers of placements and layouts are a process's own, and what is drawn is not part of a program.
fn argument(a: Arg<'_>) -> Option<String> {
    Some(match a {
        Arg::None | Arg::Rng { .. } | Arg::RngAt { .. } | Arg::Placement(_) | Arg::Sbp(_) | Arg::Device(_) => {
            return None;
        }
        Arg::Sym(_) => format!("{:?}", a.str().unwrap_or("")),
        Arg::DType(d) => d.to_string(),
        Arg::Ints(v) => format!("{v:?}"),
        Arg::Bool(b) => b.to_string(),
        Arg::Int(i) => i.to_string(),
        Arg::Float(f) => f.to_string(),
        other => format!("{other:?}"),
    })
}

/// Compares what was recorded with the other ranks of each placement, and ends the recording.
///
/// # Errors
/// RuntimeError, on all ranks of a placement: they differ. Names the first call that does, and who has which.
pub fn compare(program: &str) -> Result<()> {
    let (mut calls, world) = (CALLS.take().unwrap_or_default(), world());
    if world.size() == 1 || world.backend() == "described" {
        return Ok(());
    }
    // In one order on all ranks: two of them may share several placements.
    calls.sort_by(|a, b| order(a).cmp(&order(b)));
    for here in calls {
        let Some(links) = links(&world, &here) else { continue };
        if agree(&links, hash(&here.lines))? {
            continue;
        }
        let said = gather_texts(&links, (world.rank() as u32, here.lines.join("\n")))?;
        return Err(difference(program, here.placement, &said));
    }
    Ok(())
}

fn order(c: &Calls) -> (&[u32], &[i64], String) {
    (&c.placement.ranks, &c.placement.hierarchy, c.placement.to_string())
}

type Group = Arc<dyn ProcessGroup>;

/// Groups that connect the ranks of a placement when they are used one after the other. `None` where this rank has nobody to compare
/// with, or where nothing was exchanged yet: groups are made by all ranks of the world together, and not here.
fn links(world: &Group, c: &Calls) -> Option<Vec<Group>> {
    c.placement.coords(world.rank() as u32)?;
    if c.placement.ranks.len() == world.size() {
        return Some(vec![world.clone()]);
    }
    let groups = groups_at(address(world), c.placement_id)?;
    let links: Vec<Group> = groups.iter().flatten().cloned().collect();
    (!links.is_empty()).then_some(links)
}

/// FNV-1a over the lines and their ends: the same in every build.
fn hash(lines: &[String]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// Whether all ranks have this number. Along each axis a rank also passes on what it has heard along the axes before.
fn agree(links: &[Group], own: u64) -> Result<bool> {
    let mut same = true;
    for group in links {
        let words: Vec<u8> = [own, u64::from(same)].into_iter().flat_map(u64::to_le_bytes).collect();
        let all = gather(group, &words)?;
        let good: Vec<u8> = [own, 1].into_iter().flat_map(u64::to_le_bytes).collect();
        same = all.chunks(good.len()).all(|said| said == good);
    }
    Ok(same)
}

/// As many bytes of each rank, in the order of the group.
fn gather(group: &Group, own: &[u8]) -> Result<Vec<u8>> {
    let mut all = vec![0; group.size() * own.len()];
    group.all_gather(&mut all, own, DType::U8)?;
    Ok(all)
}

/// The texts of all ranks.
fn gather_texts(links: &[Group], own: (u32, String)) -> Result<BTreeMap<u32, String>> {
    let mut known = BTreeMap::from([own]);
    for group in links {
        let mut own: Vec<u8> = known.iter().flat_map(|(rank, text)| format!("{rank}\t{text}\0").into_bytes()).collect();
        let lengths = gather(group, &(own.len() as u64).to_le_bytes())?;
        let longest = lengths.chunks(8).filter_map(|l| l.try_into().ok()).map(u64::from_le_bytes).max().unwrap_or(0);
        own.resize(longest as usize, 0);
        let all = String::from_utf8_lossy(&gather(group, &own)?).into_owned();
        let parts = all.split('\0').filter_map(|part| part.split_once('\t'));
        known.extend(parts.filter_map(|(rank, text)| Some((rank.parse().ok()?, text.to_owned()))));
    }
    Ok(known)
}

/// The first line in which the ranks differ.
fn difference(program: &str, placement: &Placement, said: &BTreeMap<u32, String>) -> Error {
    let lines: BTreeMap<u32, Vec<&str>> = said.iter().map(|(rank, text)| (*rank, text.lines().collect())).collect();
    let first = lines.values().next().map_or(&[][..], Vec::as_slice);
    let ends = |other: &Vec<&str>| {
        let same = other.iter().zip(first).take_while(|(a, b)| a == b).count();
        (other.len(), first.len()) == (same, same)
    };
    let at = lines.values().filter(|other| !ends(other));
    let at = at.map(|other| other.iter().zip(first).take_while(|(a, b)| a == b).count()).min().unwrap_or(0);
    let mut variants: Vec<(&str, Vec<u32>)> = Vec::new();
    for (rank, lines) in &lines {
        let line = lines.get(at).copied().unwrap_or("nothing more");
        match variants.iter_mut().find(|(other, _)| *other == line) {
            Some((_, ranks)) => ranks.push(*rank),
            None => variants.push((line, vec![*rank])),
        }
    }
    let has = |(line, ranks): &(&str, Vec<u32>)| match ranks[..] {
        [rank] => format!("rank {rank} has {line}"),
        _ => format!("ranks {ranks:?} have {line}"),
    };
    let variants: Vec<String> = variants.iter().map(has).collect();
    Error::runtime(format!(
        "{program}: the ranks of {placement} have traced different programs. Call {at} on global tensors is the first to differ: {}. \
         All ranks of a placement must make the same calls in the same order",
        variants.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oneflow_base::DeviceType;

    #[test]
    fn the_first_difference_is_named_with_the_ranks_of_each_side() {
        let p = Placement::new(DeviceType::CPU, vec![0, 1, 2, 3], &[2, 2]).unwrap();
        let say = |texts: [&str; 4]| {
            let said = texts.iter().enumerate().map(|(rank, text)| (rank as u32, (*text).to_owned())).collect();
            difference("g", &p, &said).text().to_owned()
        };
        let text = say(["a\nb\nc", "a\nb\nc", "a\nx\nc", "a\nb\nc"]);
        assert!(text.contains("Call 1") && text.contains("ranks [0, 1, 3] have b; rank 2 has x"), "{text}");
        let text = say(["a", "a\nb", "a\nb", "a\nc"]);
        let sides = "rank 0 has nothing more; ranks [1, 2] have b; rank 3 has c";
        assert!(text.contains("Call 1") && text.contains(sides), "{text}");
    }

    #[test]
    fn ranks_of_a_mesh_hear_of_a_difference_anywhere() {
        use std::time::Duration;
        // Groups of a mesh of two by two, as `axis_groups` makes them.
        for odd in [None, Some(0), Some(3)] {
            let results = oneflow_comm::fake::run_ranks(4, Duration::from_secs(60), |world| {
                let mut axes = Vec::new();
                for lines in [[[0, 2], [1, 3]], [[0, 1], [2, 3]]] {
                    for line in lines {
                        axes.extend(world.new_group(&line, true)?);
                    }
                }
                let mine = if Some(world.rank()) == odd { "x" } else { "y" };
                let same = agree(&axes, hash(&[mine.to_owned()]))?;
                let texts = gather_texts(&axes, (world.rank() as u32, mine.to_owned()))?;
                Ok((same, texts.into_values().collect::<Vec<_>>()))
            });
            let texts: Vec<String> = (0..4).map(|r| if Some(r) == odd { "x" } else { "y" }.to_owned()).collect();
            for result in results {
                assert_eq!(result.unwrap(), (odd.is_none(), texts.clone()));
            }
        }
    }
}
