"""The classic dialect: how it is detected, checked, made ready for the model, and rewritten into the canonical one.

    detect        tells it from the canonical dialect
    language      its keys, added to those of the canonical dialect
    chains        its parts, for checks;  templates  where its templates stand
    prepare       makes a document ready to be built;  build  builds it
    rewrite       rewrites it for `noetl migrate`;  routes  its routing;  writer, layout  as text, with comments
    dialect       all of it, as the compiler uses it

`prepare` and `rewrite` share what the dialects have in common:

    args              args of every task of the step, below the task's own
    retry, on_error   rules of the task's policy
    next              `next.arcs`, inclusive where there are several targets
    loop              `in`, `iterator`, `spec`
    vars.x            reads `ctx.vars.x`

After `prepare`, `vars`, `case` and `sink` stay with their step and become its `AfterCall`, which runs as

    events, state     what happens after a call, and how far that has come
    rules             the rules of the engine;  observe, report_checks  parts of them
    after_call        on a worker;  chain_run  its chains;  hooks  where both are hooked in

`rewrite` has another spelling for them:

    vars              a patch of `ctx.vars` in the rule that continues
    sink              a task after the call, then a `noop` that restores the result
    case, exclusive   guarded arcs; a branch that calls tools becomes a step of its own, `STEP_case_N`

A branch is evaluated twice: when the call is done, then on exit if nothing has routed. So the arcs stand in that
order too: branches that name `call.done` or `call.error`, those that name `step.exit`, `else`, and last `next`. A step
whose sink has failed ends with `step.failed` like one whose call has, so guards that see failures leave the sink out.

Constructs without a canonical spelling are listed: inclusive cases, `on_event`, `defer`, `poll`, computed targets,
chains retried as a whole, `vars` and `sink` of a loop, a `sink` after chains, `this.meta`, and templates that read
names which the place they would move to does not have (`event` in a chain, for instance). That both behave the same is
tested by running both.
"""
