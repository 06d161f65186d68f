"""ONNX's own conformance suite, through its Backend API. The thresholds are what passed when they were set."""

import oneflow.onnx.backend as backend
import pytest
from onnx import TensorProto, helper
from onnx_backend_suite import cases, outcome


@pytest.mark.parametrize("kind, least", [("simple", 21), ("pytorch-converted", 82), ("pytorch-operator", 35)])
def test_models_of_the_suite(kind, least):
    failed = {case.name: error for case in cases(kind) if (error := outcome(case)) is not None}
    assert len(cases(kind)) - len(failed) >= least, failed


@pytest.mark.slow
def test_nodes_of_the_suite():
    all_cases = cases("node")
    failed = {case.name: error for case in all_cases if (error := outcome(case)) is not None}
    assert len(all_cases) - len(failed) >= 1850, failed


def test_the_interface():
    node = helper.make_node("Add", ["a", "b"], ["c"])
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "abc"]
    model = helper.make_model(helper.make_graph([node], "g", infos[:2], infos[2:]))
    import numpy as np

    a, b = np.float32([1, 2]), np.float32([3, 4])
    assert backend.run_model(model, [a, b])[0].tolist() == [4, 6]
    assert backend.run_node(node, [a, b])[0].tolist() == [4, 6]
    assert backend.is_compatible(model) and backend.supports_device("CPU") and not backend.supports_device("TPU")
    unknown = helper.make_model(helper.make_graph([helper.make_node("Nope", ["a"], ["c"])], "g", infos[:1], infos[2:]))
    assert not backend.is_compatible(unknown)
    with pytest.raises(NotImplementedError, match=r"Nope of opset \d+ \(1\)"):
        backend.prepare(unknown)
