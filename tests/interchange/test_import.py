"""Models from files: values of ONNX Runtime, training, traces, saving, bad files."""

import numpy as np
import oneflow as flow
import onnx
import pytest
from oneflow import nn
from onnx import TensorProto, helper, numpy_helper


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, tensors=(), opset=20, **kwargs):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in tensors])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **kwargs)


def perceptron():
    rng = np.random.default_rng(0)
    tensors = [
        ("layer.0.weight", rng.normal(size=(8, 4)).astype("float32")),
        ("layer.0.bias", rng.normal(size=8).astype("float32")),
        ("layer.1.weight", rng.normal(size=(3, 8)).astype("float32")),
        ("sizes", np.int64([-1, 3])),
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "layer.0.weight", "layer.0.bias"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "layer.1.weight"], ["z"], transB=1),
        helper.make_node("Reshape", ["z", "sizes"], ["y"]),
    ]
    return model_of(nodes, [value("x", ["n", 4])], [value("y", ["n", 3])], tensors)


def test_values_and_names(session):
    proto = perceptron()
    model = flow.onnx.load(proto)
    assert set(model.state_dict()) == {"layer.0.weight", "layer.0.bias", "layer.1.weight", "sizes"}
    assert [n for n, _ in model.named_parameters()] == ["layer.0.weight", "layer.0.bias", "layer.1.weight"]
    assert model.input_names == ["x"] and model.output_names == ["y"] and model.opset == {"": 20}
    x = np.random.default_rng(1).normal(size=(5, 4)).astype("float32")
    expected = session(proto.SerializeToString())({"x": x})[0]
    made = model(flow.from_numpy(x))
    assert np.allclose(made.detach().numpy(), expected, atol=1e-6)
    assert np.allclose(model(x=flow.from_numpy(x)).detach().numpy(), expected, atol=1e-6)


def test_it_trains_eagerly_and_as_a_graph():
    proto = perceptron()
    x, target = flow.randn(6, 4), flow.tensor([0, 1, 2, 0, 1, 2])

    def losses(compiled):
        model = flow.onnx.load(proto)
        optimizer = flow.optim.SGD(model.parameters(), lr=0.1)
        if not compiled:
            found = []
            for _ in range(4):
                loss = nn.functional.cross_entropy(model(x), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
            return found

        class Step(nn.Graph):
            def __init__(self):
                super().__init__()
                self.model = model
                self.add_optimizer(optimizer)

            def build(self, x, target):
                loss = nn.functional.cross_entropy(self.model(x), target)
                loss.backward()
                return loss

        step = Step()
        return [step(x, target).item() for _ in range(4)]

    eager, compiled = losses(False), losses(True)
    assert eager[-1] < eager[0]
    assert np.allclose(eager, compiled, atol=1e-6)


def test_sizes_computed_from_shapes_are_known_in_a_trace():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "zeros"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]
    tensors = [("zero", np.int64(0)), ("zeros", np.int64([0])), ("rest", np.int64([2, -1]))]
    model = flow.onnx.load(model_of(nodes, [value("x", ["n", 6])], [value("y", ["n", 2, 3])], tensors))

    class Run(nn.Graph):
        def __init__(self):
            super().__init__()
            self.model = model

        def build(self, x):
            return self.model(x)

    run = Run()
    assert run(flow.ones(4, 6)).shape == (4, 2, 3)


def test_saving(tmp_path):
    model = flow.onnx.load(perceptron())
    x = flow.randn(2, 4)
    flow.save(model, tmp_path / "model.pt")
    again = flow.load(tmp_path / "model.pt", weights_only=False)
    assert flow.equal(again(x), model(x))


def test_control_flow(session):
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "x"], ["next"]),
            helper.make_node("Identity", ["going"], ["still"]),
            helper.make_node("Identity", ["next"], ["each"]),
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("state", [2])],
        [value("still", [], TensorProto.BOOL), value("next", [2]), value("each", [2])],
    )
    nodes = [helper.make_node("Loop", ["n", "", "start"], ["last", "all"], body=body)]
    proto = model_of(
        nodes,
        [value("x", [2])],
        [value("last", [2]), value("all", ["t", 2])],
        [("n", np.int64(3)), ("start", np.zeros(2, "float32"))],
    )
    x = np.float32([1, 2])
    made = flow.onnx.load(proto)(flow.from_numpy(x))
    for ours, theirs in zip(made, session(proto.SerializeToString())({"x": x}), strict=True):
        assert np.allclose(ours.detach().numpy(), theirs)


