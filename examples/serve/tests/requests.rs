//! The service answers many at once, each with its own numbers, and says what is wrong with a request.

use oneflow_base::{DType, Device};
use oneflow_core::Tensor;
use oneflow_graph::{Config, Tracer, compile};
use oneflow_ops::TensorOps;
use oneflow_runtime::{Plan, Session};
use oneflow_serve::{Service, register};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// `y = relu(x @ w)` with a known weight, through the bytes of a plan file.
fn plan() -> Vec<u8> {
    register();
    oneflow_autograd::register();
    let tracer = Tracer::begin("relu of a product", None).unwrap();
    let like = Tensor::empty(DType::F32, Device::CPU, &[1, 3]).unwrap();
    // SAFETY: f32 is the Rust type of F32.
    let w = unsafe { Tensor::from_host(&[1f32, -1.0, 2.0, 0.5, 0.0, -3.0], DType::F32, &[3, 2]) }.unwrap();
    let x = tracer.input(&like).unwrap();
    let y = x.matmul(&w).unwrap().relu().unwrap();
    let c = compile(tracer.finish(&[y]).unwrap(), &Config::default()).unwrap();
    c.session.to_plan_with_variables().unwrap().to_bytes()
}

fn ask(at: SocketAddr, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut s = TcpStream::connect(at).unwrap();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    s.write_all((head + body).as_bytes()).unwrap();
    let mut text = String::new();
    s.read_to_string(&mut text).unwrap();
    let status = text[9..12].parse().unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1;
    // Short answers may come in chunks: the JSON stands between the first and the last brace.
    let json = &body[body.find('{').unwrap()..=body.rfind('}').unwrap()];
    (status, serde_json::from_str(json).unwrap())
}

#[test]
fn concurrent_requests_get_their_own_answers() {
    let session = Session::from_plan(Plan::from_bytes(&plan()).unwrap()).unwrap();
    let service = Service::start(session, "127.0.0.1:0", 3).unwrap();
    let at = service.address().unwrap();
    let (status, about) = ask(at, "GET", "/", "");
    assert_eq!((status, &about["inputs"][0]["shape"]), (200, &json!([1, 3])));
    std::thread::scope(|scope| {
        for k in 0..8 {
            scope.spawn(move || {
                for i in 0..25 {
                    let (a, b, c) = ((k * 100 + i) as f64, i as f64, k as f64);
                    let (status, y) = ask(at, "POST", "/run", &json!({ "inputs": [[a, b, c]] }).to_string());
                    let want = [(a + 2.0 * b).max(0.0), (-a + 0.5 * b - 3.0 * c).max(0.0)];
                    assert_eq!((status, &y["outputs"][0]["data"]), (200, &json!(want)));
                }
            });
        }
    });
    for (path, body, says) in [
        ("/run", "{\"inputs\": [[1, 2]]}", "expected 3 numbers"),
        ("/run", "{\"inputs\": []}", "takes 1 inputs"),
        ("/run", "nonsense", "not JSON"),
        ("/other", "", "there is no"),
    ] {
        let (status, e) = ask(at, "POST", path, body);
        assert_eq!(status, 400);
        assert!(e["error"].as_str().unwrap().contains(says), "{e}");
    }
    drop(service);
    // The listener's own thread closes the port a moment later.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while TcpStream::connect(at).is_ok() {
        assert!(std::time::Instant::now() < deadline, "the port is still open");
        std::thread::yield_now();
    }
}

#[test]
fn a_plan_that_writes_its_variables_has_no_replicas() {
    register();
    oneflow_autograd::register();
    let tracer = Tracer::begin("counter", None).unwrap();
    // SAFETY: f32 is the Rust type of F32.
    let n = unsafe { Tensor::from_host(&[0f32], DType::F32, &[1]) }.unwrap();
    let x = tracer.input(&n).unwrap();
    n.add_(&x).unwrap();
    let c = compile(tracer.finish(&[x]).unwrap(), &Config::default()).unwrap();
    assert!(c.session.replica().err().unwrap().text().contains("writes"));
}
