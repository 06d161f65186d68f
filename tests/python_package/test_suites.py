"""`make suites`: a suite is loaded from its own folder, and a case that hangs or crashes costs only itself."""

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _run(source, folder, *arguments):
    out = folder / "result.json"
    command = [sys.executable, "-m", "suites", str(source), "--json", str(out), *arguments]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests'}", "XDG_CACHE_HOME": str(folder)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text()), done.stdout


ONEFLOW = """
import os, time, unittest
import oneflow as flow
import oneflow.test_utils.tools as tools
from oneflow.module_that_is_missing import a_name_that_is_missing

class TestCase(unittest.TestCase):
    def test_a_passes(self): self.assertEqual(tools.answer(), 42)
    def test_b_fails(self): flow.ones(2) + flow.ones(3)
    def test_c_crashes(self): os.abort()
    def test_d_hangs_in_python(self): time.sleep(60)
    def test_e_hangs_for_good(self):
        import signal
        signal.setitimer(signal.ITIMER_REAL, 0)
        time.sleep(60)
    def test_f_uses_a_missing_name(self): a_name_that_is_missing()
    def test_g_is_skipped(self): self.skipTest("not here")
    def test_h_has_parts(self):
        for n in range(3):
            with self.subTest(n=n): self.assertNotEqual(n, 1)
    def test_i_passes(self): pass

def test_without_a_class(): pass
"""


@pytest.mark.filterwarnings("ignore")
def test_each_case_ends_in_its_own_way(tmp_path):
    source = tmp_path / "source"
    tree = source / "python/oneflow"
    _write(
        tree,
        {
            "test/modules/test_cases.py": ONEFLOW,
            "test_utils/__init__.py": "",
            "test_utils/tools.py": "def answer(): return 42\n",
        },
    )
    run, text = _run(source, tmp_path, "--timeout", "2", "--grace", "1")
    entry = run["files"]["modules/test_cases.py"]
    assert [case.rpartition("test_")[2] for case in entry["passes"]] == ["a_passes", "i_passes", "without_a_class"]
    kinds = {case.rpartition("test_")[2][0]: failure["type"] for case, failure in entry["failures"].items()}
    assert kinds == {
        "b": "RuntimeError",
        "c": "Crash",
        "d": "Timeout",
        "e": "Timeout",
        "f": "NotImplementedError",
        "h": kinds["h"],
    }
    assert entry["n_skipped"] == 1 and entry["n_restarts"] == 2
    assert entry["missing_while_loading"] == ["oneflow.module_that_is_missing"]
    assert "SIGABRT" in text and "modules/test_cases.py" in text


def test_only_what_passes_on_pytorch_counts(tmp_path):
    source = tmp_path / "source"
    _write(
        source,
        {
            "torch/testing/_internal/__init__.py": "",
            "torch/testing/_internal/common_utils.py": "import torch\nWHOSE = torch.Tensor.__module__\n",
            "test/test_torch.py": (
                "import unittest\nimport torch\nfrom torch.testing._internal.common_utils import WHOSE\n"
                "class TestTorch(unittest.TestCase):\n"
                "    def test_sum(self): self.assertEqual(torch.ones(3).sum().item(), 3)\n"
                "    def test_of_pytorch(self): self.assertNotIn('oneflow', WHOSE)\n"
                "    def test_of_oneflow(self): self.assertIn('oneflow', WHOSE)\n"
                # As the tools name cases by classes and layouts.
                "of = torch.nn.ReLU.__module__.removeprefix('torch.').replace('.', '_')\n"
                "setattr(TestTorch, f'test_{of}', lambda self: None)\n"
                "setattr(TestTorch, 'test_' + str(torch.strided).lstrip('torch.'), lambda self: None)\n"
            ),
        },
    )
    run, _ = _run(source, tmp_path)
    entry = run["files"]["test_torch.py"]
    passes = ["TestTorch::test_nn_modules_activation", "TestTorch::test_strided", "TestTorch::test_sum"]
    assert entry["passes"] == passes and list(entry["failures"]) == ["TestTorch::test_of_pytorch"]
    assert (tmp_path / "oneflow/suites").is_dir()
    again, text = _run(source, tmp_path, "test_torch.py", "-k", "sum", "--compare", str(tmp_path / "result.json"))
    assert again["files"]["test_torch.py"]["n_counted"] == 1 and "no case changed" in text


def test_fewer_samples(monkeypatch):
    sys.path.insert(0, str(ROOT / "tests"))
    from suites import old_tools

    tools = types.SimpleNamespace(GetDualObject=None, autotest=lambda n=20, **options: (n, options))
    monkeypatch.setenv(old_tools.SAMPLES, "2")
    old_tools._of_pairs(tools)
    assert tools.autotest() == (2, {}) and tools.autotest(1, rtol=0.1) == (1, {"rtol": 0.1})
    assert tools.autotest(n=5) == (2, {})


def test_causes_differ_by_words_and_not_by_numbers():
    sys.path.insert(0, str(ROOT / "tests"))
    from suites.report import cause

    def of(message):
        return cause({"type": "RuntimeError", "message": message})

    assert of("sizes [2, 3] and [4] do not fit") == of("sizes [5] and [7, 1, 1] do not fit")
    assert of('"add" not implemented for float16') == of('"add" not implemented for int64')
    assert of("index 3 is out of range") != of("axis 3 is out of range")


def test_exclusions_have_reasons():
    sys.path.insert(0, str(ROOT / "tests"))
    from suites.report import Exclusions

    for path in sorted((ROOT / "tests/suites").glob("*.toml")):
        exclusions = Exclusions(path)
        # No pattern hides the loss of a name that nobody listed.
        for kind, message in (
            ("AttributeError", "module 'oneflow' has no attribute '_a_private_name': oneflow does not provide it"),
            ("AttributeError", "module 'oneflow' has no attribute 'a_public_name': oneflow does not provide it"),
            ("NotImplementedError", "oneflow._a_private_name is missing: a placeholder stands for it"),
        ):
            assert exclusions.of("test_torch.py", "TestTorch::test_x", {"type": kind, "message": message}) is None
