/** Unsent input of a form, kept in this tab so that a reload does not lose it. Secrets are not kept. */

import { effect } from "@preact/signals";
import { useLayoutEffect, useMemo } from "preact/hooks";
import { readJson, writeText } from "../storage.ts";
import { withoutSecrets } from "../text/secrets.ts";

/** Keep what `input` reads from signals while it differs from the first input; `restore` gets what was kept before.
 *  Call the result when the input was sent or is given up. */
export function useUnsent<Input>(
  form: string,
  input: () => Input,
  restore: (kept: Partial<Input>) => void,
): () => void {
  const key = `noetl.unsent.${form}`;
  const first = useMemo(() => {
    const text = withoutSecrets(input());
    const kept = readJson("sessionStorage", key);
    if (kept) restore(kept as Partial<Input>);
    return text;
  }, []);
  // Not useSignalEffect, which waits for the next frame: a reload may come before it.
  useLayoutEffect(
    () =>
      effect(() => {
        const text = withoutSecrets(input());
        writeText("sessionStorage", key, text === first ? null : text);
      }),
    [],
  );
  return () => void writeText("sessionStorage", key, null);
}
