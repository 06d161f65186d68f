//! nn.Graph's compiled half: a trace under way, and a compiled step. Python decides what is traced and when.

use crate::dynamic::TracedStep;
use crate::feed::{DataSource, Feed, Offer, PYTHON};
use crate::gate::{self, Shared, run, to_py};
use crate::object::{bound, get};
use oneflow_autograd::requires_grad;
use oneflow_core::Tensor;
use oneflow_core::base::{Error, Result};
use oneflow_global::global_of;
use oneflow_graph::{Compiled, Config, Half, StackFn, Straighten, Traced, Tracer, Turn, compile};
use oneflow_runtime::{Session, offload};
use pyo3::exceptions::{PyException, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

fn tensor<'a>(o: &'a Bound<'_, PyAny>) -> Result<&'a Tensor> {
    get(o).ok_or_else(|| Error::type_("nn.Graph: expected a Tensor"))
}

fn tensors(list: &Bound<'_, PyList>) -> PyResult<Vec<Tensor>> {
    list.iter().map(|o| tensor(&o).cloned().map_err(to_py)).collect()
}

/// Options by the names of `Config`, and `all_orders` and `compress` of the memory planner.
pub(crate) fn config(options: Option<&Bound<'_, PyDict>>) -> PyResult<Config> {
    let mut c = Config::default();
    let Some(options) = options else { return Ok(c) };
    for (name, value) in options {
        match name.extract::<String>()?.as_str() {
            "fuse" => c.fuse = value.extract()?,
            "fuse_update" => c.fuse_update = value.extract()?,
            "fuse_add" => c.fuse_add = value.extract()?,
            "fuse_attention" => c.fuse_attention = value.extract()?,
            "fuse_cast" => c.fuse_cast = value.extract()?,
            "multi_tensor_update" => c.multi_tensor_update = value.extract()?,
            "update_cast" => c.update_cast = value.extract()?,
            "precompute" => c.precompute = value.extract()?,
            "outputs_buffer_size" => c.outputs = value.extract()?,
            "streams" => c.streams = value.extract()?,
            "bucket_bytes" => c.bucket_bytes = value.extract()?,
            "bucket_ops" => c.bucket_ops = value.extract()?,
            "stages_after" => c.stages_after = value.extract()?,
            "turns" => c.turns = turns(&value)?,
            "all_orders" => c.memory.orders = value.extract()?,
            "compress" => c.memory.compress = value.extract()?,
            "straighten" => {
                let mode: String = value.extract()?;
                c.straighten = Straighten::parse(&mode)
                    .ok_or_else(|| PyValueError::new_err(format!("there is no straighten mode {mode:?}")))?;
            }
            other => return Err(PyTypeError::new_err(format!("nn.Graph has no option {other:?}"))),
        }
    }
    Ok(c)
}

/// A row of a pipeline table: (stage, micro-batch, "F", "B" or "W").
fn turns(row: &Bound<'_, PyAny>) -> PyResult<Vec<Turn>> {
    let row: Vec<(u32, usize, String)> = row.extract()?;
    let turn = |(stage, micro_batch, kind): (u32, usize, String)| {
        let half = Half::parse(&kind);
        let half = half.ok_or_else(|| PyValueError::new_err(format!("a pipeline has no work of kind {kind:?}")))?;
        Ok(Turn { stage, micro_batch, half })
    };
    row.into_iter().map(turn).collect()
}

/// A trace under way. Ends with `finish`, or with `abort`.
#[pyclass(module = "oneflow", name = "_GraphTrace")]
pub struct GraphTrace(Option<Tracer>);

/// `where`: returns the user's line as text, called once an op.
fn stack_fn(place: Bound<'_, PyAny>) -> StackFn {
    let place = Shared::new(place);
    Rc::new(move || {
        gate::attach(|py| match place.bind(py).call0() {
            Ok(text) => Ok(text.extract::<Option<String>>().unwrap_or_default()),
            // A line that cannot be told is left out; Ctrl-C, which came while it was looked for, goes on.
            Err(e) if e.is_instance_of::<PyException>(py) => Ok(None),
            Err(e) => Err(gate::pending(py, e)),
        })
    })
}

#[pymethods]
impl GraphTrace {
    #[new]
    #[pyo3(signature = (name, place=None))]
    fn new(name: &str, place: Option<Bound<'_, PyAny>>) -> PyResult<GraphTrace> {
        run(|| Ok(GraphTrace(Some(Tracer::begin(name, place.map(stack_fn))?))))
    }
    /// A placeholder with the meta of a tensor.
    fn input<'py>(&self, py: Python<'py>, like: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let made = run(|| {
            let like = tensor(like)?;
            let Some(g) = global_of(like) else { return self.tracer()?.input(like) };
            // Ranks outside a placement take part in the trace and in no run of what is there.
            let shard = g.local.as_ref().map(|shard| self.tracer()?.input(shard)).transpose()?;
            oneflow_global::make(like, like.sizes(), g.spread, shard)
        })?;
        bound(py, made)
    }
    /// Names the memory of a tensor.
    fn name(&self, t: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        run(|| match shard_of(tensor(t)?) {
            Some(shard) => self.tracer()?.name(shard, name),
            None => Ok(()),
        })
    }
    /// Clones of a tensor bring it from the host.
    fn fetch(&self, t: &Bound<'_, PyAny>) -> PyResult<()> {
        run(|| match shard_of(tensor(t)?) {
            Some(shard) => self.tracer()?.fetch(shard),
            None => Ok(()),
        })
    }
    /// A micro-batch begins here, or the last one has ended.
    #[pyo3(signature = (is_end=false))]
    fn micro_batch(&self, is_end: bool) -> PyResult<()> {
        run(|| self.tracer()?.micro_batch(is_end))
    }
    /// What follows is the forward or the backward of a pipeline stage.
    fn section(&self, stage: u32, backward: bool) -> PyResult<()> {
        run(|| self.tracer()?.section(stage, backward))
    }
    /// Ends the trace with these results and compiles it.
    #[pyo3(signature = (outputs, **options))]
    fn finish(&mut self, outputs: &Bound<'_, PyList>, options: Option<&Bound<'_, PyDict>>) -> PyResult<CompiledGraph> {
        let config = config(options)?;
        let outputs = tensors(outputs)?;
        let (shards, templates) = run(|| {
            let shards: Vec<Tensor> = outputs.iter().filter_map(shard_of).cloned().collect();
            let templates = outputs.iter().map(Template::of).collect::<Result<Vec<_>>>()?;
            Ok((shards, templates))
        })?;
        let tracer = self.0.take().ok_or_else(|| PyRuntimeError::new_err("the trace has ended already"))?;
        run(|| {
            let compiled = Mutex::new(compile(tracer.finish(&shards)?, &config)?);
            Ok(CompiledGraph { compiled, watched: Mutex::default(), templates })
        })
    }
    /// As `finish`, and a second program that computes the last `n_last` results alone, from the first `n_inputs` inputs: what
    /// has to be known before a run.
    #[pyo3(signature = (outputs, n_last, n_inputs, **options))]
    fn finish_with_results_before(
        &mut self,
        outputs: &Bound<'_, PyList>,
        n_last: usize,
        n_inputs: usize,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(CompiledGraph, CompiledGraph)> {
        let config = config(options)?;
        let before_config = Config { turns: Vec::new(), stages_after: 0, precompute: false, ..config.clone() };
        let outputs = tensors(outputs)?;
        let tracer = self.0.take().ok_or_else(|| PyRuntimeError::new_err("the trace has ended already"))?;
        run(|| {
            if outputs.iter().any(|t| global_of(t).is_some()) {
                return Err(Error::not_implemented("a program with lookups in stores has no global results"));
            }
            let (main, before) = tracer.finish(&outputs)?.take_last_results(n_last, n_inputs)?;
            let make = |traced: Traced, config: &Config| -> Result<CompiledGraph> {
                let templates = traced.graph.outputs.iter().map(|_| Template::Local).collect();
                let compiled = Mutex::new(compile(traced, config)?);
                Ok(CompiledGraph { compiled, watched: Mutex::default(), templates })
            };
            Ok((make(main, &config)?, make(before, &before_config)?))
        })
    }
    /// Tensors from outside used so far that require a gradient.
    fn captured<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for t in run(|| self.tracer()?.captured())? {
            list.append(bound(py, t)?)?;
        }
        Ok(list)
    }
    /// Returns whether a tensor uses memory of the caller: an input, or something from outside.
    fn is_external(&self, t: &Bound<'_, PyAny>) -> PyResult<bool> {
        run(|| self.tracer()?.is_external(tensor(t)?))
    }
    /// Returns whether the trace has read or written the memory of a tensor from outside.
    fn has_met(&self, t: &Bound<'_, PyAny>) -> PyResult<bool> {
        run(|| shard_of(tensor(t)?).map_or(Ok(false), |shard| self.tracer()?.has_met(shard)))
    }
    /// Starts the backward part.
    fn cut(&self) -> PyResult<()> {
        run(|| self.tracer()?.cut())
    }
    /// Ends a trace that was cut: the two compiled parts, the forward inputs that the backward part takes first, and how many
    /// of the forward part's last results it takes after them.
    #[pyo3(signature = (outputs, grads, **options))]
    fn finish_parts(
        &mut self,
        outputs: &Bound<'_, PyList>,
        grads: &Bound<'_, PyList>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(CompiledGraph, CompiledGraph, Vec<usize>, usize)> {
        // Parameters that want gradients change with every step.
        let config = Config { precompute: false, ..config(options)? };
        let n = outputs.len();
        let mut results = tensors(outputs)?;
        results.extend(tensors(grads)?);
        let tracer = self.0.take().ok_or_else(|| PyRuntimeError::new_err("the trace has ended already"))?;
        run(|| {
            let parts = tracer.finish(&results)?.split(n, &config)?;
            let make = |traced: Traced| -> Result<CompiledGraph> {
                let templates = traced.graph.outputs.iter().map(|_| Template::Local).collect();
                let compiled = Mutex::new(compile(traced, &config)?);
                Ok(CompiledGraph { compiled, watched: Mutex::default(), templates })
            };
            Ok((make(parts.forward)?, make(parts.backward)?, parts.saved_inputs, parts.n_saved))
        })
    }
    /// Ends the trace with these results; `_compile_at_sizes` makes a program of it and of traces at other sizes.
    fn finish_traced(&mut self, outputs: &Bound<'_, PyList>) -> PyResult<TracedStep> {
        let outputs = tensors(outputs)?;
        let tracer = self.0.take().ok_or_else(|| PyRuntimeError::new_err("the trace has ended already"))?;
        run(|| {
            if outputs.iter().any(|t| global_of(t).is_some()) {
                return Err(Error::not_implemented("a program for many sizes has no global tensors"));
            }
            Ok(TracedStep::new(tracer.finish(&outputs)?))
        })
    }
    /// Ends the trace with these results and returns its logical graph, before any pass.
    fn finish_logical<'py>(&mut self, py: Python<'py>, outputs: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyDict>> {
        let outputs = tensors(outputs)?;
        let tracer = self.0.take().ok_or_else(|| PyRuntimeError::new_err("the trace has ended already"))?;
        let traced = run(|| tracer.finish(&outputs))?;
        crate::traced::logical(py, &traced.graph)
    }
    /// Ends the trace with these results, for estimates of layouts.
    fn finish_layouts(&mut self, outputs: &Bound<'_, PyList>) -> PyResult<crate::layouts::Layouts> {
        let outputs = tensors(outputs)?;
        let tracer = self.0.take().ok_or_else(|| PyRuntimeError::new_err("the trace has ended already"))?;
        Ok(crate::layouts::Layouts::new(run(|| tracer.finish(&outputs))?.graph))
    }
    /// From now on calls of these ops are traced as their compositions, where they have one.
    fn expand(&self, names: Vec<String>) -> PyResult<()> {
        run(|| self.tracer()?.expand(names))
    }
    /// From now on calls are traced as global tensors run them: as compositions where an op has no layouts of its own.
    fn expand_as_global(&self) -> PyResult<()> {
        run(|| self.tracer()?.expand_as_global())
    }
    /// The program is a copy for another place: other tensors from outside than parameters and buffers are constants of it.
    fn capture_constants(&self) -> PyResult<()> {
        run(|| self.tracer()?.capture_constants())
    }
    /// Gives the trace up.
    fn abort(&mut self) {
        self.0 = None;
    }
}

