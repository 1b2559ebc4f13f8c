import { useSignal } from "@preact/signals";
import { Problem, request } from "../api/client.ts";
import type { Credential } from "../api/types.gen.ts";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Field, TextField } from "../parts/field.tsx";
import { ProblemBox } from "../parts/states.tsx";
import { toast } from "../parts/toast.tsx";
import { credentialPath, fieldsOf, isSecret, KINDS, type Kind, missing, requestOf } from "./form.ts";

/** Stores a credential, or replaces one: its secrets are written anew, because they cannot be read. */
export function CredentialDialog({ credential, onClose }: { credential?: Credential; onClose: () => void }) {
  const name = useSignal(credential?.name ?? "");
  const kind = useSignal<Kind>(KINDS.find((name) => name === credential?.kind) ?? "bearer");
  const data = useSignal<Record<string, string>>({});
  const paths = useSignal(credential?.paths.join(", ") ?? "");
  const pools = useSignal(credential?.pools.join(", ") ?? "");
  const [busy, problem] = [useSignal(false), useSignal<Problem | undefined>(undefined)];
  const why = !name.value ? "The credential needs a name." : missing(kind.value, data.value);
  const save = async () => {
    if (why || busy.value) return;
    busy.value = true;
    try {
      await request("PUT", credentialPath(name.value), {
        body: requestOf(kind.value, data.value, paths.value, pools.value),
      });
      toast(`${name.value} is stored.`);
      onClose();
    } catch (error) {
      problem.value = error instanceof Problem ? error : new Problem({ title: String(error) });
    } finally {
      busy.value = false;
    }
  };
  return (
    <Dialog
      title={credential ? `Replace ${credential.name}` : "Store a credential"}
      onClose={onClose}
      onSubmit={() => void save()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" reason={why} busy={busy.value}>
            Store credential
          </Button>
        </>
      }
    >
      {!credential && (
        <TextField
          label="Name"
          value={name.value}
          autofocus
          onInput={(text) => {
            name.value = text;
          }}
        />
      )}
      <Field label="Kind">
        {(ids) => (
          <select
            {...ids}
            class="input"
            value={kind.value}
            onChange={(event) => {
              kind.value = event.currentTarget.value as Kind;
            }}
          >
            {KINDS.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
      </Field>
      {fieldsOf(kind.value).map((field) => (
        <TextField
          key={field}
          label={field}
          password={isSecret(field)}
          autocomplete="off"
          value={data.value[field] ?? ""}
          onInput={(text) => {
            data.value = { ...data.value, [field]: text };
          }}
        />
      ))}
      <TextField
        label="Playbooks that may use the credential"
        value={paths.value}
        help="Paths such as shop/*, separated by commas; empty for all"
        onInput={(text) => {
          paths.value = text;
        }}
      />
      <TextField
        label="Pools that may use the credential"
        value={pools.value}
        help="Names, separated by commas; empty for all"
        onInput={(text) => {
          pools.value = text;
        }}
      />
      {problem.value && <ProblemBox problem={problem.value} />}
    </Dialog>
  );
}
