"""Records of TensorBoard's plugins equal those that PyTorch's writer makes of the same values."""

import os

import numpy as np
import oneflow
import pytest
import torch
from google.protobuf import text_format

pytest.importorskip("tensorboard")

import torch.utils.tensorboard
from oneflow.utils.tensorboard import SummaryWriter
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.plugins.projector import projector_config_pb2

pytestmark = pytest.mark.filterwarnings("ignore")

LABELS, PREDICTIONS = [1, 0, 1, 1], [1.0, 0.2, 0.4, 0.0]
CALLS = {
    "add_scalar": lambda fw, w: w.add_scalar("t", 1.5, 1),
    "add_scalar of a newer kind": lambda fw, w: w.add_scalar("t", 1.5, 1, new_style=True),
    "add_histogram": lambda fw, w: w.add_histogram_raw("t", 0.0, 3.0, 4, 6.0, 14.0, [1, 2, 3], [1, 2, 1], 2),
    "add_pr_curve": lambda fw, w: w.add_pr_curve("t", fw.tensor(LABELS), fw.tensor(PREDICTIONS), 3, num_thresholds=5),
    "add_pr_curve with weights": lambda fw, w: w.add_pr_curve(
        "t", np.array(LABELS), np.array(PREDICTIONS), weights=np.array([1.0, 2.0, 0.5, 1.0])
    ),
    "add_pr_curve_raw": lambda fw, w: w.add_pr_curve_raw("t", *([[1, 2]] * 6), num_thresholds=2),
    "add_custom_scalars": lambda fw, w: w.add_custom_scalars(
        {"T": {"a": ["Multiline", ["x/a", "x/b"]], "m": ["Margin", ["l", "m", "u"]]}, "U": {}}
    ),
    "multilinechart": lambda fw, w: w.add_custom_scalars_multilinechart(["a", "b"], "c", "t"),
    "marginchart": lambda fw, w: w.add_custom_scalars_marginchart(["a", "b", "c"]),
    "add_mesh of points": lambda fw, w: w.add_mesh("t", fw.arange(12.0).reshape(2, 2, 3)),
    "add_mesh": lambda fw, w: w.add_mesh(
        "t", fw.zeros(1, 3, 3), fw.ones(1, 3, 3), fw.tensor([[[0, 1, 2]]]), {"camera": {"fov": 75}}, 4
    ),
    "add_audio": lambda fw, w: w.add_audio("t", fw.arange(-60, 60) / 50, sample_rate=8000),
    "add_audio of a row": lambda fw, w: w.add_audio("t", fw.arange(-60, 60)[None] / 70),
}


def written(make_writer, fw, call, folder):
    with make_writer(folder) as writer:
        call(fw, writer)
    (path,) = [name for name in os.listdir(folder) if "tfevents" in name]
    return [(e.step, str(e.summary)) for e in EventFileLoader(os.path.join(folder, path)).Load()]


@pytest.mark.parametrize("name", CALLS)
def test_records_equal_torchs(name, tmp_path):
    ours = written(SummaryWriter, oneflow, CALLS[name], str(tmp_path / "ours"))
    theirs = written(torch.utils.tensorboard.SummaryWriter, torch, CALLS[name], str(tmp_path / "theirs"))
    # A scalar of theirs has no shape, which reads as the empty one.
    plain = [
        [(step, text.replace("    tensor_shape {\n    }\n", "")) for step, text in some] for some in (ours, theirs)
    ]
    assert plain[0] == plain[1] and len(ours) > 1


EMBEDDINGS = {
    "rows": {},
    "labels": {"metadata": ["a", "b", "c"], "tag": "e/f", "global_step": 4},
    "columns": {"metadata": [["a", 1], ["b", 2], ["c", 3]], "metadata_header": ["name", "n"]},
}


@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize("images", [False, True])
def test_embeddings_equal_torchs(name, images, tmp_path):
    found = []
    for fw, make_writer in ((oneflow, SummaryWriter), (torch, torch.utils.tensorboard.SummaryWriter)):
        folder = tmp_path / fw.__name__
        with make_writer(str(folder)) as writer:
            for step in (None, 7):
                pictures = {"label_img": fw.ones(3, 3, 4, 4)} if images else {}
                writer.add_embedding(
                    fw.arange(6.0).reshape(3, 2), **{"global_step": step, **EMBEDDINGS[name], **pictures}
                )
        config = (folder / "projector_config.pbtxt").read_text()
        tables = {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*.tsv")}
        sprites = sorted(str(p.relative_to(folder)) for p in folder.rglob("*.png"))
        found.append((text_format.Parse(config, projector_config_pb2.ProjectorConfig()), tables, sprites))
    assert found[0] == found[1]


def records(folder):
    (path,) = [name for name in os.listdir(folder) if "tfevents" in name]
    events = EventFileLoader(os.path.join(folder, path)).Load()
    return {value.tag: value for event in events for value in event.summary.value}


def test_domains_of_hyperparameters_are_written(tmp_path):
    domains = {"lr": [0.1, 0.2], "name": ["a", "b"], "flag": [True, False]}
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1, "name": "a", "flag": True, "free": 3}, {"m": 1.0}, domains, run_name="trial")
        with pytest.raises(ValueError, match="names \\['depth'\\]"):
            writer.add_hparams({"lr": 0.1}, {}, {"depth": [1]})
    content = records(tmp_path / "trial")["_hparams_/experiment"].metadata.plugin_data.content
    infos = plugin_data_pb2.HParamsPluginData.FromString(content).experiment.hparam_infos
    assert {info.name: list(info.domain_discrete) for info in infos} == {**domains, "free": []}


def test_options_have_their_effect(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("double", 0.1, new_style=True, double_precision=True)
        writer.add_histogram("few", oneflow.arange(10.0), bins=10, max_bins=4)
        writer.add_images("grid", oneflow.rand(11, 3, 4, 5))
        with pytest.raises(ValueError, match="needs new_style"):
            writer.add_scalar("t", 0.1, double_precision=True)
    found = records(tmp_path)
    assert list(found["double"].tensor.double_val) == [0.1]
    buckets = np.frombuffer(found["few"].tensor.tensor_content, "f4").reshape(-1, 3)
    assert buckets[:, 2].tolist() == [3, 3, 3, 1] and buckets[-1, 1] == 9
    width, height = found["grid"].tensor.string_val[:2]
    assert (int(width), int(height)) == (8 * 5, 2 * 4)


REFUSED = [
    lambda w: w.add_histogram_raw("t", 0, 1, 1, 1, 1, [1, 2], [1]),
    lambda w: w.add_pr_curve("t", [1, 0], [0.5]),
    lambda w: w.add_pr_curve("t", [1, 0], [0.5, 1.5]),
    lambda w: w.add_pr_curve_raw("t", *([[1, 2]] * 6), num_thresholds=3),
    lambda w: w.add_custom_scalars({"c": {"t": ["Bars", ["a"]]}}),
    lambda w: w.add_custom_scalars({"c": {"t": ["Margin", ["a"]]}}),
    lambda w: w.add_embedding(oneflow.ones(3)),
    lambda w: w.add_embedding(oneflow.ones(3, 2), ["a"]),
    lambda w: w.add_embedding(oneflow.ones(3, 2), label_img=oneflow.ones(2, 3, 4, 4)),
    lambda w: w.add_audio("t", oneflow.ones(2, 5)),
]


@pytest.mark.parametrize("i", range(len(REFUSED)))
def test_bad_values_are_refused(i, tmp_path):
    with SummaryWriter(tmp_path) as writer, pytest.raises(ValueError, match=r"add_\w+: "):
        REFUSED[i](writer)