impl GraphTrace {
    fn tracer(&self) -> Result<&Tracer> {
        self.0.as_ref().ok_or_else(|| Error::runtime("the trace has ended already"))
    }
}

/// A tensor whose memory a program uses: where it lay, and whether it wanted gradients (and must not cease to).
struct Watched {
    tensor: Tensor,
    at: usize,
    wanted: bool,
    may_cease: bool,
}

impl Watched {
    fn has_changed(&self) -> bool {
        let wanted = requires_grad(&self.tensor);
        self.tensor.data_ptr() as usize != self.at || wanted != self.wanted && (wanted || !self.may_cease)
    }
}

/// A compiled step and its memory.
#[pyclass(frozen, module = "oneflow", name = "_CompiledGraph")]
pub struct CompiledGraph {
    compiled: Mutex<Compiled>,
    watched: Mutex<Vec<Watched>>,
    templates: Vec<Template>,
}

/// A local tensor itself; of a global one the part that a trace is about, which ranks outside its placement lack.
fn shard_of(t: &Tensor) -> Option<&Tensor> {
    match global_of(t) {
        None => Some(t),
        Some(g) => g.local.as_ref(),
    }
}

/// Converts a result for Python. Global ones keep their meta and layout in a tensor without a shard.
enum Template {
    Local,
    Global(Tensor),
    /// A global tensor of which this rank holds nothing: no result of the program.
    Elsewhere(Tensor),
}

