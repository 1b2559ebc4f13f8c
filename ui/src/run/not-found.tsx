import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { ExecutionPage } from "../api/types.gen.ts";
import { Status } from "../look/status.tsx";
import { Empty } from "../parts/states.tsx";
import { href } from "../routes.ts";

const ID = 36; // characters
const PREFIX = 8; // of a whole id: runs that started in the same minute

/** A run that is not there, with those whose id begins alike. */
export function NotFound({ id }: { id: string }) {
  const prefix = id.length < ID ? id : id.slice(0, PREFIX);
  const similar = useResource<ExecutionPage>(withQuery("/executions", { prefix, limit: 5 }));
  return (
    <Empty text={`Run ${id} not found. It may have been deleted by the retention policy.`}>
      {similar.data.value?.items.map((run) => (
        <a key={run.execution_id} href={href("run", { id: run.execution_id })}>
          <code>{run.execution_id}</code> {run.path} <Status status={run.status} />
        </a>
      ))}
      <a href="/runs">All runs</a>
    </Empty>
  );
}
