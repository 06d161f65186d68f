"""Records of TensorBoard's plugins: precision and recall, meshes, audio, layouts of charts, embeddings.

Each function returns the protocol messages of one call of :class:`SummaryWriter`; it writes no event. Only
:func:`write_embedding` writes files: the projector reads tables of text next to the events.
"""

from __future__ import annotations

import io
import json
import os
import wave
from collections.abc import Sequence
from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.mesh import metadata as mesh_metadata
from tensorboard.plugins.mesh import plugin_data_pb2 as mesh_data
from tensorboard.plugins.pr_curve import metadata as pr_curve_metadata
from tensorboard.plugins.projector import projector_config_pb2

import oneflow
from oneflow import Tensor


def tensor_proto(value: Tensor) -> TensorProto:
    """A tensor as floats, doubles where it has them."""
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in value.shape])
    if value.dtype == oneflow.float64:
        return TensorProto(dtype="DT_DOUBLE", double_val=value.flatten().tolist(), tensor_shape=shape)
    return TensorProto(dtype="DT_FLOAT", float_val=value.float().flatten().tolist(), tensor_shape=shape)


def pr_curve(tag: str, rows: Tensor, n_thresholds: int) -> Any:
    """Counts and ratios (6, n_thresholds): true and false positives, true and false negatives, precision, recall."""
    if rows.shape != (6, n_thresholds):
        raise ValueError(f"add_pr_curve: six rows of {n_thresholds} thresholds expected, got {tuple(rows.shape)}")
    metadata = pr_curve_metadata.create_summary_metadata(display_name="", description="", num_thresholds=n_thresholds)
    return Summary.Value(tag=tag, metadata=metadata, tensor=tensor_proto(rows.float()))


def counts_at_thresholds(labels: Tensor, predictions: Tensor, n_thresholds: int, weights: Tensor | None) -> Tensor:
    """The rows of :func:`pr_curve` for thresholds from 0 to 1; a prediction of a threshold or more is positive."""
    labels, predictions = labels.flatten().bool(), predictions.flatten().double()
    weights = oneflow.ones_like(predictions) if weights is None else weights.flatten().double().expand_as(predictions)
    bucket = (predictions * (n_thresholds - 1)).floor().long()

    def at_least(weight: Tensor) -> Tensor:
        return oneflow.bincount(bucket, weight, minlength=n_thresholds).flip(0).cumsum(0).flip(0)

    tp, fp = at_least(weights * labels), at_least(weights * ~labels)
    precision = tp / (tp + fp).clamp(min=1e-7)
    return oneflow.stack([tp, fp, fp[0] - fp, tp[0] - tp, precision, tp / tp[0].clamp(min=1e-7)])


def mesh(tag: str, vertices: Any, colors: Any, faces: Any, config: Any) -> list[Any]:
    """Vertices (n, points, 3) with their colors and the triangles (n, faces, 3) between them."""
    kinds = mesh_data.MeshPluginData.ContentType
    given = [(kinds.VERTEX, vertices), (kinds.FACE, faces), (kinds.COLOR, colors)]
    content = [(kind, value) for kind, value in given if value is not None]
    mask = mesh_metadata.get_components_bitmask([kind for kind, _ in content])
    made = []
    for kind, value in content:
        metadata = mesh_metadata.create_summary_metadata(
            tag, "", kind, mask, list(value.shape), description=None, json_config=json.dumps(config or {})
        )
        name = mesh_metadata.get_instance_name(tag, kind)
        made.append(Summary.Value(tag=name, metadata=metadata, tensor=tensor_proto(value.float())))
    return made


def audio(tag: str, samples: Tensor, sample_rate: int) -> Any:
    """Samples in [-1, 1], of one channel (frames,) or (1, frames), as a WAV file of 16 bits."""
    samples = samples.squeeze()
    if samples.dim() != 1:
        raise ValueError(f"add_audio: one channel of samples expected, got shape {tuple(samples.shape)}")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes((samples.float().clamp(-1, 1) * 32767).to(oneflow.int16).contiguous().numpy().tobytes())
    encoded = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=samples.numel(),
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return Summary.Value(tag=tag, audio=encoded)


def chart_layout(layout: dict[str, dict[str, Sequence[Any]]]) -> Any:
    """Charts by category: ``{category: {title: [kind, tags]}}``, where kind is Multiline or Margin."""
    categories = []
    for category, charts in layout.items():
        made = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise ValueError(f"add_custom_scalars: Margin takes three tags (value, lower, upper), got {tags}")
                value, lower, upper = tags
                series = layout_pb2.MarginChartContent.Series(value=value, lower=lower, upper=upper)
                made.append(layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series])))
            elif kind == "Multiline":
                made.append(layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags)))
            else:
                raise ValueError(f"add_custom_scalars: a chart is 'Multiline' or 'Margin', not {kind!r}")
        categories.append(layout_pb2.Category(title=category, chart=made))
    plugin = SummaryMetadata.PluginData(plugin_name="custom_scalars")
    proto = TensorProto(dtype="DT_STRING", tensor_shape=TensorShapeProto())
    proto.string_val.append(layout_pb2.Layout(category=categories).SerializeToString())
    metadata = SummaryMetadata(plugin_data=plugin)
    return Summary.Value(tag="custom_scalars__config__", metadata=metadata, tensor=proto)


def write_embedding(
    folder: str,
    name: str,
    step: int | None,
    rows: Tensor,
    labels: Sequence[Any] | None,
    header: Sequence[str] | None,
    sprite: tuple[bytes, tuple[int, int]] | None,
) -> None:
    """Write the tables of an embedding and add it to the projector's list.

    Args:
        rows: (n, size).
        labels: n labels, or n rows of them below a ``header``.
        sprite: the image of all rows as a PNG file, and (height, width) of one.
    """
    place = os.path.join(f"{step or 0:05d}", name.replace("%", "%25").replace("/", "%2f"))
    os.makedirs(os.path.join(folder, place), exist_ok=True)
    info = projector_config_pb2.EmbeddingInfo(tensor_name=f"{name}:{step or 0:05d}")

    def table(file: str, lines: Any) -> str:
        with open(os.path.join(folder, place, file), "w", encoding="utf-8") as out:
            out.writelines("\t".join(str(field) for field in line) + "\n" for line in lines)
        return os.path.join(place, file)

    if labels is not None:
        # A table of several columns begins with their names; one of one column has no header.
        lines = [label if header else [label] for label in labels]
        info.metadata_path = table("metadata.tsv", [header, *lines] if header else lines)
    if sprite is not None:
        info.sprite.image_path = os.path.join(place, "sprite.png")
        with open(os.path.join(folder, info.sprite.image_path), "wb") as picture:
            picture.write(sprite[0])
        # The projector reads width, then height.
        info.sprite.single_image_dim.extend(reversed(sprite[1]))
    info.tensor_path = table("tensors.tsv", rows.tolist())
    with open(os.path.join(folder, "projector_config.pbtxt"), "a", encoding="utf-8") as out:
        out.write(f"embeddings {{\n{info}}}\n")
