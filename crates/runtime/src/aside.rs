//! Copies of variables that lie on the host, which a device makes on a queue of its own while it computes.
//!
//! A task that only reads such variables and writes memory of the run is issued there. It waits for what stands before it in the
//! plan, as that may still use the memory; the tasks that consume its result make the own queue wait for it. Inside of
//! somebody's capture all goes to the one queue that is recorded.

use crate::plan::{Home, Plan, Task, Work};
use crate::sync::sync::Arc;
use oneflow_base::{Device, DeviceType, Result};
use oneflow_core::Storage;
use oneflow_ep::{Queue, provider};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The queue of a device's copies.
pub struct Aside {
    device: Device,
    queue: Queue,
}

impl Aside {
    /// The one of a device; `None` where work has no queues.
    fn of(device: Device) -> Result<Option<Arc<Aside>>> {
        // Queues live until the process ends, so all sessions share one.
        static ALL: Mutex<Option<HashMap<u16, usize>>> = Mutex::new(None);
        if device.kind != DeviceType::CUDA {
            return Ok(None);
        }
        let Some(cuda) = oneflow_ep::cuda::provider() else { return Ok(None) };
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get_or_insert_default();
        let raw = match known.get(&device.index) {
            Some(raw) => *raw,
            None => {
                let made = cuda.new_queue(device.index)?.raw as usize;
                known.insert(device.index, made);
                made
            }
        };
        Ok(Some(Arc::new(Aside { device, queue: Queue { device, raw: raw as *mut _ } })))
    }

    /// The queue for copies; `None` while what the device is given is recorded.
    fn queue(&self) -> Result<Option<Queue>> {
        let p = provider(self.device.kind)?;
        Ok((!p.is_recorded(p.own_queue(self.device.index))).then_some(self.queue))
    }

    /// Lets copies that come from now on wait for what the device was given so far.
    fn follow(&self) -> Result<()> {
        let p = provider(self.device.kind)?;
        let own = p.own_queue(self.device.index);
        if p.is_recorded(own) { Ok(()) } else { p.order(own, self.queue) }
    }

    /// Lets what the device is given from now on wait for the copies.
    fn join(&self) -> Result<()> {
        let p = provider(self.device.kind)?;
        let own = p.own_queue(self.device.index);
        if p.is_recorded(own) { Ok(()) } else { p.order(self.queue, own) }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // The run may have failed before somebody waited, and its memory is given back to the own queue.
        let _ = self.join();
    }
}

/// What a task has to do with copies that are made aside.
#[derive(Default)]
pub struct Part {
    aside: Option<Arc<Aside>>,
    /// It is such copies.
    copies: bool,
    /// Of copies: nothing before them in the run says what they wait for.
    is_first: bool,
    /// It reads results of copies.
    reads: bool,
    /// Copies are issued when it has been. It says so itself: when their thread comes to it, more may have been issued.
    leads: bool,
}

impl Part {
    /// Before the task is issued: the queue for it, where it is not the device's own.
    pub fn begin(&self) -> Result<Option<Queue>> {
        let Some(aside) = &self.aside else { return Ok(None) };
        if self.reads {
            aside.join()?;
        }
        if self.is_first {
            aside.follow()?;
        }
        if self.copies { aside.queue() } else { Ok(None) }
    }

    /// After it was issued.
    pub fn end(&self) -> Result<()> {
        match &self.aside {
            Some(aside) if self.leads => aside.follow(),
            _ => Ok(()),
        }
    }
}

/// The part of each task of a plan.
pub fn parts(plan: &Plan, variables: &[Storage]) -> Result<Vec<Part>> {
    let copied: Vec<Option<Device>> = plan.tasks.iter().map(|t| copied_to(plan, t, variables)).collect();
    let mut asides: HashMap<Device, Option<Arc<Aside>>> = HashMap::new();
    for device in copied.iter().flatten() {
        if !asides.contains_key(device) {
            asides.insert(*device, Aside::of(*device)?);
        }
    }
    let mut parts: Vec<Part> = plan.tasks.iter().map(|_| Part::default()).collect();
    let aside_of = |at: usize| copied[at].and_then(|d| asides.get(&d).cloned().flatten());
    for (reader, t) in plan.tasks.iter().enumerate() {
        if let Some(aside) = aside_of(reader) {
            parts[reader] = Part { aside: Some(aside), copies: true, is_first: true, ..Part::default() };
        }
        for consumed in &t.consumes {
            let makes = |t: &Task| t.produces.iter().any(|p| p.register == consumed.register);
            let Some(maker) = plan.tasks.iter().position(makes) else { continue };
            match (aside_of(maker), aside_of(reader)) {
                (Some(aside), None) => {
                    parts[reader].aside = Some(aside);
                    parts[reader].reads = true;
                }
                (None, Some(aside)) if matches!(plan.tasks[maker].work, Work::Compute(_)) => {
                    parts[maker].aside = Some(aside);
                    parts[maker].leads = true;
                    parts[reader].is_first = false;
                }
                _ => {}
            }
        }
    }
    Ok(parts)
}

/// The device to which a task copies variables from the host, if it does nothing else.
fn copied_to(plan: &Plan, t: &Task, variables: &[Storage]) -> Option<Device> {
    let Work::Compute(instrs) = &t.work else { return None };
    let home = |buffer: u32| plan.buffers.get(buffer as usize);
    let is_on_host = |buffer: u32| {
        let variable = home(buffer).and_then(|b| if let Home::Variable(k) = b.home { Some(k) } else { None });
        variable.and_then(|k| variables.get(k as usize)).is_some_and(Storage::is_on_host)
    };
    let is_of_run = |buffer: u32| home(buffer).is_some_and(|b| matches!(b.home, Home::Arena { .. }));
    let reads = |i: &crate::plan::Instr| !i.ins.is_empty() && i.ins.iter().all(|o| is_on_host(o.buffer));
    let all = instrs.iter().all(|i| reads(i) && i.outs.iter().all(|o| is_of_run(o.buffer)));
    let first = instrs.first().and_then(|i| i.outs.first())?;
    home(first.buffer).map(|b| b.device).filter(|d| all && !d.is_cpu())
}
