//! How long a thread looks for bytes in shared memory before it sleeps.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Less where the others were not so quick lately, since who spins on a core that they need makes both wait.
pub(super) struct Spin(AtomicU32);

/// Nanoseconds. The longest is a little more than waking a sleeper takes.
const RANGE: std::ops::Range<u32> = 1_000..32_000;

impl Default for Spin {
    fn default() -> Spin {
        Spin(AtomicU32::new(RANGE.end))
    }
}

impl Spin {
    pub fn window(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed).into())
    }

    /// What was looked for came in time.
    pub fn paid_off(&self) {
        self.0.store((self.0.load(Ordering::Relaxed) * 2).min(RANGE.end), Ordering::Relaxed);
    }

    pub fn was_in_vain(&self) {
        self.0.store((self.0.load(Ordering::Relaxed) / 2).max(RANGE.start), Ordering::Relaxed);
    }
}
