//! `MATMUL` as a launch sees it.

use oneflow_base::{DType, Device};
use oneflow_ep::Queue;
use oneflow_kernels_gemm::register;
use oneflow_kernels_prim::{Activation, Launch, MATMUL, View, Word};

fn view<'a>(data: &'a [f32], sizes: &'a [i64], strides: &'a [i64]) -> Option<View<'a>> {
    Some(View { ptr: data.as_ptr() as *mut u8, dtype: DType::F32, sizes, strides })
}

fn launch(ins: &[Option<View>], out: Option<View>, activation: Activation, alpha: f64) -> oneflow_base::Result<()> {
    register();
    let queue = Queue { device: Device::CPU, raw: std::ptr::null_mut() };
    let params = [Word(activation as u64), Word::from(alpha)];
    let launch = Launch { outs: &[out], ins, params: &params, expr: None, queue };
    // SAFETY: every view lies in a vector of its caller.
    unsafe { MATMUL.on(Device::CPU.kind)?(&launch) }
}

#[test]
fn fused_batched_and_broadcast() {
    let (batch, m, n, k) = (3, 4, 5, 6);
    let numbers = |n: usize, seed: usize| (0..n).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect::<Vec<f32>>();
    let (a, b, bias, residual) =
        (numbers(batch * m * k, 1), numbers(n * k, 2), numbers(n, 3), numbers(batch * m * n, 4));
    let out = vec![0f32; batch * m * n];
    let sizes = [batch as i64, m as i64, n as i64];
    let full = [(m * n) as i64, n as i64, 1];
    let ins = [
        view(&a, &[3, 4, 6], &[24, 6, 1]),
        // B is a transposed weight, the same for every item.
        view(&b, &[3, 6, 5], &[0, 1, 6]),
        view(&bias, &sizes, &[0, 0, 1]),
        view(&residual, &sizes, &full),
    ];
    launch(&ins, view(&out, &sizes, &full), Activation::Relu, 0.5).unwrap();
    for (x, got) in out.iter().enumerate() {
        let (row, j) = (x / n, x % n);
        let sum: f32 = (0..k).map(|p| a[row * k + p] * b[j * k + p]).sum();
        assert_eq!(*got, (0.5 * sum + bias[j]).max(0.0) + residual[x], "at {x}");
    }
}

#[test]
fn mixed_dtypes_are_refused() {
    let data = [0f32; 4];
    let x = view(&data, &[2, 2], &[2, 1]);
    let y = x.map(|v| View { dtype: DType::F64, ..v });
    let error = launch(&[x, y], x, Activation::None, 1.0).unwrap_err();
    assert!(error.text().contains("float64"), "{error}");
}
