"""What the tests of exports share."""

import numpy as np
import oneflow as flow
import onnx
from oneflow._trace.structure import flatten


def tensors_in(value):
    found = []
    flatten(value, found, None)
    return found


def check(session, model, args, others=(), tolerance=1e-5, **kwargs):
    """Exports, and compares with eager execution in ONNX Runtime and as an imported module."""
    program = flow.onnx.export(model, args, **kwargs)
    data = program.to_bytes()
    onnx.checker.check_model(data, full_check=True)
    run, again = session(data), flow.onnx.load(data).eval()
    for given in (args, *others):
        inputs = tensors_in(given)
        with flow.no_grad():
            expected = [t.numpy() for t in tensors_in(model(*given))]
            imported = [t.numpy() for t in again.run(*inputs)]
        made = run({n: t.numpy() for n, t in zip(program.input_names, inputs, strict=True)})
        for want, have, back in zip(expected, made, imported, strict=True):
            assert want.dtype == have.dtype and want.shape == have.shape
            assert np.allclose(want, have, rtol=tolerance, atol=tolerance, equal_nan=True)
            assert np.allclose(want, back, rtol=tolerance, atol=tolerance, equal_nan=True)
    return program
