//! The tape on real kernels: gradients, in-place, views, second order, long chains.

use oneflow_base::{DType, ErrorKind};
use oneflow_core::Tensor;
use oneflow_ops::TensorOps;

fn setup() {
    oneflow_kernels::register_all();
    oneflow_ops::register();
    oneflow_autograd::register();
}

fn t(v: &[f64], sizes: &[i64]) -> Tensor {
    setup();
    // SAFETY: f64 is the Rust type of F64.
    unsafe { Tensor::from_host(v, DType::F64, sizes) }.unwrap()
}

fn leaf(v: &[f64], sizes: &[i64]) -> Tensor {
    let x = t(v, sizes);
    oneflow_autograd::set_requires_grad(&x, true).unwrap();
    x
}

fn values(x: &Tensor) -> Vec<f64> {
    let h = oneflow_core::copy_to_host(x).unwrap();
    // SAFETY: the copy is contiguous and holds `numel` doubles.
    unsafe { std::slice::from_raw_parts(h.data_ptr().cast::<f64>(), h.numel() as usize) }.to_vec()
}

fn backward(x: &Tensor) {
    oneflow_autograd::backward(std::slice::from_ref(x), &[None], false, false, None).unwrap();
}

fn grad(x: &Tensor) -> Vec<f64> {
    values(&oneflow_autograd::grad(x).unwrap())
}

#[test]
fn product_and_sum() {
    let (x, y) = (leaf(&[1., 2., 3.], &[3]), leaf(&[4.], &[1]));
    backward(&x.mul(&y).unwrap().sum(None, false).unwrap());
    assert_eq!(grad(&x), [4., 4., 4.]);
    assert_eq!(grad(&y), [6.]);
    backward(&x.add_with(&y, 2.0).unwrap().sum(None, false).unwrap());
    assert_eq!(grad(&x), [5., 5., 5.]);
    assert_eq!(grad(&y), [12.]);
}

#[test]
fn in_place_keeps_the_overwritten_input() {
    let (x, w) = (leaf(&[1., 2.], &[2]), leaf(&[3., 4.], &[2]));
    let y = x.mul(1.0).unwrap();
    y.mul_(&w).unwrap();
    backward(&y.sum(None, false).unwrap());
    assert_eq!(grad(&x), [3., 4.]);
    assert_eq!(grad(&w), [1., 2.]);
}

#[test]
fn writing_through_a_view_reaches_the_base() {
    let (x, w) = (leaf(&[1., 2., 3., 4.], &[2, 2]), leaf(&[10., 20.], &[2]));
    let y = x.mul(1.0).unwrap();
    let row = y.as_strided(&[2], &[1], Some(2)).unwrap();
    let column = y.transpose(0, 1).unwrap();
    row.mul_(&w).unwrap();
    assert_eq!(values(&y), [1., 2., 30., 80.]);
    // A view made before the write sees it, in value and in gradient.
    backward(&column.mul(&column).unwrap().sum(None, false).unwrap());
    assert_eq!(grad(&x), [2., 4., 2. * 30. * 10., 2. * 80. * 20.]);
    assert_eq!(grad(&w), [2. * 30. * 3., 2. * 80. * 4.]);
}

#[test]
fn a_view_may_bring_the_gradient_to_its_base() {
    let (y, w) = (t(&[1., 2., 3.], &[3]), leaf(&[5.], &[1]));
    let part = y.as_strided(&[1], &[1], Some(1)).unwrap();
    part.mul_(&w).unwrap();
    backward(&y.sum(None, false).unwrap());
    assert_eq!(grad(&w), [2.]);
}

#[test]
fn a_changed_saved_tensor_is_an_error() {
    let x = leaf(&[1., 2.], &[2]);
    let y = x.exp().unwrap();
    let z = y.sum(None, false).unwrap();
    y.add_(1.0).unwrap();
    let e = oneflow_autograd::backward(&[z], &[None], false, false, None).unwrap_err();
    assert!(e.text().contains("modified by an inplace operation"), "{e}");
}

#[test]
fn leaves_refuse_in_place() {
    let x = leaf(&[1., 2.], &[2]);
    let e = x.add_(1.0).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Runtime);
    assert!(e.text().contains("leaf Variable"), "{e}");
    let v = x.view(&[2, 1]).unwrap();
    assert!(v.add_(1.0).unwrap_err().text().contains("view of a leaf"));
}

#[test]
fn twice_needs_retain() {
    let x = leaf(&[1., 2.], &[2]);
    let y = x.mul(&x).unwrap().sum(None, false).unwrap();
    oneflow_autograd::backward(std::slice::from_ref(&y), &[None], true, false, None).unwrap();
    backward(&y);
    assert_eq!(grad(&x), [4., 8.]);
    let e = oneflow_autograd::backward(&[y], &[None], false, false, None).unwrap_err();
    assert!(e.text().contains("second time"), "{e}");
}

#[test]
fn second_derivative_through_a_fused_backward() {
    let x = leaf(&[0.3, -1.2], &[2]);
    let y = x.gelu().unwrap().sum(None, false).unwrap();
    let g =
        oneflow_autograd::grad_of(&[y], std::slice::from_ref(&x), &[None], false, true).unwrap()[0].clone().unwrap();
    let gg = oneflow_autograd::grad_of(&[g.sum(None, false).unwrap()], std::slice::from_ref(&x), &[None], false, false)
        .unwrap();
    let second = |x: f64| (2.0 - x * x) * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    for (a, x) in values(gg[0].as_ref().unwrap()).iter().zip([0.3, -1.2]) {
        assert!((a - second(x)).abs() < 1e-12, "{a} {}", second(x));
    }
}

#[test]
fn matrix_gradients() {
    let (a, b) = (leaf(&[1., 2., 3., 4., 5., 6.], &[2, 3]), leaf(&[1., 0., 0., 1., 1., 1.], &[3, 2]));
    backward(&a.matmul(&b).unwrap().sum(None, false).unwrap());
    assert_eq!(grad(&a), [1., 1., 2., 1., 1., 2.]);
    assert_eq!(grad(&b), [5., 5., 7., 7., 9., 9.]);
}

#[test]
fn long_chains_neither_overflow_nor_crawl() {
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(|| {
            let x = leaf(&[1.0], &[1]);
            let mut y = x.clone();
            for _ in 0..100_000 {
                y = y.mul(&x).unwrap();
            }
            backward(&y.sum(None, false).unwrap());
            assert_eq!(grad(&x), [100_001.0]);
            // Dropped without backward as well.
            let mut y = x.clone();
            for _ in 0..100_000 {
                y = y.mul(&x).unwrap();
            }
            drop(y);
        })
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn hooks_see_and_replace() {
    let x = leaf(&[1., 2.], &[2]);
    let y = x.mul(3.0).unwrap();
    oneflow_autograd::retain_grad(&y).unwrap();
    oneflow_autograd::register_hook(&y, std::sync::Arc::new(|g| g.map(|g| g.mul(10.0)).transpose())).unwrap();
    let h = oneflow_autograd::register_hook(&x, std::sync::Arc::new(|g| g.map(|g| g.add(1.0)).transpose())).unwrap();
    backward(&y.sum(None, false).unwrap());
    assert_eq!(grad(&x), [31., 31.]);
    assert_eq!(grad(&y), [10., 10.]);
    oneflow_autograd::remove_hook(&x, h);
    backward(&x.sum(None, false).unwrap());
    assert_eq!(grad(&x), [32., 32.]);
}
