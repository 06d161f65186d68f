//! Ranks as threads of this process, and tensors to compare.
#![allow(dead_code)]

use oneflow_base::{DType, DeviceType, Placement, Result, Sbp};
use oneflow_core::{Tensor, copy_to_host};
use oneflow_global::{Spread, global_of, part, to_global};
use oneflow_ops::TensorOps;
use std::sync::Once;
use std::time::Duration;

pub const B: Sbp = Sbp::B;
pub const P: Sbp = Sbp::P_SUM;
pub const fn s(d: u8) -> Sbp {
    Sbp::S(d)
}

pub fn setup() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        oneflow_kernels::register_all();
        oneflow_ops::register();
        oneflow_autograd::register();
        oneflow_global::register();
    });
}

/// Runs `f` on `n` ranks; all must succeed.
pub fn ranks<R: Send>(n: usize, f: impl Fn(usize) -> Result<R> + Sync) -> Vec<R> {
    setup();
    let results = oneflow_comm::fake::run_ranks(n, Duration::from_secs(60), |group| {
        oneflow_core::set_thread_generator(Some(oneflow_core::Generator::new()));
        f(group.rank())
    });
    results.into_iter().enumerate().map(|(r, x)| x.unwrap_or_else(|e| panic!("rank {r}: {e}"))).collect()
}

/// The placement of ranks 0 .. product of the mesh.
pub fn mesh(hierarchy: &[i64]) -> Placement {
    let n: i64 = hierarchy.iter().product();
    Placement::new(DeviceType::CPU, (0..n as u32).collect(), hierarchy).unwrap()
}

pub fn spread(hierarchy: &[i64], sbp: &[Sbp]) -> Spread {
    oneflow_global::spread(mesh(hierarchy).id(), sbp).unwrap()
}

/// 0, 1, 2, ... in float64.
pub fn iota(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    f64s(&(0..n).map(|i| i as f64).collect::<Vec<_>>(), sizes)
}

pub fn f64s(values: &[f64], sizes: &[i64]) -> Tensor {
    // SAFETY: f64 is the Rust type of F64.
    unsafe { Tensor::from_host(values, DType::F64, sizes) }.unwrap()
}

/// Elements row-major; both parts of complex ones.
pub fn values(t: &Tensor) -> Vec<f64> {
    setup();
    let mut h = copy_to_host(t).unwrap();
    if h.dtype().is_complex() {
        h = h.view_as_real().unwrap();
    }
    let d = Tensor::empty(DType::F64, oneflow_base::Device::CPU, h.sizes()).unwrap();
    oneflow_core::copy_into(&d, &h).unwrap();
    // SAFETY: the copy is dense and holds `numel` doubles.
    unsafe { std::slice::from_raw_parts(d.data_ptr().cast::<f64>(), d.numel() as usize) }.to_vec()
}

/// A replicated global tensor with these values, then laid out.
pub fn spread_out(x: &Tensor, to: Spread) -> Result<Tensor> {
    let b = Spread::broadcast(to.placement_id)?;
    to_global(&to_global(x, b)?, to)
}

/// The whole on every rank.
pub fn whole(t: &Tensor) -> Result<Tensor> {
    let home = global_of(t).expect("a global tensor").spread;
    oneflow_global::to_local(&to_global(t, Spread::broadcast(home.placement_id)?)?)
}

/// The shard has the shape that its layout implies.
pub fn check_shard(t: &Tensor, rank: usize) {
    let g = global_of(t).expect("a global tensor");
    match g.spread.placement.coords(rank as u32) {
        None => assert!(g.local.is_none()),
        Some(c) => {
            let want = part(t.sizes(), g.spread.placement, g.spread.sbp, &c).sizes;
            assert_eq!(g.local.as_ref().unwrap().sizes(), want.as_slice(), "{:?}", g.spread.sbp);
        }
    }
}
