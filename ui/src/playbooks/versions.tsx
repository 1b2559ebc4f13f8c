import { useResource } from "../api/resource.ts";
import type { PlaybookText } from "../api/types.gen.ts";
import { parameter, setQuery } from "../location.ts";
import { Button } from "../parts/button.tsx";
import { Select } from "../parts/field.tsx";
import { Moment } from "../parts/moment.tsx";
import { Loaded } from "../parts/states.tsx";
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
      <table class="card plain-table">
        <thead>
          <tr>
            <th>Version</th>
            <th>Label</th>
            <th>Registered</th>
            <th class="wide-only">Digest</th>
          </tr>
        </thead>
        <tbody>
          {versions.map((row) => (
            <tr key={row.version}>
              <td>
                <a href={href("playbook", { path }, { version: row.version })}>{row.version}</a>
              </td>
              <td>{row.label || <span class="quiet">-</span>}</td>
              <td>
                <Moment at={row.registered} />
              </td>
              <td class="wide-only">
                <code>{row.playbook_id.slice(0, 12)}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {versions.length > 1 && (
        <>
          <div class="version-choice">
            <h2>Differences</h2>
            <Select label="From" value={String(a)} options={options} onChange={(value) => setQuery({ a: value, b })} />
            to
            <Select label="To" value={String(b)} options={options} onChange={(value) => setQuery({ a, b: value })} />
            <Button onClick={() => setQuery({ a: b, b: a })}>Swap</Button>
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
