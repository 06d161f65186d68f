"""Packages with loops and tasks of their own, run as a group of ``packages.py``, whose tools they use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from packages import (
    FOLDER,
    STEPS,
    WHO,
    Absent,
    adamw,
    array,
    images,
    labels,
    rng,
    same_weights,
    sgd,
    tensors,
    torch,
    trained,
    without_dropout,
)


def lightning_package() -> Iterator[dict[str, Any]]:
    """Lightning's newer package: its loop with metrics, and Fabric, which leaves the loop to the program."""
    import torchmetrics
    from lightning import LightningDataModule, LightningModule, Trainer
    from lightning.fabric import Fabric
    from lightning.pytorch import callbacks

    x, y = tensors(rng.standard_normal((24, 4)).astype("f4"))[0], labels(3, 24)
    data = torch.utils.data.TensorDataset(x, y)

    def net() -> Any:
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))

    class Rows(LightningDataModule):
        def train_dataloader(self) -> Any:
            return torch.utils.data.DataLoader(data, batch_size=6)

        def val_dataloader(self) -> Any:
            return torch.utils.data.DataLoader(data, batch_size=12)

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.right = net(), torchmetrics.Accuracy(task="multiclass", num_classes=3)

        def training_step(self, batch: Any, number: int) -> Any:
            return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch: Any, number: int) -> None:
            self.right(self.net(batch[0]), batch[1])
            self.log("right", self.right)
            self.log("loss", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]), prog_bar=True)

        def configure_optimizers(self) -> Any:
            return adamw(self.parameters())

    model = Model()
    same_weights("lightning_package", model)
    folder = FOLDER / f"lightning_package_{WHO}"
    best = callbacks.ModelCheckpoint(folder, monitor="loss")
    loop = Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        accumulate_grad_batches=2,
        callbacks=[best, callbacks.EarlyStopping("loss"), callbacks.ModelSummary(1)],
    )
    loop.fit(model, datamodule=Rows())
    yield {f"lightning_package/{key}": array(value) for key, value in loop.callback_metrics.items()}
    for key, value in Model.load_from_checkpoint(best.best_model_path, weights_only=True).state_dict().items():
        yield {f"lightning_package/weight {key}": array(value)}

    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    model = net()
    same_weights("fabric", model)
    model, optimizer = fabric.setup(model, sgd(model.parameters()))
    for rows, kinds in fabric.setup_dataloaders(torch.utils.data.DataLoader(data, batch_size=8)):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(rows), kinds)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=0.5)
        optimizer.step()
        yield {f"fabric/loss {int(rows[0, 0] * 1000)}": array(loss)}
    fabric.save(folder / "fabric.ckpt", {"model": model, "optimizer": optimizer})
    rest = fabric.load(folder / "fabric.ckpt", {"model": model, "optimizer": optimizer})
    assert rest == {}
    for key, value in model.state_dict().items():
        yield {f"fabric/weight {key}": array(value)}


def sentence_transformers() -> Iterator[dict[str, Any]]:
    """Sentences become vectors, which learn to be near those of their pairs; a model is saved and read again."""
    import transformers as hf

    available = hf.utils.import_utils.is_scipy_available()  # Asked before the package that is not there is found.
    Absent(*(() if available else ("scipy",)), "sklearn")
    from sentence_transformers import SentenceTransformer, util
    from sentence_transformers.sentence_transformer import losses, modules

    folder = FOLDER / f"bert_{WHO}"
    folder.mkdir()
    words = "a b the cat dog sat ran on mat road to house one two".split()
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    hf.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    wide = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = hf.BertConfig(vocab_size=5 + len(words), max_position_embeddings=16, **wide)
    without_dropout(config)
    hf.BertModel(config).save_pretrained(folder)

    words_to_vectors = modules.Transformer(str(folder))
    pooling = modules.Pooling(words_to_vectors.get_embedding_dimension(), pooling_mode="mean")
    model = SentenceTransformer(modules=[words_to_vectors, pooling, modules.Normalize()], device="cpu")
    same_weights("sentences", model)
    pairs = (["the cat sat on a mat", "one dog ran"], ["a cat on the mat", "a dog ran to the house"])
    criterion = losses.MultipleNegativesRankingLoss(model)
    optimizer = adamw(model.parameters())
    model.train()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = criterion([model.preprocess(side) for side in pairs], labels=None)
        loss.backward()
        optimizer.step()
        yield {f"sentences/loss {step}": array(loss)}
    model.eval()
    found = model.encode(pairs[0] + pairs[1], batch_size=2, show_progress_bar=False)
    yield {"sentences/vectors": found, "sentences/similar": array(model.similarity(found, found))}
    nearest = util.semantic_search(model.encode(["the dog"]), found, top_k=2)
    yield {"sentences/nearest": np.array([hit["corpus_id"] for hit in nearest[0]])}
    model.save(str(FOLDER / f"sentences_{WHO}"), create_model_card=False)
    again = SentenceTransformer(str(FOLDER / f"sentences_{WHO}"), device="cpu")
    assert np.array_equal(again.encode(pairs[0]), model.encode(pairs[0]))


