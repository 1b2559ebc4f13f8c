import { request } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { SessionPage } from "../api/types.gen.ts";
import { Button } from "../parts/button.tsx";
import { filtered } from "../parts/filter.tsx";
import { Moment } from "../parts/moment.tsx";
import { Loaded } from "../parts/states.tsx";
import { Table } from "../parts/table.tsx";
import { toast, toastProblem } from "../parts/toast.tsx";

export function Sessions() {
  const sessions = useResource<SessionPage>("/sessions");
  const end = async (id: string) => {
    try {
      await request("DELETE", `/sessions/${encodeURIComponent(id)}`);
      toast("The session has ended.");
    } catch (error) {
      toastProblem("The session was not ended", error);
    }
    await sessions.load();
  };
  return (
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
              cell: ({ id, current }) =>
                current ? (
                  <span class="quiet">this session</span>
                ) : (
                  <Button onClick={() => void end(id)}>End session</Button>
                ),
            },
          ]}
        />
      )}
    </Loaded>
  );
}
