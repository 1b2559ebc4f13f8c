"""The checks, one file per family. Importing this package declares them all in `noetl.dsl.problem.CHECKS`."""

from noetl.dsl.checks import code, names, net, policies, templates

__all__ = ["code", "names", "net", "policies", "templates"]
