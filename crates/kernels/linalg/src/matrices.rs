//! Batches of matrices as the decompositions see them: raw strided views, one item at a time.

use oneflow_base::{DType, Error, Result};
use oneflow_ep::cpu;
use oneflow_kernels_decompose::{MatMut, MatRef};
use oneflow_kernels_prim::View;
use std::marker::PhantomData;

/// Calls a kernel generic over [`Item`] with the type behind a dtype.
macro_rules! with_item {
    ($name:literal, $dtype:expr, $T:ident => $call:expr) => {
        match $dtype {
            oneflow_base::DType::F32 => {
                type $T = f32;
                $call
            }
            oneflow_base::DType::F64 => {
                type $T = f64;
                $call
            }
            oneflow_base::DType::C64 => {
                type $T = oneflow_kernels_decompose::c32;
                $call
            }
            oneflow_base::DType::C128 => {
                type $T = oneflow_kernels_decompose::c64;
                $call
            }
            other => Err(crate::matrices::unsupported($name, other)),
        }
    };
}
pub(crate) use with_item;

#[cold]
pub(crate) fn unsupported(name: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("{name}: no CPU kernel for {}", dtype.name()))
}

/// A batch of matrices (or vectors, as columns) in memory.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a, T> {
    ptr: *mut T,
    lead: &'a [i64],
    lead_strides: &'a [i64],
    pub rows: usize,
    pub cols: usize,
    rs: isize,
    cs: isize,
    items: PhantomData<T>,
}

// SAFETY: items are written by one task each; what is shared is only read.
unsafe impl<T: Send> Sync for Batch<'_, T> {}
// SAFETY: a view of memory that outlives the call.
unsafe impl<T: Send> Send for Batch<'_, T> {}

impl<'a, T> Batch<'a, T> {
    /// The last two dimensions are a matrix.
    pub fn matrices(v: View<'a>) -> Result<Batch<'a, T>> {
        let Some(d) = v.ndim().checked_sub(2) else {
            return Err(Error::runtime("a matrix needs two dimensions"));
        };
        Ok(Batch {
            ptr: v.ptr.cast(),
            lead: &v.sizes[..d],
            lead_strides: &v.strides[..d],
            rows: v.sizes[d] as usize,
            cols: v.sizes[d + 1] as usize,
            rs: v.strides[d] as isize,
            cs: v.strides[d + 1] as isize,
            items: PhantomData,
        })
    }

    /// The last dimension is a column.
    pub fn vectors(v: View<'a>) -> Result<Batch<'a, T>> {
        let Some(d) = v.ndim().checked_sub(1) else {
            return Err(Error::runtime("a vector needs a dimension"));
        };
        Ok(Batch {
            ptr: v.ptr.cast(),
            lead: &v.sizes[..d],
            lead_strides: &v.strides[..d],
            rows: v.sizes[d] as usize,
            cols: 1,
            rs: v.strides[d] as isize,
            cs: 0,
            items: PhantomData,
        })
    }

    /// One number an item.
    pub fn scalars(v: View<'a>) -> Batch<'a, T> {
        let (lead, lead_strides) = (v.sizes, v.strides);
        Batch { ptr: v.ptr.cast(), lead, lead_strides, rows: 1, cols: 1, rs: 0, cs: 0, items: PhantomData }
    }

    pub fn ndim_lead(&self) -> usize {
        self.lead.len()
    }

    pub fn len(&self) -> usize {
        self.lead.iter().product::<i64>() as usize
    }

    fn item(&self, index: usize) -> *mut T {
        let mut rest = index as i64;
        let mut offset = 0;
        for (size, stride) in self.lead.iter().zip(self.lead_strides).rev() {
            offset += rest % size * stride;
            rest /= size;
        }
        self.ptr.wrapping_offset(offset as isize)
    }

    /// # Safety
    /// The item is in memory, and nobody writes it meanwhile.
    pub unsafe fn get(&self, index: usize) -> MatRef<'a, T> {
        // SAFETY: the caller's contract.
        unsafe { MatRef::from_raw_parts(self.item(index), self.rows, self.cols, self.rs, self.cs) }
    }

    /// # Safety
    /// The item is in memory, and nobody else uses it meanwhile.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn get_mut(&self, index: usize) -> MatMut<'a, T> {
        // SAFETY: the caller's contract.
        unsafe { MatMut::from_raw_parts_mut(self.item(index), self.rows, self.cols, self.rs, self.cs) }
    }
}

/// Runs `f` for each of `n` items of about `work` operations, side by side where that pays.
pub(crate) fn for_each(n: usize, work: f64, f: &(dyn Fn(usize) + Sync)) {
    const WORTH_A_TASK: f64 = 2e4;
    let chunk = ((WORTH_A_TASK / work.max(1.0)).ceil() as usize).max(1);
    if n <= chunk {
        (0..n).for_each(f);
        return;
    }
    cpu::parallel_for(n.div_ceil(chunk), &|task| (task * chunk..((task + 1) * chunk).min(n)).for_each(f));
}

/// The first item whose status is not zero.
pub(crate) struct Status(Vec<std::sync::atomic::AtomicI32>);

impl Status {
    pub fn new(n: usize) -> Status {
        Status((0..n).map(|_| Default::default()).collect())
    }
    pub fn set(&self, item: usize, status: i32) {
        self.0[item].store(status, std::sync::atomic::Ordering::Relaxed);
    }
    /// The words of torch's errors for the first failure; `None` if there is none. `lead` are the batch dimensions.
    pub fn failure(&self, ndim_lead: usize, text: impl Fn(i32) -> String) -> Option<String> {
        let status = |s: &std::sync::atomic::AtomicI32| s.load(std::sync::atomic::Ordering::Relaxed);
        let item = self.0.iter().position(|s| status(s) != 0)?;
        let place = if ndim_lead == 0 { String::new() } else { format!("(Batch element {item}): ") };
        Some(format!("{place}{}", text(status(&self.0[item]))))
    }
}
