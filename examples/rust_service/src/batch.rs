//! Rows of many requests through one run of the program.
//!
//! The batch is the first size of every input and output: fixed, or a named dimension of the program. A runner takes the row that
//! waits longest and what else comes within a short time, runs them together, and gives every request its own row of the results.

use crate::failure::Failure;
use crate::tables::Tables;
use crate::value::{Row, rows_of, tensor_of};
use oneflow_runtime::{Error, Meta, Plan, Pool, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How requests share runs.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Runs at the same time.
    pub runners: usize,
    /// How long the first row of a batch waits for others.
    pub wait: Duration,
    /// Rows that may wait for a run; further ones are turned away.
    pub queue: usize,
}

/// What has been done since the start.
#[derive(Default)]
pub struct Counts {
    pub rows: AtomicU64,
    pub runs: AtomicU64,
    pub failed_runs: AtomicU64,
    pub turned_away: AtomicU64,
    /// Time in runs, of all runners.
    pub nanoseconds: AtomicU64,
}

/// How many rows a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batch {
    most: usize,
    /// The fewest that are run, and the steps from there; rows that nobody asked for hold zeros.
    least: usize,
    step: usize,
}

/// Rows of one run, of a program for any number of them.
const MOST_ROWS: i64 = 64;

impl Batch {
    /// The first size that all inputs and outputs share.
    fn of(plan: &Plan) -> Result<Batch> {
        let no = |why: &str| Error::value(format!("program {:?} cannot be served in batches: {why}", plan.name));
        let ins = (0..plan.inputs.len()).map(|i| plan.input_shape(i).into_iter().next());
        let mut all = ins.chain((0..plan.outputs.len()).map(|i| plan.output_shape(i).into_iter().next()));
        let shared = all.next().flatten().filter(|first| all.all(|x| x.as_ref() == Some(first)));
        let shared = shared.ok_or_else(|| no("its inputs and outputs do not share their first size"))?;
        let (least, most, step) = match plan.dims() {
            [] => shared.parse().map(|n: i64| (n, n, 1)).map_err(|_| no("its batch has no size"))?,
            [dim] if dim.name == shared => {
                let least = dim.min.max(1);
                let least = least + (dim.start - least).rem_euclid(dim.step);
                let most = dim.max.min(MOST_ROWS.max(least));
                (least, most - (most - least).rem_euclid(dim.step), dim.step)
            }
            _ => return Err(no("sizes other than its batch are open")),
        };
        match (usize::try_from(least), usize::try_from(most), usize::try_from(step)) {
            (Ok(least), Ok(most), Ok(step)) if least > 0 && least <= most => Ok(Batch { most, least, step }),
            _ => Err(no("its batch is empty")),
        }
    }

    /// The rows of a run for this many.
    fn rows(self, n: usize) -> usize {
        self.least + n.saturating_sub(self.least).next_multiple_of(self.step)
    }
}

struct Job {
    /// One row for each input.
    row: Vec<Row>,
    reply: oneshot::Sender<Result<Vec<Row>>>,
}

/// Where rows are handed in.
#[derive(Clone)]
pub struct Batcher {
    jobs: SyncSender<Job>,
    pool: Arc<Pool>,
    tables: Arc<Tables>,
    counts: Arc<Counts>,
}

