import { useResource } from "../../api/resource.ts";
import type { Related, StepRun } from "../../api/types.gen.ts";
import { href } from "../../routes.ts";
import { counted, shortId } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import { selection } from "../selection.ts";

const MAX_LINKS = 5;

/** Links to the output of child runs: of the selected step run, or of the whole run. */
export function ChildOutput({ model }: { model: RunModel }) {
  const { run, item } = selection.value;
  const total = model.details.value?.children ?? 0;
  const query = new URLSearchParams({ run, ...(item === null ? {} : { item: String(item) }) });
  const ofRun = useResource<StepRun>(total && run ? model.path(`step-run?${query}`) : null);
  const all = useResource<Related>(total && !run ? model.path(`related?limit=${MAX_LINKS}`) : null);
  const ids = run ? (ofRun.data.value?.children ?? []) : (all.data.value?.children.items.map(idOf) ?? []);
  if (!ids.length) return null;
  const more = (run ? ids.length : total) - MAX_LINKS;
  return (
    <span>
      Output of child runs:{" "}
      {ids.slice(0, MAX_LINKS).map((id) => (
        <a key={id} class="log-child mono" href={href("run", { id }, { tab: "logs" })}>
          {shortId(id)}
        </a>
      ))}
      {more > 0 && <a href={href("run", { id: model.id }, { tab: "related" })}>{counted(more, "more", "more")}</a>}
    </span>
  );
}

function idOf(item: { execution_id: string }): string {
  return item.execution_id;
}
