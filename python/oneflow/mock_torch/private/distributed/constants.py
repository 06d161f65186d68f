"""``torch.distributed.constants``: how long ranks wait for each other."""

from __future__ import annotations

import datetime

default_pg_timeout = default_pg_nccl_timeout = datetime.timedelta(minutes=30)
