"""Algorithms over modules that ``torch.distributed`` keeps: checkpointing by wrapping."""
