//! ELEMENTWISE_CHAIN: expressions in sequence over tiles that stay in the first cache, so that a chain of ops reads and
//! writes memory once.

use crate::io::{Io, by_compute};
use crate::map::no_kernel;
use crate::tiles::{MAX_INS, MAX_OUTS, TILE, for_each_tile};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::{ELEMENTWISE_CHAIN, Expr, Launch, MAX_INPUTS, MAX_PARAMS, Params, Tile, View, Word, isa};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// Where a step reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    In(usize),
    Out(usize),
    Temporary(usize),
}

/// One expression of a chain.
#[derive(Clone, Debug)]
pub struct Step {
    pub expr: &'static Expr,
    pub scalars: SmallVec<[Word; 2]>,
    pub operands: SmallVec<[Operand; 3]>,
    pub dest: Operand,
}

/// A program of expressions on tiles.
#[derive(Clone, Debug)]
pub struct Chain {
    /// F32, F64 or I64.
    pub compute: DType,
    pub n_ins: usize,
    pub n_outs: usize,
    pub steps: Vec<Step>,
}

impl Chain {
    /// The program as launch parameters of `ELEMENTWISE_CHAIN`. The expressions must be registered.
    pub fn params(&self) -> Result<Params> {
        let slot = |o: Operand| -> Word {
            let i = match o {
                Operand::In(i) => i,
                Operand::Out(i) => self.n_ins + i,
                Operand::Temporary(i) => self.n_ins + self.n_outs + i,
            };
            Word::from(i as u64)
        };
        let mut words = Params::new();
        words.push(Word::from(self.compute));
        words.push(Word::from(self.steps.len() as u64));
        for s in &self.steps {
            let id = s
                .expr
                .id()
                .ok_or_else(|| Error::runtime(format!("chain: expression {:?} is not registered", s.expr)))?;
            words.push(Word::from(id as u64));
            words.push(Word::from(s.scalars.len() as u64));
            words.extend_from_slice(&s.scalars);
            words.extend(s.operands.iter().map(|o| slot(*o)));
            words.push(slot(s.dest));
        }
        Ok(words)
    }
}

/// Runs a chain on views of one device.
///
/// # Safety
/// As for any launch: the views are valid, and outputs overlap inputs at most exactly.
pub unsafe fn run_chain(
    chain: &Chain,
    outs: &[Option<View<'_>>],
    ins: &[Option<View<'_>>],
    queue: oneflow_ep::Queue,
) -> Result<()> {
    let params = chain.params()?;
    let kernel = ELEMENTWISE_CHAIN.on(queue.device.kind)?;
    // SAFETY: the caller's.
    unsafe { kernel(&Launch { outs, ins, params: &params, expr: None, queue }) }
}

pub unsafe fn elementwise_chain(l: &Launch<'_>) -> Result<()> {
    let (dtype, _) = l.scalars()?;
    // SAFETY: the launch's contract.
    unsafe { by_compute!(dtype, run(l)) }
}

/// A decoded step.
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

fn decode<T: Io>(l: &Launch<'_>) -> Result<(SmallVec<[Code<T>; 8]>, usize)> {
    let bad = |what: String| Error::runtime(format!("elementwise_chain: {what}"));
    let n_fixed = l.ins.len() + l.outs.len();
    let mut words = l.scalars()?.1.iter();
    let mut next = || words.next().copied().ok_or_else(|| bad("a parameter is missing".into()));
    let n_steps = next()?.usize();
    let mut codes = SmallVec::new();
    let mut n_temporaries = 0;
    for _ in 0..n_steps {
        let id = next()?.0;
        let expr = Expr::by_id(id as u32).ok_or_else(|| bad(format!("no expression has the id {id}")))?;
        let n_scalars = next()?.usize();
        if n_scalars > MAX_PARAMS {
            return Err(bad(format!("{}: {n_scalars} scalars, at most {MAX_PARAMS}", expr.name)));
        }
        let mut c = Code {
            tile: T::tile(expr, isa()).ok_or_else(|| no_kernel(expr, T::DTYPE))?,
            params: [T::default(); MAX_PARAMS],
            arity: expr.arity,
            operands: [0; MAX_INPUTS],
            dest: 0,
        };
        for p in &mut c.params[..n_scalars] {
            *p = T::word(&[next()?]);
        }
        for o in &mut c.operands[..expr.arity] {
            *o = next()?.usize();
        }
        c.dest = next()?.usize();
        for &slot in c.operands[..expr.arity].iter().chain([&c.dest]) {
            if slot >= n_fixed + MAX_TEMPORARIES {
                return Err(bad(format!("slot {slot}: at most {MAX_TEMPORARIES} temporaries")));
            }
            n_temporaries = n_temporaries.max((slot + 1).saturating_sub(n_fixed));
        }
        if c.dest < l.ins.len() {
            return Err(bad(format!("{}: the destination is an input", expr.name)));
        }
        codes.push(c);
    }
    Ok((codes, n_temporaries))
}

unsafe fn run<T: Io>(l: &Launch<'_>) -> Result<()> {
    let (mut codes, mut n_temporaries) = decode::<T>(l)?;
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
