import { useSignal } from "@preact/signals";
import { request } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { Session, SessionPage } from "../api/types.gen.ts";
import { hasRole } from "../me.ts";
import { Button } from "../parts/button.tsx";
import { filtered } from "../parts/filter.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { Moment } from "../parts/moment.tsx";
import { Loaded } from "../parts/states.tsx";
import { Table } from "../parts/table.tsx";

export function Sessions() {
  const sessions = useResource<SessionPage>(hasRole("admin") ? "/sessions?user=*" : "/sessions");
  const ending = useSignal<Session | null>(null);
  return (
    <>
      <Loaded of={sessions}>
        {({ items }) => (
          <Table
            label="Sessions"
            rows={filtered(items, ({ user, agent, address }) => `${user} ${agent} ${address}`)}
            rowKey={({ id }) => id}
            columns={[
              { title: "User", cell: ({ user }) => <strong>{user}</strong> },
              { title: "Browser", cell: ({ agent }) => agent || "-" },
              { title: "IP address", cell: ({ address }) => address || "-" },
              { title: "Started", cell: ({ created }) => <Moment at={created} /> },
              { title: "Last seen", cell: ({ last_seen }) => <Moment at={last_seen} /> },
              {
                title: "Actions",
                kind: "actions",
                cell: (session) =>
                  session.current ? (
                    <span class="quiet">this session</span>
                  ) : (
                    <Button
                      onClick={() => {
                        ending.value = session;
                      }}
                    >
                      End session...
                    </Button>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
      {ending.value && (
        <FormDialog
          title="End session"
          button="End session"
          danger
          done="The session has ended."
          act={() => request("DELETE", `/sessions/${encodeURIComponent(ending.value!.id)}`)}
          onClose={() => {
            ending.value = null;
            void sessions.load();
          }}
        >
          <p>
            {ending.value.user} has to sign in again in {ending.value.agent || "that browser"}.
          </p>
        </FormDialog>
      )}
    </>
  );
}
