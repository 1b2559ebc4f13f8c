"""Two good playbooks that use most of the language, for tests that break them in every way."""

from __future__ import annotations

CANONICAL = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: rich, path: tests/rich, version: 3, description: "Uses {{ much }}", owner: {team: [a, b]}}
keychain:
  - {name: db, kind: postgres_credential, credential: main}
  - {name: api, kind: secret_manager, provider: env, key: API, map: {token: API_TOKEN}}
executor:
  profile: distributed
  version: noetl-runtime/2
  spec:
    entry_step: start
    final_step: finish
    output: {pages: "{{ ctx.pages }}", all: ["{{ steps.load.result }}"]}
    pool: batch
    timeout: 2h
    on_failure: finish
    max_step_runs: 50
    policy: {limits: {max_payload_bytes: 1000}, results: {reference_first: true}}
    results: {inline_bytes: 100, store: {kind: object, url: "s3://bucket/x"}}
    http: {headers: {accept: json}}
    retry: 2
workload: {url: "https://x.test", ids: [1, 2], today: "{{ now() }}"}
workbook:
  tasks:
    ping: {kind: http, url: "{{ workload.url }}/ping", spec: {timeout: {connect: 1, read: 5s}}}
workflow:
  - step: start
    desc: Begin
    spec:
      timeout: 5m
      join: any
      timers: {late: 1h}
      policy:
        admit:
          mode: exclusive
          rules:
            - {when: "{{ workload.url != '' }}", then: {allow: true}}
            - else: {then: {allow: false}}
    tool:
      - fetch:
          kind: http
          url: "{{ workload.url }}/{{ iter.page | default(1) }}"
          params: {q: [1, two]}
          auth: api
          args: {n: 1}
          spec:
            timeout: 30s
            on_lost: error
            max_visits: 9
            policy:
              rules:
                - {when: "{{ ctx.pages | default(false) }}", then: {do: skip}}
                - when: "{{ outcome.status == 'error' and outcome.http.status in [429, 500] }}"
                  then: {do: retry, attempts: 5, backoff: exponential, delay: 2, max_delay: 1m, jitter: true}
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - when: "{{ outcome.result.data.more }}"
                  then: {do: jump, to: fetch, delay: "{{ 1 }}", set_iter: {page: "{{ iter.page | default(1) + 1 }}"}}
                - else: {then: {do: continue, set_ctx: {pages: {$add: 1}, last: "{{ outcome.result.data }}"}}}
      - {name: note, kind: noop, result: {seen: "{{ tasks.fetch.result }}", raw: [null, true, 1.5]}}
      - {kind: workbook, name: ping}
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: load, when: "{{ event.name == 'step.done' }}", args: {rows: "{{ steps.start.result }}"}}
        - {step: side, spec: {delay: 10s}}
  - step: load
    spec: {sandbox: {kind: bubblewrap, network: false, read: [/data]}, python: {libs: [polars]}}
    loop:
      in: "{{ workload.ids }}"
      iterator: id
      spec: {mode: parallel, max_in_flight: 4, on_error: continue, collect: true, policy: {exec: local}}
    tool:
      - save:
          kind: postgres
          auth: db
          query: "insert into t values ({{ iter.id }}, {{ args.rows }})"
          spec: {exactly_once: true}
      - each:
          kind: iterator
          in: "{{ _prev }}"
          iterator: row
          spec: {mode: sequential, max_in_flight: 2}
          tool:
            - run: {kind: python, code: "result = row", args: {row: "{{ iter.row }}", id: "{{ iter.parent.id }}"}}
    next: {arcs: [{step: meet}]}
  - step: side
    tool: {kind: wait, signal: go, spec: {timeout: 1d}}
    next: {arcs: [{step: meet}]}
  - step: meet
    spec: {join: all}
    tool: [{kind: playbook, path: other, args: {by: "{{ args_by.load }}"}}]
  - step: finish
    tool: {kind: noop, result: "{{ args.summary.status }}"}
"""

CLASSIC = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: old, path: tests/old}
workload: {url: "https://x.test", ids: [1, 2]}
workbook:
  - name: call
    tool: {kind: http, url: "{{ workload.url }}"}
    sink: {tool: {kind: postgres, auth: db}, table: calls}
workflow:
  - step: start
    args: {a: 1, b: "{{ workload.url }}"}
    tool: {kind: python, code: "result = a", retry: {max_attempts: 2}}
    vars: {x: "{{ result }}"}
    retry:
      max_attempts: 4
      initial_delay: 0.5
      backoff_multiplier: 3
      retry_when: "{{ attempt < 3 }}"
      stop_when: "{{ success }}"
      on: error
      scope: tool
      backoff: {type: linear, delay_seconds: 1, max_delay_seconds: 9, jitter: true}
    sink:
      tool: {kind: postgres, auth: db}
      table: results
      args: {x: "{{ result }}"}
      when: "{{ result }}"
      retry: {max_attempts: 2}
    case:
      - when: "{{ event.name == 'call.done' and result > 1 }}"
        then:
          - check: {tool: {kind: http, url: "{{ workload.url }}"}, args: {q: 1}, retry: {max_attempts: 3}}
          - set: {y: "{{ response.status }}"}
          - sink: {tool: {kind: duckdb, database: x.db}, table: t}
          - next: {to: [{step: poll, args: {z: 1}}, many], priority: 3, spec: {delay: 5}}
        priority: 2
        spec: {cache: true}
        retry: {max_attempts: 2}
      - when: "{{ event.name == 'call.error' }}"
        then: {set: {failed: true}, next: many}
      - else: [{next: [many]}]
    spec: {case_mode: exclusive, eval_mode: on_entry, branch_order: priority, next_policy: end_step, on_error: fail}
    next: [many, {step: poll, args: {k: v}}]
  - step: poll
    spec: {case_mode: inclusive, timers: {late: 5}}
    tool: {kind: workbook, name: call}
    case:
      - when: "{{ event.name == 'call.done' }}"
        then:
          - again:
              tool: {kind: http, url: "{{ vars.x }}", spec: {async: true}}
              poll: {until: "{{ result.ready }}", interval: 2, max_attempts: 9, deadline: 1m}
          - next: "{{ vars.y }}"
      - when: "{{ event.name == 'step.exit' }}"
        then: {next: {to: [{step: "{{ vars.x }}"}], policy: defer}, retry: {scope: chain}}
    next: many
  - step: many
    loop: {collection: "{{ workload.ids }}", element: id, mode: async, spec: {batch_size: 3}}
    tool: [{kind: python, code: "result = id", args: {id: "{{ iter.id }}", i: "{{ loop_index }}"}}]
    vars: {all: "{{ result }}"}
    sink: {tool: {kind: postgres, auth: db}, table: many}
    next: last
  - step: last
    tool: {kind: noop}
"""
