//! The consent of ranks to recordings that hold collectives: all of them record a plan, or none does.
//!
//! Ranks count their runs, which are the same on all. Before some of them, when nothing is issued yet, each says whether it could
//! record the plan now, and after the recording whether it has. What they say goes over the connections of their groups, by
//! messages that are no part of the order of collectives. Ranks of a placement are asked by all of its ranks, also by those whose
//! own plan cannot be recorded.

use crate::program::Program;
use oneflow_base::{DType, Result};
use oneflow_comm::{ProcessGroup, Request, Span};
use oneflow_global::boxing::Circle;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The runs before which ranks are asked; those before the first one make kernels, plans of libraries and communicators.
const ASKED_AT: [u64; 4] = [2, 4, 8, 16];
/// Of the messages; programs and boxing use other tags.
const TAG: u32 = 0x564f_5445;

/// What a rank says, the least of which counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    /// Neither now nor later.
    Never = 0,
    /// Not now.
    Later = 1,
    Yes = 2,
}

/// What ranks have agreed on for one plan. It outlives recordings: a rank that starts anew after an error asks nobody again.
#[derive(Clone, Default)]
pub(crate) struct Consent(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    n_runs: u64,
    /// The end of it: whether recordings hold collectives.
    decided: Option<bool>,
}

impl Consent {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a run. Returns true if ranks are asked before it.
    fn is_asked(&self) -> bool {
        let mut state = self.state();
        state.n_runs += 1;
        state.decided.is_none() && ASKED_AT.contains(&state.n_runs)
    }

    /// Whether recordings hold collectives; `None` until that is decided.
    pub fn decided(&self) -> Option<bool> {
        self.state().decided
    }

    /// Notes what all ranks have said.
    fn note(&self, answer: Answer) {
        let mut state = self.state();
        let is_last = state.n_runs >= ASKED_AT[ASKED_AT.len() - 1];
        match answer {
            Answer::Yes => state.decided = Some(true),
            Answer::Later if !is_last => {}
            Answer::Later | Answer::Never => state.decided = Some(false),
        }
    }
}

/// The ranks that run a plan's collectives with this one, in circles that may overlap.
#[derive(Clone, Default)]
pub(crate) struct Circles {
    /// In an order that is the same on all ranks.
    all: Vec<Circle>,
    /// Something is exchanged otherwise.
    has_others: bool,
}

impl Circles {
    pub fn add(&mut self, program: &Program) {
        for circle in (0..program.len()).filter(|i| program.talks(*i)).map(|i| program.circle(i)) {
            match circle {
                Some(circle) if self.all.iter().all(|other| other.key() != circle.key()) => self.all.push(circle),
                Some(_) => {}
                None => self.has_others = true,
            }
        }
        self.all.sort_by(|a, b| a.key().cmp(&b.key()));
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns true if the ranks are one circle, and meet nowhere else.
    pub fn is_one(&self) -> bool {
        self.all.len() == 1 && !self.has_others
    }

    /// The least of what the ranks say.
    fn ask(&self, own: Answer) -> Result<Answer> {
        self.all.iter().flat_map(Circle::groups).try_fold(own, |answer, group| least(&**group, answer))
    }
}

/// What a session asks before its runs.
pub(crate) struct Together {
    pub consent: Consent,
    pub circles: Circles,
    /// Whether the plan could be recorded as a whole.
    pub can: bool,
    /// Where the variables lay in the last run.
    variables: Vec<usize>,
}

impl Together {
    pub fn new(consent: Consent, circles: Circles, can: bool) -> Together {
        Together { consent, circles, can, variables: Vec::new() }
    }

    /// Before a run: returns true if it is to be recorded as a whole.
    pub fn ask(&mut self, variables: &[usize]) -> Result<bool> {
        let is_asked = self.consent.is_asked();
        let same = self.variables == variables;
        if !same {
            self.variables = variables.to_vec();
        }
        if !is_asked {
            return Ok(false);
        }
        let own = match (self.can, same) {
            (false, _) => Answer::Never,
            (true, false) => Answer::Later,
            (true, true) => Answer::Yes,
        };
        let answer = self.circles.ask(own)?;
        if answer != Answer::Yes {
            self.consent.note(answer);
        }
        Ok(answer == Answer::Yes)
    }
}

/// After a recording: whether all ranks have made theirs.
pub(crate) fn settle(consent: &Consent, circles: &Circles, is_made: bool) -> Result<bool> {
    let answer = circles.ask(if is_made { Answer::Yes } else { Answer::Never })?;
    consent.note(answer);
    Ok(answer == Answer::Yes)
}

/// The least of what the ranks of a group say.
fn least(group: &dyn ProcessGroup, own: Answer) -> Result<Answer> {
    let said = |byte: u8| [Answer::Never, Answer::Later, Answer::Yes][usize::from(byte.min(2))];
    let mut byte = [own as u8];
    let run = |request: Request| {
        // SAFETY: the byte lives until the blocking call returns.
        unsafe { group.run(request) }.map_err(|e| e.context("ranks agree on recording a plan: "))
    };
    let (dtype, tag) = (DType::U8, TAG);
    if group.rank() > 0 {
        run(Request::Send { data: Span::of(&byte), dtype, dst: 0, tag })?;
        run(Request::Recv { data: Span::of_mut(&mut byte), dtype, src: 0, tag })?;
        return Ok(said(byte[0]));
    }
    let mut answer = own;
    for src in 1..group.size() {
        run(Request::Recv { data: Span::of_mut(&mut byte), dtype, src, tag })?;
        answer = answer.min(said(byte[0]));
    }
    byte[0] = answer as u8;
    for dst in 1..group.size() {
        run(Request::Send { data: Span::of(&byte), dtype, dst, tag })?;
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_asked_before_some_runs_until_they_agree() {
        let asked = |consent: &Consent, n: usize| (0..n).map(|_| consent.is_asked()).collect::<Vec<_>>();
        let consent = Consent::default();
        assert_eq!(asked(&consent, 2), [false, true]);
        consent.note(Answer::Later);
        assert_eq!((asked(&consent, 2), consent.decided()), (vec![false, true], None));
        consent.note(Answer::Yes);
        assert_eq!((asked(&consent.clone(), 8), consent.decided()), (vec![false; 8], Some(true)));
        let consent = Consent::default();
        for _ in 0..ASKED_AT[3] {
            if consent.is_asked() {
                consent.note(Answer::Later);
            }
        }
        assert_eq!(consent.decided(), Some(false), "nobody is asked for ever");
        let consent = Consent::default();
        asked(&consent, 2);
        consent.note(Answer::Never);
        assert_eq!((asked(&consent, 2), consent.decided()), (vec![false; 2], Some(false)));
    }
}