impl Batcher {
    /// Starts the runners. They end, after all rows that were handed in, when the last batcher is dropped.
    pub fn start(pool: Pool, tables: Tables, limits: Limits) -> Result<(Batcher, Vec<JoinHandle<()>>)> {
        let size = Batch::of(pool.plan())?;
        let pool = Arc::new(pool);
        let (tables, counts) = (Arc::new(tables), Arc::new(Counts::default()));
        let (jobs, queue) = sync_channel(limits.queue.max(size.most));
        let queue = Arc::new(Mutex::new(queue));
        let runners = (0..limits.runners.max(1)).map(|_| {
            let (pool, tables, queue, counts) = (pool.clone(), tables.clone(), queue.clone(), counts.clone());
            std::thread::spawn(move || {
                while let Some(batch) = next_batch(&queue, size.most, limits.wait) {
                    run(&pool, &tables, size, batch, &counts);
                }
            })
        });
        let runners = runners.collect();
        Ok((Batcher { jobs, pool, tables, counts }, runners))
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub fn plan(&self) -> &Plan {
        self.pool.plan()
    }

    /// What a request gives for an input.
    pub fn wanted(&self, input: usize) -> Meta {
        self.tables.wanted(self.plan(), input)
    }

    /// One row of every input, or ids of its rows, for one row of every output.
    pub async fn run(&self, row: Vec<Row>) -> Result<Vec<Row>, Failure> {
        let plan = self.plan();
        if row.len() != plan.inputs.len() {
            let (n, given) = (plan.inputs.len(), row.len());
            return Err(Failure::wrong(format!("the program takes {n} inputs, {given} were given")));
        }
        for (i, r) in row.iter().enumerate() {
            r.check(&self.wanted(i)).map_err(|e| e.context(format_args!("input {:?}: ", plan.input_name(i))))?;
        }
        let (reply, answer) = oneshot::channel();
        self.jobs.try_send(Job { row, reply }).map_err(|e| match e {
            TrySendError::Full(_) => {
                self.counts.turned_away.fetch_add(1, Ordering::Relaxed);
                Failure::later("too many requests wait for their turn")
            }
            TrySendError::Disconnected(_) => Failure::later("the service is shutting down"),
        })?;
        let answer = answer.await.map_err(|_| Failure::later("the service is shutting down"))?;
        Ok(answer?)
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

fn run(pool: &Pool, tables: &Tables, size: Batch, mut batch: Vec<Job>, counts: &Counts) {
    // Who asked may be gone.
    batch.retain(|job| !job.reply.is_closed());
    if batch.is_empty() {
        return;
    }
    let begun = Instant::now();
    let results: Vec<Result<Vec<Row>>> = match together(pool, tables, size, &batch) {
        Ok(rows) => rows.into_iter().map(Ok).collect(),
        // One row may be what the program refuses; the others get their answers.
        Err(_) if batch.len() > 1 => batch.iter().map(|job| alone(pool, tables, size, job)).collect(),
        Err(e) => vec![Err(e)],
    };
    let add = |count: &AtomicU64, n: usize| count.fetch_add(n as u64, Ordering::Relaxed);
    add(&counts.runs, 1);
    add(&counts.rows, batch.len());
    add(&counts.failed_runs, results.iter().any(Result::is_err) as usize);
    add(&counts.nanoseconds, begun.elapsed().as_nanos() as usize);
    for (job, rows) in batch.into_iter().zip(results) {
        let _ = job.reply.send(rows);
    }
}

fn alone(pool: &Pool, tables: &Tables, size: Batch, job: &Job) -> Result<Vec<Row>> {
    together(pool, tables, size, std::slice::from_ref(job)).map(|mut rows| rows.pop().unwrap_or_default())
}

/// One run for the whole batch; places that nobody asked for hold zeros. For each job its row of every output.
fn together(pool: &Pool, tables: &Tables, size: Batch, batch: &[Job]) -> Result<Vec<Vec<Row>>> {
    let inputs = pool.plan().inputs.iter().enumerate().map(|(k, input)| {
        let mut sizes = vec![size.rows(batch.len()) as i64];
        sizes.extend_from_slice(&row_meta(&input.meta).sizes);
        let given = batch.iter().map(|job| &job.row[k]);
        // The ids of the whole batch are looked up at once.
        let ids: Vec<i64> = given.clone().flat_map(Row::integers).copied().collect();
        match tables.rows(pool.plan(), k, &ids) {
            Some(rows) => tensor_of(input.meta.dtype, &sizes, std::iter::once(&Row::F32(rows?))),
            None => tensor_of(input.meta.dtype, &sizes, given),
        }
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let mut jobs = vec![Vec::new(); batch.len()];
    for output in pool.run(&inputs)? {
        let rows = rows_of(&output, batch.len())?;
        jobs.iter_mut().zip(rows).for_each(|(job, row)| job.push(row));
    }
    Ok(jobs)
}
