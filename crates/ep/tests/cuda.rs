//! CUDA without a GPU: a reason instead of a panic, and a compiler that works where its library is.

use oneflow_base::{DeviceType, ErrorKind};
use oneflow_ep::cuda;

#[test]
fn without_a_gpu_there_is_a_reason() {
    match cuda::provider() {
        Some(_) => assert_eq!(cuda::unavailable_reason(), None),
        None => {
            let reason = cuda::unavailable_reason().unwrap();
            assert!(!cuda::is_available() && reason.len() > 10, "{reason}");
            let e = oneflow_ep::provider(DeviceType::CUDA).err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Runtime);
            assert!(e.text().contains(&reason), "{e}");
        }
    }
}

#[test]
fn the_compiler_makes_machine_code_or_says_where_it_was_looked_for() {
    let nvrtc = match cuda::nvrtc() {
        Ok(n) => n,
        Err(e) => {
            assert!(std::env::var_os("ONEFLOW_CUDA_LIB_DIRS").is_none_or(|v| v.is_empty()), "{e}");
            assert!(e.text().contains("libnvrtc.so.13") && e.text().contains("tried"), "{e}");
            return;
        }
    };
    assert!(nvrtc.version.0 >= 12);
    assert_eq!((nvrtc.arch_for(8, 0), nvrtc.arch_for(9, 0)), ("sm_80".into(), "sm_90a".into()));
    assert!(nvrtc.arch_for(99, 0).starts_with("compute_"));
    let text = "extern \"C\" __global__ void entry(float* x) { x[threadIdx.x] *= 2.0f; }";
    for arch in ["sm_80", "sm_90a"] {
        assert!(nvrtc.compile("twice", text, arch, &[]).unwrap().starts_with(b"\x7fELF"));
    }
    assert!(nvrtc.compile("twice", text, "compute_80", &[]).unwrap().ends_with(b"\0"));
    let e = nvrtc.compile("wrong", "extern \"C\" __global__ void entry() { y = 1; }", "sm_80", &[]).unwrap_err();
    assert!(e.text().contains("wrong") && e.text().contains('y'), "{e}");
}

#[test]
fn nccl_is_there_as_declared_or_the_package_is_named() {
    let nccl = match cuda::nccl::nccl() {
        Ok(nccl) => nccl,
        Err(e) => {
            assert!(e.text().contains("libnccl.so.2") && e.text().contains("oneflow[cu12]"), "{e}");
            return;
        }
    };
    // Every function was found; ids need no GPU.
    assert!(nccl.version >= (2, 18, 0), "{:?}", nccl.version);
    assert_ne!(nccl.unique_id().unwrap().0, nccl.unique_id().unwrap().0);
}
