//! Kernels over rows that fit in registers: which rows do, how many threads share one, the launch.
//!
//! Softmax and the norms ask here first (`nn`); what does not fit, or has gaps, goes to their kernels over any layout.

use crate::launch::{Family, Key, Place, ceil_div, gpu, run};
use crate::nest::{Geo, Nest};
use crate::text::{Builder, PLUS, float};
use oneflow_base::{DType, Result};
use oneflow_ep::Queue;
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::View;

/// What a kernel does with its rows.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum RowKind {
    Softmax,
    SoftmaxBackward,
    Norm,
    NormBackward,
}

/// How a row is shared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Threads of a row, a power of two.
    pub across: i64,
    /// Accesses of sixteen bytes by a thread.
    pub chunks: i64,
}

/// Elements of a sixteen-byte access.
fn vec(dtype: DType) -> i64 {
    16 / dtype.size() as i64
}

impl Share {
    /// Of rows of `n` elements, for each of which a kernel keeps `arrays` numbers; `None` where registers do not suffice.
    fn of(n: i64, dtype: DType, arrays: i64, kind: RowKind) -> Option<Share> {
        let accesses = n / vec(dtype);
        // A warp has a row to itself, without a barrier, as long as its threads keep no more than 32 numbers (of 32 bits).
        let words = dtype.compute().size() as i64 / 4;
        let most = (32 / (vec(dtype) * words * arrays)).max(1);
        let mut across = (accesses as u64).next_power_of_two().min(32) as i64;
        while across * most < accesses && across < 1024 {
            across *= 2;
        }
        let chunks = ceil_div(accesses, across);
        // 1024 threads have 64 registers each, and a norm reads weight and bias as well.
        let most = if across == 1024 && matches!(kind, RowKind::Norm) { most / 2 } else { most };
        (chunks <= most).then_some(Share { across, chunks })
    }
}

/// What a text depends on. `variant`: of softmax whether the logarithm, of norms whether only the root mean square. `params`: whether a
/// norm's backward has the gradients of weight and bias.
#[derive(Clone, Copy, Debug)]
pub struct RowText {
    pub kind: RowKind,
    pub variant: bool,
    pub params: bool,
    pub dtypes: RowTypes,
    pub share: Share,
}

/// Of the elements, of what each column is multiplied with, and of the gradient that a norm's backward is given.
#[derive(Clone, Copy, Debug)]
pub struct RowTypes {
    pub element: DType,
    pub weight: DType,
    pub grad: DType,
}

impl RowTypes {
    pub fn all(dtype: DType) -> RowTypes {
        RowTypes { element: dtype, weight: dtype, grad: dtype }
    }
}

impl RowText {
    pub fn text(&self) -> Result<Text> {
        let RowText { kind, variant, params, dtypes: RowTypes { element, weight, grad }, share } = *self;
        let b = Builder::new("row").variant("KIND", kind as u8).define("RMS", variant as u8);
        let b = b.variant("IS_LOG", variant as u8).variant("PARAMS", params as u8);
        let b = b.variant("ACROSS", share.across).variant("CHUNKS", share.chunks).define("VEC", vec(element));
        let b = b.compute("C", float("row", element)?.compute())?.dtype("T", element)?.dtype("W", weight)?;
        Ok(b.dtype("G", grad)?.push(PLUS).push(include_str!("text/row.cu")).finish())
    }

    fn key(&self) -> Key {
        let RowText { kind, variant, params, dtypes: RowTypes { element, weight, grad }, share } = *self;
        let key = Key::new(Family::Row).small(kind as u64).small(variant as u64 | (params as u64) << 1);
        let key = key.dtype(element).dtype(weight).dtype(grad);
        key.small(share.across.ilog2() as u64).small(share.chunks as u64)
    }
}

/// Whether a pointer (null for what is absent) allows accesses of sixteen bytes.
pub fn is_aligned(ptr: *const u8) -> bool {
    (ptr as usize).is_multiple_of(16)
}

/// Rows of `n` elements in a nest of operands.
pub struct Rows {
    of: RowText,
    pub n: i32,
    pub geo: Geo,
}

