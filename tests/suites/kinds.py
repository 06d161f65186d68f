"""The supported suites: the location of their files, and what a child process sets up before it loads one.

Modules that belong to a suite's own tools come from its checkout, by an import hook; everything else is the package
under test, or PyTorch if PyTorch is the reference.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from suites import old_tools, placeholders, ranks


class _Changed(SourceFileLoader):
    """Loads a module and then changes something in it."""

    def __init__(self, name: str, path: str, change: Callable[[ModuleType], None]) -> None:
        super().__init__(name, path)
        self.change = change

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        self.change(module)


class _FromSource(MetaPathFinder):
    """Finds the packages named ``roots`` and what is below them in a checkout; some are changed once loaded."""

    def __init__(
        self, folder: Path, roots: Sequence[str], changes: Mapping[str, Callable[[ModuleType], None]] | None = None
    ) -> None:
        self.folder = folder
        self.roots = roots
        self.changes = changes or {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not any(name == root or name.startswith(root + ".") for root in self.roots):
            return None
        base = self.folder.joinpath(*name.split("."))
        if (base / "__init__.py").is_file():
            return importlib.util.spec_from_file_location(
                name, base / "__init__.py", submodule_search_locations=[str(base)]
            )
        if (file := base.with_suffix(".py")).is_file():
            loader = _Changed(name, str(file), self.changes[name]) if name in self.changes else None
            return importlib.util.spec_from_file_location(name, file, loader=loader)
        return None


class PyTorch:
    """PyTorch's own tests. PyTorch as it is installed decides which cases count; then the mock takes its name."""

    name = "pytorch"
    sides = ("oracle", "ours")
    # Cases start processes that import the suite's tools.
    spawns = True
    # What cases import while they run: its missing names get placeholders while the file loads.
    tools = ("torch.testing._internal.common_device_type",)
    first = (
        "test_torch.py test_autograd.py test_reductions.py test_view_ops.py test_binary_ufuncs.py "
        "test_type_promotion.py test_nn.py test_linalg.py test_tensor_creation_ops.py test_indexing.py "
        "test_shape_ops.py test_sort_and_select.py test_serialization.py test_unary_ufuncs.py"
    ).split()

    @staticmethod
    def matches(source: Path) -> bool:
        return (source / "test/test_torch.py").is_file() and (source / "torch/testing/_internal").is_dir()

    @staticmethod
    def files(source: Path) -> Path:
        return source / "test"

    @classmethod
    def default(cls, source: Path) -> list[str]:
        return [name for name in cls.first if (source / "test" / name).is_file()]

    @staticmethod
    def helpers(source: Path) -> Path:
        """The settings that, besides the file, decide which cases there are."""
        return source / "torch/testing/_internal"

    @staticmethod
    def name_of(name: str) -> str:
        """The name of a case as PyTorch has it: some are made of names of which the tools take "torch." off."""
        # Cases of overrides are made of the names of modules, which no tool shortens.
        name = re.sub(r"(?<=TorchFunctionOverride::)test_oneflow(__oneflow)?_", "test_torch_", name)
        return re.sub(r"o?neflow[._]", "", name)

    @staticmethod
    def prepare(source: Path, side: str) -> None:
        os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cpu")
        if side == "ours":
            import oneflow.mock_torch

            oneflow.mock_torch.enable()
            placeholders.before_start.append(_forget_backends())
            _provide_func_guard()
            _provide_fallback_switches()
        importlib.import_module("torch.testing")
        if side == "oracle":
            _list_no_engine()
        tools = [
            "torch.testing._internal",
            "torch.testing._comparison",
            "torch.testing._creation",
            "torch.testing._utils",
        ]
        if side == "ours":
            # Private modules by which the tools find packages and log failures.
            tools += ["torch.utils._import_utils", "torch._logging.scribe"]
        for name in [n for n in sys.modules if n.startswith(tuple(tools))]:
            del sys.modules[name]
        of_ranks = ranks.change_threads if side == "ours" else ranks.change
        changes = {"torch.testing._internal.common_distributed": of_ranks}
        sys.meta_path.insert(0, _FromSource(source, tools, changes))
        if (source / "torch/testing/_utils.py").is_file():
            # PyTorch's own package has imported it already.
            importlib.import_module("torch.testing._utils")
        placeholders.roots[:] = [str(source)]


def without_empty_lists(tool: Any) -> None:
    """Let ``@ops`` and ``@parametrize`` make no case of a list that is empty here, of what PyTorch alone has."""
    utilities = sys.modules.get("torch.testing._internal.common_utils")
    for decorator in (getattr(tool, "ops", None), getattr(utilities, "parametrize", None)):
        original = getattr(decorator, "_parametrize_test", None)
        if original is not None and not hasattr(original, "skips_empty"):
            decorator._parametrize_test = _skipping_empty(original)  # type: ignore[union-attr]


