"""Losses of classification."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._import.registry import Call, handler


def _negative_log_likelihood(c: Call, logs: Any, target: Any, weight: Any) -> Any:
    ignored = c.get("ignore_index")
    target = target.to(flow.int64)
    counted = flow.ones_like(target).to(flow.bool) if ignored is None else target != ignored
    safe = flow.where(counted, target, flow.zeros_like(target))
    picked = -flow.gather(logs, 1, safe.unsqueeze(1)).squeeze(1)
    factor = counted.to(logs.dtype)
    if weight is not None:
        factor = factor * weight[safe]
    loss = picked * factor
    how = c.text("reduction", "mean")
    if how == "none":
        return loss
    return flow.sum(loss) if how == "sum" else flow.sum(loss) / flow.sum(factor)


@handler("NegativeLogLikelihoodLoss")
def negative_log_likelihood(c: Call, logs: Any, target: Any, weight: Any = None) -> Any:
    return _negative_log_likelihood(c, logs, target, weight)


@handler("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(c: Call, scores: Any, target: Any, weight: Any = None) -> Any:
    logs = flow.log_softmax(scores, 1)
    loss = _negative_log_likelihood(c, logs, target, weight)
    return (loss, logs) if c.n_outputs > 1 else loss