def test_weights_of_four_bits(session):
    rng = np.random.default_rng(0)
    n, k, block = 6, 32, 16
    packed = rng.integers(0, 256, size=(n, k // block, block // 2), dtype=np.uint8)
    scales = rng.random(n * k // block).astype("float32")
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=k, N=n, bits=4, block_size=block
    )
    graph = helper.make_graph(
        [node],
        "g",
        [value("x", ["m", k])],
        [value("y", ["m", n])],
        [numpy_helper.from_array(packed, "w"), numpy_helper.from_array(scales, "s")],
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    x = rng.normal(size=(3, k)).astype("float32")
    made = flow.onnx.load(proto)(flow.from_numpy(x)).detach().numpy()
    assert np.allclose(made, session(proto.SerializeToString())({"x": x})[0], atol=1e-4)


def test_external_data(tmp_path):
    proto = perceptron()
    x = flow.randn(2, 4)
    expected = flow.onnx.load(proto)(x)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
    assert flow.equal(flow.onnx.load(tmp_path / "m.onnx")(x), expected)
    with pytest.raises(ValueError, match="no folder"):
        flow.onnx.load((tmp_path / "m.onnx").read_bytes())
    (tmp_path / "m.data").write_bytes(b"short")
    with pytest.raises(ValueError, match="end after the 5"):
        flow.onnx.load(tmp_path / "m.onnx")


BAD = {
    "unknown op": ([helper.make_node("Nope", ["x"], ["y"])], {}, NotImplementedError, r"Nope of opset 20 \(1\)"),
    "no producer": ([helper.make_node("Relu", ["gone"], ["y"])], {}, ValueError, "'gone', which nothing makes"),
    "made twice": (
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])],
        {},
        ValueError,
        "made twice",
    ),
    "circle": (
        [helper.make_node("Add", ["x", "y"], ["z"]), helper.make_node("Relu", ["z"], ["y"])],
        {},
        ValueError,
        "depends on its own result",
    ),
    "opset": ([helper.make_node("Relu", ["x"], ["y"])], {"opset": 99}, ValueError, "opset 99"),
    "output": ([helper.make_node("Relu", ["x"], ["other"])], {}, ValueError, "nothing makes the output 'y'"),
}


@pytest.mark.parametrize("what", BAD)
def test_models_that_are_wrong(what):
    nodes, kwargs, kind, text = BAD[what]
    with pytest.raises(kind, match=text):
        flow.onnx.load(model_of(nodes, [value("x", [2])], [value("y", [2])], **kwargs))


def test_names_domains_and_tensors_that_are_wrong():
    def refused(kind, text, nodes=None, inputs=("x",), tensors=()):
        graph = helper.make_graph(
            nodes or [helper.make_node("Add", ["x", "w"], ["y"])],
            "g",
            [value(name, [2]) for name in inputs],
            [value("y", [2])],
            tensors,
        )
        with pytest.raises(kind, match=text):
            flow.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))

    def tensor(dims, raw):
        made = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, raw_data=raw)
        made.dims.extend(dims)
        return made

    whole = numpy_helper.from_array(np.ones(2, "f4"), "w")
    refused(ValueError, "initializer 'w' is there twice", tensors=[whole, whole])
    refused(ValueError, "input 'x' of graph 'g' is there twice", inputs=("x", "x"), tensors=[whole])
    refused(NotImplementedError, r"acme::Foo \(1\)", nodes=[helper.make_node("Foo", ["x"], ["y"], domain="acme")])
    refused(ValueError, "too large", tensors=[tensor([1 << 40, 1 << 40], bytes(8))])
    refused(ValueError, "negative", tensors=[tensor([-2], bytes(8))])
    refused(ValueError, "7 bytes, 8 are expected", tensors=[tensor([2], bytes(7))])


def test_wrong_inputs():
    model = flow.onnx.load(perceptron())
    with pytest.raises(TypeError, match="misses its input 'x'"):
        model()
    with pytest.raises(ValueError, match=r"x: float32\[n, 4\]"):
        model(flow.ones(2, 5))
    with pytest.raises(TypeError, match="float32 is expected"):
        model(flow.ones(2, 4, dtype=flow.float64))
    with pytest.raises(ValueError, match=r"no ONNX model|damaged|truncated"):
        flow.onnx.load(b"not a model")


def test_nodes_in_any_order():
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Neg", ["x"], ["a"])]
    model = flow.onnx.load(model_of(nodes, [value("x", [2])], [value("y", [2])]))
    assert model(flow.tensor([-1.0, 2.0])).tolist() == [1, 0]


def test_a_node_without_an_input_or_with_a_wrong_attribute_is_named():
    x = flow.ones(2, 2)
    nodes = [
        helper.make_node("Reshape", ["x"], ["y"], name="flat"),
        helper.make_node("Slice", ["x", "", ""], ["y"], name="flat"),
        helper.make_node("If", ["x"], ["y"], name="flat", then_branch=[1, 2], else_branch=b"no"),
        helper.make_node("Transpose", ["x"], ["y"], name="flat", perm="no"),
        helper.make_node("MaxPool", ["r"], ["y"], name="flat", kernel_shape=[-(2**31)]),
        helper.make_node("Trilu", ["x", "inf"], ["y"], name="flat"),
        helper.make_node("LSTM", ["r", "w", "w"], ["y"], name="flat", direction="no", hidden_size=1),
    ]
    for node in nodes:
        tensors = [("inf", np.float32(np.inf)), ("r", np.ones((1, 1, 1), "f4")), ("w", np.ones((1, 4, 1), "f4"))]
        proto = model_of([node], [value("x", [2, 2])], [value("y", None)], tensors)
        with pytest.raises((ValueError, TypeError, RuntimeError, IndexError), match="'flat'"):
            flow.onnx.load(proto)(x)
    proto = model_of([helper.make_node("Relu", ["x"], ["y", "z"])], [value("x", [2, 2])], [value("z", None)])
    with pytest.raises(ValueError, match="nothing has made the output 'z'"):
        flow.onnx.load(proto)(x)
