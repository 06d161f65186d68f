"""Runs the cases of ``onnx.backend.test`` through ``oneflow.onnx.backend``.

``python tests/interchange/backend_suite.py [kind...]`` prints how many pass, and the others with their errors.
"""

import glob
import os
import sys
import warnings


def cases(kind):
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_model_tests(kind=kind)


def outcome(case):
    """None for a case that passes, else its error."""
    import oneflow.onnx.backend as backend
    import onnx
    from onnx.backend.test.runner import Runner

    try:
        model = case.model or onnx.load(os.path.join(case.model_dir, "model.onnx"))
        prepared = backend.prepare(model)
        for inputs, outputs in _data(case, model):
            Runner.assert_similar_outputs(outputs, list(prepared.run(inputs)), case.rtol, case.atol)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _data(case, model):
    import onnx
    from onnx import numpy_helper

    def array(value):
        return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value

    if case.model_dir is None:
        return [([array(v) for v in ins], [array(v) for v in outs]) for ins, outs in case.data_sets]
    graph = model.graph
    made = []
    for folder in sorted(glob.glob(os.path.join(case.model_dir, "test_data_set_*"))):
        made.append(
            tuple(
                [_read(path, info.type) for path, info in zip(_files(folder, kind), infos, strict=False)]
                for kind, infos in (("input", graph.input), ("output", graph.output))
            )
        )
    return made


def _files(folder, kind):
    paths = glob.glob(os.path.join(folder, f"{kind}_*.pb"))
    return sorted(paths, key=lambda p: int(p.rpartition("_")[2].removesuffix(".pb")))


def _read(path, kind):
    import onnx
    from onnx import numpy_helper

    with open(path, "rb") as file:
        data = file.read()
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if which == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


if __name__ == "__main__":
    from interchange import conftest

    conftest.pytest_configure()
    for kind in sys.argv[1:] or ("node", "simple", "pytorch-converted", "pytorch-operator"):
        results = [(case.name, outcome(case)) for case in cases(kind)]
        failed = [(name, error) for name, error in results if error is not None]
        print(f"{kind}: {len(results) - len(failed)} of {len(results)}")
        for name, error in failed:
            print(f"  {name}: {' '.join(error.split())[:200]}")
