import { useResource } from "../api/resource.ts";
import type { Graph } from "../api/types.gen.ts";
import { Loaded } from "../parts/states.tsx";
import type { RunModel } from "./model.ts";
import { select } from "./selection.ts";
import "./graph.css";

export function GraphPane({ model }: { model: RunModel }) {
  const digest = digestAt(model);
  const graph = useResource<Graph>(digest ? `/graphs/${digest}?run_row=1` : null);
  return (
    <section class="graph" aria-label="Graph">
      <Loaded of={graph}>
        {(data) => (
          <ul>
            {data.nodes.map((node) => (
              <li key={node.name}>
                <button type="button" onClick={() => select({ step: node.name })}>
                  {node.name}
                </button>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  );
}

/** The playbook in force at the event of the view: a fork can change it. */
function digestAt(model: RunModel): string | null {
  let digest: string | null = null;
  for (const [seq, hash] of model.outline.value?.digests ?? [])
    if (Number(seq) <= model.at.value || digest === null) digest = String(hash);
  return digest;
}
