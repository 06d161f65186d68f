"""The parts of a checkpoint: the restricted unpickler, storages as bytes, the format before zip archives."""
