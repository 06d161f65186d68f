//! Launches of a program that are recorded once and issued as a whole afterwards, on devices that can: straight stretches between
//! those that need the host.
//!
//! The first run with certain addresses launches one by one, which makes kernels and plans of libraries; the second one is
//! recorded. Recordings are kept for the sets of addresses that were used last. Inputs and results that lie elsewhere each time
//! are copied from and to a place of their own.
//!
//! A recording holds collectives if all their ranks have made one (`consent.rs`). No rank then issues collectives one by one while
//! others launch theirs: all inputs and results are copied, and a rank whose variables have moved records anew. It asks nobody,
//! since a recording runs nothing and all ranks launch as before. Without consent collectives stand between recordings.

use crate::consent::{Circles, Consent, settle};
use crate::program::Program;
use crate::sync::sync::atomic::AtomicBool;
use oneflow_base::{Device, Error, Result};
use oneflow_core::{SpanKind, Storage, watch_span};
use oneflow_ep::{Copy, Position, Provider, Queue, Recorded, provider};
use std::ops::Range;

/// Sets of addresses whose recordings are kept, and how many are remembered that were met once.
const KEPT: usize = 8;
const SEEN: usize = 8;
/// After how many runs at new addresses what moves gets a place of its own, and bytes of such places.
const PATIENCE: usize = 12;
const MAX_PLACED: u64 = 64 << 20;
/// Launches that are worth a recording.
const WORTH: usize = 2;

/// A buffer that may have a copy of its own.
pub(crate) struct Movable {
    pub place: usize,
    pub bytes: u64,
    /// Written by this program alone, rather than read.
    pub is_result: bool,
}

/// What a program has recorded.
pub(crate) struct Replays {
    device: Device,
    movable: Vec<Movable>,
    placed: Vec<Placed>,
    /// The latest first.
    kept: Vec<Kept>,
    seen: Vec<Vec<usize>>,
    /// Runs at new addresses since the last one that was not.
    n_missed: usize,
    /// Launches that need the host.
    alone: Vec<bool>,
    is_off: bool,
    /// Of a plan that may be recorded as a whole, with its collectives.
    whole: Option<(Consent, Circles)>,
}

struct Placed {
    at: Movable,
    storage: Storage,
    /// Where the caller has it in this run; null before the first one.
    now: *mut u8,
}

// SAFETY: the address is the session's memory, as in a program.
unsafe impl Send for Placed {}

struct Kept {
    addresses: Vec<usize>,
    stretches: Vec<Stretch>,
}

enum Stretch {
    Whole(Box<dyn Recorded>),
    Launches(Range<usize>),
}

impl Replays {
    pub fn new(program: &Program, movable: Vec<Movable>) -> Replays {
        let (device, n) = (program.device(), program.len());
        let is_wanted = std::env::var_os("ONEFLOW_CUDA_GRAPHS").is_none_or(|v| v != "0");
        let can = is_wanted && provider(device.kind).is_ok_and(|p| p.can_record());
        let (placed, kept, seen) = (Vec::new(), Vec::new(), Vec::new());
        let alone = (0..n).map(|i| program.talks(i)).collect();
        let (is_off, whole) = (!can || n < WORTH, None);
        Replays { device, movable, placed, kept, seen, n_missed: 0, alone, is_off, whole }
    }

    /// Returns true if the program could be recorded as a whole, once and for all addresses of what moves.
    pub fn can_be_whole(&self) -> bool {
        !self.is_off && self.movable.iter().map(|m| m.bytes).sum::<u64>() <= MAX_PLACED
    }

    /// Returns true if the buffer at a place may have a copy of its own.
    pub fn moves(&self, place: usize) -> bool {
        self.movable.iter().any(|m| m.place == place)
    }

    /// Lets ranks decide whether the program is recorded as a whole.
    pub fn set_whole(&mut self, consent: Consent, circles: Circles) {
        self.whole = Some((consent, circles));
    }

    /// Says where a buffer lies in this run.
    pub fn set_base(&mut self, program: &mut Program, place: usize, ptr: *mut u8) {
        let own = self.placed.iter_mut().find(|p| p.at.place == place);
        program.set_base(
            place,
            own.map_or(ptr, |p| {
                p.now = ptr;
                p.storage.ptr()
            }),
        );
    }

