import { useResource } from "../api/resource.ts";
import type { StoredPlaybook } from "../api/types.gen.ts";
import { Empty, Loaded } from "../parts/states.tsx";
import { TextDiff } from "../parts/text-diff.tsx";
import { href } from "../routes.ts";
import type { Runs } from "./page.tsx";

/** The playbooks that both runs used, line by line. */
export function PlaybookTab({ runs: { a, b } }: { runs: Runs }) {
  const isSame = a.playbook_id === b.playbook_id;
  const first = useResource<StoredPlaybook>(isSame ? null : `/texts/${a.playbook_id}`);
  const second = useResource<StoredPlaybook>(isSame ? null : `/texts/${b.playbook_id}`);
  if (isSame)
    return (
      <Empty text="Both runs used the same playbook.">
        <a href={href("playbook", { path: a.path }, { version: a.version })}>{a.path}</a>
      </Empty>
    );
  const label = (letter: string, version: number | null) =>
    `${letter}: ${version === null ? "not registered" : `version ${version}`}`;
  return (
    <Loaded of={first}>
      {(left) => (
        <Loaded of={second}>
          {(right) => <TextDiff a={left.text} b={right.text} labels={[label("A", a.version), label("B", b.version)]} />}
        </Loaded>
      )}
    </Loaded>
  );
}
