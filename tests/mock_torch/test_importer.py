"""Results of imports while the mock is enabled, and that nothing of it remains afterwards."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import oneflow
import oneflow.mock_torch as mock
import pytest
import torch
from oneflow.mock_torch import __main__ as shell

PYTORCH = torch
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _pytorch_is_back():
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "torch"}
    finders = list(sys.meta_path)
    yield
    assert not mock.is_enabled()
    assert sys.meta_path == finders
    after = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "torch"}
    assert {name: after.get(name) for name in before} == before
    assert torch is PYTORCH


def test_parts_of_torch_are_the_modules_of_oneflow():
    with mock.enable():
        import torch.nn.functional as functional
        from torch import nn
        from torch.utils.data import DataLoader

        assert mock.is_enabled()
        assert (torch.__package__, torch.Tensor, torch.ones) == ("oneflow", oneflow.Tensor, oneflow.ones)
        assert nn is oneflow.nn and functional is oneflow.nn.functional
        assert DataLoader is oneflow.utils.data.DataLoader
        assert nn.__spec__.name == "oneflow.nn"
        assert sys.modules["torch.nn"] is nn
        assert set(dir(oneflow)) <= set(dir(torch))
    assert torch is PYTORCH


@pytest.mark.parametrize("lazy", [False, True])
def test_imports_leave_names_that_hide_modules(lazy):
    """``torch.autograd.gradcheck`` is a function, also after an import of the module that defines it."""
    hidden = [
        (package.removeprefix("oneflow"), leaf)
        for name, module in list(sys.modules.items())
        for package, _, leaf in [name.rpartition(".")]
        if package.startswith("oneflow.") and vars(sys.modules[package]).get(leaf, module) is not module
    ]
    assert (".autograd", "gradcheck") in hidden
    with mock.enable(lazy=lazy):
        for package, leaf in hidden:
            meant = getattr(importlib.import_module(f"oneflow{package}"), leaf)
            importlib.import_module(f"torch{package}.{leaf}")
            assert getattr(importlib.import_module(f"torch{package}"), leaf) is meant


def test_globals_of_the_caller_follow():
    space = {"torch": torch, "layers": torch.nn, "unknown": torch._inductor if hasattr(torch, "_inductor") else None}
    exec("import oneflow.mock_torch as mock\nmock.enable()\nseen = torch.__package__, layers\nmock.disable()", space)
    assert space["seen"] == ("oneflow", oneflow.nn)
    assert space["torch"] is torch and space["layers"] is torch.nn


def test_versions_and_metadata_are_those_of_torch():
    with mock.enable():
        import torch

        assert torch.__version__ == importlib.metadata.version("torch") == torch.version.__version__
        assert int(torch.__version__.split(".")[0]) >= 2
        assert importlib.util.find_spec("torch").name == "torch"
        assert importlib.util.find_spec("torch.nn") is not None
        assert importlib.util.find_spec("torch.no_such_part") is None
        assert next(iter(importlib.metadata.distributions(name="torch"))).version == torch.__version__
    with mock.enable(mock_version="2.9.1"):
        import torch

        assert torch.__version__ == importlib.metadata.version("torch") == "2.9.1"
    with oneflow.conventions("oneflow"), mock.enable():
        import torch

        assert torch.__version__ == torch.version.__version__ == oneflow.__version__
    assert importlib.metadata.version("torch").partition("+")[0] == PYTORCH.__version__.partition("+")[0]


def test_missing_names_are_named():
    with mock.enable():
        import torch

        with pytest.raises(AttributeError, match=r"'no_such_name': oneflow .* does not provide it"):
            torch.no_such_name
        with pytest.raises(ImportError, match="no_such_name"):
            from torch import no_such_name  # noqa: F401
        with pytest.raises(ModuleNotFoundError, match=r"No module named 'torch.no_such_part'"):
            import torch.no_such_part
        assert not hasattr(torch, "no_such_name") and getattr(torch, "no_such_name", 3) == 3


def test_a_lazy_mock_returns_placeholders():
    with mock.enable(lazy=True):
        import torch
        import torch.no_such_part.deeper
        from torch.elsewhere import Base, decorate

        assert not torch.no_such_name
        assert not hasattr(torch, "no_such_name") and getattr(torch, "no_such_name", 3) == 3
        assert list(torch.no_such_name) == [] and not torch.no_such_name.of_a.name(1)(2)
        assert not isinstance(torch.ones(1), torch.no_such_name)

        class Model(Base, torch.nn.Module):
            @decorate
            def method(self):
                pass

        assert Model.__mro__[1] is oneflow.nn.Module
        with pytest.raises(NotImplementedError, match=r"torch\.no_such_name\(\) is not provided by oneflow"):
            torch.no_such_name() + 1
        with (
            pytest.raises(NotImplementedError, match=r"torch\.nn\.no_such_layer is not provided"),
            torch.nn.no_such_layer,
        ):
            pass
        assert torch.nn.functional.relu(-torch.ones(1)).item() == 0


def test_verbose_prints_what_is_missing(capsys):
    with mock.enable(lazy=True, verbose=True):
        import torch

        assert not torch.no_such_name
    assert "oneflow has no no_such_name" in capsys.readouterr().err


def test_blocks_nest():
    with mock.enable():
        import torch

        first = torch
        with mock.enable(lazy=True):
            import torch

            assert not torch.no_such_name
        import torch

        assert torch is first
        with mock.disable():
            import torch

            assert torch is PYTORCH and not mock.is_enabled()
        import torch

        assert torch is first
    with mock.enable():
        import torch

        assert torch is first


def test_further_modules_are_replaced():
    with mock.enable(extra_dict={"no_such_package": "oneflow.nn", "torch.no_such_part": oneflow.optim}):
        import no_such_package.functional as functional
        import torch.no_such_part as part

        assert functional is oneflow.nn.functional and part is oneflow.optim
    with pytest.raises(ModuleNotFoundError):
        import no_such_package  # noqa: F401
    assert "no_such_package.functional" not in sys.modules


def test_packages_are_imported_again(tmp_path, monkeypatch):
    (tmp_path / "written_for_torch.py").write_text("import torch\nPACKAGE = torch.__package__\n")
    monkeypatch.syspath_prepend(tmp_path)
    import written_for_torch

    with mock.enable(required_dependencies=["written_for_torch"]):
        import written_for_torch as mocked

        assert (written_for_torch.PACKAGE, mocked.PACKAGE) == ("torch", "oneflow")
    assert sys.modules.pop("written_for_torch") is written_for_torch


def test_requirements_of_a_main_package_are_imported_again():
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        mock.enable(main_pkg="no-such-distribution")
    from oneflow.mock_torch._metadata import modules_of

    assert {"pytest", "pluggy", "iniconfig"} <= modules_of("pytest")


def test_the_environment_sets_defaults(monkeypatch):
    monkeypatch.setenv("ONEFLOW_MOCK_TORCH_LAZY", "1")
    with mock.enable():
        import torch

        assert not torch.no_such_name
    monkeypatch.setenv("ONEFLOW_DISABLE_MOCK_TORCH", "on")
    with mock.enable():
        import torch

        assert torch is PYTORCH


def exports(*arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    shell.main(list(arguments))
    lines = [line.removeprefix("export ").removesuffix(";") for line in capsys.readouterr().out.splitlines()]
    return dict(line.partition("=")[::2] for line in lines)


def test_a_shell_switches_programs(capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    program = """
        import importlib.metadata
        version = importlib.metadata.version("torch")
        import torch.nn.functional as F, torch
        from pathlib import Path
        maps = Path("/proc/self/maps")
        assert not maps.exists() or "libtorch" not in maps.read_text()
        assert torch.__package__ == "oneflow" and torch.__version__ == version, version
        print(F.relu(torch.ones(2)), bool(torch.no_such_name))
    """
    environment = os.environ | exports("--lazy", capsys=capsys)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "tensor([1., 1.]) False\n", done.stderr
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])
    assert exports("disable", capsys=capsys)["PYTHONPATH"] == str(ROOT / "python")


def test_the_environment_switches_a_shell_off(capsys, monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("NAME = 'the next one'\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "python"), str(tmp_path)]))
    environment = os.environ | exports(capsys=capsys) | {"ONEFLOW_DISABLE_MOCK_TORCH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.NAME)"], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "the next one\n", done.stderr


@pytest.mark.filterwarnings("ignore:We've integrated functorch")
def test_functorch_is_there_under_its_old_name():
    with mock.enable():
        import functorch
        from functorch import combine_state_for_ensemble, make_functional, vmap
        from functorch.experimental import chunk_vmap

        models = [oneflow.nn.Linear(2, 3) for _ in range(4)]
        function, params, buffers = combine_state_for_ensemble(models)
        x = oneflow.ones(5, 2)
        with pytest.warns(FutureWarning, match=r"Please use `torch\.vmap`"):
            found = vmap(function, in_dims=(0, 0, None))(params, buffers, x)
        for name in ("grad", "jacrev", "jacfwd", "hessian", "grad_and_value", "functionalize"):
            with pytest.warns(FutureWarning, match=rf"Please use `torch\.func\.{name}`"):
                getattr(functorch, name)(oneflow.sin)
        for model, result in zip(models, found, strict=True):
            assert oneflow.allclose(model(x), result, atol=1e-6)
        function, params = make_functional(models[0])
        gradient = functorch.grad(lambda values: function(values, x).sum())(params)
        assert [g.tolist() for g in gradient] == [[[5.0, 5.0]] * 3, [5.0] * 3]
        assert chunk_vmap(lambda a: a * 2, chunks=3)(oneflow.arange(7)).tolist() == list(range(0, 14, 2))
        with pytest.raises(RuntimeError, match="has buffers"):
            make_functional(oneflow.nn.BatchNorm1d(2))
        with pytest.raises(RuntimeError, match="same class"):
            combine_state_for_ensemble([models[0], oneflow.nn.BatchNorm1d(2)])
    assert "functorch" not in sys.modules or not hasattr(sys.modules["functorch"], "oneflow")


def test_lists_of_tensors_by_device_and_dtype():
    with mock.enable():
        utils = importlib.import_module("torch.utils._foreach_utils")

        a, b, c = oneflow.ones(1), oneflow.ones(2, dtype=oneflow.float64), oneflow.ones(3)
        groups = utils._group_tensors_by_device_and_dtype([[a, b, c], [], [1, 2, 3]], with_indices=True)
        assert {str(key[1]): (lists, places) for key, (lists, places) in groups.items()} == {
            "torch.float32": ([[a, c], [], [1, 3]], [0, 2]),
            "torch.float64": ([[b], [], [2]], [1]),
        }
        assert utils._has_foreach_support([a, None], a.device)


def test_texts_name_the_package_as_programs_import_it():
    values = oneflow.float32, oneflow.sparse_csr, oneflow.channels_last, oneflow.Size([1]), oneflow.ones(1).type()
    names = "float32", "sparse_csr", "channels_last", "Size([1])", "FloatTensor"
    with mock.enable():
        assert [str(v) for v in values[:4]] == [f"torch.{name}" for name in names[:4]]
        assert oneflow.ones(1).type() == "torch.FloatTensor"
        assert "dtype=torch.float64" in repr(oneflow.ones(1, dtype=oneflow.float64))
        with mock.disable():
            assert str(oneflow.float32) == "oneflow.float32"
    assert [str(v) for v in values] == [f"oneflow.{name}" for name in names]
