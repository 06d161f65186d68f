"""Checks of a text by what follows what, as compilers test what they print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn


@dataclass
class _Check:
    kind: str
    text: str
    count: int = 1

    def __str__(self) -> str:
        kind = f"COUNT-{self.count}" if self.kind == "COUNT" else self.kind
        return f"CHECK-{kind}: {self.text}" if kind else f"CHECK: {self.text}"


_KINDS = ("", "SAME", "NEXT", "NOT", "DAG", "REGEX")
_WRITTEN = re.compile(r"^\s*#\s*CHECK(?:-(?P<kind>[A-Z]+)(?:-(?P<count>\d+)(?P<exactly>-EXACTLY)?)?)?:\s(?P<text>.*)$")


class FileCheck:
    """Checks that strings are found in a text in order; each method adds one and returns the object.

    Example::

        >>> text = "x = load\\ny = mul x\\nz = add y\\n"
        >>> oneflow.testing.FileCheck().check("load").check_next("mul").check_not("sub").check("add").run(text)
    """

    def __init__(self) -> None:
        self._checks: list[_Check] = []
        self._has_run = False

    def check(self, test_string: str) -> FileCheck:
        """The string is found after what the check before found."""
        return self._add("", test_string)

    def check_same(self, test_string: str) -> FileCheck:
        """As :meth:`check`, in the same line."""
        return self._add("SAME", test_string)

    def check_next(self, test_string: str) -> FileCheck:
        """As :meth:`check`, in the next line."""
        return self._add("NEXT", test_string)

    def check_regex(self, test_string: str) -> FileCheck:
        """As :meth:`check`, a regular expression."""
        return self._add("REGEX", test_string)

    def check_dag(self, test_string: str) -> FileCheck:
        """As :meth:`check`; neighbours of this kind are found in any order."""
        return self._add("DAG", test_string)

    def check_not(self, test_string: str) -> FileCheck:
        """The string is not found between what the checks before and after it find."""
        return self._add("NOT", test_string)

    def check_count(self, test_string: str, count: int, exactly: bool = False) -> FileCheck:
        """The string is found so many times, and with ``exactly`` not once more.

        Raises:
            RuntimeError: the count is 0 without ``exactly``.
        """
        if count == 0 and not exactly:
            raise RuntimeError("FileCheck.check_count: a count of 0 without exactly=True checks nothing")
        if count:
            self._checks.append(_Check("COUNT", test_string, count))
        return self.check_not(test_string) if exactly else self

    def _add(self, kind: str, text: str) -> FileCheck:
        self._checks.append(_Check(kind, text))
        return self

    def run(self, test_string: str, text: str | None = None) -> None:
        """Check a text.

        Args:
            test_string: the text; with ``text``, lines such as ``# CHECK-NEXT: string`` that are the checks.
            text: the text that is checked by them.

        Raises:
            RuntimeError: a check fails, or there is none.
        """
        if text is not None:
            self._read(test_string)
            test_string = text
        self._has_run = True
        if not self._checks:
            raise RuntimeError("No checks have been added to this instance of FileCheck! Check for bad input.")
        _Run(test_string).all(self._checks)

    def _read(self, text: str) -> None:
        for line in text.splitlines():
            if (found := _WRITTEN.match(line)) is None:
                continue
            kind, written = found["kind"] or "", found["text"]
            if kind == "COUNT" and found["count"]:
                self.check_count(written, int(found["count"]), bool(found["exactly"]))
            elif kind in _KINDS:
                self._add(kind, written)
            else:
                raise RuntimeError(f"FileCheck: no check is written so: {line.strip()}")

    def __repr__(self) -> str:
        lines = "".join(f"\t{check}\n" for check in self._checks)
        return (
            "" if self._has_run else "You have not run this instance of FileCheck!\n"
        ) + f"FileCheck checks:\n{lines}"


class _Run:
    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0

    def all(self, checks: list[_Check]) -> None:
        unwanted: list[_Check] = []
        i = 0
        while i < len(checks):
            check, before = checks[i], self.end
            i += 1
            if check.kind == "NOT":
                unwanted.append(check)
                continue
            group = [check]
            while check.kind == "DAG" and i < len(checks) and checks[i].kind == "DAG":
                group.append(checks[i])
                i += 1
            first = self.group(group)
            for other in unwanted:
                self.absent(other, before, first)
            unwanted = []
        for other in unwanted:
            self.absent(other, self.end, len(self.text))

    def group(self, group: list[_Check]) -> int:
        """Find the strings of one check, or of a group in any order; return where the first begins."""
        start, ends, firsts = self.end, [], []
        for check in group:
            self.end = start
            firsts.append(self.one(check))
            ends.append(self.end)
        self.end = max(ends)
        return min(firsts)

    def one(self, check: _Check) -> int:
        start = self.end
        if check.kind == "REGEX":
            found = re.compile(check.text).search(self.text, start)
            if found is None:
                self.fail(f'Expected to find regex "{check.text}" but did not find it', check, start)
            self.end = found.end()
            return found.start()
        if check.kind == "COUNT":
            first = self.find(check)
            for _ in range(1, check.count):
                self.find(check)
            return first
        if check.kind == "NEXT":
            # What the rest of this line holds does not matter.
            line = self.text.find("\n", start)
            self.end = start = line + 1 if line >= 0 else len(self.text)
        at = self.find(check)
        if check.kind in ("SAME", "NEXT") and "\n" in self.text[start:at]:
            where = "the same line" if check.kind == "SAME" else "the next line"
            self.fail(f'Expected to find "{check.text}" in {where}, but found it further on', check, start)
        return at

    def find(self, check: _Check) -> int:
        at = self.text.find(check.text, self.end)
        if at < 0:
            self.fail(f'Expected to find "{check.text}" but did not find it', check, self.end)
        self.end = at + len(check.text)
        return at

    def absent(self, check: _Check, start: int, end: int) -> None:
        if self.text.find(check.text, start, end) >= 0:
            self.fail(f'Expected to not find "{check.text}" but found it', check, start)

    def fail(self, why: str, check: _Check, start: int) -> NoReturn:
        raise RuntimeError(f"{why}\nSearched string:\n{self.text[start:]}\nFrom {check}\n")
