"""``torch.masked.maskedtensor.reductions``: the names of the reductions of masked tensors."""

__all__: list[str] = []

REDUCE_NAMES = "sum mean amin amax argmin argmax prod all norm var std".split()
