import { useResource } from "../api/resource.ts";
import type { PlaybookText } from "../api/types.gen.ts";
import { parameter, setQuery } from "../location.ts";
import { Select } from "../parts/field.tsx";
import { Moment } from "../parts/moment.tsx";
import { Loaded } from "../parts/states.tsx";
import { Table } from "../parts/table.tsx";
import { TextDiff } from "../parts/text-diff.tsx";
import { href } from "../routes.ts";
import { encodedPath } from "./paths.ts";

/** The versions of a playbook, and the difference of any two. */
export function Versions({ playbook }: { playbook: PlaybookText }) {
  const { path, versions } = playbook;
  const latest = versions[0]?.version ?? 1;
  const b = Number(parameter("b")) || latest;
  const a = Number(parameter("a")) || Math.max(1, b - 1);
  const options = versions.map(({ version }) => ({ value: String(version), label: `version ${version}` }));
  return (
    <>
      <Table
        label="Versions"
        rows={versions}
        rowKey={({ version }) => String(version)}
        columns={[
          {
            title: "Version",
            cell: ({ version }) => <a href={href("playbook", { path }, { version })}>{version}</a>,
          },
          { title: "Label", cell: ({ label }) => label || <span class="quiet">-</span> },
          { title: "Registered", cell: ({ registered }) => <Moment at={registered} /> },
          { title: "Digest", cell: ({ playbook_id }) => <code>{playbook_id.slice(0, 12)}</code> },
        ]}
      />
      {versions.length > 1 && (
        <>
          <div class="version-choice">
            <h2>Differences</h2>
            <Select label="From" value={String(a)} options={options} onChange={(value) => setQuery({ a: value, b })} />
            to
            <Select label="To" value={String(b)} options={options} onChange={(value) => setQuery({ a, b: value })} />
          </div>
          <VersionDiff path={path} a={a} b={b} />
        </>
      )}
    </>
  );
}

function VersionDiff({ path, a, b }: { path: string; a: number; b: number }) {
  const first = useResource<PlaybookText>(`/playbooks/${encodedPath(path)}?version=${a}`);
  const second = useResource<PlaybookText>(`/playbooks/${encodedPath(path)}?version=${b}`);
  return (
    <Loaded of={first}>
      {(left) => (
        <Loaded of={second}>
          {(right) => <TextDiff a={left.text} b={right.text} labels={[`version ${a}`, `version ${b}`]} />}
        </Loaded>
      )}
    </Loaded>
  );
}
