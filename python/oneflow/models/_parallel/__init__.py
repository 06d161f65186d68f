"""The parts of ``oneflow.models.parallel``, one file for each kind of parallelism."""
