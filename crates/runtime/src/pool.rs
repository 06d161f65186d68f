//! One plan for many threads: sessions over the same variables, created when all others are busy, and kept.

use crate::plan::Plan;
use crate::session::Session;
use oneflow_base::Result;
use oneflow_core::{Storage, Tensor};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Sessions of one plan. A plan that writes its variables has only one: its callers take turns.
pub struct Pool {
    plan: Plan,
    variables: Vec<Storage>,
    state: Mutex<State>,
    freed: Condvar,
    most: usize,
}

struct State {
    idle: Vec<Session>,
    made: usize,
}

/// A session of a pool; dropping it returns it to the pool.
pub struct Lent<'a> {
    pool: &'a Pool,
    session: Option<Session>,
}

impl Pool {
    /// At most `most` sessions at the same time, over the variables of the given one.
    pub fn new(session: Session, most: usize) -> Pool {
        let most = if session.writes_variables() { 1 } else { most.max(1) };
        Pool {
            plan: session.plan().clone(),
            variables: session.variables().to_vec(),
            state: Mutex::new(State { idle: vec![session], made: 1 }),
            freed: Condvar::new(),
            most,
        }
    }

    /// The same of a directory that `Session::save` wrote.
    pub fn load(dir: impl AsRef<Path>, most: usize) -> Result<Pool> {
        Ok(Pool::new(Session::load(dir)?, most))
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Memory of the plan's variables.
    pub fn variables(&self) -> &[Storage] {
        &self.variables
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A session of one's own; waits where all are lent.
    pub fn lend(&self) -> Result<Lent<'_>> {
        let mut state = self.state();
        loop {
            if let Some(session) = state.idle.pop() {
                return Ok(Lent { pool: self, session: Some(session) });
            }
            if state.made < self.most {
                break;
            }
            state = self.freed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        state.made += 1;
        drop(state);
        match Session::new(self.plan.clone(), self.variables.clone()) {
            Ok(session) => Ok(Lent { pool: self, session: Some(session) }),
            Err(e) => {
                self.state().made -= 1;
                self.freed.notify_one();
                Err(e)
            }
        }
    }

    /// Runs the plan once.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.lend()?.run(inputs)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.pool.state().idle.extend(self.session.take());
        self.pool.freed.notify_one();
    }
}

impl Deref for Lent<'_> {
    type Target = Session;
    fn deref(&self) -> &Session {
        match &self.session {
            Some(s) => s,
            None => unreachable!("it is taken only when dropped"),
        }
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        match &mut self.session {
            Some(s) => s,
            None => unreachable!("it is taken only when dropped"),
        }
    }
}
