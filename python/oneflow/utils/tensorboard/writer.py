"""SummaryWriter: scalars, histograms, images, texts, curves, graphs and hyperparameters as records of event files."""

from __future__ import annotations

import io
import math
import os
import socket
import struct
import sys
import time
import zlib
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import oneflow
from oneflow import Tensor
from oneflow.utils.tensorboard import _plugins

__all__ = ["FileWriter", "SummaryWriter"]


def _tensor(value: Any) -> Tensor:
    """A value of a caller on the CPU: a tensor, an array, a list or a number."""
    return oneflow.as_tensor(value).detach().cpu()


def _number(value: Any) -> float:
    return float(value if isinstance(value, (int, float)) else _tensor(value).item())


class FileWriter:
    """An event file in a folder; see :class:`SummaryWriter`.

    Example::

        >>> writer = oneflow.utils.tensorboard.FileWriter("runs")
        >>> writer.get_logdir()
        'runs'
        >>> writer.close()
    """

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        self._writer = EventFileWriter(os.fspath(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self._writer.get_logdir()

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Write a record."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self._writer.add_event(event)

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Write a summary."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what is waiting."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is waiting and close the file."""
        self._writer.close()


class SummaryWriter:
    """Writes the values of a training run to event files, which ``tensorboard --logdir`` reads.

    Args:
        log_dir: the folder; by default ``runs/<time>_<host><comment>``.
        comment: the end of the default folder's name.
        purge_step: what was written for this and later steps is to be hidden.
        max_queue: records that may wait.
        flush_secs: seconds that they may wait.
        filename_suffix: the end of each file's name.

    Example::

        >>> with oneflow.utils.tensorboard.SummaryWriter("runs") as writer:
        ...     writer.add_scalar("loss", 0.5, 1)
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            name = time.strftime("%b%d_%H-%M-%S") + f"_{socket.gethostname()}{comment}"
            log_dir = os.path.join("runs", name)
        self.log_dir = os.fspath(log_dir)
        self._options = (max_queue, flush_secs, filename_suffix)
        self._writers: dict[str, FileWriter] = {}
        if purge_step is not None:
            self._file().add_event(Event(file_version="brain.Event:2"), purge_step)
            self._file().add_event(Event(session_log=SessionLog(status=SessionLog.START)), purge_step)
        else:
            self._file()

    def _file(self, folder: str | None = None) -> FileWriter:
        folder = folder or self.log_dir
        if folder not in self._writers:
            self._writers[folder] = FileWriter(folder, *self._options)
        return self._writers[folder]

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _add(self, value: Any, step: int | None, walltime: float | None, folder: str | None = None) -> None:
        self._file(folder).add_summary(Summary(value=[value]), step, walltime)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A number of one element at a step.

        Args:
            new_style: as a tensor of TensorBoard's plugin for scalars, which newer tools read.
            double_precision: with ``new_style``, in 64 bits. A record of the older kind has 32.

        Raises:
            ValueError: ``double_precision`` without ``new_style``.
        """
        number = _number(scalar_value)
        if not new_style:
            if double_precision:
                raise ValueError("SummaryWriter.add_scalar: double_precision needs new_style=True")
            self._add(Summary.Value(tag=tag, simple_value=number), global_step, walltime)
            return
        dtype = oneflow.float64 if double_precision else oneflow.float32
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
        proto = _plugins.tensor_proto(oneflow.tensor(number, dtype=dtype))
        self._add(Summary.Value(tag=tag, metadata=metadata, tensor=proto), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write several numbers in one chart: each in a subfolder."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, main_tag.replace("/", "_") + "_" + tag)
            made = Summary.Value(tag=main_tag, simple_value=_number(value))
            self._add(made, global_step, walltime, folder)

    def add_tensor(self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """A tensor of floats as it is."""
        proto = _plugins.tensor_proto(_tensor(tensor).float())
        self._add(Summary.Value(tag=tag, tensor=proto), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = 64,
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How the elements of a tensor are distributed.

        Args:
            bins: their number between the least and the greatest element, or the edges. PyTorch's words mean 64.
            max_bins: neighbours are merged until there are at most so many.
        """
        x = _tensor(values).flatten().double()
        if x.numel() == 0:
            raise ValueError("The input has no element.")
        if isinstance(bins, str):
            bins = 64
        edges = _tensor(bins).double() if not isinstance(bins, int) else None
        counts, edges = oneflow.histogram(x, bins if edges is None else edges)
        if max_bins is not None and len(counts) > max_bins:
            merged = -(-len(counts) // max_bins)
            counts = oneflow.stack([part.sum() for part in counts.split(merged)])
            edges = oneflow.cat([edges[:-1:merged], edges[-1:]])
        proto = HistogramProto(
            min=x.min().item(),
            max=x.max().item(),
            num=x.numel(),
            sum=x.sum().item(),
            sum_squares=x.dot(x).item(),
            bucket_limit=edges[1:].tolist(),
            bucket=counts.tolist(),
        )
        self._add(Summary.Value(tag=tag, histo=proto), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """A histogram that was counted elsewhere.

        Args:
            min, max, num, sum, sum_squares: of the elements.
            bucket_limits: the upper end of each bucket.
            bucket_counts: the elements in each.

        Raises:
            ValueError: the two lists differ in length.
        """
        limits, counts = (x.tolist() if hasattr(x, "tolist") else list(x) for x in (bucket_limits, bucket_counts))
        if len(limits) != len(counts):
            raise ValueError(
                f"SummaryWriter.add_histogram_raw: {len(limits)} bucket_limits for {len(counts)} bucket_counts"
            )
        proto = HistogramProto(
            min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=limits, bucket=counts
        )
        self._add(Summary.Value(tag=tag, histo=proto), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall of a classifier of two classes, over thresholds.

        Args:
            labels: the classes, 0 or 1 (or booleans).
            predictions: the probability of class 1 for each label.
            num_thresholds: from 0 to 1, at most 127.
            weights: how much each prediction counts; 1 by default.

        Raises:
            ValueError: as many labels as predictions are needed, and predictions in [0, 1].
        """
        labels, predictions = _tensor(labels), _tensor(predictions)
        if labels.numel() != predictions.numel():
            raise ValueError(
                f"SummaryWriter.add_pr_curve: {labels.numel()} labels for {predictions.numel()} predictions"
            )
        if not ((predictions >= 0) & (predictions <= 1)).all():
            raise ValueError("SummaryWriter.add_pr_curve: predictions are probabilities, from 0 to 1")
        n = min(num_thresholds, 127)
        rows = _plugins.counts_at_thresholds(labels, predictions, n, None if weights is None else _tensor(weights))
        self._add(_plugins.pr_curve(tag, rows, n), global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall that were counted elsewhere: one number for each threshold.

        Args:
            weights: None: counts that were made elsewhere have them already.
        """
        if weights is not None:
            raise NotImplementedError("SummaryWriter.add_pr_curve_raw: weight the counts instead of giving weights")
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        rows = oneflow.stack([_tensor(row).double() for row in (*counts, precision, recall)])
        self._add(_plugins.pr_curve(tag, rows, min(num_thresholds, 127)), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """One channel of sound: samples in [-1, 1] of shape (frames,) or (1, frames), ``sample_rate`` per second."""
        self._add(_plugins.audio(tag, _tensor(snd_tensor), sample_rate), global_step, walltime)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: dict[str, Any] | None = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Points or surfaces in space.

        Args:
            vertices: (n, points, 3).
            colors: (n, points, 3), from 0 to 255.
            faces: (n, triangles, 3), indices of vertices.
            config_dict: options of the three.js scene.
        """
        given = [None if value is None else _tensor(value) for value in (vertices, colors, faces)]
        made = _plugins.mesh(tag, given[0], given[1], given[2], config_dict)
        self._file().add_summary(Summary(value=made), global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, Any]) -> None:
        """Arrange scalars in charts.

        Args:
            layout: ``{category: {title: [kind, tags]}}``, where kind is "Multiline", or "Margin" with three tags:
                the value, its lower and its upper bound.
        """
        self._add(_plugins.chart_layout(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags: Any, category: str = "default", title: str = "untitled") -> None:
        """Show several scalars in one chart; see :meth:`add_custom_scalars`."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags: Any, category: str = "default", title: str = "untitled") -> None:
        """Show a scalar between its bounds; see :meth:`add_custom_scalars`."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Points for the projector, which shows them in two or three dimensions.

        Args:
            mat: (n, size).
            metadata: n labels; with ``metadata_header`` n rows of labels, and the names of the columns.
            label_img: an image for each point, (n, channels, height, width), in [0, 1].

        Raises:
            ValueError: the number of labels or images is not that of points.
        """
        rows = _tensor(mat)
        if rows.dim() != 2:
            raise ValueError(f"SummaryWriter.add_embedding: mat has shape (n, size), not {tuple(rows.shape)}")
        for what, values in (("labels", metadata), ("images", label_img)):
            if values is not None and len(values) != len(rows):
                raise ValueError(f"SummaryWriter.add_embedding: {len(values)} {what} for {len(rows)} points")
        sprite = None
        if label_img is not None:
            images = _tensor(label_img)
            sprite = (
                _png(_bytes(_grid(images.permute(0, 2, 3, 1), math.ceil(len(rows) ** 0.5)))),
                (images.shape[2], images.shape[3]),
            )
        _plugins.write_embedding(self.get_logdir(), tag, global_step, rows, metadata, metadata_header, sprite)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """One image: floats in [0, 1] or bytes, in the order of dimensions that ``dataformats`` names."""
        self._image(tag, _tensor(img_tensor), dataformats, global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Several images as one, in rows of eight."""
        x = _tensor(img_tensor)
        order = dataformats.upper()
        if "C" not in order:
            x, order = x.unsqueeze(-1), order + "C"
        x = x.permute(*(order.index(letter) for letter in "NHWC"))
        self._image(tag, _grid(x, 8), "HWC", global_step, walltime)

    def _image(self, tag: str, x: Tensor, order: str, step: int | None, walltime: float | None) -> None:
        order = order.upper()
        if x.dim() != len(order):
            raise ValueError(f"add_image: a tensor of shape {tuple(x.shape)} has not the dimensions {order!r}")
        if "C" not in order:
            x, order = x.unsqueeze(-1), order + "C"
        x = x.permute(*(order.index(letter) for letter in "HWC"))
        x = _bytes(x)
        height, width, channels = x.shape
        proto = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=_png(x))
        self._add(Summary.Value(tag=tag, image=proto), step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or several, as images."""
        for i, one in enumerate(figure if isinstance(figure, (list, tuple)) else [figure]):
            held = io.BytesIO()
            one.savefig(held, format="png")
            width, height = (int(n) for n in one.get_size_inches() * one.dpi)
            data = held.getvalue()
            proto = Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=data)
            name = f"{tag}/{i}" if isinstance(figure, (list, tuple)) else tag
            self._add(Summary.Value(tag=name, image=proto), global_step, walltime)
            if close:
                import matplotlib.pyplot

                matplotlib.pyplot.close(one)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A text in Markdown."""
        plugin = SummaryMetadata.PluginData(plugin_name="text", content=b"")
        proto = TensorProto(
            dtype="DT_STRING",
            string_val=[text_string.encode()],
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
        )
        value = Summary.Value(tag=f"{tag}/text_summary", metadata=SummaryMetadata(plugin_data=plugin), tensor=proto)
        self._add(value, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Write hyperparameters and their results, as a separate run.

        Args:
            hparam_domain_discrete: the values that a hyperparameter may have, by its name.

        Raises:
            ValueError: a domain of a name that ``hparam_dict`` has not.
        """
        domains = hparam_domain_discrete or {}
        if unknown := domains.keys() - hparam_dict.keys():
            raise ValueError(
                f"SummaryWriter.add_hparams: hparam_domain_discrete names {sorted(unknown)}, hparam_dict not"
            )
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        plain = {k: v.item() if isinstance(v, Tensor) else v for k, v in hparam_dict.items()}
        experiment = api_pb2.Experiment(
            hparam_infos=[api_pb2.HParamInfo(name=name, type=_kind(value)) for name, value in plain.items()],
            metric_infos=[api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metric_dict],
        )
        for info in experiment.hparam_infos:
            info.domain_discrete.extend(domains.get(info.name, ()))
        start = plugin_data_pb2.SessionStartInfo()
        for name, value in plain.items():
            field = {api_pb2.DATA_TYPE_BOOL: "bool_value", api_pb2.DATA_TYPE_STRING: "string_value"}
            setattr(start.hparams[name], field.get(_kind(value), "number_value"), value)
        end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)
        for tag, data in (
            (metadata.EXPERIMENT_TAG, {"experiment": experiment}),
            (metadata.SESSION_START_INFO_TAG, {"session_start_info": start}),
            (metadata.SESSION_END_INFO_TAG, {"session_end_info": end}),
        ):
            content = plugin_data_pb2.HParamsPluginData(version=0, **data).SerializeToString()
            plugin = SummaryMetadata.PluginData(plugin_name=metadata.PLUGIN_NAME, content=content)
            value = Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin))
            self._add(value, global_step, None, folder)
        for tag, value in metric_dict.items():
            self._add(Summary.Value(tag=tag, simple_value=_number(value)), global_step, None, folder)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Write the ops of one call of a module, grouped by module. The call is executed.

        Args:
            model: the module.
            input_to_model: its input, or a tuple of them.
            verbose: print the graph too.
            use_strict_trace: for PyTorch's programs; changes nothing.

        Raises:
            ValueError: no input is given.
        """
        from oneflow.utils.tensorboard._graph import graph_of

        if input_to_model is None:
            raise ValueError("SummaryWriter.add_graph: input_to_model must be given, since the model is called")
        graph = graph_of(model, input_to_model)
        if verbose:
            sys.stdout.write(f"{graph}\n")
        self._file(None).add_event(Event(graph_def=graph.SerializeToString()))

    def flush(self) -> None:
        """Write what is waiting."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Write what is waiting and close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _bytes(x: Tensor) -> Tensor:
    """Floats in [0, 1] as bytes; bytes as they are."""
    return x if x.dtype == oneflow.uint8 else (x.float() * 255).clamp(0, 255).to(oneflow.uint8)


def _grid(x: Tensor, n_columns: int) -> Tensor:
    """Images (n, height, width, channels) as one, in rows of at most ``n_columns``; what is left over is black."""
    n, height, width, channels = x.shape
    n_columns = min(n, n_columns)
    n_rows = -(-n // n_columns)
    x = oneflow.cat([x, x.new_zeros((n_rows * n_columns - n, height, width, channels))])
    x = x.reshape(n_rows, n_columns, height, width, channels).transpose(1, 2)
    return x.reshape(n_rows * height, n_columns * width, channels)


def _kind(value: Any) -> Any:
    if isinstance(value, bool):
        return api_pb2.DATA_TYPE_BOOL
    return api_pb2.DATA_TYPE_STRING if isinstance(value, str) else api_pb2.DATA_TYPE_FLOAT64


def _png(x: Tensor) -> bytes:
    """Bytes (height, width, channels) of 1, 2, 3 or 4 channels as a PNG file."""
    height, width, channels = x.shape
    kinds = {1: 0, 2: 4, 3: 2, 4: 6}
    if channels not in kinds:
        raise ValueError(f"add_image: an image has 1 to 4 channels, not {channels}")
    # Each row begins with the number of its filter: none.
    rows = oneflow.cat([x.new_zeros((height, 1)), x.reshape(height, width * channels)], 1)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, kinds[channels], 0, 0, 0)
    data = zlib.compress(rows.contiguous().numpy().tobytes())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
