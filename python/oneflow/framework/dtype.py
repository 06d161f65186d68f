"""Dtypes of OneFlow and NumPy, one from the other."""

from __future__ import annotations

from typing import Any

import numpy

import oneflow


def convert_oneflow_dtype_to_numpy_dtype(oneflow_dtype: oneflow.dtype) -> Any:
    """The type of NumPy's scalars of a dtype.

    Raises:
        TypeError: NumPy has no such type.

    Example::

        >>> from oneflow.framework.dtype import convert_oneflow_dtype_to_numpy_dtype
        >>> convert_oneflow_dtype_to_numpy_dtype(oneflow.float32)
        <class 'numpy.float32'>
    """
    if oneflow_dtype == oneflow.bfloat16:
        raise TypeError("NumPy has no bfloat16")
    return oneflow.empty(0, dtype=oneflow_dtype).numpy().dtype.type


def convert_numpy_dtype_to_oneflow_dtype(numpy_dtype: Any) -> oneflow.dtype:
    """Return the dtype of tensors created from arrays of a NumPy dtype.

    Raises:
        TypeError: no dtype of tensors holds such elements.

    Example::

        >>> import numpy
        >>> from oneflow.framework.dtype import convert_numpy_dtype_to_oneflow_dtype
        >>> convert_numpy_dtype_to_oneflow_dtype(numpy.dtype("int32"))
        oneflow.int32
    """
    return oneflow.from_numpy(numpy.empty(0, numpy_dtype)).dtype