def whisper() -> Iterator[dict[str, Any]]:
    """Sound becomes a spectrogram and the spectrogram text; a model learns a line, and the search for the best runs."""
    Absent("numba")  # For the times of words.
    import whisper as package
    from whisper.model import ModelDimensions, Whisper

    sizes = {"n_mels": 80, "n_vocab": 51864, "n_audio_ctx": 50, "n_text_ctx": 24}
    for side in ("audio", "text"):
        sizes |= {f"n_{side}_state": 32, f"n_{side}_head": 2, f"n_{side}_layer": 1}
    model = Whisper(ModelDimensions(**sizes))
    torch.nn.init.normal_(model.decoder.positional_embedding, std=0.02)
    sound = tensors(rng.standard_normal(16_000).astype("f4"))[0]
    spectrogram = package.log_mel_spectrogram(package.pad_or_trim(sound, 16_000))
    yield {"whisper/spectrogram": array(spectrogram)}
    tokenizer = package.tokenizer.get_tokenizer(multilingual=False)
    line = torch.tensor([[*tokenizer.sot_sequence, *tokenizer.encode(" some words"), tokenizer.eot]])

    def loss_of(model: Any, step: int) -> Any:
        output = model(spectrogram[None], line[:, :-1])
        return torch.nn.functional.cross_entropy(output[0], line[0, 1:]), output

    yield trained("whisper", model, loss_of, adamw)
    model.eval()
    for options in ({}, {"beam_size": 3}):
        asked = package.DecodingOptions(fp16=False, language="en", sample_len=5, without_timestamps=True, **options)
        found = package.decode(model, spectrogram, asked)
        yield {
            f"whisper/tokens {len(options)}": np.array(found.tokens),
            f"whisper/score {len(options)}": np.array(found.avg_logprob, "f4"),
        }


def ultralytics() -> Iterator[dict[str, Any]]:
    """Ultralytics' detectors, YOLOv5 first: what they learn of boxes, and what they find."""
    os.environ["YOLO_CONFIG_DIR"] = str(FOLDER)
    os.environ["YOLO_OFFLINE"] = "true"
    Absent("cv2", "matplotlib", "polars", "scipy")  # They read, draw and list images and results.
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel
    from ultralytics.utils import nms

    torch.set_default_dtype(torch.float64)  # Rounding would show: a step goes far with random weights.
    boxes = tensors(0.2 + 0.3 * rng.random((5, 4)))[0]
    batch = {"img": images(64, n=2).double(), "cls": labels(3, 5)[:, None].double(), "bboxes": boxes}
    batch["batch_idx"] = torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0])
    for name in ("yolov5n", "yolo11n"):
        model = DetectionModel(f"{name}.yaml", nc=3, verbose=False)
        model.args = get_cfg()
        same_weights(name, model)
        model.train()
        optimizer = sgd(model.parameters())
        for step in range(STEPS):
            optimizer.zero_grad()
            losses, _ = model(batch)
            losses.sum().backward()
            optimizer.step()
            yield {f"{name}/loss {step}": array(losses)}
        model.eval()
        with torch.no_grad():
            found = model.fuse(verbose=False)(batch["img"])[0]
        yield {f"{name}/found": array(found)}
        for i, kept in enumerate(nms.non_max_suppression(found, conf_thres=0.001)):
            yield {f"{name}/kept {i}": array(kept)}


def graph_networks() -> Iterator[dict[str, Any]]:
    """Layers over graphs, as lists of edges and as sparse matrices, batches of graphs, and the readers of both."""
    import torch_geometric.nn as graphs
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.utils import spmm, to_dense_adj, to_edge_index, to_torch_csr_tensor, to_undirected

    n, classes = 30, 3
    x = tensors(rng.standard_normal((n, 8)))[0]
    edges = to_undirected(tensors(rng.integers(0, n, (2, 90)))[0])
    kinds = tensors(rng.integers(0, classes, edges.shape[1]))[0]
    coo = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]).double(), (n, n)).coalesce()
    forms = {"edges": edges, "csr": coo.to_sparse_csr(), "coo": coo}

    def perceptron() -> Any:
        return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, classes))

    layers = {
        "gcn": lambda: graphs.GCNConv(8, classes),
        "sage": lambda: graphs.SAGEConv(8, classes),
        "gin": lambda: graphs.GINConv(perceptron()),
        "gat": lambda: graphs.GATConv(8, classes, heads=2),
    }
    of_edges = {
        "sage_max": lambda: graphs.SAGEConv(8, classes, aggr="max"),
        "gatv2": lambda: graphs.GATv2Conv(8, classes, heads=2),
        "transformer": lambda: graphs.TransformerConv(8, classes, heads=2),
        "chebyshev": lambda: graphs.ChebConv(8, classes, 3),
        "edge": lambda: graphs.EdgeConv(torch.nn.Linear(16, classes)),
        "two": lambda: graphs.GCN(8, 16, 2, classes),
    }

    def stepped(name: str, model: Any, *places: Any) -> dict[str, Any]:
        def loss_of(model: Any, step: int) -> Any:
            output = model(x, *places)
            return output.square().mean(), output

        return trained(f"graph_{name}", model.double(), loss_of, adamw)

    for form, places in forms.items():
        for name, made in layers.items():
            yield stepped(f"{name}_{form}", made(), places)
    for name, made in of_edges.items():
        yield stepped(name, made(), edges)
    yield stepped("relations", graphs.RGCNConv(8, classes, classes), edges, kinds)

    matrix = to_torch_csr_tensor(edges, size=(n, n)).double()
    yield {f"graph sums/{r}": array(spmm(matrix, x, r)) for r in ("sum", "mean", "min", "max")}
    yield {"graph edges": array(to_edge_index(matrix)[0]), "graph dense": array(to_dense_adj(edges))}
    data = [Data(x=x[i : i + 10], edge_index=tensors(rng.integers(0, 10, (2, 20)))[0]) for i in (0, 10, 20)]
    for i, batch in enumerate(DataLoader(data, batch_size=2)):
        yield {
            f"graph batch {i}": array(graphs.global_mean_pool(batch.x, batch.batch)),
            f"graph at {i}": array(batch.ptr),
        }
