//! ELEMENTWISE_CHAIN: expressions in sequence over tiles that stay in the first cache, so that a chain of ops reads and
//! writes memory once.

use crate::io::{Io, by_compute};
use crate::map::no_kernel;
use crate::tiles::{MAX_INS, MAX_OUTS, TILE, for_each_tile};
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::{
    ChainParams, ChainStep, ELEMENTWISE_CHAIN, Launch, MAX_INPUTS, MAX_PARAMS, Tile, View, isa, words,
};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// Runs a chain on views of one device.
///
/// # Safety
/// As for any launch: the views are valid, and outputs overlap inputs at most exactly.
pub unsafe fn run_chain(
    chain: &ChainParams,
    outs: &[Option<View<'_>>],
    ins: &[Option<View<'_>>],
    queue: oneflow_ep::Queue,
) -> Result<()> {
    let params = words(chain);
    let kernel = ELEMENTWISE_CHAIN.on(queue.device.kind)?;
    // SAFETY: the caller's.
    unsafe { kernel(&Launch { outs, ins, params: &params, expr: None, queue }) }
}

pub unsafe fn elementwise_chain(l: &Launch<'_>) -> Result<()> {
    let chain: ChainParams = l.read()?;
    // SAFETY: the launch's contract.
    unsafe { by_compute!(chain.compute, run(l, &chain.steps)) }
}

/// A step with its kernel.
struct Code<T> {
    tile: Tile<T>,
    params: [T; MAX_PARAMS],
    arity: usize,
    operands: [usize; MAX_INPUTS],
    dest: usize,
}

/// Most temporaries of a chain.
pub const MAX_TEMPORARIES: usize = 16;
/// Slots: inputs, outputs and temporaries.
const MAX_SLOTS: usize = MAX_INS + MAX_OUTS + MAX_TEMPORARIES;

/// The steps with their kernels, and the number of temporaries.
fn prepare<T: Io>(l: &Launch<'_>, steps: &[ChainStep]) -> Result<(SmallVec<[Code<T>; 8]>, usize)> {
    let bad = |what: String| Error::runtime(format!("elementwise_chain: {what}"));
    let n_fixed = l.ins.len() + l.outs.len();
    let (mut codes, mut n_temporaries) = (SmallVec::new(), 0);
    for ChainStep { expr, scalars, operands, dest } in steps {
        let mut c = Code {
            tile: T::tile(expr, isa()).ok_or_else(|| no_kernel(expr, T::DTYPE))?,
            params: [T::default(); MAX_PARAMS],
            arity: expr.arity,
            operands: [0; MAX_INPUTS],
            dest: *dest,
        };
        c.params.iter_mut().zip(scalars).for_each(|(p, w)| *p = T::word(&[*w]));
        c.operands.iter_mut().zip(operands).for_each(|(o, slot)| *o = *slot);
        for &slot in operands.iter().chain([dest]) {
            if slot >= n_fixed + MAX_TEMPORARIES {
                return Err(bad(format!("slot {slot}: at most {MAX_TEMPORARIES} temporaries")));
            }
            n_temporaries = n_temporaries.max((slot + 1).saturating_sub(n_fixed));
        }
        if *dest < l.ins.len() {
            return Err(bad(format!("{}: the destination is an input", expr.name)));
        }
        codes.push(c);
    }
    Ok((codes, n_temporaries))
}

unsafe fn run<T: Io>(l: &Launch<'_>, steps: &[ChainStep]) -> Result<()> {
    let (mut codes, mut n_temporaries) = prepare::<T>(l, steps)?;
    let outs: SmallVec<[View<'_>; 2]> = (0..l.outs.len()).map(|i| l.output(i)).collect::<Result<_>>()?;
    let ins: SmallVec<[View<'_>; 8]> = (0..l.ins.len()).map(|i| l.input(i)).collect::<Result<_>>()?;
    if outs.is_empty() {
        return Err(Error::runtime("elementwise_chain: no output"));
    }
    let copies = keep_inputs(&mut codes, &mut n_temporaries, &ins, &outs)?;
    let n_fixed = ins.len() + outs.len();
    let program = |n: usize, in_ptrs: &[*const T], in_steps: &[usize], out_ptrs: &[*mut T]| {
        #[repr(align(64))]
        struct Temporary<T>([MaybeUninit<T>; TILE]);
        let mut memory: [Temporary<T>; MAX_TEMPORARIES] =
            [const { Temporary([const { MaybeUninit::uninit() }; TILE]) }; MAX_TEMPORARIES];
        let mut start = 0;
        // Runs may be longer than a tile where nothing needs a buffer.
        while start < n {
            let m = TILE.min(n - start);
            let mut slots = [(std::ptr::null_mut::<T>(), 1usize); MAX_SLOTS];
            for (s, (p, step)) in slots.iter_mut().zip(in_ptrs.iter().zip(in_steps)) {
                *s = (p.cast_mut().wrapping_add(start * step), *step);
            }
            for (s, p) in slots[in_ptrs.len()..].iter_mut().zip(out_ptrs) {
                *s = (p.wrapping_add(start), 1);
            }
            for (s, t) in slots[n_fixed..n_fixed + n_temporaries].iter_mut().zip(&mut memory) {
                *s = (t.0.as_mut_ptr().cast(), 1);
            }
            for c in &codes {
                let mut ptrs = [std::ptr::null::<T>(); MAX_INPUTS];
                let mut steps = [0usize; MAX_INPUTS];
                for k in 0..c.arity {
                    (ptrs[k], steps[k]) = (slots[c.operands[k]].0.cast_const(), slots[c.operands[k]].1);
                }
                // SAFETY: every slot holds `m` numbers (one where the step is 0).
                unsafe { (c.tile)(m, ptrs.as_ptr(), steps.as_ptr(), slots[c.dest].0, c.params.as_ptr()) };
            }
            for (temporary, out) in &copies {
                // SAFETY: as above; a temporary lies apart from every view.
                unsafe { std::ptr::copy_nonoverlapping(slots[*temporary].0.cast_const(), slots[*out].0, m) };
            }
            start += m;
        }
    };
    // SAFETY: the launch's contract.
    unsafe { for_each_tile(&outs, &ins, &program) }
}

/// Outputs that are also inputs still to be read when they are written become temporaries, copied at the end of a tile.
fn keep_inputs<T>(
    codes: &mut [Code<T>],
    n_temporaries: &mut usize,
    ins: &[View<'_>],
    outs: &[View<'_>],
) -> Result<SmallVec<[(usize, usize); 2]>> {
    let mut copies = SmallVec::new();
    for (o, out) in outs.iter().enumerate() {
        let slot = ins.len() + o;
        let Some(written) = codes.iter().position(|c| c.dest == slot) else { continue };
        let read_later = codes[written + 1..]
            .iter()
            .any(|c| c.operands[..c.arity].iter().any(|k| *k < ins.len() && ins[*k].ptr == out.ptr));
        if !read_later {
            continue;
        }
        if *n_temporaries == MAX_TEMPORARIES {
            return Err(Error::not_implemented(format!("elementwise_chain: more than {MAX_TEMPORARIES} temporaries")));
        }
        let temporary = ins.len() + outs.len() + *n_temporaries;
        *n_temporaries += 1;
        for c in codes.iter_mut() {
            c.operands[..c.arity].iter_mut().filter(|k| **k == slot).for_each(|k| *k = temporary);
            if c.dest == slot {
                c.dest = temporary;
            }
        }
        copies.push((temporary, slot));
    }
    Ok(copies)
}
