//! Rows of many requests through one run of the program.
//!
//! A program has a fixed batch: the first size of every input and output. A runner takes the row that waits longest and what
//! else comes within a short time, runs them together, and gives every request its own row of the results.

use crate::value::{Row, rows_of, tensor_of};
use oneflow_runtime::{Error, Meta, Plan, Pool, Result};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How requests share runs.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Runs at the same time.
    pub runners: usize,
    /// How long the first row of a batch waits for others.
    pub wait: Duration,
}

struct Job {
    /// One row for each input.
    row: Vec<Row>,
    reply: Sender<Result<Vec<Row>>>,
}

/// Where rows are handed in.
#[derive(Clone)]
pub struct Batcher {
    jobs: Sender<Job>,
    pool: Arc<Pool>,
}

impl Batcher {
    /// Starts the runners. They end, after all rows that were handed in, when the last batcher is dropped.
    pub fn start(pool: Pool, limits: Limits) -> Result<(Batcher, Vec<JoinHandle<()>>)> {
        let size = batch_size(pool.plan())?;
        let pool = Arc::new(pool);
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let runners = (0..limits.runners.max(1)).map(|_| {
            let (pool, queue) = (pool.clone(), queue.clone());
            std::thread::spawn(move || {
                while let Some(batch) = next_batch(&queue, size, limits.wait) {
                    run(&pool, size, batch);
                }
            })
        });
        let runners = runners.collect();
        Ok((Batcher { jobs, pool }, runners))
    }

    pub fn plan(&self) -> &Plan {
        self.pool.plan()
    }

    /// One row of every input for one row of every output.
    pub fn run(&self, row: Vec<Row>) -> Result<Vec<Row>> {
        let plan = self.plan();
        if row.len() != plan.inputs.len() {
            let (n, given) = (plan.inputs.len(), row.len());
            return Err(Error::value(format!("the program takes {n} inputs, {given} were given")));
        }
        for (i, (r, input)) in row.iter().zip(&plan.inputs).enumerate() {
            r.check(&row_meta(&input.meta)).map_err(|e| e.context(format_args!("input {i}: ")))?;
        }
        let (reply, answer) = channel();
        let ended = || Error::runtime("the service is shutting down");
        self.jobs.send(Job { row, reply }).map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?
    }
}

/// The first size that all inputs and outputs share.
fn batch_size(plan: &Plan) -> Result<usize> {
    let ins = plan.inputs.iter().map(|i| i.meta.sizes.first().copied());
    let mut all = ins.chain(plan.outputs.iter().map(|o| o.operand.sizes.first().copied()));
    let first = all.next().flatten().filter(|n| *n > 0);
    match first {
        Some(n) if all.all(|x| x == Some(n)) => Ok(n as usize),
        _ => Err(Error::value(format!(
            "program {:?} cannot be served in batches: its inputs and outputs do not share their first size",
            plan.name
        ))),
    }
}

/// The meta of one row.
pub fn row_meta(m: &Meta) -> Meta {
    Meta::contiguous(m.dtype, m.device, m.sizes.get(1..).unwrap_or(&[]))
}

/// Waits for a row, then a little for more. `None`: no more will come.
fn next_batch(queue: &Mutex<Receiver<Job>>, size: usize, wait: Duration) -> Option<Vec<Job>> {
    // Held while waiting: the others wait for their turn.
    let queue = queue.lock().unwrap_or_else(|e| e.into_inner());
    let mut batch = vec![queue.recv().ok()?];
    let until = Instant::now() + wait;
    while batch.len() < size {
        match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(job) => batch.push(job),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Some(batch)
}

fn run(pool: &Pool, size: usize, batch: Vec<Job>) {
    let results = match together(pool, size, &batch) {
        Ok(rows) => rows.into_iter().map(Ok).collect(),
        // One row may be what the program refuses; the others get their answers.
        Err(_) if batch.len() > 1 => batch.iter().map(|job| alone(pool, size, job)).collect(),
        Err(e) => vec![Err(e)],
    };
    for (job, rows) in batch.into_iter().zip(results) {
        // Who asked may be gone.
        let _ = job.reply.send(rows);
    }
}

fn alone(pool: &Pool, size: usize, job: &Job) -> Result<Vec<Row>> {
    together(pool, size, std::slice::from_ref(job)).map(|mut rows| rows.pop().unwrap_or_default())
}

/// One run for the whole batch; places that nobody asked for hold zeros. For each job its row of every output.
fn together(pool: &Pool, size: usize, batch: &[Job]) -> Result<Vec<Vec<Row>>> {
    let inputs = pool.plan().inputs.iter().enumerate().map(|(k, input)| {
        let mut sizes = vec![size as i64];
        sizes.extend_from_slice(&row_meta(&input.meta).sizes);
        tensor_of(input.meta.dtype, &sizes, batch.iter().map(|job| &job.row[k]))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let mut jobs = vec![Vec::new(); batch.len()];
    for output in pool.run(&inputs)? {
        let rows = rows_of(&output, batch.len())?;
        jobs.iter_mut().zip(rows).for_each(|(job, row)| job.push(row));
    }
    Ok(jobs)
}
