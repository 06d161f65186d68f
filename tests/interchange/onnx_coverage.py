"""How each op of the table becomes ONNX, written to docs/coverage_onnx.md.

python -m interchange.onnx_coverage --write        (from the folder `tests`, with the package on the path)
"""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from pathlib import Path

from oneflow import _oneflow
from oneflow.onnx._export.rules import rules
from oneflow.onnx._export.rules.complex import complex_rules

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "coverage_onnx.md"
RULE, COMPLEX, COMPOSED = "by a rule", "by a rule for complex numbers", "as its composition"
# What follows from the kind of an op.
REASONS = {
    "data": "the size of its result depends on data",
    "writes": "it writes its inputs, which ONNX cannot say",
    "layer": "it works on several devices",
    "draws": "its numbers come from this package's generator, and ONNX has no such distribution",
}


def reasons() -> dict[str, list[str]]:
    """Of untranslated.toml: the names, or patterns of names, by the reason."""
    return {entry["why"]: entry["ops"] for entry in tomllib.loads((HERE / "untranslated.toml").read_text())["reason"]}


def outcomes() -> dict[str, str]:
    """For each op of the table how it is translated, or why it is not; "" where nobody has said."""
    known, of_complex = rules(), complex_rules()
    listed = reasons()
    made = {}
    for op in _oneflow._C._ops():
        name, kinds = op["name"], op["kinds"]
        if name in known:
            made[name] = RULE
        elif name in of_complex:
            made[name] = COMPLEX
        elif "composed" in kinds:
            made[name] = COMPOSED
        else:
            why = next((why for why, ops in listed.items() if any(fnmatchcase(name, o) for o in ops)), "")
            made[name] = why or next((why for kind, why in REASONS.items() if kind in kinds), "")
    return made


def page() -> str:
    """The text of docs/coverage_onnx.md."""
    found = outcomes()
    elementwise = [op["name"] for op in _oneflow._C._ops() if "elementwise" in op["kinds"]]
    translated = [name for name in elementwise if found[name] in (RULE, COMPLEX, COMPOSED)]
    groups: dict[str, list[str]] = {how: [] for how in (RULE, COMPOSED, COMPLEX)}
    for name, how in found.items():
        groups.setdefault(how, []).append(name)
    lines = [
        "# ONNX forms of ops",
        "",
        "Written by `tests/interchange/onnx_coverage.py` from the op table, and checked by a test. An op is exported",
        "by the rule of its name, or traced as the ops that it is composed of, for which the same holds. What has",
        "neither is listed with the reason; `custom_translation_table` of `oneflow.onnx.export` takes rules for it.",
        f"Of the {len(elementwise)} elementwise ops {len(translated)} are translated.",
        "",
        "| how | ops |",
        "|---|---:|",
        *(f"| {how} | {len(names)} |" for how, names in groups.items()),
        f"| all | {len(found)} |",
    ]
    for how, names in groups.items():
        lines += ["", f"## {how[:1].upper()}{how[1:]}", "", ", ".join(f"`{name}`" for name in names)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = page()
    if "--write" in sys.argv:
        PAGE.write_text(text)
    else:
        sys.stdout.write(text)
