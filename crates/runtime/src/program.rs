//! A straight line of instructions, resolved once: kernel pointers, views and parameters stand ready, so that running an op
//! costs its kernel and one indirect call.

use crate::actor::POLL;
use crate::beside::{Beside, Issuing, Side};
use crate::lower::{LaunchSpec, find, launches};
use crate::offload::Hint;
use crate::plan::{Buffer, Instr};
use crate::sync::sync::atomic::{AtomicBool, Ordering};
use oneflow_base::{Device, Error, Result};
use oneflow_core::{SpanKind, Traits, watch_span};
use oneflow_ep::Queue;
use oneflow_ep::cuda::Event;
use oneflow_global::boxing::{Circle, circle};
use oneflow_kernels::prim::{Expr, KernelFn, Launch, Params, Primitive, View, Word};
use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// The program of one compute task.
pub struct Program {
    ready: Vec<Ready>,
    origins: Vec<String>,
    /// Per buffer that it uses: its base address, and who points into it.
    bases: Vec<Base>,
    /// Where a buffer stands in `bases`.
    places: HashMap<u32, u32>,
    device: Device,
    /// What follows a launch, where variables lie in files.
    hints: HashMap<usize, Vec<Hint>>,
    /// Of launches that run beside others.
    side: Option<Side>,
}

struct Base {
    buffer: u32,
    ptr: *mut u8,
    /// (launch, is an output, operand, byte offset)
    users: Vec<(u32, bool, u32, usize)>,
}