    /// Runs the program, whose random numbers are set. `records`: all ranks record it as a whole now.
    ///
    /// # Safety
    /// As for `Program::run`; what `set_base` was given counts.
    pub unsafe fn run(
        &mut self,
        program: &mut Program,
        (random, records): (Position, bool),
        cancel: &AtomicBool,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let provider = provider(self.device.kind)?;
        let queue = provider.queue(self.device.index);
        // Within somebody's capture the launches become part of it.
        let is_own = queue.raw == provider.own_queue(self.device.index).raw && !provider.is_recorded(queue);
        if records {
            self.make_whole(provider, program, (random, is_own), cancel, poll)?;
        }
        self.copy_placed(provider, queue, false)?;
        let ready = match self.whole.as_ref().map(|(consent, _)| consent.decided()) {
            _ if !is_own => false,
            None | Some(Some(false)) => !self.is_off && self.find(provider, program, random, cancel, poll),
            Some(None) => false,
            Some(Some(true)) => self.find_whole(provider, program, random, cancel, poll),
        };
        // SAFETY: the caller's promise; recordings touch the same addresses.
        unsafe {
            match self.kept.first_mut().filter(|_| ready) {
                Some(kept) => kept.run(program, queue, random, cancel, poll)?,
                None => program.run(0..program.len(), queue, cancel, poll)?,
            }
        }
        self.copy_placed(provider, queue, true)
    }

    /// Records the whole, if all ranks do.
    fn make_whole(
        &mut self,
        provider: &'static dyn Provider,
        program: &mut Program,
        (random, is_own): (Position, bool),
        cancel: &AtomicBool,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let Some((consent, circles)) = self.whole.clone() else { return Ok(()) };
        let made = match is_own {
            true => self.record_all(provider, program, random, cancel, poll),
            false => Err(Error::runtime("they are part of another capture")),
        };
        if let Err(e) = &made {
            tracing::warn!("launches are not recorded together with collectives: {e}");
        }
        let settled = settle(&consent, &circles, made.is_ok());
        if !matches!(settled, Ok(true)) {
            self.take_back(program);
        }
        settled.map(drop)
    }

    /// Records the whole with its collectives, between places of its own for all that moves.
    fn record_all(
        &mut self,
        provider: &'static dyn Provider,
        program: &mut Program,
        random: Position,
        cancel: &AtomicBool,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        while let Some(at) = self.movable.pop() {
            let storage = match Storage::new(self.device, at.bytes as usize) {
                Ok(storage) => storage,
                Err(e) => {
                    self.movable.push(at);
                    return Err(e);
                }
            };
            let now = program.base(at.place);
            program.set_base(at.place, storage.ptr());
            self.placed.push(Placed { at, storage, now });
        }
        self.alone.fill(false);
        let stretches = self.record(provider, program, random, cancel, poll)?;
        match (0..program.len()).find(|i| self.alone[*i] && program.talks(*i)) {
            Some(_) => Err(Error::runtime("a collective needs the host")),
            None => {
                self.kept = vec![Kept { addresses: program.addresses().collect(), stretches }];
                Ok(())
            }
        }
    }

    /// As before `record_all`.
    fn take_back(&mut self, program: &mut Program) {
        self.kept.clear();
        for Placed { at, now, .. } in self.placed.drain(..) {
            program.set_base(at.place, now);
            self.movable.push(at);
        }
        self.alone = (0..program.len()).map(|i| program.talks(i)).collect();
    }

    /// Puts the recording that was kept for these addresses first; false where there is none.
    fn bring_first(&mut self, program: &Program) -> bool {
        let known = self.kept.iter().position(|k| k.is_at(program));
        if let Some(k) = known {
            self.kept[..=k].rotate_right(1);
        }
        known.is_some()
    }

    /// Keeps a recording as the first, and forgets the one that was used longest ago where there are too many.
    fn keep(&mut self, kept: Kept) {
        self.kept.truncate(KEPT - 1);
        self.kept.insert(0, kept);
    }

