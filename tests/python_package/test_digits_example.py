"""The digits example: its data, and that a few epochs are enough to read digits, eager and compiled."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"


def test_data_is_whole(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import data

    images, labels = data.load()
    assert tuple(images.shape) == (1797, 1, 8, 8) and float(images.max()) == 1.0 and float(images.min()) == 0.0
    assert labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    train, test = data.splits(n_test=360, seed=1)
    assert len(train) == 1437 and len(test) == 360
    assert train[0][0].shape == test[0][0].shape == (1, 8, 8)


@pytest.mark.parametrize("options", [[], ["--graph"], ["--bf16", "--workers", "1"]])
def test_a_few_epochs_are_enough_to_read(options):
    command = [sys.executable, str(EXAMPLE / "train.py"), "--epochs", "3", "--target", "0.9", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test accuracy" in done.stdout
