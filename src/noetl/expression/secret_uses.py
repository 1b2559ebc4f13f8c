"""Static check: finds places where a template transforms a secret of the keychain.

It does not follow handles from other sources and names that the template binds: `sealed.py` rejects those at run time.
"""

from __future__ import annotations

from noetl.errors import TemplateFailed
from noetl.expression import nodes
from noetl.expression.functions import SQL_FILTERS
from noetl.expression.nodes import start, static_path
from noetl.expression.template_parser import syntax_tree
from noetl.expression.values import ENCODINGS, SECRET_HINT, SECRET_MESSAGE

ROOT = "keychain"
# Filters and tests that may be applied to a secret.
PASSES_ON = (*ENCODINGS, *SQL_FILTERS, "default", "d", "defined", "undefined", "none")
KEEPS = ("dict", "namespace")  # functions that return their arguments unchanged


def changed_secrets(source: str) -> list[TemplateFailed]:
    """The errors of operations that would read a secret, in source order. The source must be valid."""
    if ROOT not in source:
        return []
    candidates = syntax_tree(source).find_all((nodes.Expr, nodes.For))
    offsets = sorted({start(node) for node in candidates if any(map(_is_secret, _looked_into(node)))})
    return [TemplateFailed(SECRET_MESSAGE, source, offset, SECRET_HINT) for offset in offsets]


def _looked_into(node: nodes.Node) -> list[nodes.Expr | None]:
    """The parts of a node whose values it reads."""
    match node:
        case nodes.Filter() | nodes.Test() if node.name not in PASSES_ON:
            return [node.node, *node.args, *node.kwargs.values()]
        case nodes.Compare():
            return [node.expr, *(operand for _, operand in node.ops)]
        case nodes.Binary() if node.op not in ("and", "or"):
            return [node.first, node.second]
        case nodes.Unary() if node.op != "not":
            return [node.node]
        case nodes.Getitem() if not (isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str)):
            return [node.node]
        case nodes.Call(node=nodes.Getattr() as method):
            return [method.node, *node.args, *node.kwargs.values()]
        case nodes.Call(node=nodes.Name(name=name)) if name not in KEEPS:
            return [*node.args, *node.kwargs.values()]
        case nodes.For():
            return [node.iter]
    return []


def _is_secret(node: nodes.Node | None) -> bool:
    match node:
        case nodes.Concat():
            return any(map(_is_secret, node.nodes))
        case nodes.CondExpr():
            return _is_secret(node.expr1) or _is_secret(node.expr2)
        case nodes.Binary(op="and" | "or"):
            return _is_secret(node.first) or _is_secret(node.second)
        case nodes.Filter() if node.name in PASSES_ON:
            return _is_secret(node.node)
    path = static_path(node)
    return path is not None and path[0][0] == ROOT and len(path[0]) > 2
