"""hub, benchmark, event files, conversions from PyTorch, OneFlow's env, comm and views of nests."""

import collections
import dataclasses
import enum
import hashlib
import importlib
import importlib.util
import pathlib
import time

import numpy as np
import oneflow
import pytest
import torch
from oneflow import sbp
from oneflow.testing import run_ranks
from oneflow.utils import benchmark, cpp_extension, global_view
from oneflow.utils.tensor import from_torch, to_torch


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "parts.py").write_text("SIZE = 3\n")
    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['math']\n"
        "import oneflow\n"
        "from parts import SIZE\n"
        "def tiny(width=1, bias=True):\n"
        "    'A linear layer.'\n"
        "    return oneflow.nn.Linear(SIZE, width, bias=bias)\n"
        "def _hidden():\n"
        "    pass\n"
    )
    return tmp_path


def test_models_of_a_folder(repository):
    assert oneflow.hub.list(repository, source="local") == ["tiny"]
    assert oneflow.hub.help(repository, "tiny", source="local") == "A linear layer."
    layer = oneflow.hub.load(str(repository), "tiny", 2, source="local", bias=False)
    assert tuple(layer.weight.shape) == (2, 3) and layer.bias is None
    with pytest.raises(RuntimeError, match="Cannot find callable big"):
        oneflow.hub.load(repository, "big", source="local")
    with pytest.raises(NotImplementedError, match="clone owner/name"):
        oneflow.hub.load("owner/name", "tiny", source="github")
    with pytest.raises(ValueError, match="Unknown source"):
        oneflow.hub.list(repository, source="disk")
    (repository / "hubconf.py").write_text("dependencies = ['no_such_package']\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        oneflow.hub.list(repository)
    with pytest.raises(FileNotFoundError):
        oneflow.hub.list(repository / "nowhere")


def test_weights_by_url(tmp_path, monkeypatch):
    monkeypatch.setattr(oneflow.hub, "_dir", None)
    monkeypatch.setenv("ONEFLOW_HOME", str(tmp_path / "home"))
    assert oneflow.hub.get_dir() == str(tmp_path / "home" / "hub")
    source = tmp_path / "w.pth"
    torch.save({"w": torch.arange(3.0)}, source)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    named = tmp_path / f"w-{digest[:8]}.pth"
    source.rename(named)
    state = oneflow.hub.load_state_dict_from_url(named.as_uri(), progress=False, check_hash=True)
    assert state["w"].tolist() == [0.0, 1.0, 2.0]
    named.unlink()
    state = oneflow.hub.load_state_dict_from_url(named.as_uri(), progress=False)
    assert state["w"].tolist() == [0.0, 1.0, 2.0], "the second time it comes from the cache"
    other = tmp_path / "x.bin"
    other.write_bytes(b"abc")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        oneflow.hub.download_url_to_file(other.as_uri(), tmp_path / "y.bin", "00", progress=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home", "x.bin"], "nothing half-written stays"
    oneflow.hub.set_dir(tmp_path / "there")
    assert oneflow.hub.get_dir() == str(tmp_path / "there")


def test_timer_measures():
    measured = benchmark.Timer("x.add(1)", globals={"x": oneflow.ones(8)}, label="add").blocked_autorange(
        min_run_time=0.02
    )
    assert sum(measured.raw_times) >= 0.02 and 1e-9 < measured.median < 1e-2 and "add" in repr(measured)
    assert benchmark.Timer("1").timeit(10).number_per_run == 10
    assert benchmark.Timer("1").adaptive_autorange(max_run_time=0.05).times
    table = str(benchmark.Compare([measured]))
    assert "Times are in" in table and "[ add ]" in table
    with pytest.raises(NotImplementedError):
        benchmark.Timer("1", language="c++")


def test_extensions_say_what_to_do():
    for call in (cpp_extension.load, cpp_extension.CppExtension, cpp_extension.BuildExtension):
        with pytest.raises(NotImplementedError, match=r"write the op in Rust"):
            call("name", [])


def test_memory_is_shared_with_torch():
    theirs = torch.zeros(2, 3).t()
    ours = from_torch(theirs)
    ours += 1
    assert theirs.sum().item() == 6 and tuple(ours.shape) == (3, 2) and not ours.requires_grad
    back = to_torch(oneflow.ones(2, requires_grad=True))
    assert isinstance(back, torch.Tensor) and back.tolist() == [1.0, 1.0]
    for wrong in (lambda: from_torch(oneflow.ones(1)), lambda: to_torch(torch.ones(1))):
        with pytest.raises(TypeError, match="expected"):
            wrong()


def test_nests_become_global_and_local():
    def check():
        rank = oneflow.distributed.get_rank()
        place = oneflow.env.all_device_placement("cpu")
        nest = {"a": [oneflow.full((2,), float(rank)), 3], "b": (oneflow.ones(1),)}
        made = global_view.to_global(nest, place, sbp.split(0))
        assert made["a"][0].tolist() == [0.0, 0.0, 1.0, 1.0] and made["a"][1] == 3
        assert made["b"][0].is_global
        back = global_view.to_local(made)
        assert back["a"][0].tolist() == [rank] * 2 and not back["b"][0].is_global
        other = global_view.to_global(made, sbp=lambda t: sbp.broadcast)
        assert other["b"][0].sbp == (sbp.broadcast,)
        with pytest.raises(ValueError, match="both None"):
            global_view.to_global(nest)
        assert not global_view.current_global_mode().is_enabled

    run_ranks(2, check)


def test_new_tensors_are_global_in_global_mode():
    place = oneflow.placement.all("cpu")
    with global_view.global_mode(True, place, sbp.broadcast):
        mode = global_view.current_global_mode()
        assert mode.is_enabled and mode.placement == place and mode.sbp == sbp.broadcast
        assert oneflow.zeros(2, 2).is_global and oneflow.randn(2).is_global
        with global_view.global_mode(False):
            assert not oneflow.zeros(2).is_global and not global_view.current_global_mode().is_enabled
        assert oneflow.ones(2).add(1).sum().item() == 4.0
    assert not oneflow.zeros(2).is_global
    with pytest.raises(ValueError, match="needed"):
        global_view.global_mode(True)


def test_comm_is_distributed_by_other_names():
    def check():
        rank, size = oneflow.env.get_rank(), oneflow.env.get_world_size()
        comm = oneflow.comm
        parts = [oneflow.full((2,), float(10 * rank + i)) for i in range(size)]
        received = [oneflow.empty(2) for _ in range(size)]
        comm.all_to_all(received, parts)
        assert [t[0].item() for t in received] == [10.0 * i + rank for i in range(size)]
        out = oneflow.empty(2)
        comm.reduce_scatter(out, parts)
        assert out.tolist() == [sum(10.0 * r + rank for r in range(size))] * 2
        if rank == 0:
            comm.send(oneflow.arange(6).reshape(2, 3), 1)
            comm.send(oneflow.ones(2), 1, send_meta=False)
        else:
            first = comm.recv(0)
            assert first.dtype == oneflow.int64 and first.tolist() == [[0, 1, 2], [3, 4, 5]]
            assert comm.recv(0, (2,), oneflow.float32, "cpu").tolist() == [1.0, 1.0]
            with pytest.raises(ValueError, match="together"):
                comm.recv(0, shape=(2,))
        total = oneflow.ones(1)
        comm.all_reduce(total)
        assert total.item() == size

    run_ranks(2, check)
    assert oneflow.env.get_node_size() == 1 and not oneflow.env.rdma_is_initialized()
    with pytest.raises(NotImplementedError, match="TCP"):
        oneflow.env.init_rdma()


def test_without_tensorboard_it_says_what_to_install(monkeypatch):
    import sys

    for name in ("tensorboard", "tensorboard.summary.writer.event_file_writer"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "oneflow.utils.tensorboard", raising=False)
    with pytest.raises(ImportError, match="pip install tensorboard"):
        importlib.import_module("oneflow.utils.tensorboard")


class Branches(oneflow.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = oneflow.nn.Sequential(oneflow.nn.Linear(3, 2), oneflow.nn.ReLU())

    def forward(self, x, y):
        a, b = self.head(x).split(2)
        return a + y, (b.max(0)[0],)


@pytest.mark.filterwarnings("ignore")
def test_event_files_hold_what_was_written(tmp_path):
    from oneflow.utils.tensorboard import SummaryWriter
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    with SummaryWriter(tmp_path) as writer:
        for i in range(3):
            writer.add_scalar("loss", oneflow.tensor(float(i)), i)
        writer.add_histogram("w", oneflow.arange(10.0), 1, bins=5)
        writer.add_image("i", oneflow.rand(3, 4, 5), 1)
        writer.add_images("many", oneflow.rand(2, 3, 4, 5), 1)
        writer.add_text("t", "hello", 1)
        writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 1)
        writer.add_hparams({"lr": 0.1, "name": "x"}, {"acc": 0.5}, run_name="trial")
        writer.add_graph(Branches(), (oneflow.ones(4, 3), oneflow.ones(2)))
        with pytest.raises(ValueError, match="input_to_model must be given"):
            writer.add_graph(Branches())
    events = EventAccumulator(str(next(p for p in tmp_path.iterdir() if p.is_file()))).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(0, 0.0), (1, 1.0), (2, 2.0)]
    histogram = events.Histograms("w")[0].histogram_value
    assert histogram.num == 10 and histogram.sum == 45.0 and list(histogram.bucket) == [2.0] * 5
    image = events.Images("i")[0]
    assert (image.height, image.width) == (4, 5) and image.encoded_image_string[:4] == b"\x89PNG"
    assert events.Images("many")[0].width == 10
    assert {p.name for p in pathlib.Path(tmp_path).iterdir() if p.is_dir()} == {"both_a", "both_b", "trial"}
    assert np.isfinite(histogram.max)
    nodes = {node.name: node for node in GraphDef.FromString(events._graph).node}
    # Every input is a node; a result beyond the first is named by its place.
    assert {name.partition(":")[0] for node in nodes.values() for name in node.input} <= set(nodes)
    linear = next(node for node in nodes.values() if node.op == "linear")
    assert linear.name.startswith("Branches/head/0/linear_")
    assert list(linear.input[1:]) == ["Branches/head/0/weight", "Branches/head/0/bias"]
    assert [d.size for d in nodes[linear.input[1]].attr["_output_shapes"].list.shape[0].dim] == [2, 3]
    assert [node.op for node in nodes.values()].count("Output") == 2
    assert any(name.endswith(":1") for node in nodes.values() for name in node.input)


def test_questions_about_leaves():
    tree = [1, {"a": (2.5, 3)}, "x"]
    results = []
    for fw in (oneflow, torch):
        trees = importlib.import_module(f"{fw.__name__}.utils._pytree")
        results.append(
            (
                trees.tree_all_only(int, lambda leaf: leaf > 0, tree),
                trees.tree_all_only((int, float), lambda leaf: leaf > 1, tree),
                trees.tree_any_only(float, lambda leaf: leaf > 2, tree),
                trees.tree_any_only(bytes, lambda leaf: True, tree),
                list(trees.tree_iter(tree)),
            )
        )
    assert results[0] == results[1] == (True, False, True, False, [1, 2.5, 3, "x"])


def test_constants_are_part_of_a_nests_shape():
    class Kind(enum.Enum):
        a = 1
        b = 2

    class Plain:
        pass

    pytree = oneflow.utils._pytree
    pytree.register_constant(Kind)
    leaves, shape = pytree.tree_flatten([1, Kind.a])
    assert leaves == [1] and pytree.tree_unflatten([3], shape) == [3, Kind.a]
    assert shape == pytree.tree_flatten([2, Kind.a])[1] and shape != pytree.tree_flatten([1, Kind.b])[1]
    assert pytree.tree_map(lambda x: x + 1, {"x": 1, "kind": Kind.b}) == {"x": 2, "kind": Kind.b}
    with pytest.raises(TypeError, match="__eq__"):
        pytree.register_constant(Plain)


Point = collections.namedtuple("Point", "x y")
SHAPES = {
    "dictionary": ({"a": [1, 2, (3,)], "b": 4}, {"a": [1, (2, 5), ([7],)], "b": [5]}),
    "other keys": ({"a": 1, "b": 2}, {"a": 1, "c": 2}),
    "fewer": ([1, 2], [1]),
    "another class": ((1, 2), [1, 2]),
    "named": (Point(1, [2]), Point({"k": 1}, [(2, 3)])),
    "ordered": (collections.OrderedDict(b=1, a=[2]), {"a": [(1,)], "b": [2]}),
    "with defaults": (collections.defaultdict(list, {"a": [1]}), collections.defaultdict(list, {"a": [{}]})),
    "empty": ((), ()),
    "leaf": (5, [1, 2]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_nests(name):
    """What a shape counts, and values at its leaves' places, as PyTorch's."""
    made = []
    for fw in (oneflow, torch):
        tree, other = SHAPES[name]
        pytree = fw.utils._pytree
        leaves, spec = pytree.tree_flatten(tree)
        counts = [spec.num_nodes, spec.num_leaves, spec.num_children, len(spec.children())]
        counts.append([child.num_nodes for child in spec.children()])
        try:
            found = spec.flatten_up_to(other)
        except ValueError as e:
            found = str(e)
        made.append((counts, found, spec.unflatten([2 * leaf for leaf in leaves])))
    assert made[0] == made[1]


def test_kinds_of_tuples_and_chosen_leaves():
    ours, theirs = oneflow.utils._pytree, torch.utils._pytree
    for value in (Point(1, 2), Point, (1,), tuple, oneflow.ones(2).sort(), torch.ones(2).max(0), time.localtime(), 5):
        for name in ("is_namedtuple", "is_structseq", "is_namedtuple_instance", "is_structseq_instance"):
            assert getattr(ours, name)(value) == getattr(theirs, name)(value), (name, value)
    for kind in (int, (int, str), int | str, lambda x: x == 1):
        results = [p.tree_map(p.map_only(kind)(lambda x: 2 * x), [1, "a", (2.5, 3)]) for p in (ours, theirs)]
        assert results[0] == results[1]
    specs = [p.treespec_dict(a=p.treespec_leaf(), b=p.treespec_tuple([p.treespec_leaf()])) for p in (ours, theirs)]
    # Other nests may go on below the first one's leaves.
    mapped = [p.tree_map(lambda a, b: (a, b), [1, (2,)], [{"k": 3}, ([4, 5],)]) for p in (ours, theirs)]
    assert mapped[0] == mapped[1] == [(1, {"k": 3}), ((2, [4, 5]),)]
    assert [s.unflatten([1, 2]) for s in specs] == [{"a": 1, "b": (2,)}] * 2


def test_dataclasses_as_nests():
    for fw in (oneflow, torch):

        @dataclasses.dataclass
        class Batch:
            x: object
            y: object = None
            note: str = "none"

        pytree = fw.utils._pytree
        pytree.register_dataclass(Batch, field_names=["x", "y"], drop_field_names=["note"])
        leaves, spec = pytree.tree_flatten(Batch(1, [2, 3], "lost"))
        assert leaves == [1, 2, 3] and spec.unflatten(leaves) == Batch(1, [2, 3])
        assert pytree.tree_flatten(Batch(1))[0] == [1]
        assert pytree.tree_map(lambda v: v + 1, Batch(1)) == Batch(2)
        path = pytree.tree_flatten_with_path(Batch(1, [2]))[0][-1][0]
        assert pytree.keystr(path) == ".y[0]"
