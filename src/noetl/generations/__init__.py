"""Documents of other generations of the language, rewritten as noetl.io/v2 for `noetl migrate`.

Two generations are read: the one of `apiVersion: noetl.io/v10` with `set_ctx` at the step, and the newer one with
`input`, `output` and `set`. A generation is a list of rewrites, each of which edits one construct of the tree in place
and leaves a document without it unchanged. Playbooks mix the generations, so all lists apply to every document.

The tree is not validated yet: a rewrite skips constructs that it does not understand, and the checks report them.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Seq, unshare
from noetl.generations import credentials, inputs, names, patches, policies, programs, returns, steps
from noetl.generations.document import OtherDocument

Rewrite = Callable[[OtherDocument], None]

INPUTS: tuple[Rewrite, ...] = (
    inputs.move_below_tool,
    inputs.move_out_of_spec,
    inputs.rename_inputs,
    inputs.rename_input,
    inputs.move_under_spec,
    inputs.drop_inputs,
    returns.rewrite_return_step,
    returns.drop_return_step_of_calls,
    inputs.refuse_kinds,
)
"""Other names and places of inputs, in both generations. They come first: the others know tasks by their inputs."""
V10: tuple[Rewrite, ...] = (
    steps.set_version,
    steps.drop_options,
    steps.rewrite_routing,
    steps.give_step_args,
    policies.wrap_rules,
    policies.rewrite_retries,
)
INPUT_OUTPUT_SET: tuple[Rewrite, ...] = (
    names.rename_command_results,
    names.rename_everywhere,
    names.rename_in_rules,
    names.rename_in_arcs,
    names.refuse_elsewhere,
)
PATCHES: tuple[Rewrite, ...] = (
    patches.rewrite_rule_patches,
    patches.rewrite_task_patches,
    patches.rewrite_step_patches,
    patches.rewrite_arc_patches,
    names.rename_task_results,
)
"""`set_ctx` at the step is of v10, `set` of the newer generation."""
PROGRAMS: tuple[Rewrite, ...] = (programs.rewrite_python, programs.rewrite_sql, credentials.declare)
"""Code, SQL and credentials, which both generations write alike."""


def rewrite(root: Map, kinds: KindSource) -> OtherDocument:
    """Rewrite the document in place; the result lists constructs that could not be rewritten, and notes."""
    unshare(root)
    document = OtherDocument(root, kinds)
    if isinstance(root.get("workflow"), Seq) and isinstance(root.get("metadata"), Map):
        for edit in (*INPUTS, *V10, *INPUT_OUTPUT_SET, *PATCHES, *PROGRAMS):
            edit(document)
    return document