impl Template {
    fn of(t: &Tensor) -> Result<Template> {
        let Some(g) = global_of(t) else { return Ok(Template::Local) };
        let like = oneflow_global::make(t, t.sizes(), g.spread, None)?;
        Ok(if g.local.is_some() { Template::Global(like) } else { Template::Elsewhere(like) })
    }

    fn fill(&self, mut shard: impl FnMut() -> Option<Tensor>) -> Result<Tensor> {
        let missing = || Error::runtime("nn.Graph: the program has fewer results than build");
        let (like, shard) = match self {
            Template::Local => return shard().ok_or_else(missing),
            Template::Global(like) => (like, Some(shard().ok_or_else(missing)?)),
            Template::Elsewhere(like) => (like, None),
        };
        let g = global_of(like).ok_or_else(missing)?;
        oneflow_global::make(like, like.sizes(), g.spread, shard)
    }
}

impl CompiledGraph {
    /// A program whose results are local tensors.
    pub(crate) fn local(compiled: Compiled) -> CompiledGraph {
        let templates = compiled.logical.outputs.iter().map(|_| Template::Local).collect();
        CompiledGraph { compiled: Mutex::new(compiled), watched: Mutex::default(), templates }
    }

    /// Results as Python sees them.
    fn results<'py>(&self, py: Python<'py>, outputs: Vec<Tensor>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let mut shards = outputs.into_iter();
        for template in &self.templates {
            list.append(bound(py, run(|| template.fill(|| shards.next()))?)?)?;
        }
        Ok(list)
    }

    /// The compiled step, for inspection. A run under way on another thread holds the lock and may need the interpreter.
    fn look<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Compiled) -> R) -> R {
        gate::detach(py, || f(&mut self.get()))
    }

    /// The plan, and the operations of the model (`model_flops`).
    pub(crate) fn plan_and_flops(&self, py: Python<'_>) -> PyResult<(oneflow_runtime::Plan, f64)> {
        run(|| self.look(py, |c| Ok((c.session.plan().clone(), oneflow_graph::model_flops(&c.optimized)?))))
    }

    fn get(&self) -> MutexGuard<'_, Compiled> {
        self.compiled.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[pymethods]
