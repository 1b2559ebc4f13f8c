import type { Signal } from "@preact/signals";
import { useResource } from "../api/resource.ts";
import type { Graph, StoredPlaybook } from "../api/types.gen.ts";
import type { Validation } from "../editor/validation.ts";
import { Button } from "../parts/button.tsx";
import { GraphDrawing } from "../parts/graph/drawing.tsx";
import { lazy } from "../parts/lazy.tsx";
import { Loaded } from "../parts/states.tsx";

/** Loaded on demand: it contains the editor. */
const EditedPlaybook = lazy(() => import("./edited-playbook.tsx"));

export interface PlaybookChoiceProps {
  id: string;
  digest: string; // of the playbook in force at the event
  at: number;
  latest: number;
  edited: Signal<string | null>; // null: the same playbook
  validation: Validation;
  onFork: (seq: number) => void;
  plan: ReadonlyMap<string, string>; // step: kept, runs again or next
}

/** The playbook of the new run: the same, or an edited one that is validated and can be replayed against the log. */
export function PlaybookChoice(props: PlaybookChoiceProps) {
  const { digest, edited, validation, plan } = props;
  const graph = useResource<Graph>(edited.value === null ? `/graphs/${digest}?run_row=1` : null).data.value;
  const source = useResource<StoredPlaybook>(edited.value === null ? null : `/texts/${digest}`);
  return (
    <section class="fork-part fork-playbook">
      <header>
        <h2>Playbook</h2>
        <Button
          pressed={edited.value === null}
          onClick={() => {
            edited.value = null;
            validation.stop();
          }}
        >
          Same
        </Button>
        <Button
          pressed={edited.value !== null}
          role="author"
          onClick={() => {
            edited.value ??= "";
          }}
        >
          Edited
        </Button>
      </header>
      {edited.value === null ? (
        graph && (
          <GraphDrawing
            graph={graph}
            row={(step) => plan.has(step) && <small class={`replay-target ${plan.get(step)}`}>{plan.get(step)}</small>}
          />
        )
      ) : (
        <Loaded of={source}>{(data) => <EditedPlaybook {...props} source={data.text} />}</Loaded>
      )}
    </section>
  );
}
