"""The older place of :func:`oneflow.distributed.fsdp.fully_shard`."""
