//! Requests and answers.
//!
//! - `GET /` describes the program, `GET /health` says that it runs.
//! - `POST /run` takes `{"inputs": [one row of each input]}` and answers `{"outputs": [one row of each output]}`.
//! - `POST /generate` takes `{"prompt": "def ", "bytes": 64, "temperature": 0.8, "seed": 0}` and answers `{"text": ...}`.
//!
//! Wrong requests get status 400, 404 or 405 and what was wrong.

use crate::batch::{Batcher, Limits, row_meta};
use crate::generate::{Wish, generate};
use crate::value::Row;
use oneflow_runtime::{Device, Error, ErrorKind, Meta, Plan, Pool, Result};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tiny_http::{Header, Method, Request, Response, Server};

/// The largest body that is read.
const MAX_BODY: u64 = 64 << 20;

/// How long a service that is dropped waits for answers that are under way.
const GRACE: Duration = Duration::from_secs(30);

/// A running service. Dropping it shuts it down.
pub struct Service {
    server: Arc<Server>,
    n_listeners: usize,
    /// Closed when the last thread has ended.
    ended: Receiver<()>,
    runners: Vec<JoinHandle<()>>,
}

impl Service {
    /// Serves a program at an address ("127.0.0.1:0" picks a port), with so many requests at the same time.
    pub fn start(pool: Pool, address: &str, n_listeners: usize, limits: Limits) -> Result<Service> {
        let (batcher, runners) = Batcher::start(pool, limits)?;
        let server = Server::http(address).map_err(|e| Error::runtime(format!("cannot listen on {address}: {e}")))?;
        let server = Arc::new(server);
        let (lives, ended) = channel();
        let n_listeners = n_listeners.max(1);
        for _ in 0..n_listeners {
            let (server, batcher, lives) = (server.clone(), batcher.clone(), lives.clone());
            std::thread::spawn(move || listen(&server, &batcher, lives));
        }
        Ok(Service { server, n_listeners, ended, runners })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.server_addr().to_ip()
    }

    /// Takes no more requests, answers those it has, and ends. False: after `grace` some were not answered still, because a
    /// client sends its request too slowly for instance.
    pub fn shut_down(mut self, grace: Duration) -> bool {
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> bool {
        // Each listener answers what it has, then finds itself unblocked; the runners end with the last of them.
        for _ in 0..std::mem::take(&mut self.n_listeners) {
            self.server.unblock();
        }
        let until = Instant::now() + grace;
        loop {
            match self.ended.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        for runner in self.runners.drain(..) {
            let _ = runner.join();
        }
        true
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.n_listeners > 0 {
            self.end(GRACE);
        }
    }
}

/// One listener; `_lives` is dropped when it ends.
fn listen(server: &Server, batcher: &Batcher, _lives: Sender<()>) {
    while let Ok(request) = server.recv() {
        respond(batcher, request);
    }
}

/// A status and a body.
type Answer = (u16, Value);

fn respond(batcher: &Batcher, mut request: Request) {
    let (status, body) = answer(batcher, &mut request);
    let mut response = Response::from_string(body.to_string()).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", "application/json") {
        response.add_header(header);
    }
    // Who asked may be gone.
    let _ = request.respond(response);
}

fn answer(batcher: &Batcher, request: &mut Request) -> Answer {
    let path = request.url().split('?').next().unwrap_or_default().to_owned();
    let result = match (request.method(), path.as_str()) {
        (Method::Get, "/") => Ok(describe(batcher.plan())),
        (Method::Get, "/health") => Ok(json!({ "status": "ok" })),
        (Method::Post, "/run") => read(request).and_then(|body| run(batcher, &body)),
        (Method::Post, "/generate") => read(request).and_then(|body| write_text(batcher, &body)),
        (method, "/" | "/health" | "/run" | "/generate") => {
            return (405, json!({ "error": format!("{path} does not take {method}") }));
        }
        _ => {
            let known = "GET /, GET /health, POST /run or POST /generate";
            return (404, json!({ "error": format!("there is no {path}: {known}") }));
        }
    };
    match result {
        Ok(body) => (200, body),
        Err(e) => (status_of(&e), json!({ "error": e.to_string() })),
    }
}

/// What is wrong with a request is told by errors of values; the rest is the service's.
fn status_of(e: &Error) -> u16 {
    match e.kind() {
        ErrorKind::Value | ErrorKind::Type | ErrorKind::Index => 400,
        ErrorKind::NotImplemented => 501,
        _ => 500,
    }
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
    let row = |m: &Meta| {
        let row = row_meta(m);
        json!({ "dtype": row.dtype.name(), "shape": row.sizes.as_slice(), "batch": m.sizes.first() })
    };
    let output = |o: &oneflow_runtime::Output| row(&Meta::contiguous(o.operand.dtype, Device::CPU, &o.operand.sizes));
    json!({
        "name": plan.name,
        "inputs": plan.inputs.iter().map(|i| row(&i.meta)).collect::<Vec<_>>(),
        "outputs": plan.outputs.iter().map(output).collect::<Vec<_>>(),
    })
}

fn run(batcher: &Batcher, body: &Value) -> Result<Value> {
    let given = body.get("inputs").and_then(Value::as_array);
    let given = given.ok_or_else(|| Error::value("expected {\"inputs\": [one row of each input]}"))?;
    let metas = batcher.plan().inputs.iter().map(|i| i.meta.dtype);
    let rows = given
        .iter()
        .zip(metas)
        .enumerate()
        .map(|(i, (v, dtype))| Row::parse(v, dtype).map_err(|e| e.context(format_args!("input {i}: "))));
    let mut rows = rows.collect::<Result<Vec<_>>>()?;
    if given.len() > rows.len() {
        // More than the program takes: counted where it is refused.
        rows.resize(given.len(), Row::I64(Vec::new()));
    }
    let outputs = batcher.run(rows)?;
    Ok(json!({ "outputs": outputs.iter().map(Row::to_json).collect::<Vec<_>>() }))
}

fn write_text(batcher: &Batcher, body: &Value) -> Result<Value> {
    let number = |name: &str, default: f64| match body.get(name) {
        None => Ok(default),
        Some(v) => v.as_f64().ok_or_else(|| Error::value(format!("{name:?} must be a number"))),
    };
    let whole = |name: &str, default: u64| match body.get(name) {
        None => Ok(default),
        Some(v) => v.as_u64().ok_or_else(|| Error::value(format!("{name:?} must be a whole number"))),
    };
    let prompt = body.get("prompt").and_then(Value::as_str);
    let prompt = prompt.ok_or_else(|| Error::value("expected {\"prompt\": \"...\", \"bytes\": 64}"))?.to_owned();
    let wish =
        Wish { prompt, bytes: whole("bytes", 64)?, temperature: number("temperature", 0.8)?, seed: whole("seed", 0)? };
    Ok(json!({ "text": String::from_utf8_lossy(&generate(batcher, &wish)?) }))
}
