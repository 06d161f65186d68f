"""What of torchrun's library the programs import that it starts: ``elastic.multiprocessing.errors``."""
