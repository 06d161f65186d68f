//! When a rank shows that it runs, and when its silence means that it does not.
//!
//! Ranks beat to their neighbours in the ring of the group, so traffic does not grow with the number of ranks. Who misses its
//! neighbour's beats asks everybody, and names all that do not answer: a host that is gone has many ranks. The thread that
//! beats is a native one, so that a long call of an interpreter is not taken for a death. Knows no socket.

use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

/// Seconds of silence after which a rank counts as stopped; 0 never.
const VARIABLE: &str = "ONEFLOW_HEARTBEAT_TIMEOUT";
const DEFAULT: Duration = Duration::from_secs(10);

pub(super) struct Pulse {
    rank: usize,
    n_ranks: usize,
    timeout: Duration,
    last_turn: Instant,
    next_beat: Instant,
    asked: Option<Instant>,
}

impl Pulse {
    /// `None` where it is switched off.
    pub fn of(rank: usize, n_ranks: usize) -> Result<Option<Pulse>> {
        let timeout = match std::env::var(VARIABLE) {
            Err(_) => DEFAULT,
            Ok(text) => {
                text.trim().parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).ok_or_else(|| {
                    Error::value(format!(
                        "{VARIABLE} is '{text}', expected a number of seconds (0 switches heartbeats off)"
                    ))
                })?
            }
        };
        let now = Instant::now();
        let pulse = Pulse { rank, n_ranks, timeout, last_turn: now, next_beat: now, asked: None };
        Ok((!timeout.is_zero()).then_some(pulse))
    }

    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The time between beats.
    pub fn every(&self) -> Duration {
        self.timeout / 10
    }

    pub fn neighbours(&self) -> impl Iterator<Item = usize> + use<> {
        let (n, rank) = (self.n_ranks, self.rank);
        let (left, right) = ((rank + n - 1) % n, (rank + 1) % n);
        [left, right].into_iter().take(if left == right { 1 } else { 2 }).filter(move |&p| p != rank)
    }

    /// Whether this thread did not run for a while; a turn is over in either case.
    pub fn was_away(&mut self, now: Instant) -> bool {
        let away = now.duration_since(self.last_turn) > self.every() * 3;
        self.last_turn = now;
        if away {
            self.asked = None;
        }
        away
    }

    pub fn is_due(&mut self, now: Instant) -> bool {
        let due = now >= self.next_beat;
        if due {
            self.next_beat = now + self.every();
        }
        due
    }

    /// Whether a neighbour has been silent for so long that all ranks shall be asked now. A rank that was never heard has
    /// not begun.
    pub fn shall_ask(&mut self, now: Instant, heard: impl Fn(usize) -> Option<Instant>) -> bool {
        let silence = self.timeout.mul_f64(0.7);
        let silent = self.neighbours().any(|p| heard(p).is_some_and(|at| now.duration_since(at) > silence));
        match silent {
            true if self.asked.is_none() => {
                self.asked = Some(now);
                true
            }
            true => false,
            false => {
                self.asked = None;
                false
            }
        }
    }

    /// Once those who were asked have had their time: when that was.
    pub fn is_answered(&mut self, now: Instant) -> Option<Instant> {
        self.asked.filter(|&at| now.duration_since(at) > self.timeout.mul_f64(0.3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, seconds: f64) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_silent_neighbour_is_asked_and_then_named() {
        let start = Instant::now();
        let mut pulse =
            Pulse { rank: 0, n_ranks: 4, timeout: DEFAULT, last_turn: start, next_beat: start, asked: None };
        assert_eq!(pulse.neighbours().collect::<Vec<_>>(), [3, 1]);
        let heard = |last: f64| move |p: usize| (p == 1).then(|| at(start, last));
        for (now, last, asks) in [(1.0, 0.0, false), (6.9, 0.0, false), (7.1, 0.0, true), (8.0, 0.0, false)] {
            assert!(!pulse.was_away(at(start, now)) || now > 3.0);
            pulse.last_turn = at(start, now);
            // As if every turn had been in time.
            assert_eq!(pulse.shall_ask(at(start, now), heard(last)), asks, "{now}");
        }
        assert_eq!(pulse.is_answered(at(start, 10.0)), None);
        // It may answer after all; nobody is asked about then.
        let mut other = Pulse { asked: pulse.asked, ..pulse };
        assert!(!other.shall_ask(at(start, 9.0), heard(8.5)) && other.is_answered(at(start, 11.0)).is_none());
        other.asked = Some(at(start, 7.1));
        assert!(other.is_answered(at(start, 10.2)).is_some());
        // Nobody is to blame for what this process did not hear while it was stopped.
        other.last_turn = at(start, 10.0);
        assert!(other.was_away(at(start, 60.0)) && other.is_answered(at(start, 60.0)).is_none());
    }

    #[test]
    fn rings_of_one_and_two_have_their_neighbours_once() {
        let start = Instant::now();
        let of = |rank, n_ranks| {
            let pulse = Pulse { rank, n_ranks, timeout: DEFAULT, last_turn: start, next_beat: start, asked: None };
            pulse.neighbours().collect::<Vec<_>>()
        };
        assert_eq!((of(0, 1), of(0, 2), of(1, 2)), (vec![], vec![1], vec![0]));
    }
}
