import { useResource } from "../api/resource.ts";
import type { Difference, Graph } from "../api/types.gen.ts";
import { Button } from "../parts/button.tsx";
import { GraphDrawing } from "../parts/graph/drawing.tsx";
import { ProblemBox } from "../parts/states.tsx";
import { stepOf } from "../run/selection.ts";
import { jsonLine } from "../text/json-line.ts";
import { count } from "../text/number.ts";
import type { ReplayRun } from "./replay.ts";

interface ReplayResultProps {
  replay: ReplayRun;
  text: string; // the current text
  latest: number; // events of the run
  at: number; // the event of the fork
  digest: string; // of the playbook that ran
  onFork: (seq: number) => void;
}

/** Progress, no difference, or the first difference side by side. */
export function ReplayResult({ replay, text, latest, at, digest, onFork }: ReplayResultProps) {
  const [result, problem] = [replay.result.value, replay.problem.value];
  if (problem) return <ProblemBox problem={problem} />;
  if (replay.running.value)
    return (
      <div class="replay-progress">
        <progress max={latest} value={result?.scanned_to ?? 0} aria-label="Replay" />
        <span>
          event {count(result?.scanned_to ?? 0)} of {count(latest)}
        </span>
        <Button onClick={() => replay.stop()}>Stop</Button>
      </div>
    );
  if (!result) return <p class="secondary">Replay decides the log again with this playbook and runs nothing.</p>;
  if (replay.text.value !== text) return <p class="warning">The playbook changed after the replay.</p>;
  if (result.equal === null) return <p class="secondary">Stopped at event {count(result.scanned_to)}.</p>;
  const difference = result.first_difference;
  if (!difference)
    return <p class="warning good">All decisions up to event {count(result.scanned_to)} are the same.</p>;
  return <FirstDifference difference={difference} at={at} digest={digest} onFork={onFork} />;
}

function FirstDifference({
  difference,
  at,
  digest,
  onFork,
}: {
  difference: Difference;
  at: number;
  digest: string;
  onFork: (seq: number) => void;
}) {
  const graph = useResource<Graph>(`/graphs/${digest}?run_row=1`).data.value;
  const { seq, event_type, logged, replayed, message } = difference;
  const steps = new Set([logged, replayed].map((side) => stepOf(String(side?.run ?? ""))));
  const targets = { logged: targetsOf(graph, logged), replayed: targetsOf(graph, replayed) };
  return (
    <div class="replay-difference">
      <p class="warning">
        First difference: event {count(seq)}, {event_type}: {message}.
        {seq > at && ` The fork begins before it, at event ${count(at)}.`}
      </p>
      <div class="replay-sides">
        <Side title="Logged" value={logged} other={replayed} />
        <Side title="Replayed" value={replayed} other={logged} />
      </div>
      {seq > 1 && seq <= at && <Button onClick={() => onFork(seq - 1)}>Fork before this event</Button>}
      {graph && (
        <GraphDrawing
          graph={graph}
          marked={steps}
          row={(name) =>
            (["logged", "replayed"] as const)
              .filter((side) => targets[side].has(name))
              .map((side) => (
                <small key={side} class={`replay-target ${side}`}>
                  {side}
                </small>
              ))
          }
        />
      )}
    </div>
  );
}

type Decision = Record<string, unknown> | null;

/** The steps to which the arcs of a decision lead. */
function targetsOf(graph: Graph | undefined, decision: Decision): Set<string> {
  const step = stepOf(String(decision?.run ?? ""));
  const arcs = Array.isArray(decision?.selected) ? decision.selected : [];
  const edges = graph?.edges.filter(({ source, arc }) => graph.nodes[source]?.name === step && arcs.includes(arc));
  return new Set(edges?.map(({ target }) => graph?.nodes[target]?.name ?? ""));
}

function Side({ title, value, other }: { title: string; value: Decision; other: Decision }) {
  return (
    <section>
      <h3>{title}</h3>
      {value ? (
        <dl>
          {Object.entries(value).map(([name, part]) => (
            <div key={name} class={JSON.stringify(part) === JSON.stringify(other?.[name]) ? "" : "differs"}>
              <dt>{name}</dt>
              <dd class="mono">{jsonLine(part)}</dd>
            </div>
          ))}
        </dl>
      ) : (
        <p class="secondary">No event</p>
      )}
    </section>
  );
}
