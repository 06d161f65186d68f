//! How long the instructions of a plan take here: each is run by itself, in the plan's order and in memory laid out as the
//! plan has it, so that caches hold what they would hold. What talks with other ranks is left out.

use crate::cost::price;
use crate::plan::{Buffer, Home, Instr, Plan, Work};
use crate::program::Program;
use crate::sync::sync::atomic::AtomicBool;
use oneflow_base::{Device, Error, Result};
use oneflow_core::Storage;
use oneflow_ep::provider;
use std::collections::HashMap;
use std::time::Instant;

/// Seconds of each instruction by its signature: the median of so many runs, the mean over equal ones. All memory is zeros.
///
/// # Errors
/// What a kernel says; NotImplementedError: the plan is of another device than the host.
pub fn measure(plan: &Plan, runs: usize) -> Result<HashMap<String, f64>> {
    if plan.buffers.iter().any(|b| !b.device.is_cpu()) {
        return Err(Error::not_implemented("measure: instructions are timed on the host alone"));
    }
    let arenas: Vec<Storage> = plan.arenas.iter().map(|a| zeros(a.bytes)).collect::<Result<_>>()?;
    let mut others: Vec<Storage> = Vec::new();
    let mut bases: Vec<*mut u8> = Vec::with_capacity(plan.buffers.len());
    for b in &plan.buffers {
        bases.push(match b.home {
            Home::Arena { arena, offset } => arenas[arena as usize].ptr().wrapping_add(offset as usize),
            _ => {
                others.push(zeros(b.bytes)?);
                others[others.len() - 1].ptr()
            }
        });
    }
    let (mut programs, mut names) = (Vec::new(), Vec::new());
    for t in &plan.tasks {
        let Work::Compute(instrs) = &t.work else { continue };
        for i in instrs {
            if price(i, Device::CPU)?.collective {
                continue;
            }
            let (own, used, buffers) = alone(i, plan);
            let mut p = Program::new(std::slice::from_ref(&own), &buffers, Device::CPU)?;
            let places: Vec<(usize, u32)> = p.used().collect();
            places.iter().for_each(|(at, k)| p.set_base(*at, bases[used[*k as usize] as usize]));
            programs.push(p);
            names.push(i.signature());
        }
    }
    let (cancel, queue) = (AtomicBool::new(false), provider(Device::CPU.kind)?.queue(0));
    let mut times: Vec<Vec<f64>> = vec![Vec::with_capacity(runs); programs.len()];
    // The first run finds cold caches and memory that was never touched.
    for run in 0..=runs {
        for (p, t) in programs.iter_mut().zip(&mut times) {
            let start = Instant::now();
            // SAFETY: every buffer has memory of its size, made above, which nobody else touches.
            unsafe { p.run(0..p.len(), queue, &cancel, &mut || Ok(())) }?;
            if run > 0 {
                t.push(start.elapsed().as_secs_f64());
            }
        }
    }
    let mut found: HashMap<String, (f64, f64)> = HashMap::new();
    for (name, mut t) in names.into_iter().zip(times) {
        t.sort_by(f64::total_cmp);
        let sum = found.entry(name).or_default();
        *sum = (sum.0 + t.get(t.len() / 2).copied().unwrap_or(0.0), sum.1 + 1.0);
    }
    Ok(found.into_iter().map(|(name, (sum, n))| (name, sum / n)).collect())
}

/// An instruction over its own buffers alone, and which of the plan's they are.
fn alone(i: &Instr, plan: &Plan) -> (Instr, Vec<u32>, Vec<Buffer>) {
    let (mut own, mut used) = (i.clone(), Vec::new());
    for o in own.ins.iter_mut().chain(&mut own.outs) {
        let at = used.iter().position(|b| *b == o.buffer).unwrap_or_else(|| {
            used.push(o.buffer);
            used.len() - 1
        });
        o.buffer = at as u32;
    }
    let buffers = used.iter().map(|b| plan.buffers[*b as usize].clone()).collect();
    (own, used, buffers)
}

fn zeros(bytes: u64) -> Result<Storage> {
    let s = Storage::new(Device::CPU, bytes as usize)?;
    // SAFETY: fresh memory of this size.
    unsafe { std::ptr::write_bytes(s.ptr(), 0, bytes as usize) };
    Ok(s)
}
