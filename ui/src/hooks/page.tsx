/** Webhooks: create, rotate, delete; a secret is shown once. */

import { useSignal } from "@preact/signals";
import { post, request } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { Hook, HookPage, HookSecret } from "../api/types.gen.ts";
import { Button } from "../parts/button.tsx";
import { Copy } from "../parts/copy.tsx";
import { TextField } from "../parts/field.tsx";
import { FilterField, filtered } from "../parts/filter.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { Moment } from "../parts/moment.tsx";
import { SecretShown } from "../parts/secret-shown.tsx";
import { Empty, Guarded, Loaded } from "../parts/states.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { PlaybookField } from "../playbooks/choice.tsx";
import { href } from "../routes.ts";
import { SettingsTabs } from "../shell/settings-tabs.tsx";

type OpenDialog = { action: "create" } | { action: "rotate" | "delete"; hook: Hook };

export default function HooksPage() {
  return (
    <div class="page">
      <SettingsTabs />
      <Guarded role="operator">
        <Hooks />
      </Guarded>
    </div>
  );
}

function Hooks() {
  const hooks = useResource<HookPage>("/hooks");
  const dialog = useSignal<OpenDialog | null>(null);
  const shown = useSignal<HookSecret | null>(null);
  const close = () => {
    dialog.value = null;
    void hooks.load();
  };
  const open = (next: OpenDialog) => {
    dialog.value = next;
  };
  const current = dialog.value;
  return (
    <>
      <header>
        <h1>Hooks</h1>
        <FilterField />
        <Button kind="primary" role="author" onClick={() => open({ action: "create" })}>
          Create a hook...
        </Button>
      </header>
      <Loaded of={hooks}>
        {({ items }) =>
          items.length ? (
            <Table
              label="Hooks"
              columns={columns(open)}
              rows={filtered(items, (hook) => `${hook.name} ${hook.path}`)}
              rowKey={(hook) => hook.name}
            />
          ) : (
            <Empty text="No hooks yet. A hook lets another system start a playbook by a signed request." />
          )
        }
      </Loaded>
      {current?.action === "create" && (
        <CreateHook
          names={(hooks.data.value?.items ?? []).map((hook) => hook.name)}
          onClose={close}
          onSecret={(secret) => {
            shown.value = secret;
          }}
        />
      )}
      {current?.action === "rotate" && (
        <FormDialog
          title="Rotate secret"
          button="Rotate secret"
          danger
          done={`${current.hook.name} has a new secret.`}
          act={async () => {
            shown.value = await post<HookSecret>(`/hooks/${encodeURIComponent(current.hook.name)}/rotate`);
          }}
          onClose={close}
        >
          <p>The server rejects requests that are signed with the old secret from now on.</p>
        </FormDialog>
      )}
      {current?.action === "delete" && (
        <FormDialog
          title="Delete hook"
          button="Delete hook"
          danger
          done={`${current.hook.name} is deleted.`}
          act={() => request("DELETE", `/hooks/${encodeURIComponent(current.hook.name)}`)}
          onClose={close}
        >
          <p>Requests to {current.hook.name} are refused from now on. This cannot be undone.</p>
        </FormDialog>
      )}
      {shown.value?.secret && (
        <SecretShown
          title={`Secret of ${shown.value.name}`}
          secret={shown.value.secret}
          onClose={() => {
            shown.value = null;
          }}
        />
      )}
    </>
  );
}

function columns(open: (dialog: OpenDialog) => void): Column<Hook>[] {
  return [
    { title: "Name", cell: (hook) => <strong>{hook.name}</strong> },
    {
      title: "Playbook",
      cell: (hook) => (
        <a href={href("playbook", { path: hook.path }, { version: hook.version })}>
          {hook.path}
          {hook.version !== null && `@${hook.version}`}
        </a>
      ),
    },
    {
      title: "URL",
      cell: (hook) => (
        <span>
          <code>/api/v1/hooks/{hook.name}</code>{" "}
          <Copy text={`${window.location.origin}/api/v1/hooks/${hook.name}`} what="the URL" />
        </span>
      ),
    },
    { title: "Changed", cell: (hook) => <Moment at={hook.updated} /> },
    {
      title: "Actions",
      kind: "actions",
      cell: (hook) => (
        <>
          <Button role="author" onClick={() => open({ action: "rotate", hook })}>
            Rotate secret...
          </Button>
          <Button role="author" kind="danger" onClick={() => open({ action: "delete", hook })}>
            Delete...
          </Button>
        </>
      ),
    },
  ];
}

function CreateHook({
  names,
  onClose,
  onSecret,
}: {
  names: string[]; // of the hooks that exist: to store one of them again would change it
  onClose: () => void;
  onSecret: (secret: HookSecret) => void;
}) {
  const [name, path] = [useSignal(""), useSignal("")];
  const create = async () => {
    const body = { path: path.value };
    onSecret(await request<HookSecret>("PUT", `/hooks/${encodeURIComponent(name.value)}`, { body }));
  };
  return (
    <FormDialog
      title="Create a hook"
      button="Create hook"
      reason={
        !name.value
          ? "The hook needs a name."
          : names.includes(name.value)
            ? `Hook ${name.value} exists.`
            : !path.value
              ? "Choose a playbook."
              : null
      }
      act={create}
      onClose={onClose}
    >
      <TextField label="Name" value={name} />
      <PlaybookField
        value={path.value}
        onInput={(text) => {
          path.value = text;
        }}
      />
    </FormDialog>
  );
}
