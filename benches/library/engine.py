"""Models exported from PyTorch, run by an inference engine: what `worker.py` steps for ONNX Runtime and OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches.library import zoo

NAMES = ("onnxruntime", "openvino")


def export(torch: Any, model: Any, inputs: dict[str, Any], path: Path) -> None:
    """Write the model as ONNX. Its inputs there are called ``x0``, ``x1``, and so on, in the order of ``inputs``."""

    class Answer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Any) -> Any:
            return zoo.output(torch, self.model, dict(zip(inputs, values, strict=True)))

    names = [f"x{i}" for i in range(len(inputs))]
    torch.onnx.export(Answer().eval(), tuple(inputs.values()), str(path), input_names=names, dynamo=True)


def start(name: str, path: Path, inputs: dict[str, Any], threads: int) -> Callable[[], Any]:
    """A function that runs the file's model once, on that many threads, and returns its first output."""
    arrays = {f"x{i}": value.numpy() for i, value in enumerate(inputs.values())}
    if name == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        given = {i.name: arrays[i.name] for i in session.get_inputs()}
        return lambda: session.run(None, given)[0]
    import openvino

    told = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.compile_model(str(path), "CPU", told)
    request = compiled.create_infer_request()
    taken = {i.get_any_name(): arrays[i.get_any_name()] for i in compiled.inputs}
    return lambda: request.infer(taken)[0]