impl CompiledGraph {
    /// Runs the step once.
    fn run<'py>(&self, py: Python<'py>, inputs: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let inputs = tensors(inputs)?;
        // The program reads them without the interpreter: copies of the handles, which no other thread can resize.
        let inputs: Vec<Tensor> = inputs.iter().filter_map(shard_of).map(Tensor::shallow).collect();
        let mut poll = || gate::attach(gate::check_signals);
        let outputs = run(|| gate::detach(py, || self.get().run(&inputs, &mut poll)))?;
        self.results(py, outputs)
    }
    /// Runs a program for many sizes at these, whatever its inputs say of them.
    fn run_at<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyList>,
        sizes: Vec<i64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let inputs: Vec<Tensor> = tensors(inputs)?.iter().map(Tensor::shallow).collect();
        let mut poll = || gate::attach(gate::check_signals);
        let outputs = run(|| gate::detach(py, || self.get().run_at(&sizes, &inputs, &mut poll)))?;
        self.results(py, outputs)
    }
    /// The sizes of the named dimensions that inputs have; none of a program for one size.
    fn sizes_of(&self, py: Python<'_>, inputs: &Bound<'_, PyList>) -> PyResult<Vec<i64>> {
        let inputs = tensors(inputs)?;
        run(|| self.look(py, |c| c.session.plan().sizes_of(&inputs)))
    }
    /// Plans a run at these sizes of the named dimensions, which the first run at them does otherwise.
    fn prepare(&self, py: Python<'_>, sizes: Vec<i64>) -> PyResult<()> {
        run(|| self.look(py, |c| c.session.prepare(&sizes)))
    }
    /// Why the program is not for these sizes of the named dimensions, which are in their ranges; None where it is.
    fn broken(&self, py: Python<'_>, sizes: Vec<i64>) -> Option<String> {
        self.look(py, |c| {
            let plan = c.session.plan();
            let step = plan.dims().iter().zip(&sizes).find_map(|(d, n)| d.is_reached(&plan.name, *n).err());
            step.map(|e| e.to_string()).or(plan.dynamic.as_ref()?.broken(&sizes).map(|b| b.to_string()))
        })
    }
    /// Whether it is for some sizes in its ranges alone.
    fn is_restricted(&self, py: Python<'_>) -> bool {
        self.look(py, |c| {
            let dynamic = c.session.plan().dynamic.as_ref();
            dynamic.is_some_and(|d| !d.guards.is_empty() || d.dims.iter().any(|d| d.step != 1))
        })
    }
    /// The named dimensions: name, smallest and largest size.
    fn dims(&self, py: Python<'_>) -> Vec<(String, i64, i64)> {
        self.look(py, |c| c.session.plan().dims().iter().map(|d| (d.name.clone(), d.min, d.max)).collect())
    }
    /// A session next to this one that reads a source, `slots` batches ahead: a callable that returns lists of tensors and
    /// None at the end, or a `_DataSource`. `order`: the inputs in the source's order.
    /// `sizes`: those of a program for many.
    #[pyo3(signature = (source, order, slots, sizes=None))]
    fn feed(
        self_: Bound<'_, Self>,
        source: &Bound<'_, PyAny>,
        order: Vec<usize>,
        slots: u32,
        sizes: Option<Vec<i64>>,
    ) -> PyResult<GraphFeed> {
        let (kind, config, offer) = match source.cast::<DataSource>() {
            Ok(s) => (s.get().kind, s.get().config.clone(), None),
            Err(_) => {
                let offer = Offer::new(source.clone());
                (PYTHON, offer.config(), Some(offer))
            }
        };
        let session = run(|| {
            // Its threads may want the interpreter at once.
            self_.get().look(source.py(), |compiled| {
                let mut plan = compiled.session.plan().at(&sizes.unwrap_or_default())?;
                plan.feed_inputs(&order, kind, config, slots)?;
                compiled.session.sharing(plan)
            })
        })?;
        let feed = offer.map(|o| o.feed.clone());
        Ok(GraphFeed { graph: self_.unbind(), closed: AtomicBool::new(false), fed: Mutex::new(Some((session, feed))) })
    }
    /// Records the addresses of these tensors and whether they require gradients; `is_stale` returns whether that has
    /// changed since. `may_cease`: gradients that are not required any more may still be computed.
    #[pyo3(signature = (list, may_cease=false))]
    fn watch(&self, list: &Bound<'_, PyList>, may_cease: bool) -> PyResult<()> {
        let watch = |tensor: Tensor| {
            let (at, wanted) = (tensor.data_ptr() as usize, requires_grad(&tensor));
            Watched { tensor, at, wanted, may_cease }
        };
        *self.watched.lock().unwrap_or_else(|e| e.into_inner()) = tensors(list)?.into_iter().map(watch).collect();
        Ok(())
    }
    fn is_stale(&self) -> bool {
        self.watched.lock().unwrap_or_else(|e| e.into_inner()).iter().any(Watched::has_changed)
    }
    /// The graph as text: as it was traced, or as it runs.
    fn text(&self, py: Python<'_>, logical: bool) -> String {
        self.look(py, |c| if logical { c.logical.to_string() } else { c.optimized.to_string() })
    }
    /// The result of the memory planner, in bytes.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (m, (offloaded, resident)) =
            self.look(py, |c| (c.memory.clone(), offload::of_storages(c.session.variables())));
        let d = PyDict::new(py);
        d.set_item("peak", m.peak)?;
        d.set_item("lower_bound", m.bound)?;
        d.set_item("without_reuse", m.total)?;
        d.set_item("buffers", m.n_buffers)?;
        d.set_item("in_place", m.n_in_place)?;
        d.set_item("order", m.order)?;
        d.set_item("holders", m.holders)?;
        d.set_item("offloaded", offloaded)?;
        d.set_item("offloaded_resident", resident)?;
        Ok(d)
    }
    /// The plan to look at: rows in order (name, origin, rows it reads, operands read and written, bytes) and the buffers of
    /// its arena (offset, bytes, first and last row).
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
        let (all, buffers) = self.look(py, |c| (c.session.plan().rows(), c.session.plan().held()));
        let (rows, held) = (PyList::empty(py), PyList::empty(py));
        for r in all {
            rows.append((r.name, r.origin, r.after, r.ins, r.outs, r.bytes))?;
        }
        for h in buffers {
            held.append((h.offset, h.bytes, h.from, h.to))?;
        }
        Ok((rows, held))
    }
    /// The plan's registers: name and number of slots.
    fn registers(&self, py: Python<'_>) -> Vec<(String, u32)> {
        self.look(py, |c| c.session.plan().registers.iter().map(|r| (r.name.clone(), r.slots)).collect())
    }
    /// Kernel launches of one run.
    fn n_launches(&self, py: Python<'_>) -> usize {
        self.look(py, |c| c.session.n_launches())
    }
    /// Writes the plan with its variables, its inputs and results named: what `Session::load` reads.
    fn save(&self, path: PathBuf, inputs: Vec<String>, outputs: Vec<String>) -> PyResult<()> {
        run(|| {
            let mut compiled = self.get();
            compiled.refresh()?;
            compiled.session.name_ends(inputs, outputs)?;
            compiled.session.save(path)
        })
    }
}

