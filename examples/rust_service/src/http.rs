//! Requests and answers.
//!
//! - `GET /` describes the program, `GET /health` says that it runs, `GET /metrics` counts what it did (Prometheus' text).
//! - `POST /run` takes `{"inputs": [one row of each input]}`, or `{"inputs": {name: row}}`, and answers
//!   `{"outputs": [one row of each output]}`. For inputs that take rows of tables a request gives ids.
//! - `POST /generate` takes `{"prompt": "def ", "bytes": 64, "temperature": 0.8, "seed": 0}` and answers `{"text": ...}`.
//!
//! Wrong requests get a status of the 400s and what was wrong; 503 says that it may be asked again. There is no encryption and
//! no notion of who asks: what faces others stands behind a proxy that has both.

use crate::batch::{Batcher, Counts, Limits, row_meta};
use crate::failure::Failure;
use crate::generate::{Wish, generate};
use crate::tables::Tables;
use crate::value::Row;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use oneflow_runtime::{Device, Error, Meta, Pool, Result};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Connections at the same time; who comes later waits to be let in.
const CONNECTIONS: usize = 1024;
/// How long a request may take to come in.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a service that is dropped waits for answers that are under way.
const GRACE: Duration = Duration::from_secs(30);

/// A running service. Dropping it shuts it down.
pub struct Service {
    address: SocketAddr,
    stop: Option<oneshot::Sender<Duration>>,
    thread: Option<JoinHandle<bool>>,
}

impl Service {
    /// Serves a program at an address ("127.0.0.1:0" picks a port).
    pub fn start(pool: Pool, address: &str, limits: Limits) -> Result<Service> {
        Service::start_with_tables(pool, Tables::default(), address, limits)
    }

    /// As `start`, for a program that takes rows of tables: requests give ids for those inputs.
    pub fn start_with_tables(pool: Pool, tables: Tables, address: &str, limits: Limits) -> Result<Service> {
        let (batcher, runners) = Batcher::start(pool, tables, limits)?;
        let failed = |e: std::io::Error| Error::runtime(format!("cannot listen on {address}: {e}"));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let ended = runtime.block_on(serve(listener, router(batcher), stopped));
            runtime.shutdown_background();
            if ended {
                // They end with the last batcher, which the router had.
                runners.into_iter().for_each(|r| drop(r.join()));
            }
            ended
        });
        Ok(Service { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests, answers those it has, and ends. False: after `grace` some were not answered still, because a
    /// client sends its request too slowly for instance.
    pub fn shut_down(mut self, grace: Duration) -> bool {
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> bool {
        let told = self.stop.take().is_none_or(|stop| stop.send(grace).is_ok());
        told && self.thread.take().is_none_or(|t| t.join().unwrap_or(false))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end(GRACE);
    }
}

/// Lets connections in until it is told to stop, then waits for the requests under way.
async fn serve(listener: TcpListener, router: Router, mut stop: oneshot::Receiver<Duration>) -> bool {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let (graceful, room) = (GracefulShutdown::new(), Arc::new(Semaphore::new(CONNECTIONS)));
    let grace = loop {
        let (stream, place) = tokio::select! {
            next = accept(&listener, &room) => next,
            grace = &mut stop => break grace.unwrap_or(GRACE),
        };
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A connection that breaks concerns nobody else.
            let _ = connection.await;
            drop(place);
        });
    };
    drop(listener);
    tokio::time::timeout(grace, graceful.shutdown()).await.is_ok()
}

/// The next connection, when there is room for it.
async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let place = room.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            // Too many open files, say: others will be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn router(batcher: Batcher) -> Router {
    // A number as text takes less than this, and the rest of a request not much.
    let numbers: i64 = (0..batcher.plan().inputs.len()).map(|i| batcher.wanted(i).numel()).sum();
    let most = (64 << 10) + 32 * numbers as usize;
    Router::new()
        .route("/", get(async |State(b): State<Batcher>| Json(describe(&b))))
        .route("/health", get(async || Json(json!({ "status": "ok" }))))
        .route("/metrics", get(async |State(b): State<Batcher>| metrics(b.counts())))
        .route("/run", post(run))
        .route("/generate", post(write_text))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not take {method}", uri.path()))
        })
        .fallback(async |uri: Uri| {
            let known = "GET /, GET /health, GET /metrics, POST /run or POST /generate";
            Failure::new(StatusCode::NOT_FOUND, format!("there is no {}: {known}", uri.path()))
        })
        .layer(DefaultBodyLimit::max(most))
        .with_state(batcher)
}

