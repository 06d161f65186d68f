"""See :mod:`oneflow.distributed.elastic.multiprocessing.errors`."""
