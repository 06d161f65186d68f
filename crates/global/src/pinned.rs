//! Layouts that a plan has chosen for single calls: the rule decides where the plan says nothing.
//!
//! A call is known by its op and the sizes of its inputs, and by how many such calls came before it: a plan made from a trace
//! without ranks then holds for the program on ranks. Chooses nothing itself (`choose` says what an op offers).

use crate::choose::{Choice, choices};
use crate::tensor::Spread;
use oneflow_base::{Error, NdSbp, NdSbpId, Result};
use oneflow_core::{Call, Tensor};
use std::cell::RefCell;
use std::collections::HashMap;
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
    /// How many calls of a key there were.
    seen: HashMap<String, usize>,
    met: usize,
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

/// From now on this thread's calls on global tensors have these layouts.
pub fn begin(pins: Pins) {
    STATE.set(Some(State { pins, seen: HashMap::new(), met: 0 }));
}

/// Ends what `begin` began.
///
/// # Errors
/// RuntimeError: the calls of a pin did not come.
pub fn end() -> Result<()> {
    let Some(s) = STATE.take() else { return Ok(()) };
    if s.met == s.pins.len() {
        return Ok(());
    }
    let mut left: Vec<_> = s.pins.keys().filter(|(k, n)| s.seen.get(k).copied().unwrap_or(0) <= *n).collect();
    left.sort();
    let first = left.first().map_or_else(String::new, |(k, n)| format!("{k} number {n}"));
    Err(Error::runtime(format!(
        "the plan has layouts for {} calls that the program does not make, such as {first}: plan this program anew",
        s.pins.len() - s.met
    )))
}

/// Ends what `begin` began, whatever has come.
pub fn abort() {
    STATE.set(None);
}

/// The pin of a call, which is counted.
fn next(c: &Call<'_>) -> Option<Pin> {
    STATE.with_borrow_mut(|s| {
        let s = s.as_mut()?;
        let key = call_key(c.op.name(), c.ins.iter().map(|t| t.map(|t| t.sizes().to_vec())));
        let n = s.seen.entry(key.clone()).or_default();
        let at = (key, *n);
        *n += 1;
        let pin = s.pins.get(&at).cloned();
        s.met += usize::from(pin.is_some());
        pin
    })
}

/// The layouts that a plan wants for a call with fresh results.
pub(crate) fn choice(c: &Call<'_>, outs: &[Tensor], home: Spread) -> Result<Option<Rc<Choice>>> {
    let Some(pin) = next(c) else { return Ok(None) };
    let ids = |l: &[NdSbp]| l.iter().map(|s| NdSbpId::of(s)).collect::<Vec<_>>();
    let (ins, to) = (ids(&pin.ins), ids(&pin.outs));
    let offered = choices(c, outs, &home.placement.hierarchy)?;
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
