"""The names that paths in templates start with, with descriptions for the reference and for editors."""

from __future__ import annotations

NAMES = {
    "workload": "The inputs of the run: the `workload` of the playbook, overridden by the payload. Fixed.",
    "ctx": "State of the run, written with `set_ctx`.",
    "args": "The args of the token, overridden by the `args` of the task.",
    "args_by": "At a step with `join: all`, the args of each token by its source step.",
    "iter": "The current iteration: the item under the loop's `iterator` name, `index` from 0, `parent`, and what "
    "`set_iter` wrote.",
    "steps": "`steps.NAME.result`, `.status` and `.error` of the last finished run of a step. `steps` as a value is a "
    "map of all of them.",
    "tasks": "`tasks.LABEL`: the outcome of a task of this pipeline. That of a skipped one is "
    "`{status: skipped, result: null}`.",
    "_prev": "The result of the task before; null after an error that continued.",
    "_task": "The label of this task.",
    "_attempt": "Number of this attempt, from 1.",
    "outcome": "Outcome of the call: `status` (`ok` or `error`), `result`, `error`, `meta`, and the field of its kind.",
    "event": "The event that ended the step: `event.name` and `event.data`.",
    "keychain": "`keychain.NAME.FIELD`: a field of a credential. It is never stored.",
    "execution_id": "The id of the run.",
    "result": "The body, the rows or the value of the call.",
    "response": "The response: `status_code`, `headers`, `data`, `status`, `error`. Undefined if the call got none.",
    "this": "The outcome: `status`, `data`, `error`, `meta`.",
    "vars": "Variables of earlier steps.",
    "attempt": "Number of the attempt, from 1.",
    "max_attempts": "Maximum number of attempts.",
    "status_code": "The HTTP status of the response.",
    "error": "The error of the call, null if it has none; in a retry's condition, its message.",
    "success": "Whether the call succeeded.",
    "data": "The body of the response.",
}
"""Descriptions by name, in the order of the reference."""
