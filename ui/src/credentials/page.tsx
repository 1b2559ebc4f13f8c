/** Credentials and their scopes; their secrets can be written and never read. */

import { useSignal } from "@preact/signals";
import { request } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { Credential, CredentialPage } from "../api/types.gen.ts";
import { Button } from "../parts/button.tsx";
import { FilterField, filtered } from "../parts/filter.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { Moment } from "../parts/moment.tsx";
import { Empty, Guarded, Loaded } from "../parts/states.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { SettingsTabs } from "../shell/settings-tabs.tsx";
import { CredentialDialog } from "./dialog.tsx";
import { credentialPath } from "./form.ts";

const HOOKS = "//hooks"; // no playbook has this path: the secret of a hook is for the server

type OpenDialog = { action: "create" } | { action: "replace" | "delete"; credential: Credential };

export default function CredentialsPage() {
  return (
    <div class="page">
      <SettingsTabs />
      <Guarded role="operator">
        <Credentials />
      </Guarded>
    </div>
  );
}

function Credentials() {
  const credentials = useResource<CredentialPage>("/credentials");
  const dialog = useSignal<OpenDialog | null>(null);
  const open = (next: OpenDialog) => {
    dialog.value = next;
  };
  const close = () => {
    dialog.value = null;
    void credentials.load();
  };
  const current = dialog.value;
  return (
    <>
      <header>
        <h1>Credentials</h1>
        <FilterField />
        <Button kind="primary" role="admin" onClick={() => open({ action: "create" })}>
          Store a credential...
        </Button>
      </header>
      <Loaded of={credentials}>
        {({ items }) =>
          items.length ? (
            <Table
              label="Credentials"
              columns={columns(open)}
              rows={filtered(items, ({ name, kind }) => `${name} ${kind}`)}
              rowKey={({ name }) => name}
            />
          ) : (
            <Empty text="No credentials yet. A playbook names them in its keychain.">
              <code>noetl credential set NAME --kind bearer</code>
            </Empty>
          )
        }
      </Loaded>
      {current?.action === "create" && (
        <CredentialDialog names={(credentials.data.value?.items ?? []).map(({ name }) => name)} onClose={close} />
      )}
      {current?.action === "replace" && <CredentialDialog credential={current.credential} onClose={close} />}
      {current?.action === "delete" && (
        <FormDialog
          title="Delete credential"
          button="Delete credential"
          danger
          done={`${current.credential.name} is deleted.`}
          act={() => request("DELETE", credentialPath(current.credential.name))}
          onClose={close}
        >
          <p>Tasks that need {current.credential.name} fail from now on. This cannot be undone.</p>
        </FormDialog>
      )}
    </>
  );
}

function columns(open: (dialog: OpenDialog) => void): Column<Credential>[] {
  const words = (names: string[], all: string) => (names.length ? names.join(", ") : all);
  return [
    { title: "Name", cell: ({ name }) => <strong>{name}</strong> },
    { title: "Kind", cell: ({ kind }) => <code>{kind}</code> },
    { title: "Playbooks", cell: ({ paths }) => (paths.includes(HOOKS) ? "none, only its hook" : words(paths, "all")) },
    { title: "Pools", cell: ({ pools }) => words(pools, "all") },
    { title: "Changed", cell: ({ updated }) => <Moment at={updated} /> },
    {
      title: "Actions",
      kind: "actions",
      cell: (credential) => (
        <>
          <Button role="admin" onClick={() => open({ action: "replace", credential })}>
            Replace...
          </Button>
          <Button role="admin" kind="danger" onClick={() => open({ action: "delete", credential })}>
            Delete...
          </Button>
        </>
      ),
    },
  ];
}
