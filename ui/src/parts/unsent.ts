/** Unsent input of a form, kept in this tab so that a reload does not lose it. Secrets are not kept. */

import { effect } from "@preact/signals";
import { useLayoutEffect, useMemo } from "preact/hooks";
import { readJson, writeText } from "../storage.ts";
import { withoutSecrets } from "../text/secrets.ts";

/** Store the value of `input`, which reads signals, while it differs from the first one; `restore` gets the stored
 *  value. Call the result when the input was sent or cancelled. */
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