impl Rows {
    /// Rows along the last dimensions: `inner` walks one, `outer` from one to the next. `None` where they do not fit.
    pub fn new(
        (kind, variant): (RowKind, bool),
        dtypes: RowTypes,
        views: &[&View<'_>],
        (outer, inner): (Nest, Nest),
    ) -> Result<Option<Rows>> {
        let (inner, element) = (inner.merged(), dtypes.element);
        let n = inner.n();
        let is_run = inner.sizes().len() <= 1 && (n <= 1 || inner.all_strides().all(|s| s == [1]));
        let apart = outer.all_strides().all(|s| s.iter().all(|stride| stride % vec(element) == 0));
        let aligned = views.iter().all(|v| [element, dtypes.grad].contains(&v.dtype) && is_aligned(v.ptr));
        if !is_run || !apart || !aligned || n <= 1 || n % vec(element) != 0 {
            return Ok(None);
        }
        let arrays = if matches!(kind, RowKind::SoftmaxBackward | RowKind::NormBackward) { 2 } else { 1 };
        let Some(share) = Share::of(n, element, arrays, kind) else { return Ok(None) };
        let geo = outer.geo("row")?;
        let of = RowText { kind, variant, params: false, dtypes, share };
        Ok(Some(Rows { of, n: n as i32, geo }))
    }

    /// Asks for the gradients of a norm's parameters as well; false where registers do not suffice for their sums.
    pub fn take_params(&mut self) -> bool {
        self.of.params = self.of.share.across <= 256;
        self.of.params
    }

    /// Rows that a block has at once.
    fn at_once(&self) -> i64 {
        self.of.share.across.max(256) / self.of.share.across
    }

    /// Blocks of a launch in which each keeps sums over its rows: two a multiprocessor, and no more than there are rows for.
    pub fn n_blocks_with_sums(&self, queue: Queue) -> Result<i64> {
        let most = 2 * gpu(queue)?.n_multiprocessors as i64;
        Ok(ceil_div(self.geo.n(), self.at_once()).clamp(1, most))
    }

    /// Launches the kernel, of rows without sums over them.
    ///
    /// # Safety
    /// The arguments are those of the kind's template; its views are valid.
    pub unsafe fn launch(&self, queue: Queue, args: &mut [Place<'_>]) -> Result<()> {
        let blocks = ceil_div(self.geo.n(), self.at_once()).min(1 << 30);
        // SAFETY: by the contract.
        unsafe { self.launch_blocks(queue, blocks, args) }
    }

    /// As `launch`, with this many blocks.
    ///
    /// # Safety
    /// As `launch`.
    pub unsafe fn launch_blocks(&self, queue: Queue, blocks: i64, args: &mut [Place<'_>]) -> Result<()> {
        let grid = Grid::linear(blocks as u32, self.of.share.across.max(256) as u32);
        // SAFETY: by the contract.
        unsafe { run(queue, self.of.key(), || self.of.text(), grid, args) }
    }
}

/// Blocks whose sums the last of them adds up; as in the text.
pub const GROUP: i64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_shared_by_as_few_threads_as_their_registers_allow() {
        let of = |n, dtype, arrays, kind| Share::of(n, dtype, arrays, kind).map(|s| (s.across, s.chunks));
        let share = |n, dtype, arrays| of(n, dtype, arrays, RowKind::Softmax);
        assert_eq!(share(768, DType::BF16, 1), Some((32, 3)));
        assert_eq!(share(768, DType::BF16, 2), Some((64, 2)));
        assert_eq!(share(768, DType::F32, 1), Some((32, 6)));
        assert_eq!(share(8, DType::BF16, 1), Some((1, 1)));
        assert_eq!(share(40, DType::BF16, 1), Some((8, 1)));
        assert_eq!(share(32768, DType::BF16, 1), Some((1024, 4)));
        assert_eq!(share(32776, DType::BF16, 1), None);
        assert_eq!(of(32768, DType::BF16, 1, RowKind::Norm), None);
        assert_eq!(of(16384, DType::BF16, 1, RowKind::Norm), Some((512, 4)));
        assert_eq!(share(1024, DType::F64, 1), Some((64, 8)));
    }
}
