/** Forks or retries a run: a new run that continues from one event, with changes. */

import { useResource } from "../api/resource.ts";
import type { Execution, Outline } from "../api/types.gen.ts";
import { Loaded } from "../parts/states.tsx";
import { NotFound } from "../run/not-found.tsx";
import type { ViewProps } from "../shell/app.tsx";
import { ForkForm } from "./form.tsx";
import "./page.css";

export default function ForkPage({ params }: ViewProps) {
  const id = params.id ?? "";
  const path = `/executions/${encodeURIComponent(id)}`;
  const details = useResource<Execution>(path);
  const outline = useResource<Outline>(`${path}/outline`);
  if (details.problem.value?.status === 404 && !details.data.value) return <NotFound id={id} />;
  return (
    <Loaded of={details}>
      {(run) => <Loaded of={outline}>{(log) => <ForkForm key={id} run={run} outline={log} />}</Loaded>}
    </Loaded>
  );
}
