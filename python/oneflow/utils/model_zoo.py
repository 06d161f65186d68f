"""The older place of :func:`oneflow.hub.load_state_dict_from_url`."""

from oneflow.hub import load_state_dict_from_url

__all__ = ["load_state_dict_from_url", "load_url"]

load_url = load_state_dict_from_url