/// One launch with everything in its place.
struct Ready {
    prim: &'static Primitive,
    kernel: KernelFn,
    expr: Option<&'static Expr>,
    params: Params,
    /// The views' sizes and strides point into `_dims`.
    ins: Box<[Option<View<'static>>]>,
    outs: Box<[Option<View<'static>>]>,
    _dims: Box<[i64]>,
    seeds: Box<[usize]>,
    offsets: Box<[(usize, u64)]>,
    /// The instruction, for errors.
    origin: u32,
    /// Whether it exchanges data with other ranks.
    talks: bool,
    /// Of one that runs beside others: the launch that waits for it.
    until: Option<usize>,
}

// SAFETY: the raw pointers are addresses of the session's memory; the program is moved to the thread of its task, which alone
// runs it.
unsafe impl Send for Program {}

impl Program {
    pub fn new(instrs: &[Instr], buffers: &[Buffer], device: Device) -> Result<Program> {
        let made = catch_unwind(AssertUnwindSafe(|| Self::make(instrs, buffers, device)));
        made.unwrap_or_else(|_| Err(Error::value("plan: an instruction's arguments break its op's rules")))
    }

    fn make(instrs: &[Instr], buffers: &[Buffer], device: Device) -> Result<Program> {
        let (bases, places, hints) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut p = Program { ready: Vec::new(), origins: Vec::new(), bases, places, device, hints, side: None };
        for i in instrs {
            p.origins.push(i.origin.clone());
            let talks = i.steps.iter().any(|s| find(&s.op).is_ok_and(|op| op.traits.has(Traits::COLLECTIVE)));
            for l in launches(i, device)? {
                p.push(l, buffers, talks)?;
            }
        }
        Ok(p)
    }

    fn push(&mut self, l: LaunchSpec, buffers: &[Buffer], talks: bool) -> Result<()> {
        let at = self.ready.len() as u32;
        let kernel = l.prim.kernel(self.device.kind, &l.ins, &l.outs)?;
        let mut dims: Vec<i64> = Vec::new();
        for o in l.ins.iter().chain(&l.outs).flatten() {
            // The op's own rule may have made another layout of the operand: it has to stay inside as well.
            // One without elements lies nowhere.
            let reaches = |end: u64| if o.sizes.contains(&0) { 0 } else { end };
            let at = o.extent().zip(buffers.get(o.buffer as usize));
            let inside = at.is_some_and(|((_, end), b)| reaches(end) <= b.bytes);
            if !inside {
                return Err(Error::value(format!("plan: {}: an operand lies outside its buffer", l.prim.name)));
            }
            dims.extend_from_slice(&o.sizes);
            dims.extend_from_slice(&o.strides);
        }
        l.ins.iter().chain(&l.outs).flatten().try_for_each(|o| l.prim.operand(o.dtype).map(drop))?;
        let dims = dims.into_boxed_slice();
        // SAFETY: the box is kept beside the views and never changes or moves its elements.
        let words: &'static [i64] = unsafe { std::slice::from_raw_parts(dims.as_ptr(), dims.len()) };
        let mut next = 0;
        let (places, bases) = (&mut self.places, &mut self.bases);
        let mut side = |operands: &[Option<crate::plan::Operand>], is_out: bool| {
            let mut views: Vec<Option<View<'static>>> = Vec::with_capacity(operands.len());
            for (k, o) in operands.iter().enumerate() {
                views.push(o.as_ref().map(|o| {
                    let n = o.sizes.len();
                    let v = View {
                        ptr: std::ptr::null_mut(),
                        dtype: l.prim.operand(o.dtype).unwrap_or(o.dtype),
                        sizes: &words[next..next + n],
                        strides: &words[next + n..next + 2 * n],
                    };
                    next += 2 * n;
                    let bytes = if o.sizes.contains(&0) { 0 } else { o.offset as usize * o.dtype.size() };
                    let place = *places.entry(o.buffer).or_insert_with(|| {
                        bases.push(Base { buffer: o.buffer, ptr: std::ptr::null_mut(), users: Vec::new() });
                        bases.len() as u32 - 1
                    });
                    bases[place as usize].users.push((at, is_out, k as u32, bytes));
                    v
                }));
            }
            views.into_boxed_slice()
        };
        let ins = side(&l.ins, false);
        let outs = side(&l.outs, true);
        self.ready.push(Ready {
            prim: l.prim,
            kernel,
            expr: l.expr,
            params: l.params,
            ins,
            outs,
            _dims: dims,
            seeds: l.seeds.into_vec().into_boxed_slice(),
            offsets: l.offsets.into_vec().into_boxed_slice(),
            origin: self.origins.len() as u32 - 1,
            talks,
            until: None,
        });
        Ok(())
    }

    /// Number of kernel launches of one run.
    pub fn len(&self) -> usize {
        self.ready.len()
    }
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    pub fn device(&self) -> Device {
        self.device
    }

    /// Says what follows the launches of an instruction.
    pub fn set_hints(&mut self, hints: Vec<(usize, Hint)>) {
        for (instr, hint) in hints {
            if let Some(last) = self.ready.iter().rposition(|r| r.origin as usize == instr) {
                self.hints.entry(last).or_default().push(hint);
            }
        }
    }

    /// Says which instructions run beside others.
    pub(crate) fn set_beside(&mut self, beside: &[Beside]) -> Result<()> {
        if beside.is_empty() {
            return Ok(());
        }
        self.side = Some(Side::of(self.device)?);
        for (instr, until) in beside {
            let until = self.ready.iter().position(|r| r.origin as usize >= *until).unwrap_or(self.ready.len());
            let own = self.ready.iter_mut().filter(|r| r.origin as usize == *instr);
            own.for_each(|r| r.until = Some(until));
        }
        Ok(())
    }

    /// The ranks that run a launch together, where their collective is in the order of this device's queues.
    pub(crate) fn circle(&self, launch: usize) -> Option<Circle> {
        let r = &self.ready[launch];
        circle(r.prim, &r.params, self.device)
    }

    /// Whether a launch exchanges data with other ranks.
    pub fn talks(&self, launch: usize) -> bool {
        self.ready[launch].talks
    }

    /// Where the buffers lie, in the order of their places.
    pub fn addresses(&self) -> impl Iterator<Item = usize> {
        self.bases.iter().map(|b| b.ptr as usize)
    }

    /// The buffers that its launches touch, by their places here.
    pub fn used(&self) -> impl Iterator<Item = (usize, u32)> {
        self.bases.iter().enumerate().map(|(place, b)| (place, b.buffer))
    }

    /// Where the buffer at a place lies.
    pub(crate) fn base(&self, place: usize) -> *mut u8 {
        self.bases[place].ptr
    }

    /// Says where the buffer at a place lies from now on.
    pub fn set_base(&mut self, place: usize, ptr: *mut u8) {
        let b = &mut self.bases[place];
        if b.ptr == ptr {
            return;
        }
        b.ptr = ptr;
        for &(launch, is_out, k, bytes) in &b.users {
            let r = &mut self.ready[launch as usize];
            let views = if is_out { &mut r.outs } else { &mut r.ins };
            if let Some(v) = &mut views[k as usize] {
                v.ptr = ptr.wrapping_add(bytes);
            }
        }
    }

    /// Gives the random ops of the next run their seed and positions.
    pub fn set_rng(&mut self, seed: u64, offset: u64) {
        for r in &mut self.ready {
            for &i in &r.seeds {
                r.params[i] = Word(seed);
            }
            for &(i, site) in &r.offsets {
                r.params[i] = Word(offset.wrapping_add(site));
            }
        }
    }

    /// Issues launches to a queue in order; between them a raised flag, or `poll` (asked at times), ends it with an error.
    ///
    /// # Safety
    /// Every used buffer has a base with memory of its size behind it, which nobody else touches meanwhile.
    pub unsafe fn run(
        &self,
        launches: Range<usize>,
        queue: Queue,
        cancel: &AtomicBool,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.issue(launches, queue, cancel, poll) }.map_err(|(_, e)| e)
    }

    /// As `run`; an error comes with the launch that met it.
    ///
    /// # Safety
    /// As for `run`.
    pub(crate) unsafe fn issue(
        &self,
        launches: Range<usize>,
        queue: Queue,
        cancel: &AtomicBool,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<(), (usize, Error)> {
        let mut under_way = Vec::new();
        let mut at = launches.start;
        // SAFETY: the caller's promise.
        let done = unsafe { self.issue_each(launches, queue, cancel, poll, &mut at, &mut under_way) };
        // What is issued next waits for all of it, whatever has failed.
        let joined = under_way.iter().try_for_each(|(_, mark)| self.join(queue, mark));
        done.and(joined).map_err(|e| (at, e))
    }

    fn join(&self, queue: Queue, mark: &Event) -> Result<()> {
        self.side.as_ref().map_or(Ok(()), |side| side.join(queue, mark))
    }

    /// # Safety
    /// As for `run`.
    unsafe fn issue_each(
        &self,
        launches: Range<usize>,
        queue: Queue,
        cancel: &AtomicBool,
        poll: &mut dyn FnMut() -> Result<()>,
        now: &mut usize,
        under_way: &mut Vec<(usize, Event)>,
    ) -> Result<()> {
        let mut asked = Instant::now();
        for (at, r) in launches.clone().zip(&self.ready[launches]) {
            *now = at;
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::runtime("the run was interrupted"));
            }
            if asked.elapsed() > POLL {
                poll()?;
                asked = Instant::now();
            }
            while let Some(due) = under_way.iter().position(|(until, _)| *until <= at) {
                self.join(queue, &under_way.swap_remove(due).1)?;
            }
            let side = r.until.and(self.side.as_ref());
            if let Some(side) = side {
                side.follow(queue)?;
            }
            let queue = side.map_or(queue, Side::queue);
            // A collective issues by itself, and not to the queue of its launch.
            let _issuing = (r.talks && !self.device.is_cpu()).then(|| Issuing::to(queue));
            let origin = &self.origins[r.origin as usize];
            let _span = watch_span(SpanKind::Instruction, || origin.clone().into(), 0);
            let l = Launch { outs: &r.outs, ins: &r.ins, params: &r.params, expr: r.expr, queue };
            // SAFETY: `launches` made the operands by the op's own rules, `push` checked that they lie inside their
            // buffers, and the caller vouches for the buffers.
            if let Err(e) = unsafe { (r.kernel)(&l) } {
                return Err(e.context(format_args!("{origin}: ")));
            }
            if let (Some(side), Some(until)) = (side, r.until) {
                under_way.push((until, side.mark()?));
            }
            if !self.hints.is_empty() {
                self.hints.get(&at).into_iter().flatten().for_each(Hint::give);
            }
        }
        // What a device still has to do comes before what is issued to its queue next.
        Ok(())
    }
}
