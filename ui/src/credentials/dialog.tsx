import { useSignal } from "@preact/signals";
import { request } from "../api/client.ts";
import type { Credential } from "../api/types.gen.ts";
import { SelectField, TextField } from "../parts/field.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { credentialPath, fieldsOf, isSecret, KINDS, type Kind, missing, requestOf } from "./form.ts";

/** Stores a credential, or replaces one: its secrets are written anew, because they cannot be read. */
export function CredentialDialog({
  credential,
  names = [],
  onClose,
}: {
  credential?: Credential;
  names?: string[]; // of other credentials
  onClose: () => void;
}) {
  const name = useSignal(credential?.name ?? "");
  const kind = useSignal<Kind>(KINDS.find((name) => name === credential?.kind) ?? "bearer");
  const data = useSignal<Record<string, string>>({});
  const paths = useSignal(credential?.paths.join(", ") ?? "");
  const pools = useSignal(credential?.pools.join(", ") ?? "");
  const save = () =>
    request("PUT", credentialPath(name.value), {
      body: requestOf(kind.value, data.value, paths.value, pools.value),
    });
  return (
    <FormDialog
      title={credential ? `Replace ${credential.name}` : "Store a credential"}
      button="Store credential"
      reason={
        !name.value
          ? "The credential needs a name."
          : names.includes(name.value)
            ? `Credential ${name.value} exists: replace it.`
            : missing(kind.value, data.value)
      }
      done={`${name.value} is stored.`}
      act={save}
      onClose={onClose}
    >
      {!credential && <TextField label="Name" value={name} />}
      <SelectField label="Kind" value={kind} options={KINDS} />
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
        value={paths}
        help="Paths such as shop/*, separated by commas; empty for all"
      />
      <TextField
        label="Pools that may use the credential"
        value={pools}
        help="Names, separated by commas; empty for all"
      />
    </FormDialog>
  );
}
