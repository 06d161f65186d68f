"""Runs the test suites of other projects on this build, from checkouts outside the tree; see ``__main__.py``.

Nothing of those projects is copied: a child process loads their files from where they are. This folder has the lists
of cases that are left out, each with its reason (``pytorch.toml``, ``oneflow.toml``).
"""
