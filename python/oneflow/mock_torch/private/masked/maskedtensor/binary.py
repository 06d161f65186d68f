"""``torch.masked.maskedtensor.binary``: the functions of two masked tensors, by name and as ops."""

from oneflow import ops

__all__: list[str] = []

BINARY_NAMES = """
    add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide
    floor_divide fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge
    greater greater_equal gt less_equal lt less maximum minimum fmax fmin not_equal
""".split()
_NOT_IN_PLACE = ("logaddexp", "logaddexp2", "fmin", "minimum", "maximum", "fmax")
INPLACE_BINARY_NAMES = [f"{n}_" for n in BINARY_NAMES if n not in _NOT_IN_PLACE]
NATIVE_BINARY_FNS = [getattr(ops.aten, n) for n in BINARY_NAMES]
NATIVE_INPLACE_BINARY_FNS = [getattr(ops.aten, n) for n in INPLACE_BINARY_NAMES]
