"""The recommender example: its generator has the answer it states, each model learns, and files are read."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "recommender"


@pytest.fixture
def data(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    sys.modules.pop("data", None)
    import data

    yield data
    sys.modules.pop("data", None)


def train(out, *options):
    command = [sys.executable, str(EXAMPLE / "train.py"), "--json", str(out), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text())


def test_auc_counts_ordered_pairs(data):
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(0, 20, 200) / 4, rng.integers(0, 2, 200)
    above = scores[labels == 1][:, None] - scores[labels == 0][None]
    expected = (above > 0).mean() + (above == 0).mean() / 2
    assert data.auc(scores, labels) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match="both labels"):
        data.auc(scores, np.ones(200))


def test_generated_clicks_have_the_stated_probabilities_and_ids(data):
    for alpha in (0.8, 1.0, 1.05):
        generator = data.Generator(alpha=alpha)
        dense, ids, clicks = next(generator.batches(40_000, 40_000))
        again = next(generator.batches(40_000, 40_000))
        assert all((a == b).all() for a, b in zip((dense, ids, clicks), again, strict=True))
        assert (ids >= 0).all() and (ids < np.array(generator.cardinalities)).all()
        # The share of clicks among samples of nearly one probability is that probability.
        p = 1 / (1 + np.exp(-generator.logits(dense, ids)))
        for low in np.arange(0.1, 0.9, 0.2):
            chosen = (p > low) & (p < low + 0.1)
            error = 4 * np.sqrt(0.25 / chosen.sum())
            assert clicks[chosen].mean() == pytest.approx(p[chosen].mean(), abs=error)
        # Zipf: ids fall off by a power of their rank.
        counts = np.sort(np.bincount(ids[:, 2], minlength=5000))[::-1].astype(float)
        slope = np.log(counts[20:50].sum() / counts[200:500].sum()) / np.log(10)
        assert slope == pytest.approx(alpha - 1, abs=0.15)


@pytest.mark.parametrize("model", ["dlrm", "deepfm", "dcn", "two_tower", "wide_deep"])
def test_each_model_learns_generated_clicks(tmp_path, model):
    short = ["--samples", 12_000, "--eval-samples", 4_000, "--batch-size", 300, "--cache-mb", 1, "--lr", 0.01]
    result = train(tmp_path / "out.json", "--model", model, "--store", tmp_path / "rows", *short)
    assert 0.62 < result["auc"] < result["best_auc"], result
    assert 0 < result["hit_ratio"] <= 1 and result["rows"] > 5_000


def lines(data, n):
    """A file of Criteo's format with some fields missing."""
    dense, ids, clicks = next(data.Generator().batches(n, n))
    for i in range(n):
        numbers = ["" if i % 7 == j else str(int(abs(v) * 10)) for j, v in enumerate(dense[i])]
        categories = ["" if i % 11 == j else f"{v:08x}" for j, v in enumerate(ids[i])]
        yield "\t".join([str(int(clicks[i])), *numbers, *categories]) + "\n"


def test_files_are_read_and_trained_on(tmp_path, data):
    file = tmp_path / "day_0.tsv"
    file.write_text("".join(lines(data, 3000)))
    parts = list(data.read(file, 1000))
    assert [p[1].shape for p in parts] == [(1000, 26)] * 3
    dense, ids, _ = parts[0]
    assert dense[0, 0] == 0.0 and ids[1, 1] == 1 << 32 and (dense >= 0).all()
    result = train(
        tmp_path / "out.json", "--data", file, "--samples", 3000, "--eval-samples", 1000, "--batch-size", 500
    )
    assert 0 < result["auc"] < 1 and "best_auc" not in result
    file.write_text("1\t2\n")
    with pytest.raises(ValueError, match="line 1: expected 40 columns, got 2"):
        next(data.read(file, 10))


def test_parquet_holds_the_same(tmp_path, data):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    (tmp_path / "day.tsv").write_text("".join(lines(data, 100)))
    rows = [line.rstrip("\n").split("\t") for line in lines(data, 100)]
    columns = {"label": [int(r[0]) for r in rows]}
    columns |= {f"int_{i}": [int(r[1 + i]) if r[1 + i] else None for r in rows] for i in range(13)}
    columns |= {f"cat_{i}": [r[14 + i] or None for r in rows] for i in range(26)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "day.parquet")
    (ours,), (theirs,) = (list(data.read(tmp_path / f"day.{end}", 100)) for end in ("parquet", "tsv"))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def movies(folder, n_users=40, n_items=60, n=3000):
    """Ratings in the files of MovieLens-100k, as recbole has them: users like genres by their gender."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    genres = ["Comedy", "Drama", "Children's", "Film-Noir"]
    kinds = [rng.choice(genres, rng.integers(1, 4), replace=False) for _ in range(n_items)]
    people = [(rng.integers(18, 70), "MF"[i % 2], "student", f"T8H{i % 5}N") for i in range(n_users)]
    users = [f"{i + 1}\t" + "\t".join(map(str, p)) for i, p in enumerate(people)]
    items = [f"{i + 1}\tFilm {i}\t{1990 + i % 9 if i else ''}\t{' '.join(k)}" for i, k in enumerate(kinds)]
    rows = []
    for _ in range(n):
        u, i = rng.integers(n_users), rng.integers(n_items)
        likes = ("Comedy" in kinds[i]) == (people[u][1] == "M")
        rows.append(f"{u + 1}\t{i + 1}\t{rng.integers(4, 6) if likes else rng.integers(1, 4)}\t0")
    heads = {
        "user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token",
        "item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq",
        "inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float",
    }
    for ending, lines in (("user", users), ("item", items), ("inter", rows)):
        (folder / f"ml-100k.{ending}").write_text("\n".join([heads[ending], *lines]) + "\n")


@pytest.mark.parametrize("model", ["dlrm", "two_tower", "wide_deep"])
def test_ratings_of_movielens_are_learned(tmp_path, data, model):
    movies(tmp_path / "ml")
    parts = [list(data.read_movielens(tmp_path / "ml", 1000, held)) for held in (False, True)]
    assert [len(p[2]) for p in parts[0]] == [1000, 1000, 700] and [len(p[2]) for p in parts[1]] == [300]
    dense, ids, labels = parts[1][0]
    assert dense.shape == (300, 2) and ids.shape == (300, 8) and set(labels) == {0.0, 1.0}
    result = train(
        tmp_path / "out.json",
        "--movielens",
        tmp_path / "ml",
        "--model",
        model,
        "--epochs",
        12,
        "--batch-size",
        64,
        "--lr",
        0.02,
        "--width",
        8,
    )
    assert result["auc"] > 0.9 and "best_auc" not in result
