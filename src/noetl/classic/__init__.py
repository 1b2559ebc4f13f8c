"""The classic dialect: detection, checks, compilation, execution, and migration to the canonical dialect.

`dialect`, for the compiler, and `rewrite`, for `noetl migrate`, share `conversions` of keys that both dialects have:

    args              args of every task of the step, below the task's own
    retry, on_error   rules of the task's policy
    next              `next.arcs`, inclusive where there are several targets
    loop              `in`, `iterator`, `spec`
    vars.x            reads `ctx.vars.x`

`dialect` leaves `vars`, `case` and `sink` in their step; they become its `AfterCall`: `rules` decides it in the engine,
`after_call` runs it on a worker. `rewrite` converts them to:

    vars              a patch of `ctx.vars` in the rule that continues
    sink              a task after the call, then a `noop` that restores the result
    case, exclusive   guarded arcs; a branch that calls tools becomes a step of its own, `STEP_case_N`

A branch is evaluated twice: when the call is done, then on exit if nothing has routed. The arcs have the same
order: branches that name `call.done` or `call.error`, those that name `step.exit`, `else`, and last `next`. A failed
sink ends its step with `step.failed`, like a failed call, so guards that see failures exclude failures of the sink.

Constructs without a canonical form are reported, as are templates that read names that do not exist at their new place
(`event` in a chain, for instance). Tests run both forms and compare them.
"""
