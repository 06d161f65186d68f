"""Speed beside PyTorch: ratios of medians, measured interleaved in one process."""
