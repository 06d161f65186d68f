//! CTC_LOSS and its backward: a block a sample walks the steps, its threads the states. The gradient of each step is a block of
//! its own then. Half types are left to the host.

use crate::launch::{Argument, Family, Key, Scratch, args, faults, run};
use crate::text::{Builder, unsupported};
use oneflow_base::{DType, Result};
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::{CtcLossBackwardParams, CtcLossParams, Launch, View};

const FORWARD: u8 = 0;
const THROUGH: u8 = 1;
const GRADIENT: u8 = 2;

/// `part`: see the template.
pub fn text(part: u8, dtype: DType) -> Result<Text> {
    let b = Builder::new(format!("ctc {dtype}")).variant("PART", part).compute("C", dtype)?;
    Ok(b.push(include_str!("text/ctc.cu")).finish())
}

/// The template's: targets and lengths of the samples.
#[repr(C)]
#[derive(Clone, Copy)]
struct Batch {
    targets: *mut u8,
    down: i64,
    across: i64,
    /// Targets of a sample where each has its row, else of all samples.
    width: i64,
    padded: i64,
    times: *mut u8,
    times_step: i64,
    lengths: *mut u8,
    lengths_step: i64,
    samples: i64,
    steps: i64,
    classes: i64,
    most: i64,
    blank: i64,
}
impl Argument for Batch {}

impl Batch {
    /// `alpha`: [n, t, states].
    fn new([x, targets, times, lengths, alpha]: [&View<'_>; 5], blank: i64) -> Result<Batch> {
        if ![DType::F32, DType::F64].contains(&x.dtype) {
            return Err(unsupported("ctc_loss", x.dtype));
        }
        let padded = targets.ndim() == 2;
        let stride = |v: &View<'_>, d: usize| v.strides.get(d).copied().unwrap_or(0);
        Ok(Batch {
            targets: targets.ptr,
            down: stride(targets, 0),
            across: stride(targets, 1),
            width: if padded { targets.sizes[1] } else { targets.numel() as i64 },
            padded: padded as i64,
            times: times.ptr,
            times_step: stride(times, 0),
            lengths: lengths.ptr,
            lengths_step: stride(lengths, 0),
            samples: x.sizes[1],
            steps: x.sizes[0],
            classes: x.sizes[2],
            most: (alpha.sizes[2] - 1) / 2,
            blank,
        })
    }

    fn states(&self) -> i64 {
        2 * self.most + 1
    }

    /// Blocks whose threads are as many as the states, as far as a block has them.
    fn grid(&self, blocks: i64) -> Grid {
        Grid::linear(
            blocks.clamp(0, i64::from(i32::MAX)) as u32,
            self.states().clamp(32, 256).unsigned_abs().next_power_of_two() as u32,
        )
    }
}

fn key(part: u8, dtype: DType) -> Key {
    Key::new(Family::Ctc).small(part as u64).dtype(dtype)
}

pub unsafe fn ctc_loss(l: &Launch<'_>) -> Result<()> {
    let (x, loss, alpha) = (l.input(0)?, l.output(0)?, l.output(1)?);
    let CtcLossParams { blank } = l.read()?;
    let batch = Batch::new([&x, &l.input(1)?, &l.input(2)?, &l.input(3)?, &alpha], blank)?;
    if batch.samples == 0 {
        return Ok(());
    }
    let ([xt, xn, xc], [an, at, a_s]) = (strides(&x), strides(&alpha));
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key(FORWARD, x.dtype),
            || text(FORWARD, x.dtype),
            batch.grid(batch.samples),
            args![x.ptr, xt, xn, xc, alpha.ptr, an, at, a_s, loss.ptr, loss.strides[0], faults(l.queue)?, batch],
        )
    }
}

pub unsafe fn ctc_loss_backward(l: &Launch<'_>) -> Result<()> {
    let (grad, x, loss, alpha, out) = (l.input(0)?, l.input(1)?, l.input(5)?, l.input(6)?, l.output(0)?);
    let CtcLossBackwardParams { blank, zero_infinity } = l.read()?;
    let batch = Batch::new([&x, &l.input(2)?, &l.input(3)?, &l.input(4)?, &alpha], blank)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let ([xt, xn, xc], [an, at, a_s], [gt, gn, gc]) = (strides(&x), strides(&alpha), strides(&out));
    let (n, size, fault) = (batch.samples, x.dtype.size(), faults(l.queue)?);
    let beta = Scratch::new(l.queue, 2 * n * batch.states(), size)?;
    let through = Scratch::new(l.queue, n * batch.steps * batch.states(), size)?;
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key(THROUGH, x.dtype),
            || text(THROUGH, x.dtype),
            batch.grid(n),
            args![x.ptr, xt, xn, xc, alpha.ptr, an, at, a_s, beta.ptr(), through.ptr(), fault, batch],
        )?;
        run(
            l.queue,
            key(GRADIENT, x.dtype),
            || text(GRADIENT, x.dtype),
            batch.grid(n * batch.steps),
            args![
                x.ptr,
                xt,
                xn,
                xc,
                through.ptr(),
                grad.ptr,
                grad.strides[0],
                loss.ptr,
                loss.strides[0],
                out.ptr,
                gt,
                gn,
                gc,
                zero_infinity as i32,
                fault,
                batch
            ],
        )
    }
}

fn strides(v: &View<'_>) -> [i64; 3] {
    std::array::from_fn(|d| v.strides[d])
}