def _skipping_empty(original: Any) -> Any:
    def parametrize(self: Any, *args: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from original(self, *args, **named)
        except ValueError as error:
            if "An empty" not in str(error):
                raise

    parametrize.skips_empty = True  # type: ignore[attr-defined]
    return parametrize


def _provide_func_guard() -> None:
    """What the tools put around a change of random state: it switches off a layer that this package does not have."""
    importlib.import_module("torch")._C._DisableFuncTorch = contextlib.nullcontext  # type: ignore[attr-defined]


def _provide_fallback_switches() -> None:
    """What the tests of vmap put around a case: here no op is run sample by sample with a warning."""
    c: Any = importlib.import_module("torch")._C  # type: ignore[attr-defined]
    functorch: Any = ModuleType("torch._C._functorch")
    functorch._is_vmap_fallback_enabled = c._debug_only_are_vmap_fallback_warnings_enabled = lambda: False
    functorch._set_vmap_fallback_enabled = c._debug_only_display_vmap_fallback_warnings = lambda enabled: None
    sys.modules[functorch.__name__] = c._functorch = functorch


def _list_no_engine() -> None:
    """Tools of PyTorch before 2.7 take "none" off the list of quantized kernels, where newer ones do not have it."""
    quantized: Any = importlib.import_module("torch.backends.quantized")
    if "none" not in (engines := list(quantized.supported_engines)):
        # Each asks for a list of its own, as before.
        type(quantized).supported_engines = property(lambda self: ["none", *engines])


def _forget_backends() -> Callable[[], None]:
    """What undoes registrations of backends, which a file that is loaded again makes again."""
    from oneflow.distributed import Backend

    known = list(Backend.backend_list)

    def forget() -> None:
        for name in set(Backend.backend_list) - set(known):
            Backend.backend_list.remove(name)
            Backend._plugins.pop(name, None)

    return forget


class OneFlow:
    """OneFlow's own tests, which compute the expected results with PyTorch while they run."""

    name = "oneflow"
    sides = ("ours",)
    # What each of its files imports: once for all of them.
    preloaded = ("numpy", "torch", "oneflow.unittest", "oneflow.test_utils.automated_test_util")

    @staticmethod
    def matches(source: Path) -> bool:
        return (source / "python/oneflow/test").is_dir()

    @staticmethod
    def files(source: Path) -> Path:
        return source / "python/oneflow/test"

    @classmethod
    def default(cls, source: Path) -> list[str]:
        root = cls.files(source)
        return sorted(str(path.relative_to(root)) for path in root.rglob("test_*.py"))

    @staticmethod
    def helpers(source: Path) -> Path:
        return source / "python/oneflow/test_utils"

    @staticmethod
    def prepare(source: Path, side: str) -> None:
        settings = {"ONEFLOW_TEST_CPU_ONLY": "1", "ONEFLOW_CONVENTIONS": "oneflow", "ONEFLOW_CI": "0"}
        for name, value in settings.items():
            os.environ.setdefault(name, value)
        # The suite uses this to find out whether processes can work together; here they do without it.
        sysconfig: Any = importlib.import_module("oneflow.sysconfig")
        sysconfig.has_rpc_backend_grpc = lambda: True
        # Last in line: only what the package lacks is the suite's.
        tools = ["oneflow.test_utils", "oneflow.unittest", "oneflow.framework.unittest", "oneflow.test"]
        sys.meta_path.append(_FromSource(source / "python", tools))
        # First in line: once the package of the tools is there, its parts are found by its path.
        sys.meta_path.insert(0, _FromSource(source / "python", list(old_tools.CHANGES), old_tools.CHANGES))
        old_tools.of_numpy()
        placeholders.roots[:] = [str(source)]


class _Library:
    """A library written on OneFlow, from its checkout: a program of ours that trains it, and its own tests."""

    sides = ("ours",)
    name: str
    package: str
    tests: str

    @classmethod
    def matches(cls, source: Path) -> bool:
        return (source / cls.package / "__init__.py").is_file() and (source / cls.tests).is_dir()

    @classmethod
    def files(cls, source: Path) -> Path:
        return source / cls.tests

    @classmethod
    def own(cls) -> dict[str, Path]:
        """Files of this tree that run with the library, by the names they have on the command line."""
        return {"training": Path(__file__).parent / "programs" / f"{cls.package}_training.py"}

    @classmethod
    def default(cls, source: Path) -> list[str]:
        root = cls.files(source)
        return [*cls.own(), *sorted(str(path.relative_to(root)) for path in root.rglob("test_*.py"))]

    @classmethod
    def prepare(cls, source: Path, side: str) -> None:
        os.environ.setdefault("ONEFLOW_CONVENTIONS", "oneflow")
        os.environ.setdefault("ONEFLOW_TEST_CPU_ONLY", "1")
        sys.path.insert(0, str(source))
        importlib.import_module(cls.package)
        placeholders.roots[:] = [str(source)]


class FlowVision(_Library):
    """flowvision's tests; they need Pillow."""

    name, package, tests = "flowvision", "flowvision", "test"


class LiBai(_Library):
    """LiBai's tests; they need dill, omegaconf, termcolor and tabulate."""

    name, package, tests = "libai", "libai", "tests"


class Gpu:
    """This tree's own tests of a GPU, for `python -m suites.gpu`. A context that a fault broke serves nobody again."""

    name = "gpu"
    sides = ("ours",)
    pytest = ("-m", "gpu")
    # Its files name nothing that is missing.
    has_placeholders = False

    @staticmethod
    def matches(source: Path) -> bool:
        return False

    @staticmethod
    def files(source: Path) -> Path:
        return source / "tests/gpu"

    @staticmethod
    def prepare(source: Path, side: str) -> None:
        # Where its conftest finds the samples of ops.
        sys.path.insert(0, str(source / "tests/ops"))

    @staticmethod
    def is_usable() -> bool:
        import oneflow

        try:
            oneflow.cuda.synchronize()
            return bool((oneflow.ones(3, device="cuda").cpu() == 1).all())
        except Exception:
            return False


KINDS: dict[str, Any] = {kind.name: kind for kind in (PyTorch, OneFlow, FlowVision, LiBai, Gpu)}
