"""Markers for what a test needs of its machine: where that is missing, the test is skipped and says what is missing."""

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
