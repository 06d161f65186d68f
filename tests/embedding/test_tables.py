"""Readers and writers of tables, deltas, exports and the command line."""

import json
import subprocess
import sys

import numpy as np
import oneflow
import pytest
from embedding.stores import DIM, constant, make, rows_of, sgd
from oneflow import one_embedding as oe
from oneflow.models.safetensors import load_file, save_file
from oneflow.one_embedding.__main__ import main

N = 200


def trained(path, n=N, **kwargs):
    embedding = make(path, tables=[constant(0.5)], size_factor=2, **kwargs)
    optimizer = sgd(embedding)
    embedding(oneflow.arange(n)).sum().backward()
    optimizer.step()
    return embedding, optimizer


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return json.loads(captured.out) if code == 0 else captured.err


@pytest.mark.parametrize("key", ["int32", "int64", "uint64"])
def test_written_rows_are_read_and_opened(tmp_path, key):
    folders = [tmp_path / f"{rank}-2" for rank in range(2)]
    info = np.iinfo(key)
    keys = np.array([1, 2, info.max, info.min, 3, 2], dtype=key)
    values = np.random.default_rng(0).random((6, 2 * DIM)).astype("float32")
    given = folders, "rows", getattr(oneflow, key), oneflow.float32, 2 * DIM
    with oe.make_persistent_table_writer(*given, embedding_dim=DIM) as writer:
        writer.write(keys[:4], values[:4])
        writer.write(keys[4:], values[4:])
        with pytest.raises(ValueError, match="expected values"):
            writer.write(keys, values[:, 1:])
        with pytest.raises(TypeError, match="keys must be"):
            writer.write(keys.astype("int16"), values)
    with pytest.raises(ValueError, match="closed"):
        writer.write(keys, values)
    want = dict(zip(keys.tolist(), values.tolist(), strict=True))
    with oe.make_persistent_table_reader(*given) as reader:
        parts = list(reader)
    assert len(parts) == 2 and all(k.dtype == keys.dtype for k, _ in parts)
    assert {k: v for ks, vs in parts for k, v in zip(ks.tolist(), vs.tolist(), strict=True)} == want
    store = oe.make_cached_ssd_store_options(1, str(tmp_path), size_factor=2)
    embedding = oe.MultiTableEmbedding("e", DIM, oneflow.float32, getattr(oneflow, key), None, store)
    embedding.load_snapshot("rows")
    np.testing.assert_array_equal(embedding(oneflow.from_numpy(keys[[5, 2]])).detach(), values[[5, 2], :DIM])
    for match, change in [
        ("no snapshot", {1: "other"}),
        ("numbers, not", {4: 3}),
        ("no folder", {0: [tmp_path / "x"]}),
    ]:
        with pytest.raises(ValueError, match=match):
            oe.make_persistent_table_reader(*[change.get(i, g) for i, g in enumerate(given)])
    with pytest.raises(TypeError, match="values of"):
        oe.make_persistent_table_reader(*given[:3], oneflow.float64, 2 * DIM)


def test_an_error_ends_a_writer_without_a_snapshot(tmp_path):
    given = [tmp_path], "rows", oneflow.int64, oneflow.float32, 2
    with pytest.raises(KeyError), oe.make_persistent_table_writer(*given) as writer:
        writer.write(np.array([1]), np.ones((1, 2), dtype="float32"))
        raise KeyError
    with pytest.raises(ValueError, match="no snapshot"):
        oe.make_persistent_table_reader(*given)


