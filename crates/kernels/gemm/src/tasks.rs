//! How a problem is cut into independent tasks: tiles of C and items of the batch, never parts of k.

use std::ops::Range;

use crate::args::{BatchDim, GemmArgs};
use crate::parallel::Parallel;

/// Cuts `n` into as few parts of at most `max` as possible, all but equal.
#[derive(Clone, Copy)]
pub(crate) struct Even {
    pub parts: usize,
    small: usize,
    /// The first `large` parts have one more.
    large: usize,
}

impl Even {
    pub fn new(n: usize, max: usize) -> Even {
        let parts = n.div_ceil(max).max(1);
        Even { parts, small: n / parts, large: n % parts }
    }
    pub fn get(&self, part: usize) -> Range<usize> {
        let start = part * self.small + part.min(self.large);
        start..start + self.small + usize::from(part < self.large)
    }
    pub fn largest(&self) -> usize {
        self.small + usize::from(self.large > 0)
    }
}

/// Element offsets of one batch item.
#[derive(Clone, Copy, Default)]
pub(crate) struct Offsets {
    pub a: isize,
    pub b: isize,
    pub c: isize,
    pub bias: isize,
    pub residual: isize,
    pub kept: isize,
}

fn offsets(batch: &[BatchDim], mut item: usize) -> Offsets {
    let mut o = Offsets::default();
    for d in batch.iter().rev() {
        let i = (item % d.size) as isize;
        item /= d.size;
        o.a += i * d.a;
        o.b += i * d.b;
        o.c += i * d.c;
        o.bias += i * d.bias;
        o.residual += i * d.residual;
        o.kept += i * d.kept;
    }
    o
}

/// What is done for rows and columns of one item, with what its task has made.
pub(crate) type ItemFn<'a, G> = dyn Fn(&mut G, Offsets, Range<usize>, Range<usize>) + Sync + 'a;

/// How C is cut: a grid of tiles for every batch item, or runs of batch items.
pub(crate) struct Tasks {
    n_items: usize,
    /// Batch items of one task.
    items: usize,
    /// Rows and columns of one task.
    rows: usize,
    cols: usize,
    grid: (usize, usize),
    m: usize,
    n: usize,
}

/// Work below this many multiply-adds is not worth waking a thread for.
const SERIAL_BELOW: f64 = 1e6;
/// Multiply-adds that take as long as one of a single row, which waits for the memory of B.
const ONE_ROW: f64 = 3.0;
/// Fewer rows a thread are not worth a wait for the packing of B: columns are cut then, of which each task packs its own.
const MANY_ROWS: usize = 224;
/// A packed B that stays in the shared cache while all tasks read it.
const SHARED_BYTES: usize = 4 << 20;

impl Tasks {
    fn whole(args: &GemmArgs) -> (Tasks, f64) {
        let n_items = args.batch.iter().map(|d| d.size).product();
        let work = args.m as f64 * args.n as f64 * args.k.max(1) as f64 * n_items as f64;
        let work = if args.m == 1 { ONE_ROW * work } else { work };
        (Tasks { n_items, items: n_items, rows: args.m, cols: args.n, grid: (1, 1), m: args.m, n: args.n }, work)
    }

    /// Rows of one product for a B that is packed once for all tasks, where there are rows enough and B is small.
    pub fn of_rows(args: &GemmArgs, threads: usize, mc: usize, b_bytes: usize) -> Option<Tasks> {
        let (whole, work) = Self::whole(args);
        let fits = args.packed.is_none() && whole.n_items == 1 && b_bytes <= SHARED_BYTES;
        if threads <= 1 || !fits || work < SERIAL_BELOW || args.m < MANY_ROWS * threads {
            return None;
        }
        // Several tasks a thread, so that a slow core does not hold up the rest; all of them alike.
        let parts = threads * (args.m / (mc * threads)).clamp(1, 4);
        let rows = args.m.div_ceil(parts);
        Some(Tasks { items: 1, rows, grid: (args.m.div_ceil(rows), 1), ..whole })
    }

    pub fn new(args: &GemmArgs, threads: usize, nr: usize) -> Tasks {
        let (whole, work) = Self::whole(args);
        let n_items = whole.n_items;
        if threads <= 1 || work < SERIAL_BELOW {
            return whole;
        }
        // Two tasks a thread when they are large, so that a slow core does not hold up the rest.
        let wanted = threads * if work > 6e7 * threads as f64 { 2 } else { 1 };
        if n_items >= wanted {
            return Tasks { items: n_items.div_ceil(4 * wanted), ..whole };
        }
        let parts = wanted.div_ceil(n_items);
        let cut = |n: usize, parts: usize, unit: usize| n.div_ceil(parts).next_multiple_of(unit).min(n);
        // The cut that packs least: every task packs its own rows and columns.
        let (rows, cols) = (1..=parts)
            .map(|p| (args.m.div_ceil(p), cut(args.n, parts.div_ceil(p), nr)))
            .min_by_key(|&(rows, cols)| {
                let n_tasks = args.m.div_ceil(rows) * args.n.div_ceil(cols);
                (parts.saturating_sub(n_tasks), rows + cols)
            })
            .unwrap_or((args.m, args.n));
        Tasks { n_items, items: 1, rows, cols, grid: (args.m.div_ceil(rows), args.n.div_ceil(cols)), ..whole }
    }

    pub fn run(
        &self,
        batch: &[BatchDim],
        par: &dyn Parallel,
        f: &(dyn Fn(Offsets, Range<usize>, Range<usize>) + Sync),
    ) {
        self.run_with(batch, par, &|| (), &|(), offsets, rows, cols| f(offsets, rows, cols));
    }

    /// As `run`, with something that each task makes once for all its items.
    pub fn run_with<G>(
        &self,
        batch: &[BatchDim],
        par: &dyn Parallel,
        enter: &(dyn Fn() -> G + Sync),
        f: &ItemFn<'_, G>,
    ) {
        let tiles = self.grid.0 * self.grid.1;
        let task = |index: usize| {
            let (row, col) = (index % tiles / self.grid.1 * self.rows, index % self.grid.1 * self.cols);
            let first = index / tiles * self.items;
            let mut own = enter();
            for item in first..(first + self.items).min(self.n_items) {
                f(
                    &mut own,
                    offsets(batch, item),
                    row..(row + self.rows).min(self.m),
                    col..(col + self.cols).min(self.n),
                );
            }
        };
        match self.n_items.div_ceil(self.items) * tiles {
            1 => task(0),
            n_tasks => par.run(n_tasks, &task),
        }
    }
}
