"""Strings: they are computed in Python."""

from __future__ import annotations

import re
from typing import Any

import oneflow as flow
from oneflow.onnx._import.registry import Call, handler
from oneflow.onnx._import.values import Strings


@handler("StringConcat")
def string_concat(c: Call, a: Strings, b: Strings) -> Any:
    shape = flow.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    left, right = (_spread(x, shape) for x in (a, b))
    return Strings(shape, [p + q for p, q in zip(left, right, strict=True)])


def _spread(x: Strings, shape: Any) -> list[str]:
    index = flow.arange(len(x.items)).reshape(x.shape).expand(shape)
    return [x.items[i] for i in index.flatten().tolist()]


@handler("StringSplit")
def string_split(c: Call, x: Strings) -> Any:
    delimiter, most = c.text("delimiter", ""), c.get("maxsplit", -1)
    parts = [s.split(delimiter or None, most if most is not None else -1) if s else [] for s in x.items]
    longest = max((len(p) for p in parts), default=0)
    items = [s for p in parts for s in p + [""] * (longest - len(p))]
    counts = flow.tensor([len(p) for p in parts], dtype=flow.int64).reshape(x.shape)
    return Strings((*x.shape, longest), items), counts


@handler("StringNormalizer")
def string_normalizer(c: Call, x: Strings) -> Any:
    case, sensitive = c.text("case_change_action", "NONE"), c.get("is_case_sensitive", 0)
    stopwords = {s.decode() for s in c.get("stopwords") or []}
    if not sensitive:
        stopwords = {s.lower() for s in stopwords}
    kept = [s for s in x.items if (s if sensitive else s.lower()) not in stopwords]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
    kept = [change(s) for s in kept] or [""]
    return Strings((1, len(kept)) if len(x.shape) == 2 else (len(kept),), kept)


@handler("RegexFullMatch")
def regex_full_match(c: Call, x: Strings) -> Any:
    try:
        pattern = re.compile(c.text("pattern"))
    except (re.error, OverflowError) as error:
        raise ValueError(f"the pattern {c.text('pattern')!r} is none: {error}") from None
    found = [pattern.fullmatch(s) is not None for s in x.items]
    return flow.tensor(found, dtype=flow.bool).reshape(x.shape)


@handler("TfIdfVectorizer")
def tf_idf(c: Call, x: Any) -> Any:
    strings = isinstance(x, Strings)
    pool = [s.decode() for s in c.get("pool_strings")] if strings else list(c.get("pool_int64s"))
    starts, columns = list(c.need("ngram_counts")), list(c.need("ngram_indexes"))
    grams: dict[tuple[Any, ...], int] = {}
    for length, begin in enumerate(starts, start=1):
        end = starts[length] if length < len(starts) else len(pool)
        for i in range(begin, end, length):
            grams[tuple(pool[i : i + length])] = len(grams)
    shape = tuple(x.shape)
    flat = x.items if strings else x.flatten().tolist()
    rows = [flat] if len(shape) == 1 else [flat[i * shape[1] : (i + 1) * shape[1]] for i in range(shape[0])]
    low, high, most = c.need("min_gram_length"), c.need("max_gram_length"), c.need("max_skip_count")
    weights, mode = c.get("weights"), c.text("mode")
    made = []
    for row in rows:
        counts = [0.0] * (max(columns) + 1)
        for length in range(low, high + 1):
            for skip in range(most + 1 if length > 1 else 1):
                for i in range(len(row) - (length - 1) * (skip + 1)):
                    gram = grams.get(tuple(row[i + j * (skip + 1)] for j in range(length)))
                    if gram is not None:
                        counts[columns[gram]] += 1
        for gram in range(len(grams)):
            weight = weights[gram] if weights else 1.0
            place = columns[gram]
            if mode == "IDF":
                counts[place] = weight if counts[place] > 0 else 0.0
            elif mode == "TFIDF":
                counts[place] *= weight
        made.append(counts)
    y = flow.tensor(made, dtype=flow.float32)
    return y[0] if len(shape) == 1 else y