/// A compiled step that reads a source, and the Python iterator behind it, if that is the source.
#[pyclass(frozen, weakref, module = "oneflow", name = "_GraphFeed")]
pub struct GraphFeed {
    graph: Py<CompiledGraph>,
    /// Ends a run under way on another thread.
    closed: AtomicBool,
    fed: Mutex<Option<(Session, Option<Arc<Feed>>)>>,
}

impl GraphFeed {
    /// Calls `f` with the session; None at the end of the data.
    fn with_session<R>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut Session, &mut dyn FnMut() -> Result<()>) -> Result<R>,
    ) -> PyResult<Option<R>> {
        let mut poll = || match self.closed.load(Ordering::Relaxed) {
            false => gate::attach(gate::check_signals),
            true => Err(Error::runtime("nn.Graph: the loop over this source was closed")),
        };
        run(|| {
            gate::detach(py, || {
                let mut fed = self.fed();
                let Some((session, feed)) = fed.as_mut() else {
                    return Err(Error::runtime("nn.Graph: no source gives its inputs"));
                };
                match f(session, &mut poll) {
                    Ok(done) => Ok(Ok(Some(done))),
                    Err(e) => match feed.as_ref().map(|f| (f.take_error(), f.has_ended())) {
                        Some((Some(raised), _)) => Ok(Err(raised)),
                        Some((None, true)) => Ok(Ok(None)),
                        _ => Err(e),
                    },
                }
            })
        })?
    }

    fn fed(&self) -> MutexGuard<'_, Option<(Session, Option<Arc<Feed>>)>> {
        self.fed.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for GraphFeed {
    fn drop(&mut self) {
        // Its threads may wait for the interpreter.
        gate::attach(|py| gate::detach(py, || drop(self.fed().take())));
    }
}

