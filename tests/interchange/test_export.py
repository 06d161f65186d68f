"""Modules to ONNX: checker, ONNX Runtime at the traced and at other sizes, and read back."""

import os
import subprocess
import sys
from pathlib import Path

import oneflow as flow
import onnx
import pytest
from interchange.exporting import check
from oneflow import models, nn
from oneflow.nn import functional as F


class Mixed(nn.Module):
    """Layers that have rules of their own."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.groups, self.linear = nn.GroupNorm(2, 8), nn.Linear(8, 6)
        self.layer_norm, self.up = nn.LayerNorm(6), nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.lstm, self.gru = nn.LSTM(6, 4, batch_first=True), nn.GRU(4, 3, bidirectional=True)

    def forward(self, x):
        x = self.groups(F.gelu(self.norm(self.conv(x))))
        x = F.interpolate(self.up(F.max_pool2d(x, 2)), scale_factor=0.5, mode="bilinear")
        x = F.silu(F.avg_pool2d(x, 2)).flatten(2).transpose(1, 2)
        x = self.layer_norm(self.linear(x)).softmax(-1)
        x = F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], is_causal=True)[:, 0]
        x, _ = self.gru(self.lstm(x)[0])
        return {"last": x[:, -1, ::2], "best": x.topk(2)[1], "all": x.clamp(0, 1).pow(2).mean(1)}


@pytest.mark.parametrize("opset", [17, 18, 20, 21, 23])
def test_layers(session, opset):
    flow.manual_seed(0)
    x, others = flow.randn(2, 3, 8, 8), [(flow.randn(n, 3, 8, 8),) for n in (1, 5)]
    program = check(session, Mixed().eval(), (x,), others, opset_version=opset, dynamic_shapes=({0: "batch"},))
    assert program.input_names == ["x"] and program.output_names == ["last", "best", "all"]


def test_names_shapes_and_places(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).eval()
    path = tmp_path / "m.onnx"
    flow.onnx.export(
        model,
        flow.ones(2, 3),
        path,
        input_names=["left"],
        output_names=["right"],
        dynamic_axes={"left": {0: "batch"}},
        dynamo=False,
    )
    proto = onnx.load(path)
    assert [t.name for t in proto.graph.initializer] == ["0.weight", "0.bias"]
    assert [n.op_type for n in proto.graph.node] == ["Gemm", "Relu"]
    shapes = [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (proto.graph.input[0], proto.graph.output[0])
    ]
    assert shapes == [["batch", 3], ["batch", 4]]
    assert proto.graph.input[0].name == "left" and proto.graph.output[0].name == "right"
    assert proto.opset_import[0].version == 20 and proto.ir_version == 9
    assert any("module 0" in p.value for p in proto.graph.node[0].metadata_props)


def test_external_data(tmp_path):
    model = nn.Linear(64, 64).eval()
    x = flow.randn(2, 64)
    flow.onnx.export(model, x, tmp_path / "m.onnx", external_data=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    assert flow.allclose(flow.onnx.load(tmp_path / "m.onnx")(x), model(x))


_MEMORY = """
import sys, pathlib
import oneflow as flow, oneflow.onnx
from benches.interchange import forget_peak, high_water_mark
model = flow.nn.Sequential(*[flow.nn.Linear(2048, 2048) for _ in range(4)]).eval()
weights = sum(p.numel() * 4 for p in model.parameters())
flow.onnx.export(model[:1], flow.ones(1, 2048), sys.argv[1])
before = forget_peak()
flow.onnx.export(model, flow.ones(1, 2048), sys.argv[1])
after, again = high_water_mark(), forget_peak()
loaded = flow.onnx.load(sys.argv[1])
print((after - before) / weights, (high_water_mark() - again) / weights - 1)
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the system does not count memory anew")
def test_files_are_written_and_read_without_a_copy_of_the_weights(tmp_path):
    root = Path(__file__).parents[2]
    made = subprocess.run(
        [sys.executable, "-c", _MEMORY, tmp_path / "m.onnx"],
        env=os.environ | {"PYTHONPATH": f"{root / 'python'}:{root}"},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    assert all(float(share) < 0.3 for share in made.stdout.split()), made.stdout


IDS = flow.tensor([[5, 3, 8, 1, 9, 2], [7, 7, 1, 0, 4, 6]])
LONGER = flow.tensor([[5, 3, 8, 1, 9, 2, 3, 3, 1]] * 3)
SMALL = {"vocabulary": 10, "width": 32, "n_layers": 2, "n_heads": 4}
OPEN = ({0: "batch", 1: "length"},)

LIBRARY = {
    "gpt2": (lambda: models.GPT2(models.GPT2Config(**SMALL)), (IDS,), [(LONGER,)], OPEN),
    "llama": (lambda: models.Llama(models.LlamaConfig(**SMALL, n_kv_heads=2)), (IDS,), [(LONGER,)], OPEN),
    "bert": (lambda: models.BertClassifier(models.BertConfig(**SMALL)), (IDS,), [(LONGER,)], OPEN),
    "t5": (
        lambda: models.T5(models.T5Config(**SMALL)),
        (IDS, IDS[:, :4]),
        [(LONGER, LONGER[:, :5])],
        (OPEN[0], {0: "batch", 1: "output_length"}),
    ),
    "resnet": (
        lambda: models.ResNet(models.ResNetConfig(depths=(1, 1, 1, 1), width=8, n_classes=5)),
        (flow.ones(2, 3, 64, 64),),
        [(flow.ones(3, 3, 96, 64),)],
        ({0: "batch", 2: "height", 3: "width"},),
    ),
    "vit": (
        lambda: models.ViT(models.ViTConfig(image=16, patch=8, width=32, n_layers=1, n_heads=4, n_classes=5)),
        (flow.ones(2, 3, 16, 16),),
        [(flow.ones(5, 3, 16, 16),)],
        ({0: "batch"},),
    ),
    "swin": (
        lambda: models.Swin(
            models.SwinConfig(image=32, patch=2, window=4, width=16, depths=(2, 2), n_heads=(2, 4), n_classes=5)
        ),
        (flow.ones(2, 3, 32, 32),),
        [(flow.ones(1, 3, 32, 32),)],
        ({0: "batch"},),
    ),
    "unet": (
        lambda: models.UNet(models.UNetConfig(channels=3, width=8, multipliers=(1, 2), n_blocks=1, groups=4)),
        (flow.ones(2, 3, 16, 16),),
        [(flow.ones(1, 3, 16, 16),)],
        ({0: "batch"},),
    ),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_library_with_open_dimensions(session, name):
    flow.manual_seed(0)
    make, args, others, shapes = LIBRARY[name]
    check(session, make().eval(), args, others, tolerance=2e-5, dynamic_shapes=shapes)


def test_programs_that_depend_on_a_dimension_are_refused_by_their_line():
    def depends(x):
        return x * 2 if x.shape[0] < 3 else x + 1

    with pytest.raises(ValueError, match=r"Python decides by a size at .*test_export.py:\d+"):
        flow.onnx.export(depends, flow.ones(2, 2), dynamic_shapes=({0: "n"},))

    def squares(x):
        return x + flow.ones(x.shape[0] ** 3, x.shape[1])[: x.shape[0]]

    with pytest.raises(ValueError, match=r"does not follow from the named dimensions.*test_export.py:\d+"):
        flow.onnx.export(squares, flow.ones(2, 2), dynamic_shapes=({0: "n"},))


class Cached(nn.Module):
    """Keeps what it computed first, as timm's attention with tables of biases does."""

    def __init__(self):
        super().__init__()
        self.bias, self.cache = nn.Parameter(flow.randn(3)), {}

    def forward(self, x):
        assert flow.compiler.is_exporting() == flow._oneflow._is_tracing()
        if "bias" not in self.cache:
            self.cache["bias"] = self.bias * 2
        return x + self.cache["bias"]


def test_a_cache_that_a_trace_fills_is_emptied(session):
    model = Cached().eval()
    for _ in range(2):
        program = flow.onnx.export(model, (flow.ones(2, 3),), dynamic_shapes=({0: "batch"},))
        assert model.cache == {}
    assert flow.allclose(program(flow.ones(4, 3))[0], model(flow.ones(4, 3)))


def test_own_rules_and_refusals():
    def tangent(n):
        return n.b.node("Tanh", n.x())

    x = flow.ones(2)
    with pytest.raises(NotImplementedError, match=r"linalg_svd\(\) has no ONNX form \(at .*test_export.py:\d+"):
        flow.onnx.export(flow.linalg.svd, flow.ones(2, 2))
    program = flow.onnx.export(lambda x: x.sin(), x, custom_translation_table={"sin": tangent})
    assert flow.allclose(program(x)[0], x.tanh())
    for kwargs, kind in (
        ({"opset_version": 30}, ValueError),
        ({"keep_initializers_as_inputs": True}, NotImplementedError),
    ):
        with pytest.raises(kind):
            flow.onnx.export(nn.ReLU(), x, **kwargs)


def test_pools_that_round_up_at_open_sizes(session):
    pool = nn.MaxPool2d(2, ceil_mode=True)
    check(session, pool, (flow.randn(1, 2, 5, 6),), [(flow.randn(1, 2, 7, 8),)], dynamic_shapes=({2: "h", 3: "w"},))


def test_what_a_model_cannot_say_is_refused():
    x = flow.randn(1, 2, 6, 6)
    with pytest.raises(NotImplementedError, match=r"onnx.export: .*test_export.py:\d+"):
        flow.onnx.export(lambda x: x.frexp(), x)
    with pytest.raises(NotImplementedError, match=r"onnx.export: native_max_pool.*named dimension.*test_export.py:\d+"):
        flow.onnx.export(lambda x: F.adaptive_max_pool2d(x, 4), x, dynamic_shapes=({2: "h"},))


@pytest.mark.parametrize("opset", [17, 20])
def test_windows_extremes_layouts_and_masks(session, opset):
    def pools(x):
        values, places = F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
        return values, places, F.adaptive_avg_pool2d(x, (5, 2)), F.interpolate(x, size=(3, 4), mode="area")

    check(
        session,
        pools,
        (flow.randn(2, 3, 7, 6),),
        [(flow.randn(5, 3, 7, 6),)],
        opset_version=opset,
        dynamic_shapes=({0: "batch"},),
    )

    def written(x):
        y = F.layer_norm(x.permute(0, 2, 3, 1), (3,)).permute(0, 3, 1, 2)
        return F.relu(y, inplace=True)

    check(
        session,
        written,
        (flow.randn(2, 3, 4, 5),),
        [(flow.randn(1, 3, 7, 2),)],
        opset_version=opset,
        dynamic_shapes=({0: "batch", 2: "h", 3: "w"},),
    )
    masked = flow.tensor([[True, False], [False, False]])
    q = flow.randn(1, 2, 2, 4)
    check(session, lambda q: F.scaled_dot_product_attention(q, q, q, masked), (q,), opset_version=opset)
    nan = float("nan")
    x = flow.tensor([[1.0, nan, 3.0, nan, 2.0], [2.0, 2.0, 1.0, 5.0, -7.0]])
    check(
        session, lambda x: (*x.cummax(1), *x.cummin(0), x.cumprod(1), x.int().cummin(1)[1]), (x,), opset_version=opset
    )
    target = flow.tensor([1, -100, 0, 2])
    weight = flow.tensor([0.5, 1.0, 2.0])

    def losses(x):
        return [
            F.cross_entropy(x, target, w, label_smoothing=0.1, reduction=how)
            for w in (None, weight)
            for how in ("none", "mean", "sum")
        ]

    check(session, losses, (flow.randn(4, 3),), opset_version=opset)
