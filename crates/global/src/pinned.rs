//! Layouts that a plan has chosen for single calls: the rule decides where the plan says nothing.
//!
//! A call is known by its op and the sizes of its inputs, and by how many such calls came before it in its micro-batch: a plan
//! made from a trace of one micro-batch without ranks then holds for all of them on ranks. Chooses nothing itself (`choose` says
//! what an op offers).

use crate::choose::{Axes, Choice, choices_over};
use crate::tensor::Spread;
use oneflow_base::{Error, NdSbp, NdSbpId, Result};
use oneflow_core::{Call, Tensor};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The layouts of a call: one for each input slot and each output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    pub ins: Vec<NdSbp>,
    pub outs: Vec<NdSbp>,
}

/// By the call (`call_key`) and its number among equal ones.
pub type Pins = HashMap<(String, usize), Pin>;

struct State {
    pins: Pins,
    /// How many calls of a key there were in this micro-batch.
    seen: HashMap<String, usize>,
    /// Behind the last micro-batch.
    is_end: bool,
    is_paused: bool,
    met: HashSet<(String, usize)>,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// The op and the sizes of its inputs: "linear [8, 16] [32, 16] -".
pub fn call_key(name: &str, sizes: impl Iterator<Item = Option<Vec<i64>>>) -> String {
    let mut key = name.to_owned();
    for s in sizes {
        key += " ";
        key += &s.map_or_else(|| "-".to_owned(), |s| format!("{s:?}"));
    }
    key
}

/// The key of a call behind the last micro-batch.
pub fn end_key(key: String) -> String {
    format!("end {key}")
}

/// From now on this thread's calls on global tensors have these layouts.
pub fn begin(pins: Pins) {
    let (seen, met) = (HashMap::new(), HashSet::new());
    STATE.set(Some(State { pins, seen, is_end: false, is_paused: false, met }));
}

/// A micro-batch begins, or the last one has ended: calls are counted from here.
pub fn micro_batch(is_end: bool) {
    STATE.with_borrow_mut(|s| {
        if let Some(s) = s {
            s.seen.clear();
            s.is_end = is_end;
        }
    });
}

/// Leaves out calls that the plan does not know, such as those that only a rank's program makes again.
pub fn pause(on: bool) {
    STATE.with_borrow_mut(|s| {
        if let Some(s) = s {
            s.is_paused = on;
        }
    });
}

/// By key, how many calls this micro-batch has had; nothing where there is no plan.
pub fn counted() -> HashMap<String, usize> {
    STATE.with_borrow(|s| s.as_ref().map(|s| s.seen.clone()).unwrap_or_default())
}

/// Counts calls that another rank makes here and this thread leaves out: so many of each key.
pub fn pass(calls: &HashMap<String, usize>) {
    STATE.with_borrow_mut(|s| {
        let Some(State { pins, seen, met, .. }) = s else { return };
        for (key, n) in calls {
            let before = seen.entry(key.clone()).or_default();
            let passed = (*before..*before + n).map(|k| (key.clone(), k));
            met.extend(passed.filter(|at| pins.contains_key(at)));
            *before += n;
        }
    });
}

/// Ends what `begin` began.
///
/// # Errors
/// RuntimeError: the calls of a pin did not come.
pub fn end() -> Result<()> {
    let Some(s) = STATE.take() else { return Ok(()) };
    let mut left: Vec<_> = s.pins.keys().filter(|at| !s.met.contains(at)).collect();
    if left.is_empty() {
        return Ok(());
    }
    left.sort();
    let first = left.first().map_or_else(String::new, |(k, n)| format!("{k} number {n}"));
    Err(Error::runtime(format!(
        "the plan has layouts for {} calls that the program does not make, such as {first}: plan this program anew",
        left.len()
    )))
}

/// Ends what `begin` began, whatever has come.
pub fn abort() {
    STATE.set(None);
}

/// The pin of a call, which is counted.
fn next(c: &Call<'_>) -> Option<Pin> {
    STATE.with_borrow_mut(|s| {
        let s = s.as_mut().filter(|s| !s.is_paused)?;
        let key = call_key(c.op.name(), c.ins.iter().map(|t| t.map(|t| t.sizes().to_vec())));
        let key = if s.is_end { end_key(key) } else { key };
        let n = s.seen.entry(key.clone()).or_default();
        let at = (key, *n);
        *n += 1;
        let pin = s.pins.get(&at).cloned();
        if pin.is_some() {
            s.met.insert(at);
        }
        pin
    })
}

/// The layouts that a plan wants for a call with fresh results.
pub(crate) fn choice(c: &Call<'_>, outs: &[Tensor], home: Spread) -> Result<Option<Rc<Choice>>> {
    let Some(pin) = next(c) else { return Ok(None) };
    let ids = |l: &[NdSbp]| l.iter().map(|s| NdSbpId::of(s)).collect::<Vec<_>>();
    let (ins, to) = (ids(&pin.ins), ids(&pin.outs));
    let offered = choices_over(c, outs, Axes::of(home.placement))?;
    let found = offered.into_iter().find(|o| o.ins.as_slice() == ins && o.outs.as_slice() == to);
    match found {
        Some(found) => Ok(Some(Rc::new(found))),
        None => Err(Error::runtime(format!(
            "{}(): the plan wants sbp {:?} -> {:?}, which the op does not offer over {} ({})",
            c.name(),
            pin.ins,
            pin.outs,
            home.placement,
            c.describe()
        ))),
    }
}

/// A call that writes in place: its destination has a layout.
pub(crate) fn skip(c: &Call<'_>) -> Result<()> {
    match next(c) {
        None => Ok(()),
        Some(_) => {
            Err(Error::runtime(format!("{}_(): the plan has a layout for a call that writes in place", c.name())))
        }
    }
}
