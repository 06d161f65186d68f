//! What a simulation found.

/// A span of one rank's time.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub rank: u32,
    pub stream: u32,
    pub start: f64,
    pub end: f64,
    pub kind: SpanKind,
    /// The task, and the item of its program.
    pub task: u32,
    pub item: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    Compute,
    /// Bytes on their way.
    Communication,
    /// For other ranks that have not come yet.
    Wait,
}

/// One rank in the last step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rank {
    pub start: f64,
    pub end: f64,
    pub compute: f64,
    /// Seconds in which bytes are on their way, and no work hides that: the exposed communication; and those in which it works
    /// meanwhile.
    pub communication: f64,
    pub hidden: f64,
    /// Seconds in which it waits for ranks that have not come: in collectives, and for messages.
    pub wait_collective: f64,
    pub wait_message: f64,
    /// Between its first and its last item, the seconds without work, transfers aside: the bubble of a pipeline.
    pub bubble: f64,
    pub sent: u64,
}

/// A rank that never ends, and what it waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Stuck {
    pub rank: u32,
    pub task: String,
    pub origin: String,
    pub reason: String,
    pub since: f64,
}

#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Seconds of a step when all are under way, and of the first.
    pub step: f64,
    pub first_step: f64,
    pub ranks: Vec<Rank>,
    /// Bytes of the last step over each link that was used: its name, bytes and seconds in which it was busy at least.
    pub links: Vec<(String, u64)>,
    pub spans: Vec<Span>,
    pub stuck: Vec<Stuck>,
    /// Events that were simulated.
    pub n_events: u64,
}
