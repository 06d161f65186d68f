//! ATTENTION and its backward on tensor cores: 16-bit floats, from compute capability 8.0 on, query and value of one width of at
//! most 128 columns, rows that lie at multiples of sixteen bytes. `attention` takes the rest.

use crate::attention_problem::{DELTA, FORWARD, KEYS, Kind, PROBLEM, Problem};
use crate::launch::{Family, Key, args, ceil_div, gpu, run};
use crate::random::PHILOX;
use crate::text::{Builder, float};
use oneflow_base::{DType, Result};
use oneflow_ep::Queue;
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::Launch;

/// Columns of a head that the texts are made for: the next multiple of this.
const WIDTHS: i64 = 32;
const MOST_COLUMNS: i64 = 128;
/// Warps of a block.
const WARPS: i64 = 4;

/// How a kernel divides its work. The numbers are the largest for which no register is spilled, which a test checks.
struct Tiles {
    /// 16 rows of a warp, so often.
    per_warp: i64,
    /// Keys or rows that pass at a time.
    step: i64,
}

impl Tiles {
    fn of(part: u8, width: i64) -> Tiles {
        let (per_warp, step) = match part {
            FORWARD => (2, if width <= 64 { 64 } else { 32 }),
            _ => (if width <= 64 { 2 } else { 1 }, 32),
        };
        Tiles { per_warp, step }
    }

    /// Rows or keys of a block.
    fn own(&self) -> i64 {
        16 * self.per_warp * WARPS
    }

    /// Bytes of shared memory, of rows eight elements longer than their width.
    fn shared(&self, part: u8, width: i64) -> u32 {
        let row = (width + 8) * 2;
        let bytes = match part {
            DELTA => 0,
            FORWARD => (self.own() + 2 * self.step) * row,
            // Two steps at a time, each with two numbers a row where rows pass.
            _ => 2 * self.own() * row + 2 * self.step * (2 * row + if part == KEYS { 8 } else { 0 }),
        };
        bytes as u32
    }
}

/// `part` and `width`: see the template.
pub fn text(part: u8, dtype: DType, mask: DType, width: i64) -> Result<Text> {
    let tiles = Tiles::of(part, width);
    let b = Builder::new("attention by tensor cores").variant("PART", part).variant("WIDTH", width);
    let b = b.define("MT", tiles.per_warp).define("STEP", tiles.step).define("WARPS", WARPS).define("BLOCKS", 2);
    let b = b.compute("C", float("attention", dtype)?.compute())?.dtype("T", dtype)?.dtype("M", mask)?;
    let b = b.define("IS_BF16", (dtype == DType::BF16) as u8).define("MASK_BOOL", (mask == DType::Bool) as u8);
    let b = b.push(PHILOX).push(PROBLEM).push(include_str!("text/warp.cu")).push(include_str!("text/attention_mma.cu"));
    Ok(b.shared(tiles.shared(part, width)).finish())
}

/// The kernels that take a problem.
pub struct TensorCores {
    kind: Kind,
    width: i64,
}

impl TensorCores {
    /// None where the other kernels are needed.
    pub fn of(p: &Problem, kind: Kind, queue: Queue) -> Result<Option<TensorCores>> {
        let is_half = matches!(kind.dtype, DType::F16 | DType::BF16);
        let fits = p.width == p.value_width && (8..=MOST_COLUMNS).contains(&p.width) && p.width % 8 == 0;
        // Absent operands are null, with strides of zero.
        let rows = |ptr: *mut u8, s: &[i64; 4]| {
            ptr.is_null() || ((ptr as usize).is_multiple_of(16) && s[3] == 1 && s[..3].iter().all(|n| n % 8 == 0))
        };
        let lie = rows(p.query, &p.q) && rows(p.key, &p.k) && rows(p.value, &p.v) && rows(p.out, &p.o);
        let grads = rows(p.grad, &p.g) && rows(p.grad_query, &p.gq) && rows(p.grad_key, &p.gk);
        if !(is_half && fits && lie && grads && rows(p.grad_value, &p.gv)) {
            return Ok(None);
        }
        if gpu(queue)?.compute_capability.0 < 8 {
            return Ok(None);
        }
        Ok(Some(TensorCores { kind, width: (p.width as u64).next_multiple_of(WIDTHS as u64) as i64 }))
    }

    pub fn launch(&self, l: &Launch<'_>, p: &Problem, part: u8) -> Result<()> {
        let (Kind { dtype, mask, .. }, width) = (self.kind, self.width);
        let tiles = Tiles::of(part, width);
        let units = match part {
            DELTA => {
                let lanes = (width as u64 / 8).next_power_of_two() as i64;
                ceil_div(p.batch * p.heads * p.rows, 256 / lanes)
            }
            KEYS => ceil_div(p.keys, tiles.own()) * p.batch * p.kv_heads,
            _ => ceil_div(p.rows, tiles.own()) * p.batch * p.heads,
        };
        let threads = if part == DELTA { 256 } else { 32 * WARPS as u32 };
        let shared = tiles.shared(part, width);
        let grid = Grid { shared, ..Grid::linear(units.min(1 << 30) as u32, threads) };
        let key =
            Key::new(Family::AttentionMma).small(part as u64).dtype(dtype).dtype(mask).small((width / WIDTHS) as u64);
        // SAFETY: the argument is the template's; the views are valid by the launch's contract.
        unsafe { run(l.queue, key, || text(part, dtype, mask, width), grid, args![*p]) }
    }
}
