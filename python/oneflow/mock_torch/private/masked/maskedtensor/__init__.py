"""``torch.masked.maskedtensor``: where PyTorch keeps its class of masked tensors."""
