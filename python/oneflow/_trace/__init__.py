"""The parts of `nn.Graph`, `oneflow.compile` and saved programs, one file each; `nn/graph.py` is the class itself.

`structure` flattens arguments and lists what a trace depends on, `building` tracks modules during a trace, `places`
finds where an op stands in the user's program. `tracing` traces a graph into a `program`; `feeding` feeds it, `report`
draws it and `saved` writes it to disk, `runtime_state` into a dictionary.
"""
