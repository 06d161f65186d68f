//! Requests and answers.
//!
//! - `GET /` describes the program, `GET /health` says that it runs.
//! - `POST /run` takes `{"inputs": [one row of each input]}` and answers `{"outputs": [one row of each output]}`.
//! - `POST /generate` takes `{"prompt": "def ", "bytes": 64, "temperature": 0.8, "seed": 0}` and answers `{"text": ...}`.
//!
//! Wrong requests get status 400 and what was wrong.

use crate::batch::{Batcher, Limits, row_meta};
use crate::generate::{Wish, generate};
use crate::value::Row;
use oneflow_base::{Error, ErrorKind, Result};
use oneflow_runtime::{Plan, Pool};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use tiny_http::{Header, Method, Request, Response, Server};

/// The largest body that is read.
const MAX_BODY: u64 = 64 << 20;

/// A running service. Dropping it shuts it down.
pub struct Service {
    server: Arc<Server>,
    listeners: Vec<JoinHandle<()>>,
    runners: Vec<JoinHandle<()>>,
}

impl Service {
    /// Serves a program at an address ("127.0.0.1:0" picks a port), with so many requests at the same time.
    pub fn start(pool: Pool, address: &str, n_listeners: usize, limits: Limits) -> Result<Service> {
        let (batcher, runners) = Batcher::start(pool, limits)?;
        let server = Server::http(address).map_err(|e| Error::runtime(format!("cannot listen on {address}: {e}")))?;
        let server = Arc::new(server);
        let listeners = (0..n_listeners.max(1)).map(|_| {
            let (server, batcher) = (server.clone(), batcher.clone());
            std::thread::spawn(move || {
                while let Ok(request) = server.recv() {
                    respond(&batcher, request);
                }
            })
        });
        let listeners = listeners.collect();
        Ok(Service { server, listeners, runners })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.server_addr().to_ip()
    }

    /// Takes no more requests, answers those it has, and ends.
    pub fn shut_down(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // Each listener answers what it has, then finds itself unblocked; the runners end with the last of them.
        for _ in &self.listeners {
            self.server.unblock();
        }
        for thread in self.listeners.drain(..).chain(self.runners.drain(..)) {
            let _ = thread.join();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

fn respond(batcher: &Batcher, mut request: Request) {
    let result = match (request.method(), request.url()) {
        (Method::Get, "/") => Ok(describe(batcher.plan())),
        (Method::Get, "/health") => Ok(json!({ "status": "ok" })),
        (Method::Post, "/run") => read(&mut request).and_then(|body| run(batcher, &body)),
        (Method::Post, "/generate") => read(&mut request).and_then(|body| write_text(batcher, &body)),
        (method, url) => Err(Error::value(format!("there is no {method} {url}: GET /, POST /run or POST /generate"))),
    };
    let (status, body) = match result {
        Ok(body) => (200, body),
        Err(e) if e.kind() == ErrorKind::Value => (400, json!({ "error": e.to_string() })),
        Err(e) => (500, json!({ "error": e.to_string() })),
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
    let input = |i: &oneflow_runtime::Input| {
        let m = row_meta(&i.meta);
        json!({ "dtype": m.dtype.name(), "shape": m.sizes.as_slice(), "batch": i.meta.sizes.first() })
    };
    json!({ "name": plan.name, "inputs": plan.inputs.iter().map(input).collect::<Vec<_>>() })
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
