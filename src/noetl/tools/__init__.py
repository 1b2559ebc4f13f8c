"""Tools: one file per kind, found through `noetl.tools.registry`."""
