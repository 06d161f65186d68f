//! How long a thread looks for bytes in shared memory before it sleeps.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What is waited for is late where the other side had to be woken. If both sides slept each time, each would find the other one late,
/// for ever. So where waits were short although this side slept, it looks for long, and goes on so while that pays off. Who looks on
/// a core that the other side needs makes both wait: after each long look in vain it takes twice as many short waits until the next.
#[derive(Default)]
pub(super) struct Spin {
    /// Waits that have to be short before the next long look; none while this side looks for long.
    tries: AtomicU32,
    /// Long looks in vain since one paid off.
    in_vain: AtomicU32,
}

/// What comes so soon needs no sleep in any case.
const SHORT: Duration = Duration::from_micros(1);
/// More than it takes to wake the other side and to have its answer.
const LONG: Duration = Duration::from_micros(100);
/// At most this many short waits, as a power of two, until the next long look.
const RAREST: u32 = 10;

impl Spin {
    pub fn window(&self) -> Duration {
        if self.tries.load(Ordering::Relaxed) == 0 { LONG } else { SHORT }
    }

    /// Something came while this side looked.
    pub fn paid_off(&self) {
        if self.tries.load(Ordering::Relaxed) == 0 {
            self.in_vain.store(0, Ordering::Relaxed);
        }
    }

    /// Nothing came while this side looked: it sleeps now.
    pub fn was_in_vain(&self) {
        if self.tries.load(Ordering::Relaxed) == 0 {
            let in_vain = self.in_vain.load(Ordering::Relaxed);
            self.tries.store(1 << in_vain, Ordering::Relaxed);
            self.in_vain.store((in_vain + 1).min(RAREST), Ordering::Relaxed);
        }
    }

    /// This side slept until something came, so long after it began to look.
    pub fn slept(&self, waited: Duration) {
        let tries = self.tries.load(Ordering::Relaxed);
        if waited < LONG && tries > 0 {
            self.tries.store(tries - 1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait for something that comes so long after the wait began, where it takes `wake` to wake this side.
    fn wait(spin: &Spin, comes: Duration, wake: Duration) -> Duration {
        let window = spin.window();
        if comes <= window {
            spin.paid_off();
            return comes;
        }
        spin.was_in_vain();
        spin.slept(comes + wake);
        comes + wake
    }

    #[test]
    fn two_sides_that_answer_soon_stop_sleeping() {
        let (sides, wake, work) =
            ([Spin::default(), Spin::default()], Duration::from_micros(30), Duration::from_micros(2));
        for side in &sides {
            // Each has seen many long waits.
            for _ in 0..100 {
                wait(side, Duration::from_millis(5), wake);
            }
            assert_eq!(side.window(), SHORT);
        }
        let (mut slept, mut waited) = (0, wake);
        for turn in 0..10_000 {
            let side = &sides[turn % 2];
            let comes = work + if waited > side.window() { wake } else { Duration::ZERO };
            slept += u32::from(comes > side.window());
            waited = wait(side, comes, wake);
        }
        assert!(slept < 4_000, "{slept}");
        assert!(sides.iter().all(|side| side.window() == LONG));
    }

    #[test]
    fn long_looks_in_vain_become_rare() {
        let spin = Spin::default();
        let mut long = 0;
        // As on one core: nothing comes while this side looks, and at once when it sleeps.
        for _ in 0..10_000 {
            long += u32::from(spin.window() == LONG);
            spin.was_in_vain();
            spin.slept(spin.window() + Duration::from_micros(5));
        }
        assert!(long < 25, "{long}");
        // A rank that has nothing to do looks for a moment.
        for _ in 0..100 {
            spin.was_in_vain();
            spin.slept(Duration::from_millis(1));
        }
        assert_eq!(spin.window(), SHORT);
    }
}
