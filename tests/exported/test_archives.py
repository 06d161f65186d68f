"""`.pt2` archives: those of PyTorch give PyTorch's results, and damaged ones are refused."""

import copy
import io
import json
import pickle
import random
import zipfile

import oneflow
import pytest
import torch
from exported.models import MODELS
from oneflow import nn
from oneflow.export import export, load, save
from oneflow.utils import _pytree


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_programs_that_pytorch_wrote(name, tmp_path):
    torch.manual_seed(0)
    model, args, shapes = MODELS[name]()
    program = torch.export.export(model, args, dynamic_shapes=shapes)
    written = [program] if name != "words" else [program, program.run_decompositions()]
    for i, one in enumerate(written):
        path = tmp_path / f"{name}{i}.pt2"
        torch.export.save(one, path)
        with torch.no_grad():
            expected = _pytree.tree_leaves(one.module()(*args))
        torch.save(args, tmp_path / "args.pt")
        made = _pytree.tree_leaves(load(path).module()(*oneflow.load(tmp_path / "args.pt")))
        assert len(made) == len(expected)
        for ours, theirs in zip(made, expected, strict=True):
            assert torch.allclose(torch.tensor(ours.tolist(), dtype=theirs.dtype), theirs, rtol=1e-5, atol=1e-5)


def _archive():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self.shift = oneflow.ones(2)

        def forward(self, x, n):
            return self.layer(x).chunk(2, -1), x.shape[0], self.shift * n

    file = io.BytesIO()
    program = export(Model(), (oneflow.ones(2, 3), 2), dynamic_shapes=({0: oneflow.export.Dim("b", max=9)}, None))
    save(program, file, extra_files={"note": "text"})
    return file.getvalue()


