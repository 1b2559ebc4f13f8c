/** One playbook: its text, graph, runs and versions. */

import { useEffect } from "preact/hooks";
import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { Graph, PlaybookText } from "../api/types.gen.ts";
import { go, parameter, setQuery } from "../location.ts";
import { Status } from "../look/status.tsx";
import { LinkButton } from "../parts/button.tsx";
import { Copy } from "../parts/copy.tsx";
import { Select } from "../parts/field.tsx";
import { GraphDrawing } from "../parts/graph/drawing.tsx";
import { Moment } from "../parts/moment.tsx";
import { SourceText } from "../parts/source-text.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { href } from "../routes.ts";
import type { ViewProps } from "../shell/app.tsx";
import { offerActions } from "../shell/palette-state.ts";
import { encodedPath } from "./paths.ts";
import { PlaybookRuns } from "./runs.tsx";
import { Versions } from "./versions.tsx";
import "./playbook.css";

export default function PlaybookPage({ params }: ViewProps) {
  const path = params.path ?? "";
  const version = parameter("version");
  const resource = useResource<PlaybookText>(withQuery(`/playbooks/${encodedPath(path)}`, { version }));
  if (resource.problem.value?.status === 404 && !resource.data.value)
    return (
      <Empty text={`${version ? `Version ${version} of playbook` : "Playbook"} ${path} not found.`}>
        <a href={href("playbooks")}>All playbooks</a>
        {version ? (
          <a href={href("playbook", { path })}>The latest version</a>
        ) : (
          <a href={href("edit", { path })}>Write it</a>
        )}
      </Empty>
    );
  return (
    <div class="page">
      <Loaded of={resource}>{(playbook) => <Content playbook={playbook} />}</Loaded>
    </div>
  );
}

function Content({ playbook }: { playbook: PlaybookText }) {
  const { path, version, versions, last_run: last } = playbook;
  const tab = parameter("tab") || "text";
  const older = version === versions[0]?.version ? null : version;
  useEffect(
    () =>
      offerActions("playbook", () => [
        { label: `Start ${path}...`, run: () => go(href("start", { path }, { version: older })) },
        { label: `Edit ${path}`, run: () => go(href("edit", { path }, { version: older })) },
      ]),
    [path, older],
  );
  return (
    <>
      <header>
        <div class="playbook-title">
          <h1>{path}</h1>
          <Select
            label="Version"
            value={String(version)}
            options={versions.map((row) => ({
              value: String(row.version),
              label: `version ${row.version}${row.label ? ` (${row.label})` : ""}`,
            }))}
            onChange={(value) => setQuery({ version: value, line: null })}
          />
          {last && (
            <a href={href("run", { id: last.execution_id })} class="playbook-last-run">
              <Status status={last.status} soft />
              <span>
                last run <Moment at={last.started} />
              </span>
            </a>
          )}
        </div>
        <div class="playbook-actions">
          <Copy text={`noetl exec ${path}`} what="the command" />
          <LinkButton href={href("edit", { path }, { version: older })}>Edit</LinkButton>
          <LinkButton kind="primary" role="operator" href={href("start", { path }, { version: older })}>
            Start...
          </LinkButton>
        </div>
      </header>
      <Tabs
        label="Parts of the playbook"
        active={tab}
        tabs={[
          { name: "text", label: "Text" },
          { name: "graph", label: "Graph" },
          { name: "runs", label: "Runs" },
          { name: "versions", label: "Versions", count: versions.length },
        ]}
        onChoose={(name) => setQuery({ tab: name === "text" ? null : name })}
      />
      <div role="tabpanel" class="playbook-panel" aria-label={tab}>
        <Panel tab={tab} playbook={playbook} />
      </div>
    </>
  );
}

function Panel({ tab, playbook }: { tab: string; playbook: PlaybookText }) {
  if (tab === "graph") return <GraphTab id={playbook.playbook_id} />;
  if (tab === "runs") return <PlaybookRuns path={playbook.path} />;
  if (tab === "versions") return <Versions playbook={playbook} />;
  const version = parameter("version") || null;
  return (
    <SourceText
      text={playbook.text}
      line={Number(parameter("line")) || null}
      lineHref={(line) => href("playbook", { path: playbook.path }, { version, line })}
    />
  );
}

function GraphTab({ id }: { id: string }) {
  const graph = useResource<Graph>(`/graphs/${id}`);
  return (
    <Loaded of={graph}>
      {(data) => (
        <div class="card playbook-graph">
          <GraphDrawing graph={data} onStep={(node) => setQuery({ tab: null, line: node.line })} />
        </div>
      )}
    </Loaded>
  );
}