/// The body as JSON, if it comes in time and is not too long.
async fn read(request: Request) -> Result<Value, Failure> {
    let body = tokio::time::timeout(PATIENCE, Bytes::from_request(request, &())).await;
    let body = body.map_err(|_| Failure::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"))?;
    let body = body.map_err(|e| Failure::new(e.status(), e.body_text()))?;
    serde_json::from_slice(&body).map_err(|e| Failure::wrong(format!("the body is not JSON: {e}")))
}

fn metrics(c: &Counts) -> String {
    let lines = [
        ("rows", &c.rows),
        ("runs", &c.runs),
        ("failed_runs", &c.failed_runs),
        ("turned_away", &c.turned_away),
        ("run_nanoseconds", &c.nanoseconds),
    ];
    let line = |(name, count): (&str, &std::sync::atomic::AtomicU64)| {
        let name = format!("oneflow_service_{name}_total");
        format!("# TYPE {name} counter\n{name} {}\n", count.load(Ordering::Relaxed))
    };
    lines.into_iter().map(line).collect()
}

fn describe(batcher: &Batcher) -> Value {
    let plan = batcher.plan();
    // A number, or the name of the dimension.
    let batch = |shape: Vec<String>| shape.into_iter().next().map(|n| n.parse::<i64>().map_or(json!(n), |n| json!(n)));
    let row = |name: String, row: Meta, shape: Vec<String>| json!({ "name": name, "dtype": row.dtype.name(), "shape": row.sizes.as_slice(), "batch": batch(shape) });
    let inputs = (0..plan.inputs.len()).map(|i| row(plan.input_name(i), batcher.wanted(i), plan.input_shape(i)));
    let output = |o: &oneflow_runtime::Operand| Meta::contiguous(o.dtype, Device::CPU, &o.sizes);
    let outputs = plan.outputs.iter().enumerate();
    let outputs = outputs.map(|(i, o)| row(plan.output_name(i), row_meta(&output(&o.operand)), plan.output_shape(i)));
    json!({
        "name": plan.name,
        "inputs": inputs.collect::<Vec<_>>(),
        "outputs": outputs.collect::<Vec<_>>(),
    })
}

async fn run(State(batcher): State<Batcher>, request: Request) -> Result<Json<Value>, Failure> {
    let body = read(request).await?;
    let plan = batcher.plan();
    let names = (0..plan.inputs.len()).map(|i| plan.input_name(i));
    let given: Vec<&Value> = match body.get("inputs") {
        Some(Value::Array(rows)) => rows.iter().collect(),
        Some(Value::Object(rows)) => {
            let found = names.map(|name| rows.get(&name).ok_or(name)).collect::<Result<Vec<_>, _>>();
            found.map_err(|name| Failure::wrong(format!("input {name:?} is missing")))?
        }
        _ => return Err(Failure::wrong("expected {\"inputs\": [one row of each input]}")),
    };
    if given.len() != plan.inputs.len() {
        let (n, given) = (plan.inputs.len(), given.len());
        return Err(Failure::wrong(format!("the program takes {n} inputs, {given} were given")));
    }
    let row = |(i, v): (usize, &&Value)| {
        Row::parse(v, batcher.wanted(i).dtype).map_err(|e| e.context(format_args!("input {:?}: ", plan.input_name(i))))
    };
    let rows = given.iter().enumerate().map(row).collect::<Result<Vec<_>>>()?;
    let outputs = batcher.run(rows).await?;
    Ok(Json(json!({ "outputs": outputs.iter().map(Row::to_json).collect::<Vec<_>>() })))
}

async fn write_text(State(batcher): State<Batcher>, request: Request) -> Result<Json<Value>, Failure> {
    let body = read(request).await?;
    let number = |name: &str, default: f64| match body.get(name) {
        None => Ok(default),
        Some(v) => v.as_f64().ok_or_else(|| Failure::wrong(format!("{name:?} must be a number"))),
    };
    let whole = |name: &str, default: u64| match body.get(name) {
        None => Ok(default),
        Some(v) => v.as_u64().ok_or_else(|| Failure::wrong(format!("{name:?} must be a whole number"))),
    };
    let prompt = body.get("prompt").and_then(Value::as_str);
    let prompt = prompt.ok_or_else(|| Failure::wrong("expected {\"prompt\": \"...\", \"bytes\": 64}"))?.to_owned();
    let wish =
        Wish { prompt, bytes: whole("bytes", 64)?, temperature: number("temperature", 0.8)?, seed: whole("seed", 0)? };
    let text = generate(&batcher, &wish).await?;
    Ok(Json(json!({ "text": String::from_utf8_lossy(&text) })))
}
