/** Starts a run: a form of the playbook's inputs, or JSON. */

import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { Execution, ExecutionPage, PlaybookText } from "../api/types.gen.ts";
import { parameter, setQuery } from "../location.ts";
import { Select } from "../parts/field.tsx";
import { Menu } from "../parts/menu.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { encodedPath } from "../playbooks/paths.ts";
import { zone } from "../preferences.ts";
import { href } from "../routes.ts";
import type { ViewProps } from "../shell/app.tsx";
import { shortId } from "../text/number.ts";
import { millis, moment } from "../text/time.ts";
import { StartForm } from "./form.tsx";
import "./page.css";

const RECENT = 10;

export default function StartPage({ params }: ViewProps) {
  const path = params.path ?? "";
  const [version, from] = [parameter("version"), parameter("from")];
  const playbook = useResource<PlaybookText>(withQuery(`/playbooks/${encodedPath(path)}`, { version, with: "form" }));
  const source = useResource<Execution>(from ? `/executions/${encodeURIComponent(from)}` : null);
  if (playbook.problem.value?.status === 404 && !playbook.data.value)
    return (
      <Empty text={`${version ? `Version ${version} of playbook` : "Playbook"} ${path} not found.`}>
        <a href={href("playbooks")}>All playbooks</a>
      </Empty>
    );
  return (
    <div class="page start">
      <Loaded of={playbook}>
        {(data) => (
          <>
            <header>
              <h1>Start {path}</h1>
              <Select
                label="Version"
                value={String(data.version)}
                options={data.versions.map(({ version }) => ({ value: String(version), label: `version ${version}` }))}
                onChange={(value) => setQuery({ version: value })}
              />
            </header>
            {from && !source.data.value && source.problem.value?.status === 404 && (
              <p class="warning">Run {from} not found: its inputs cannot be copied.</p>
            )}
            {from && !source.data.value && !source.problem.value ? null : (
              <StartForm
                key={`${data.version}/${from}`}
                playbook={data}
                source={source.data.value ?? null}
                copy={<CopyFrom path={path} />}
              />
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}

/** Recent runs of the playbook, whose inputs can be copied. */
function CopyFrom({ path }: { path: string }) {
  const runs = useResource<ExecutionPage>(withQuery("/executions", { path, limit: RECENT })).data.value?.items ?? [];
  if (!runs.length) return null;
  const items = runs.map((run) => ({
    label: `${shortId(run.execution_id)}, ${run.status}`,
    hint: moment(millis(run.started), Date.now(), zone.value),
    onChoose: () => setQuery({ from: run.execution_id }),
  }));
  return (
    <Menu label="Copy the inputs of a run" items={items}>
      Copy from a run
    </Menu>
  );
}
