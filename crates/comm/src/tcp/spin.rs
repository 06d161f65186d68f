//! How long a thread looks for bytes in shared memory before it sleeps.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Less where the others were not so quick lately, since who spins on a core that they need makes both wait.
pub(super) struct Spin {
    /// Nanoseconds.
    window: AtomicU32,
    shortest: u32,
}

/// A little more than waking a sleeper takes.
const LONGEST: u32 = 32_000;

impl Spin {
    /// For ranks that come to the same exchange at about the same time.
    pub fn for_collectives() -> Spin {
        Spin { window: AtomicU32::new(LONGEST), shortest: 1_000 }
    }

    /// For an answer, which is never there at once: a shorter look than the other side needs to give it would find none, ever.
    pub fn for_messages() -> Spin {
        Spin { window: AtomicU32::new(LONGEST), shortest: LONGEST / 2 }
    }

    pub fn window(&self) -> Duration {
        Duration::from_nanos(self.window.load(Ordering::Relaxed).into())
    }

    /// What was looked for came in time.
    pub fn paid_off(&self) {
        self.window.store((self.window.load(Ordering::Relaxed) * 2).min(LONGEST), Ordering::Relaxed);
    }

    pub fn was_in_vain(&self) {
        self.window.store((self.window.load(Ordering::Relaxed) / 2).max(self.shortest), Ordering::Relaxed);
    }
}
