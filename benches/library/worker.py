"""One of the two processes of a comparison: reads commands as lines of JSON, and answers each with one.

`worker.py theirs|ours|onnxruntime|openvino FOLDER [PATH...]`: with PyTorch, with oneflow in its place, or with an
engine that runs what PyTorch exports. `FOLDER` is where the weights pass from the one to the other; the paths are
appended to `sys.path`.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

WHO, FOLDER = sys.argv[1], Path(sys.argv[2])
sys.path.extend(sys.argv[3:])
answers = sys.stdout
sys.stdout = sys.stderr
if WHO == "ours":
    import oneflow.mock_torch

    oneflow.mock_torch.enable()

import torch  # noqa: E402

from benches.library import engine, zoo  # noqa: E402


class Work:
    """The model that is measured now."""

    model: Any
    inputs: dict[str, Any]
    step: Callable[[], Any]
    clock: Callable[[], float] = staticmethod(time.perf_counter)

    def load(
        self, name: str, batch: int, mode: str, threads: int, compiled: bool, processor_time: bool
    ) -> dict[str, Any]:
        """Build a model, with the other's weights where they lie in the folder, and answer with its first numbers."""
        self.__dict__.clear()
        gc.collect()
        torch.set_num_threads(threads)
        self.clock = time.process_time if processor_time else time.perf_counter
        self.model, self.inputs = zoo.build(torch, name, batch)
        weights = FOLDER / "weights.pt"
        if WHO == "theirs":
            torch.save(self.model.state_dict(), weights)
        else:
            self.model.load_state_dict(torch.load(weights))
        if WHO in engine.NAMES:
            return self.load_engine(threads)
        train = mode == "train"
        self.model.train(train)
        called = torch.compile(self.model) if compiled else self.model
        if train:
            optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)

            def step() -> Any:
                optimizer.zero_grad(set_to_none=True)
                value = zoo.loss(torch, called, self.inputs)
                value.backward()
                optimizer.step()
                return value
        else:

            def step() -> Any:
                with torch.no_grad():
                    return zoo.output(torch, called, self.inputs)

        self.step = step
        first = step().detach().float()
        return {"first": first.flatten()[:1000].tolist()}

    def load_engine(self, threads: int) -> dict[str, Any]:
        """Export the model that was built, and leave it to the engine."""
        path = FOLDER / f"{WHO}.onnx"
        engine.export(torch, self.model.eval(), self.inputs, path)
        del self.model
        self.step = engine.start(WHO, path, self.inputs, threads)
        return {"first": self.step().flatten()[:1000].tolist()}

    def sample(self, seconds: float) -> dict[str, Any]:
        """Seconds of one step: as many steps as take about that long."""
        done, start, began = 0, self.clock(), time.perf_counter()
        while not done or time.perf_counter() - began < seconds:
            self.step()
            done += 1
        return {"seconds": (self.clock() - start) / done}


def main() -> None:
    work = Work()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(work, command.pop("do"))(**command)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
        print(json.dumps(answer), file=answers, flush=True)


main()
