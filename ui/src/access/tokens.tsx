import { useSignal } from "@preact/signals";
import { post, request } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { AccessToken, NewToken, TokenPage } from "../api/types.gen.ts";
import type { Role } from "../me.ts";
import { Button } from "../parts/button.tsx";
import { Select, SelectField, TextField } from "../parts/field.tsx";
import { filtered } from "../parts/filter.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { Moment } from "../parts/moment.tsx";
import { SecretShown } from "../parts/secret-shown.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { Table } from "../parts/table.tsx";
import { shortId } from "../text/number.ts";

const ROLES: readonly Role[] = ["viewer", "operator", "author", "admin", "worker"];
const DAY = 86_400;
const EXPIRIES = [
  { value: "", label: "never expires" },
  { value: String(DAY), label: "expires in a day" },
  { value: String(30 * DAY), label: "expires in 30 days" },
  { value: String(365 * DAY), label: "expires in a year" },
];

export function Tokens() {
  const tokens = useResource<TokenPage>("/tokens");
  const [creating, shown, revoked] = [
    useSignal(false),
    useSignal<NewToken | null>(null),
    useSignal<AccessToken | null>(null),
  ];
  const close = () => {
    creating.value = false;
    revoked.value = null;
    void tokens.load();
  };
  return (
    <>
      <div>
        <Button
          kind="primary"
          onClick={() => {
            creating.value = true;
          }}
        >
          Create a token...
        </Button>
      </div>
      <Loaded of={tokens}>
        {({ items }) =>
          items.length ? (
            <Table
              label="Tokens"
              rows={filtered(items, ({ name, role, id }) => `${name} ${role} ${id}`)}
              rowKey={({ id }) => id}
              columns={[
                { title: "Name", cell: ({ name, id }) => <strong>{name || shortId(id)}</strong> },
                { title: "Role", cell: ({ role, pool }) => (pool ? `${role}, pool ${pool}` : role) },
                { title: "Created", cell: ({ created }) => <Moment at={created} /> },
                { title: "Expires", cell: ({ expires }) => (expires ? <Moment at={expires} /> : "never") },
                {
                  title: "Actions",
                  kind: "actions",
                  cell: (token) =>
                    token.revoked ? (
                      <span class="quiet">revoked</span>
                    ) : (
                      <Button
                        kind="danger"
                        onClick={() => {
                          revoked.value = token;
                        }}
                      >
                        Revoke...
                      </Button>
                    ),
                },
              ]}
            />
          ) : (
            <Empty text="No tokens yet." />
          )
        }
      </Loaded>
      {creating.value && (
        <CreateToken
          onClose={close}
          onToken={(token) => {
            shown.value = token;
          }}
        />
      )}
      {revoked.value && <RevokeToken token={revoked.value} onClose={close} />}
      {shown.value && (
        <SecretShown
          title={`Token ${shown.value.name}`}
          secret={shown.value.token}
          command={`export NOETL_SERVER=${window.location.origin} NOETL_TOKEN=${shown.value.token}`}
          onClose={() => {
            shown.value = null;
          }}
        />
      )}
    </>
  );
}

function RevokeToken({ token, onClose }: { token: AccessToken; onClose: () => void }) {
  return (
    <FormDialog
      title="Revoke token"
      button="Revoke token"
      danger
      done={`${token.name || token.id} is revoked.`}
      act={() => request("DELETE", `/tokens/${encodeURIComponent(token.id)}`)}
      onClose={onClose}
    >
      <p>The server rejects every request with {token.name || token.id} from now on. This cannot be undone.</p>
    </FormDialog>
  );
}

function CreateToken({ onClose, onToken }: { onClose: () => void; onToken: (token: NewToken) => void }) {
  const [name, role, pool, expires] = [useSignal(""), useSignal<Role>("viewer"), useSignal(""), useSignal("")];
  const create = async () => {
    const body = {
      name: name.value,
      role: role.value,
      pool: role.value === "worker" && pool.value ? pool.value : null,
      expires_in: expires.value ? Number(expires.value) : null,
    };
    onToken(await post<NewToken>("/tokens", body));
  };
  return (
    <FormDialog
      title="Create a token"
      button="Create token"
      done="The token is created."
      act={create}
      onClose={onClose}
    >
      <TextField label="Name" value={name} autocomplete="off" />
      <SelectField label="Role" value={role} options={ROLES} />
      {role.value === "worker" && <TextField label="Pool" value={pool} help="Optional; empty for any pool" />}
      <Select label="Expiry" value={expires} options={EXPIRIES} />
    </FormDialog>
  );
}