@pytest.mark.parametrize("pages", [True, False])
def test_the_command_line_inspects_verifies_and_compacts(tmp_path, capsys, pages):
    embedding, optimizer = trained(tmp_path, pages=pages, budget_mb=1e-6)
    # Lookups merge what has left memory into pages, if there are to be any.
    assert (rows_of(embedding, N) == -0.5).all()
    embedding.save_snapshot("one")
    folder = tmp_path / "0-1"
    assert run(capsys, "inspect", folder, "--snapshot", "one")["rows"] == N
    assert "in use" in run(capsys, "inspect", folder)
    del optimizer
    embedding.close()
    found = run(capsys, "inspect", folder)
    assert (found["rows_by_table"], found["snapshots"], found["largest_number"]) == ([N], ["one"], 0.5)
    assert run(capsys, "verify", folder) == {"verified": N}
    assert run(capsys, "compact", folder)["after_bytes"] > 0
    rows = max(folder.glob("*.pages" if pages else "*.rows"))
    damaged = bytearray(rows.read_bytes())
    damaged[100] ^= 1
    rows.write_bytes(damaged)
    assert "damaged" in run(capsys, "verify", folder)
    assert "no folder" in run(capsys, "inspect", tmp_path / "nowhere")
    command = [sys.executable, "-m", "oneflow.one_embedding", "--help"]
    assert "compact" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".parquet"])
def test_exports_hold_all_rows(tmp_path, capsys, ending):
    embedding, _ = trained(tmp_path / "store")
    embedding.save_snapshot("s")
    out, folder = tmp_path / f"rows{ending}", tmp_path / "store" / "0-1"
    for weights_only in (False, True):
        options = ["--weights-only"] if weights_only else []
        found = run(capsys, "export", folder, out, "--snapshot", "s", *options)
        if ending == ".parquet" and "pyarrow" in str(found):
            pytest.skip("pyarrow is not installed")
        assert found == {"rows": N}
        if ending == ".parquet":
            import pyarrow.parquet

            columns = pyarrow.parquet.read_table(out).to_pydict()
        else:
            file = np.load(out) if ending == ".npz" else load_file(out)
            columns = {name: np.asarray(file[name]) for name in file}
        width = DIM if weights_only else 2 * DIM
        assert ("steps" in columns) != weights_only
        np.testing.assert_array_equal(columns["ids"], np.arange(N))
        assert np.asarray(columns["values"]).shape == (N, width)
        np.testing.assert_array_equal(np.asarray(columns["values"])[:, :DIM], rows_of(embedding, N))
    assert "ends with" in run(capsys, "export", folder, tmp_path / "rows.csv", "--snapshot", "s")


def test_a_delta_makes_an_old_copy_new(tmp_path, capsys):
    embedding, optimizer = trained(tmp_path / "a", 2000)
    embedding.save_snapshot("old")
    with oe.make_persistent_table_reader([tmp_path / "a" / "0-1"], "old", oneflow.int64, oneflow.float32, 16) as reader:
        parts = list(reader)
    given = [tmp_path / "b" / "0-1"], "copy", oneflow.int64, oneflow.float32, 16
    with oe.make_persistent_table_writer(*given, embedding_dim=DIM, tables=[constant(0.5)]) as writer:
        for keys, values in parts:
            writer.write(keys, values)
    embedding(oneflow.arange(1990, 2010)).sum().backward()
    optimizer.step()
    embedding.remove(oneflow.arange(5))
    embedding.save_snapshot("new")
    delta, folder = tmp_path / "delta.safetensors", tmp_path / "b" / "0-1"
    counts = run(capsys, "delta", tmp_path / "a" / "0-1", delta, "--since", "old", "--snapshot", "new")
    assert counts["gone"] == 5 and 20 <= counts["changed"] < 300
    assert run(capsys, "merge", folder, delta) == counts
    copy = make(tmp_path / "b", tables=[constant(0.5)], size_factor=2)
    np.testing.assert_array_equal(rows_of(copy, 2020), rows_of(embedding, 2020))
    assert copy.statistics()["rows"] == embedding.statistics()["rows"]
    copy.close()
    before = run(capsys, "inspect", folder)
    rows = load_file(delta)
    save_file(rows, tmp_path / "strange.safetensors")
    assert "no delta" in run(capsys, "merge", folder, delta, tmp_path / "strange.safetensors")
    other = make(tmp_path / "c", dim=3)
    other(oneflow.arange(3))
    other.close()
    assert "this one has" in run(capsys, "merge", tmp_path / "c" / "0-1", delta)
    assert run(capsys, "inspect", folder)["rows"] == before["rows"]