    /// Puts the recording for these addresses first, and makes one where they were met before; false where there is none yet.
    fn find(
        &mut self,
        provider: &'static dyn Provider,
        program: &Program,
        random: Position,
        cancel: &AtomicBool,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> bool {
        if self.bring_first(program) {
            self.n_missed = 0;
            return true;
        }
        self.n_missed += 1;
        let known = self.seen.iter().position(|seen| program.addresses().eq(seen.iter().copied()));
        let Some(known) = known else {
            if self.n_missed > PATIENCE {
                self.place_what_moves(program);
            }
            if self.seen.len() >= SEEN {
                self.seen.remove(0);
            }
            self.seen.push(program.addresses().collect());
            return false;
        };
        match self.record(provider, program, random, cancel, poll) {
            Ok(stretches) => {
                let addresses = self.seen.remove(known);
                self.keep(Kept { addresses, stretches });
                self.is_off = self.alone.windows(WORTH).all(|w| w.contains(&true));
                true
            }
            Err(e) => {
                tracing::warn!("launches are not recorded: {e}");
                self.is_off = true;
                false
            }
        }
    }

    /// Puts the recording of the whole for these addresses first, and makes one where variables have moved. Where that fails, this
    /// rank issues one by one what the others launch.
    fn find_whole(
        &mut self,
        provider: &'static dyn Provider,
        program: &Program,
        random: Position,
        cancel: &AtomicBool,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> bool {
        if self.bring_first(program) {
            return true;
        }
        if self.is_off {
            return false;
        }
        let made = self.record(provider, program, random, cancel, poll);
        let is_whole = !(0..program.len()).any(|i| self.alone[i] && program.talks(i));
        match made {
            Ok(stretches) if is_whole => {
                self.keep(Kept { addresses: program.addresses().collect(), stretches });
                return true;
            }
            Ok(_) => {
                tracing::warn!("launches whose variables have moved are not recorded: a collective needs the host")
            }
            Err(e) => tracing::warn!("launches whose variables have moved are not recorded: {e}"),
        }
        self.is_off = true;
        false
    }

    /// Stretches from one launch that needs the host to the next; such launches show while they are recorded.
    fn record(
        &mut self,
        provider: &'static dyn Provider,
        program: &Program,
        random: Position,
        cancel: &AtomicBool,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Stretch>> {
        let (mut stretches, mut start): (Vec<Stretch>, usize) = (Vec::new(), 0);
        while start < program.len() {
            let is_alone = self.alone[start];
            let end = (start..program.len()).find(|i| self.alone[*i] != is_alone).unwrap_or(program.len());
            if is_alone || end - start < WORTH {
                match stretches.last_mut() {
                    Some(Stretch::Launches(before)) => before.end = end,
                    _ => stretches.push(Stretch::Launches(start..end)),
                }
                start = end;
                continue;
            }
            let recording = provider.begin_recording(self.device.index, random)?;
            let queue = recording.queue();
            // SAFETY: nothing is done yet; as for the launches themselves.
            let refused = unsafe { program.issue(start..end, queue, cancel, poll) }.err().map(|(at, _)| at);
            match refused.map_or_else(|| recording.end(), |_| Err(Error::runtime("a launch needs the host"))) {
                Ok(whole) => {
                    stretches.push(Stretch::Whole(whole));
                    start = end;
                }
                // Which one it was may not be known.
                Err(_) => self.alone[refused.map_or(start..end, |i| i..i + 1)].fill(true),
            }
        }
        Ok(stretches)
    }

    /// Gives places of their own to buffers that were elsewhere in the last runs.
    fn place_what_moves(&mut self, program: &Program) {
        self.n_missed = 0;
        let Some(last) = self.seen.last() else { return };
        let moved: Vec<bool> = program.addresses().zip(last).map(|(now, before)| now != *before).collect();
        let mut left = MAX_PLACED - self.placed.iter().map(|p| p.at.bytes).sum::<u64>();
        for k in (0..self.movable.len()).rev() {
            let m = &self.movable[k];
            if !moved[m.place] || m.bytes > left {
                continue;
            }
            let Ok(storage) = Storage::new(self.device, m.bytes as usize) else { return };
            left -= m.bytes;
            let at = self.movable.swap_remove(k);
            self.placed.push(Placed { at, storage, now: std::ptr::null_mut() });
        }
        self.kept.clear();
        self.seen.clear();
    }

    /// Copies inputs to their places, or results from theirs.
    fn copy_placed(&mut self, provider: &dyn Provider, queue: Queue, results: bool) -> Result<()> {
        for p in self.placed.iter().filter(|p| p.at.is_result == results && !p.now.is_null()) {
            let (to, from) = if results { (p.now, p.storage.ptr()) } else { (p.storage.ptr(), p.now) };
            // SAFETY: both have the buffer's bytes, as the session checked.
            unsafe { provider.copy(queue, Copy::DeviceToDevice, to, from, p.at.bytes as usize)? };
        }
        Ok(())
    }
}

impl Kept {
    fn is_at(&self, program: &Program) -> bool {
        program.addresses().eq(self.addresses.iter().copied())
    }

    unsafe fn run(
        &mut self,
        program: &Program,
        queue: Queue,
        random: Position,
        cancel: &AtomicBool,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        for stretch in &mut self.stretches {
            match stretch {
                Stretch::Whole(whole) => {
                    let n = whole.n_parts();
                    let _span = watch_span(SpanKind::Instruction, || format!("graph of {n} launches").into(), 0);
                    whole.issue(queue, random)?;
                }
                // SAFETY: the caller's promise.
                Stretch::Launches(range) => unsafe { program.run(range.clone(), queue, cancel, poll)? },
            }
        }
        Ok(())
    }
}
