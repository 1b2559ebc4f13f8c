import { useResource } from "../api/resource.ts";
import type { ExecutionPage } from "../api/types.gen.ts";
import { Status } from "../look/status.tsx";
import { Loaded } from "../parts/states.tsx";
import { href } from "../routes.ts";

export default function RunsPage() {
  const runs = useResource<ExecutionPage>("/executions?limit=100");
  return (
    <div class="page">
      <h1>Runs</h1>
      <Loaded of={runs}>
        {(page) => (
          <ul>
            {page.items.map((run) => (
              <li key={run.execution_id}>
                <Status status={run.status} /> <a href={href("run", { id: run.execution_id })}>{run.path}</a>{" "}
                {run.activity}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </div>
  );
}
