//! A compiled plan behind HTTP, without Python: every worker has a session of its own over the same weights.
//!
//! `GET /` describes the plan's inputs. `POST /run` takes `{"inputs": [[numbers of input 0, row by row], ...]}` and answers
//! `{"outputs": [{"shape": [...], "data": [...]}, ...]}`. Wrong requests get status 400 and what was wrong.

use oneflow_base::{DType, Device, Error, Result};
use oneflow_core::{Tensor, copy_to_host};
use oneflow_runtime::{Plan, Session};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use tiny_http::{Header, Method, Request, Response, Server};

/// The largest body that is read.
const MAX_BODY: u64 = 64 << 20;

/// A running service. Dropping it stops the workers.
pub struct Service {
    server: Arc<Server>,
    workers: Vec<JoinHandle<()>>,
}

impl Service {
    /// Serves a plan at an address ("127.0.0.1:0" picks a port) with so many workers.
    pub fn start(session: Session, address: &str, n_workers: usize) -> Result<Service> {
        let server = Server::http(address).map_err(|e| Error::runtime(format!("cannot listen on {address}: {e}")))?;
        let server = Arc::new(server);
        let mut sessions = (1..n_workers).map(|_| session.replica()).collect::<Result<Vec<_>>>()?;
        sessions.push(session);
        let workers = sessions
            .into_iter()
            .map(|mut session| {
                let server = server.clone();
                std::thread::spawn(move || {
                    while let Ok(request) = server.recv() {
                        answer(&mut session, request);
                    }
                })
            })
            .collect();
        Ok(Service { server, workers })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.server_addr().to_ip()
    }

    /// Waits for the workers, which end only when the service is dropped or fails.
    pub fn join(mut self) {
        self.workers.drain(..).for_each(|w| drop(w.join()));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        for _ in &self.workers {
            self.server.unblock();
        }
        self.workers.drain(..).for_each(|w| drop(w.join()));
    }
}

/// Makes kernels and ops known to this process.
pub fn register() {
    oneflow_kernels::register_all();
    oneflow_ops::register();
}

fn answer(session: &mut Session, mut request: Request) {
    let result = match (request.method(), request.url()) {
        (Method::Get, "/") => Ok(describe(session.plan())),
        (Method::Post, "/run") => read(&mut request).and_then(|body| run(session, &body)),
        (method, url) => Err(Error::value(format!("there is no {method} {url}: GET / or POST /run"))),
    };
    let (status, body) = match result {
        Ok(body) => (200, body),
        Err(e) => (400, json!({ "error": e.to_string() })),
    };
    let mut response = Response::from_string(body.to_string()).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", "application/json") {
        response.add_header(header);
    }
    // Who asked may be gone.
    let _ = request.respond(response);
}

fn read(request: &mut Request) -> Result<Value> {
    use std::io::Read;
    let mut text = String::new();
    let mut body = request.as_reader().take(MAX_BODY + 1);
    body.read_to_string(&mut text).map_err(|e| Error::value(format!("the body is not text: {e}")))?;
    if text.len() as u64 > MAX_BODY {
        return Err(Error::value(format!("the body is longer than {MAX_BODY} bytes")));
    }
    serde_json::from_str(&text).map_err(|e| Error::value(format!("the body is not JSON: {e}")))
}

fn describe(plan: &Plan) -> Value {
    let input = |i: &oneflow_runtime::Input| json!({ "dtype": i.meta.dtype.name(), "shape": i.meta.sizes.as_slice() });
    json!({ "name": plan.name, "inputs": plan.inputs.iter().map(input).collect::<Vec<_>>() })
}

fn run(session: &mut Session, body: &Value) -> Result<Value> {
    let given = body.get("inputs").and_then(Value::as_array);
    let given = given.ok_or_else(|| Error::value("expected {\"inputs\": [[...], ...]}"))?;
    let plan = session.plan();
    if given.len() != plan.inputs.len() {
        return Err(Error::value(format!("the plan takes {} inputs, {} were given", plan.inputs.len(), given.len())));
    }
    let inputs = plan.inputs.iter().zip(given).enumerate();
    let inputs = inputs.map(|(i, (input, v))| tensor(i, input, v)).collect::<Result<Vec<_>>>()?;
    let outputs = session.run(&inputs)?;
    Ok(json!({ "outputs": outputs.iter().map(numbers).collect::<Result<Vec<_>>>()? }))
}

fn tensor(index: usize, input: &oneflow_runtime::Input, given: &Value) -> Result<Tensor> {
    let m = &input.meta;
    let wrong = || Error::value(format!("input {index}: expected {} numbers of {}", m.numel(), m.dtype));
    let list = given.as_array().filter(|l| l.len() as i64 == m.numel()).ok_or_else(wrong)?;
    // SAFETY of both: the element type is the Rust type of the dtype.
    match m.dtype {
        DType::F32 => {
            let v = list.iter().map(|x| x.as_f64().map(|x| x as f32).ok_or_else(wrong)).collect::<Result<Vec<_>>>()?;
            // SAFETY: as above.
            unsafe { Tensor::from_host(&v, DType::F32, &m.sizes) }
        }
        DType::I64 => {
            let v = list.iter().map(|x| x.as_i64().ok_or_else(wrong)).collect::<Result<Vec<_>>>()?;
            // SAFETY: as above.
            unsafe { Tensor::from_host(&v, DType::I64, &m.sizes) }
        }
        d => Err(Error::not_implemented(format!("input {index}: this example takes float32 and int64, the plan {d}"))),
    }
}

fn numbers(t: &Tensor) -> Result<Value> {
    let t = if t.is_contiguous() && t.device() == Device::CPU { t.clone() } else { copy_to_host(t)? };
    let (n, p) = (t.numel() as usize, t.data_ptr());
    let data: Vec<f64> = match t.dtype() {
        // SAFETY: a contiguous host tensor holds that many elements of its dtype.
        DType::F32 => unsafe { std::slice::from_raw_parts(p.cast::<f32>(), n) }.iter().map(|x| *x as f64).collect(),
        // SAFETY: as above.
        DType::I64 => unsafe { std::slice::from_raw_parts(p.cast::<i64>(), n) }.iter().map(|x| *x as f64).collect(),
        d => return Err(Error::not_implemented(format!("this example gives float32 and int64, the plan {d}"))),
    };
    Ok(json!({ "shape": t.sizes(), "data": data }))
}
