import { useId } from "preact/hooks";
import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { PlaybookPage } from "../api/types.gen.ts";
import { TextField } from "../parts/field.tsx";

const SUGGESTIONS = 20;

/** The path of a playbook, with those as suggestions that have its text in their paths. */
export function PlaybookField({ value, onInput }: { value: string; onInput: (path: string) => void }) {
  const list = useId();
  const found = useResource<PlaybookPage>(withQuery("/playbooks", { q: value, limit: SUGGESTIONS })).data.value;
  return (
    <>
      <TextField label="Playbook" mono autocomplete="off" list={list} value={value} onInput={onInput} />
      <datalist id={list}>
        {found?.items.map(({ path }) => (
          <option key={path} value={path} />
        ))}
      </datalist>
    </>
  );
}
