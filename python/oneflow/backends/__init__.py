"""Compute backends: switches and queries under the names of ``torch.backends``.

A switch that has no effect here is kept and read back, so that scripts that set it run; its docstring says so.
"""

from __future__ import annotations

from oneflow.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum, quantized, xnnpack

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized", "xnnpack"]
