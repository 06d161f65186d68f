"""The code of the guides and of README runs: the blocks of a page in order, in one namespace."""

import re
from pathlib import Path

import oneflow
import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS.parent / "README.md", DOCS / "index.md", *sorted((DOCS / "guides").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.stem)
def test_code_of_a_guide(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # Examples save files.
    threads = oneflow.get_num_threads()
    text = page.read_text()
    namespace = {"__name__": "guide"}
    try:
        for block in BLOCK.finditer(text):
            line = text[: block.start(1)].count("\n")
            exec(compile("\n" * line + block[1], str(page), "exec"), namespace)
    finally:
        oneflow.set_num_threads(threads)


def test_every_variable_of_the_environment_is_in_the_guide():
    root = DOCS.parent
    guide = (DOCS / "guides" / "environment.md").read_text()
    sources = [*root.glob("crates/**/src/**/*.rs"), *root.glob("python/oneflow/**/*.py")]
    pattern = re.compile(r"(?:var(?:_os)?\(|environ(?:\.get\(|\[|\.setdefault\())\s*\"(ONEFLOW_\w+)\"")
    read = {name for path in sources if path.name != "conf.py" for name in pattern.findall(path.read_text())}
    assert read and {name for name in read if f"`{name}`" not in guide} == set()
