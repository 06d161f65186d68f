"""Markers for requirements of a test on its machine: if one is missing, the test is skipped with that reason."""

from __future__ import annotations

import shutil

import pytest

# marker: the program that must be on the path, and what it is.
PROGRAMS = {
    "cargo": ("cargo", "Rust with cargo, see rustup.rs"),
    "cxx": ("g++", "a C++ compiler (g++), for the emulated GPU driver"),
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, (program, what) in PROGRAMS.items():
        if item.get_closest_marker(marker) and shutil.which(program) is None:
            pytest.skip(f"needs {what}")