def _with(data, name, change):
    """The archive with one record changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for record in old.namelist():
            content = old.read(record)
            if record.endswith(name):
                content = change(content)
            if content is not None:
                new.writestr(record, content)
    return out.getvalue()


def test_extra_files_and_whole_archives():
    data = _archive()
    extra = {"note": ""}
    program = load(io.BytesIO(data), extra_files=extra)
    assert extra == {"note": "text"} and program.module()(oneflow.ones(4, 3), 2)[1] == 4
    assert str(program.range_constraints) == "{'b': [0, 9]}"


def _at(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("record", "change", "text"),
    [
        ("model.json", lambda t: t[:-20], "damaged"),
        ("model.json", lambda t: None, "no models/model.json"),
        ("model.json", lambda t: b"[" * 100_000, "damaged"),
        (
            "model.json",
            lambda t: _at(t, b"oneflow.ops.aten.linear.default", b"os.system"),
            "os.system, which is not an op",
        ),
        (
            "model.json",
            lambda t: _at(t, b"oneflow.ops.aten.linear.default", b"oneflow.ops.aten.no.default"),
            "not have",
        ),
        ("model.json", lambda t: _at(t, b'["x", "n"]', b'["x", "n=print(1)"]'), "not an identifier"),
        ("model.json", lambda t: t.replace(b'"p_layer_weight"', b'"p=print(1)"'), "not an identifier"),
        ("model.json", lambda t: _at(t, b'"major": 8', b'"major": 7'), "version 7"),
        ("model.json", lambda t: _at(t, b'"target": "oneflow', b'"targe": "oneflow'), "damaged: KeyError"),
        (
            "model.json",
            lambda t: _at(t, b"ops.aten.linear.default", b"ops.aten.save.default"),
            "save.default, which is no",
        ),
        ("model.json", lambda t: _at(t, b"ops.aten.linear.default", b"ops.aten.load.default"), "which is not an op"),
        (
            "model.json",
            lambda t: _at(t, b"ops.aten.linear.default", b"ops.aten.set_num_threads.x"),
            "which is not an op",
        ),
        ("model.json", lambda t: _at(t, b"ops.aten.linear.default", b"ops.aten.numpy.default"), "which is not an op"),
        ("archive_format", lambda t: b"zip", "no models/model.json"),
        ("byteorder", lambda t: b"big", "big-endian"),
        ("weight_0", lambda t: t[:-1], "need more than 23 bytes"),
        ("weight_1", lambda t: None, "lacks data/weights/weight_1"),
        ("weights_config.json", lambda t: _at(t, b'"layer.bias"', b'"layer.bia"'), "lacks the tensor 'layer.bias'"),
        ("weights_config.json", lambda t: _at(t, b'{"as_int": 3}', b'{"as_int": -3}'), "not those of a tensor"),
        ("weights_config.json", lambda t: _at(t, b'{"as_int": 3}', b'{"as_int": 99999999999}'), "need more than"),
        ("weights_config.json", lambda t: _at(t, b'"dtype": 7', b'"dtype": 70'), "unknown dtype 70"),
    ],
)
def test_damaged_archives_are_refused(record, change, text):
    with pytest.raises(ValueError, match=text):
        load(io.BytesIO(_with(_archive(), record, change)))


def test_no_damage_does_more_than_raise():
    data = _archive()
    rng = random.Random(0)
    described = zipfile.ZipFile(io.BytesIO(data)).read("program/models/model.json")

    def mutated(content):
        tree = json.loads(content)
        spots = []

        def visit(node):
            if isinstance(node, (dict, list)):
                for key in list(node) if isinstance(node, dict) else range(len(node)):
                    spots.append((node, key))
                    visit(node[key])

        visit(tree)
        node, key = rng.choice(spots)
        node[key] = rng.choice([None, -1, 1 << 70, "x", [], {}, 0.5, True, {"as_tensor": {"name": "x"}}])
        return json.dumps(tree).encode()

    kinds = (ValueError, RuntimeError, TypeError, AssertionError, IndexError, NotImplementedError, KeyError)
    for _ in range(150):
        damaged = _with(data, "model.json", lambda _: mutated(described))
        try:
            load(io.BytesIO(damaged)).module()(oneflow.ones(2, 3), 2)
        except kinds:
            pass
    for _ in range(150):
        at = rng.randrange(len(data))
        damaged = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        try:
            load(io.BytesIO(damaged))
        except (ValueError, RuntimeError):
            pass
    for end in range(0, len(data), 211):
        with pytest.raises(ValueError, match="archive"):
            load(io.BytesIO(data[:end]))


class _Guarded(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] % 3 == 1 and x.shape[0] != 10 else x


def test_archives_keep_guards_and_refuse_those_that_are_wrong():
    program = export(_Guarded(), (oneflow.ones(4, 2),), dynamic_shapes=({0: "n"},))
    file = io.BytesIO()
    save(program, file)
    data = file.getvalue()
    loaded = load(io.BytesIO(data))
    assert loaded.guards == program.guards and len(loaded.guards) == 2
    assert copy.deepcopy(loaded).guards == pickle.loads(pickle.dumps(loaded)).guards == program.guards
    assert loaded.module()(oneflow.ones(7, 2)).sum() == 28
    for n in (5, 10):
        with pytest.raises(AssertionError, match=r"Guard failed: .*test_archives.py:\d+"):
            loaded.module()(oneflow.ones(n, 2))

    def refused(text, change):
        def changed(content):
            tree = json.loads(content)
            metadata = tree["graph_module"]["metadata"]
            guards = json.loads(metadata["oneflow_guards"])
            metadata["oneflow_guards"] = json.dumps(change(guards))
            return json.dumps(tree).encode()

        with pytest.raises(ValueError, match=text):
            load(io.BytesIO(_with(data, "model.json", changed)))

    refused("a guard asks 'os.system'", lambda guards: [["os.system", *guards[0][1:]]])
    refused("a dimension that the program does not have", lambda guards: [["eq", [[["m"], "1"]], [[[], "1"]], 1, ""]])
    for factor in ("1e999999999", "1/0", "x", "9" * 50, None, 1):
        refused("cannot be read", lambda guards, factor=factor: [["eq", [[["n"], factor]], [[[], "1"]], 1, ""]])
    refused("cannot be read", lambda guards: [["eq", [[["n"] * 17, "1"]], [[[], "1"]], 1, ""]])
    refused("cannot be read", lambda guards: [1])
    refused("cannot be read", lambda guards: [["eq", 1, 2, 3, 4]])


def test_files_that_are_no_programs(tmp_path):
    path = tmp_path / "weights.pt"
    oneflow.save({"w": oneflow.ones(2)}, path)
    with pytest.raises(ValueError, match=r"no models/model.json, as a \.pt2 archive"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.pt2")
    with pytest.raises(TypeError, match="ExportedProgram"):
        save(nn.ReLU(), tmp_path / "x.pt2")
    with pytest.warns(UserWarning, match=r"ending in \.pt2"):
        save(export(nn.ReLU(), (oneflow.ones(1),)), tmp_path / "x.bin")


def test_names_of_parameters_are_never_code(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.values = nn.ParameterDict({'"), print("x': nn.Parameter(oneflow.ones(2)), "class": oneflow.ones(2)})

        def forward(self, x):
            return x * sum(self.values.values())

    program = export(Model(), (oneflow.ones(2),))
    save(program, tmp_path / "m.pt2")
    assert load(tmp_path / "m.pt2").module()(oneflow.ones(2)).tolist() == [2.0, 2.0]
