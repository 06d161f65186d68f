"""What a checkpoint is made of: the restricted unpickler, storages as bytes, the format before archives."""
