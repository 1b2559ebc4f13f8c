import { useSignal } from "@preact/signals";
import { post, request } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import { ROLES } from "../api/roles.gen.ts";
import type { User, UserPage } from "../api/types.gen.ts";
import { me, type Role } from "../me.ts";
import { Button } from "../parts/button.tsx";
import { SelectField, TextField } from "../parts/field.tsx";
import { filtered } from "../parts/filter.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { Moment } from "../parts/moment.tsx";
import { Loaded } from "../parts/states.tsx";
import { Table } from "../parts/table.tsx";

type OpenDialog = { action: "create" } | { action: "change" | "delete"; user: User };

export function Users() {
  const users = useResource<UserPage>("/users");
  const dialog = useSignal<OpenDialog | null>(null);
  const close = () => {
    dialog.value = null;
    void users.load();
  };
  const current = dialog.value;
  return (
    <>
      <div>
        <Button
          kind="primary"
          onClick={() => {
            dialog.value = { action: "create" };
          }}
        >
          Create a user...
        </Button>
      </div>
      <Loaded of={users}>
        {({ items }) => (
          <Table
            label="Users"
            rows={filtered(items, ({ name, role }) => `${name} ${role}`)}
            rowKey={({ name }) => name}
            columns={[
              { title: "Name", cell: ({ name }) => <strong>{name}</strong> },
              { title: "Role", cell: ({ role }) => role },
              { title: "Created", cell: ({ created }) => <Moment at={created} /> },
              {
                title: "Actions",
                kind: "actions",
                cell: (user) => (
                  <>
                    <Button
                      onClick={() => {
                        dialog.value = { action: "change", user };
                      }}
                    >
                      Change...
                    </Button>
                    <Button
                      kind="danger"
                      reason={user.name === me.value?.name ? "You cannot delete your own user." : null}
                      onClick={() => {
                        dialog.value = { action: "delete", user };
                      }}
                    >
                      Delete...
                    </Button>
                  </>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {current?.action === "create" && <UserDialog onClose={close} />}
      {current?.action === "change" && <UserDialog user={current.user} onClose={close} />}
      {current?.action === "delete" && (
        <FormDialog
          title="Delete user"
          button="Delete user"
          danger
          done={`${current.user.name} is deleted.`}
          act={() => request("DELETE", `/users/${encodeURIComponent(current.user.name)}`)}
          onClose={close}
        >
          <p>
            {current.user.name} is signed out everywhere and cannot sign in any more. Runs and events keep the name.
            This cannot be undone.
          </p>
        </FormDialog>
      )}
    </>
  );
}

function UserDialog({ user, onClose }: { user?: User; onClose: () => void }) {
  const [name, password, role] = [useSignal(""), useSignal(""), useSignal<Role>(user?.role ?? "viewer")];
  const save = () =>
    user
      ? request("PUT", `/users/${encodeURIComponent(user.name)}`, {
          body: { role: role.value, password: password.value || undefined },
        })
      : post("/users", { name: name.value, password: password.value, role: role.value });
  return (
    <FormDialog
      title={user ? `Change ${user.name}` : "Create a user"}
      button={user ? "Change user" : "Create user"}
      done={user ? `${user.name} is changed.` : `${name.value} is created.`}
      act={save}
      onClose={onClose}
    >
      {!user && <TextField label="Name" value={name} autocomplete="off" />}
      <TextField
        label={user ? "New password" : "Password"}
        password
        autocomplete="new-password"
        help={user ? "Optional; empty to keep the password" : "At least 12 characters"}
        value={password}
      />
      <SelectField label="Role" value={role} options={ROLES} />
    </FormDialog>
  );
}
