//! The class behind `oneflow.cuda.CUDAGraph`: capture and replay, and how far random numbers move with each replay.

use crate::cuda::{PyStream, provider};
use crate::gate::run;
use oneflow_core::base::{Error, Result};
use oneflow_core::{Generator, default_generator};
use oneflow_ep::cuda::graph::{Capture, Graph, Mode};
use pyo3::prelude::*;

/// Work that is recorded once and replayed as a whole.
#[pyclass(name = "_CudaGraph", module = "oneflow._oneflow")]
struct PyGraph {
    capture: Option<Capture>,
    graph: Option<Graph>,
    /// The default generator's seed and position when the capture began, and how many calls drew from it.
    seed: u64,
    offset: u64,
    n_draws: u64,
    /// Random numbers are those of another graph's last replay.
    follows: bool,
    pool: u32,
}

impl PyGraph {
    fn ready(&mut self, what: &str) -> Result<&mut Graph> {
        self.graph
            .as_mut()
            .ok_or_else(|| Error::runtime(format!("CUDAGraph.{what}(): called without a preceding successful capture")))
    }
}

fn generator() -> Generator {
    default_generator()
}

#[pymethods]
impl PyGraph {
    #[new]
    fn new() -> PyGraph {
        PyGraph { capture: None, graph: None, seed: 0, offset: 0, n_draws: 0, follows: false, pool: 0 }
    }

    /// Captures what is issued to a stream. `follows`: a graph whose replays this one's come after and whose random numbers it
    /// draws again.
    #[pyo3(signature = (stream, pool, mode, follows=None))]
    fn capture_begin(
        &mut self,
        stream: &Bound<'_, PyStream>,
        pool: u32,
        mode: &str,
        follows: Option<&Bound<'_, PyGraph>>,
    ) -> PyResult<()> {
        run(|| {
            if self.capture.is_some() || self.graph.is_some() {
                return Err(Error::runtime(
                    "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.",
                ));
            }
            let mode = match mode {
                "global" => Mode::Global,
                "thread_local" => Mode::ThreadLocal,
                "relaxed" => Mode::Relaxed,
                other => {
                    return Err(Error::runtime(format!(
                        "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {other}"
                    )));
                }
            };
            let drawn = match follows {
                None => None,
                Some(other) => {
                    let other =
                        other.try_borrow().map_err(|_| Error::runtime("CUDAGraph: a graph cannot follow itself"))?;
                    other.graph.as_ref().map(|g| g.drawn().clone())
                }
            };
            self.follows = drawn.is_some();
            let p = provider()?;
            self.pool = if pool == 0 { p.new_private_pool() } else { pool };
            self.capture = Some(p.begin_capture(stream.get().0, self.pool, mode, drawn)?);
            let g = generator();
            (self.seed, self.offset) = (g.seed(), g.offset());
            Ok(())
        })
    }

    fn capture_end(&mut self) -> PyResult<()> {
        run(|| {
            let capture = self.capture.take();
            let capture = capture.ok_or_else(|| Error::runtime("CUDAGraph.capture_end(): no capture is under way"))?;
            self.n_draws = generator().offset().wrapping_sub(self.offset);
            // A capture is no run: what it took from the generator is given back.
            generator().set_state(self.seed, self.offset);
            let graph = capture.end()?;
            if self.follows && self.n_draws > 0 {
                return Err(Error::not_implemented(
                    "CUDAGraph: a graph that follows another one draws random numbers of its own",
                ));
            }
            if graph.n_nodes()? == 0 {
                oneflow_core::warn(
                    "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or stream.",
                )?;
            }
            self.graph = Some(graph);
            Ok(())
        })
    }

    fn replay(&mut self, stream: &Bound<'_, PyStream>) -> PyResult<()> {
        run(|| {
            let (seed, offset, n_draws, follows) = (self.seed, self.offset, self.n_draws, self.follows);
            let graph = self.ready("replay")?;
            let g = generator();
            let moved = [g.offset().wrapping_sub(offset), seed, g.seed()];
            graph.launch(stream.get().0, (!follows).then_some(moved))?;
            if n_draws > 0 {
                g.take(n_draws);
            }
            Ok(())
        })
    }

    fn reset(&mut self) {
        self.capture = None;
        self.graph = None;
    }

    #[getter]
    fn pool(&self) -> u32 {
        self.pool
    }

    /// Nodes of the captured graph.
    fn n_nodes(&mut self) -> PyResult<usize> {
        run(|| self.ready("debug_dump")?.n_nodes())
    }
}

#[pyfunction]
fn _cuda_new_pool() -> PyResult<u32> {
    run(|| Ok(provider()?.new_private_pool()))
}

/// Returns true if a stream's work is captured.
#[pyfunction]
fn _cuda_is_capturing(stream: &Bound<'_, PyStream>) -> PyResult<bool> {
    run(|| Ok(provider()?.is_capturing(stream.get().0)))
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_cuda_new_pool, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_is_capturing, m)?)?;
    m.add_class::<PyGraph>()
}
