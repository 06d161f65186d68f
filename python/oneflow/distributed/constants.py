"""How long ranks wait for each other by default: PyTorch's ``torch.distributed.constants``."""

from oneflow.distributed._names import default_pg_timeout

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_nccl_timeout = default_pg_timeout
