/** Sends a signal of any name to a run; warns if nothing waits for it. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { RepeatKey } from "../api/repeat-key.ts";
import { useResource } from "../api/resource.ts";
import type { Execution } from "../api/types.gen.ts";
import { Button } from "../parts/button.tsx";
import { TextField } from "../parts/field.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { parseMap } from "../text/typed.ts";
import { JsonFields } from "./json-fields.tsx";
import { sendSignal } from "./send.ts";
import "./dialog.css";

export function SendSignalDialog({ executionId, onClose }: { executionId: string; onClose: () => void }) {
  const key = useMemo(() => new RepeatKey(), []);
  const details = useResource<Execution>(`/executions/${encodeURIComponent(executionId)}`).data.value;
  const awaited = (details?.waits ?? []).filter((wait) => wait.for === "signal").map((wait) => wait.name);
  const name = useSignal("");
  const json = useSignal("");
  const tried = useSignal(false);
  const payload = parseMap(json.value);
  const jsonError = tried.value && "error" in payload ? payload.error : null;
  const send = () => {
    tried.value = true;
    if (!name.value.trim() || "error" in payload) return false;
    return sendSignal(executionId, name.value.trim(), payload.value, key);
  };
  return (
    <FormDialog title="Send a signal" button="Send" role="operator" act={send} onClose={onClose}>
      <TextField
        label="Name"
        mono
        value={name}
        error={tried.value && !name.value.trim() ? "Enter the name of the signal." : null}
      />
      {details && (
        <p class={isExpected(name.value, awaited) ? "secondary" : "warning"}>
          {!isExpected(name.value, awaited) &&
            `No step waits for ${name.value.trim()}. The signal is stored until a step waits for it. `}
          {awaited.length ? "The run waits for: " : "The run waits for no signal."}
          {awaited.map((signal) => (
            <Button
              key={signal}
              kind="quiet"
              onClick={() => {
                name.value = signal;
              }}
            >
              {signal}
            </Button>
          ))}
        </p>
      )}
      <JsonFields open text={json} error={jsonError} />
    </FormDialog>
  );
}

function isExpected(name: string, awaited: string[]): boolean {
  return !name.trim() || awaited.includes(name.trim());
}
