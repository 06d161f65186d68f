"""Stores where the system refuses something: io_uring, direct reads, writing. Each in a process of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

# Installs a filter of system calls for this process: `io_uring_setup`, or `openat` with O_DIRECT, fails.
FILTER = """
    import ctypes, errno, os, struct

    def refuse(call, number, error, argument=None, bit=0):
        load, equal, bit_set, give = 0x20, 0x15, 0x45, 0x06
        lines = [(load, 0, 0, 0), (equal, 0, 1 if argument is None else 3, number)]
        if argument is not None:
            lines += [(load, 0, 0, 16 + 8 * argument), (bit_set, 0, 1, bit)]
        lines += [(give, 0, 0, 0x00050000 | error), (give, 0, 0, 0x7FFF0000)]
        program = b"".join(struct.pack("HBBI", *line) for line in lines)
        buffer = ctypes.create_string_buffer(program, len(program))
        libc = ctypes.CDLL(None, use_errno=True)
        filter = ctypes.create_string_buffer(struct.pack("HP", len(lines), ctypes.addressof(buffer)))
        assert libc.prctl(38, 1, 0, 0, 0) == 0, call
        if libc.prctl(22, 2, filter, 0, 0):
            raise SystemExit(77)

    OPENAT = {"x86_64": 257, "aarch64": 56}[os.uname().machine]
"""

STORE = """
    import sys
    import numpy as np
    import oneflow
    from oneflow import one_embedding as oe

    def run(path):
        options = oe.make_cached_ssd_store_options(0.2, path, direct_io=True)
        module = oe.MultiTableEmbedding("refused", 8, oneflow.float32, oneflow.int64, None, options)
        sgd = oe.Optimizer(oneflow.optim.SGD(module.parameters(), lr=0.1), [module])
        for step in range(3):
            for ids in oneflow.arange(9000).split(1000):
                (module(ids) ** 2).sum().backward()
                sgd.step()
                sgd.zero_grad()
        module.commit()
        with oneflow.no_grad():
            rows = module(oneflow.arange(9000)).numpy()
        stats = module.statistics()
        assert stats["reads"] > 5000 and module.verify() == 9000, stats
        return rows, module._store.reads_by()
"""


def child(code, *arguments):
    code = textwrap.dedent(STORE) + textwrap.dedent(FILTER) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("the system takes no filter of system calls")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="filters of system calls are Linux's")
@pytest.mark.parametrize(
    ("refused", "want"),
    [
        ("refuse('io_uring_setup', 425, errno.EPERM)", ("threads", None)),
        ("refuse('io_uring_setup', 425, errno.ENOSYS)", ("threads", None)),
        ("refuse('openat', OPENAT, errno.EINVAL, 2, os.O_DIRECT)", (None, False)),
    ],
)
def test_rows_are_the_same_where_a_way_of_reading_is_refused(tmp_path, refused, want):
    code = f"""
        plain, by = run(sys.argv[1] + "/plain")
        {refused}
        rows, by_others = run(sys.argv[1] + "/refused")
        np.testing.assert_array_equal(rows, plain)
        print(*by, *by_others)
    """
    kind, is_direct, other_kind, is_other_direct = child(code, tmp_path).split()
    assert other_kind == (want[0] or kind)
    assert is_other_direct == (is_direct if want[1] is None else str(want[1]))


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_folder_that_cannot_be_written_is_named_and_its_rows_are_read(tmp_path):
    code = """
        import tempfile
        from oneflow._oneflow import _EmbeddingSaved

        folder = tempfile.mkdtemp()
        run(folder)
        rank = folder + "/0-1"
        for place, folders, files in os.walk(folder, topdown=False):
            for name in files:
                os.chmod(place + "/" + name, 0o444)
            os.chmod(place, 0o555)
        if os.geteuid() == 0:
            os.seteuid(65534)
        try:
            run(folder)
        except RuntimeError as error:
            print("refused", rank in str(error), "Permission denied" in str(error))
        print(len(_EmbeddingSaved(rank, None).records(0, 10_000)[1]))
        if os.getuid() == 0:
            os.seteuid(0)
        for place, folders, files in os.walk(folder):
            os.chmod(place, 0o755)
        import shutil
        shutil.rmtree(folder)
    """
    out = child(code)
    assert out.splitlines() == ["refused True True", "9000"]