#[pymethods]
impl GraphFeed {
    /// Waits for the source's next batch; returns false at the end of the data.
    fn wait(&self, py: Python<'_>) -> PyResult<bool> {
        let done = self.with_session(py, |session, poll| session.wait_for_data(poll))?;
        Ok(done.is_some())
    }
    /// Runs the step on the source's next batch and on the tensors that it does not bring; None at the end of the data. What
    /// the source raised is raised here.
    #[pyo3(signature = (inputs=None))]
    fn run<'py>(&self, py: Python<'py>, inputs: Option<&Bound<'py, PyList>>) -> PyResult<Option<Bound<'py, PyList>>> {
        let inputs = inputs.map(tensors).transpose()?.unwrap_or_default();
        let inputs: Vec<Tensor> = inputs.iter().map(Tensor::shallow).collect();
        let graph = self.graph.get();
        // The source may take its time, and may call the graph itself: only the step locks it.
        let outputs = self.with_session(py, |session, poll| {
            session.wait_for_data(poll).and_then(|()| graph.get().run_in(session, &inputs, poll))
        })?;
        outputs.map(|o| graph.results(py, o)).transpose()
    }
    /// Stops the source and its thread: waits for the current batch, at most so many seconds. A source that takes
    /// longer is left behind; its thread ends when it returns.
    #[pyo3(signature = (seconds=None))]
    fn close(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<()> {
        let mut poll = || gate::attach(gate::check_signals);
        let limit = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
        self.closed.store(true, Ordering::Relaxed);
        run(|| {
            gate::detach(py, || {
                let fed = self.fed().take();
                fed.map_or(Ok(()), |(mut session, _)| session.close(limit, &mut poll))
            })
        })
    }
}

/// Returns whether this thread is tracing.
#[pyfunction]
fn _is_tracing() -> bool {
    oneflow_graph::is_tracing()
}

/// Sets whether calls on tensors with values are traced while this thread traces. Returns the former setting.
#[pyfunction]
fn _trace_calls(on: bool) -> bool {
    oneflow_graph::trace_calls(on)
}

/// Says that what is traced from now on computes part of a forward again, or that this has ended.
#[pyfunction]
fn _graph_run_again(on: bool) {
    oneflow_graph::run_again(on);
}

/// Sets whether backward passes of this thread skip the hooks of leaves; returns the former setting.
#[pyfunction]
fn _leave_out_leaf_hooks(on: bool) -> bool {
    oneflow_autograd::leave_out_leaf_hooks(on)
}

/// Number of allocations that the host's caching allocator has served.
#[pyfunction]
fn _n_allocs() -> PyResult<u64> {
    run(|| Ok(oneflow_ep::provider(oneflow_core::base::DeviceType::CPU)?.n_allocs(0)))
}

/// Moves the memory of a tensor, of a global one this rank's shard, into a file of a folder; `window`: bytes of what lies in files
/// that may stay in memory between the ops that need them.
#[pyfunction]
fn _move_to_file(t: &Bound<'_, PyAny>, folder: PathBuf, window: usize) -> PyResult<()> {
    run(|| match shard_of(tensor(t)?).and_then(Tensor::storage) {
        // SAFETY: the interpreter is held; launches that run without it pin the memory, others keep no pointer.
        Some(storage) => unsafe { offload::move_to_file(storage, &folder, window) },
        None => Ok(()),
    })
}

/// Brings the pages of a tensor that lies in a file, or lets them go: hints that change no byte.
#[pyfunction]
fn _hint_file(t: &Bound<'_, PyAny>, comes: bool) -> PyResult<()> {
    run(|| {
        if let Some(storage) = shard_of(tensor(t)?).and_then(Tensor::storage) {
            offload::hint(storage, comes);
        }
        Ok(())
    })
}

/// Bytes of tensors that lie in files or, of a GPU, on the host, and how many of those in files are in memory now.
#[pyfunction]
fn _offloaded_bytes(tensors: Vec<Bound<'_, PyAny>>) -> PyResult<(usize, usize)> {
    run(|| {
        let storages = tensors.iter().map(|t| Ok(shard_of(tensor(t)?).and_then(Tensor::storage).cloned()));
        let storages: Vec<_> = storages.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        Ok(offload::of_storages(&storages))
    })
}

/// Moves the memory of a tensor on a device, of a global one this rank's shard, to the host, where the device uses it.
#[pyfunction]
fn _move_to_host(t: &Bound<'_, PyAny>) -> PyResult<()> {
    run(|| match shard_of(tensor(t)?).and_then(Tensor::storage) {
        // SAFETY: the interpreter is held; launches that run without it pin the memory, others keep no pointer.
        Some(storage) => unsafe { offload::move_to_host(storage) },
        None => Ok(()),
    })
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    oneflow_graph::register();
    m.add_class::<GraphTrace>()?;
    m.add_class::<crate::layouts::Layouts>()?;
    m.add_class::<CompiledGraph>()?;
    m.add_class::<GraphFeed>()?;
    m.add_function(wrap_pyfunction!(_is_tracing, m)?)?;
    m.add_function(wrap_pyfunction!(_trace_calls, m)?)?;
    m.add_function(wrap_pyfunction!(_graph_run_again, m)?)?;
    m.add_function(wrap_pyfunction!(_leave_out_leaf_hooks, m)?)?;
    m.add_function(wrap_pyfunction!(_move_to_file, m)?)?;
    m.add_function(wrap_pyfunction!(_hint_file, m)?)?;
    m.add_function(wrap_pyfunction!(_offloaded_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(_move_to_host, m)?)?;
    m.add_function(wrap_pyfunction!(_n_allocs, m)?)
}
