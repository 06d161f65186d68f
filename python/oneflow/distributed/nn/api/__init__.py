"""Modules of other workers: see :mod:`oneflow.distributed.nn.api.remote_module`."""
