/** All playbooks as a tree of their paths, with the last run of each. */

import { useSignal } from "@preact/signals";
import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { PlaybookItem, PlaybookPage } from "../api/types.gen.ts";
import { parameter } from "../location.ts";
import { Icon } from "../look/icons.tsx";
import { Status } from "../look/status.tsx";
import { Button, LinkButton } from "../parts/button.tsx";
import { FilterField, NoMatch } from "../parts/filter.tsx";
import { Moment } from "../parts/moment.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { href } from "../routes.ts";
import { counted } from "../text/number.ts";
import { type TreeRow, treeRows } from "./paths.ts";
import "./page.css";

const LIMIT = 500;
const POLL_MS = 10_000;
const every10s = () => POLL_MS;

export default function PlaybooksPage() {
  const cursor = useSignal("");
  const playbooks = useResource<PlaybookPage>(
    withQuery("/playbooks", { limit: LIMIT, cursor: cursor.value }),
    every10s,
  );
  const q = parameter("q").toLowerCase();
  const isPart = cursor.value !== "" || Boolean(playbooks.data.value?.next); // matches may be on another page
  const found = useResource<PlaybookPage>(q && isPart ? withQuery("/playbooks", { limit: LIMIT, q }) : null).data.value;
  return (
    <div class="page">
      <header>
        <h1>Playbooks</h1>
        <div class="playbook-tools">
          <FilterField />
          <LinkButton role="author" href={href("newPlaybook")} icon="plus">
            New playbook
          </LinkButton>
        </div>
      </header>
      <Loaded of={playbooks}>
        {({ items, next }) => (
          <>
            <Tree
              items={(found?.items ?? items).filter(({ path }) => path.toLowerCase().includes(q))}
              filtered={q !== ""}
            />
            <p class="playbook-tools">
              {cursor.value && (
                <Button
                  onClick={() => {
                    cursor.value = "";
                  }}
                >
                  First page
                </Button>
              )}
              {next && (
                <Button
                  onClick={() => {
                    cursor.value = next;
                  }}
                >
                  Next {LIMIT} playbooks
                </Button>
              )}
            </p>
          </>
        )}
      </Loaded>
    </div>
  );
}

function Tree({ items, filtered }: { items: PlaybookItem[]; filtered: boolean }) {
  const closed = useSignal<ReadonlySet<string>>(new Set());
  if (!items.length && filtered) return <NoMatch what="playbooks" />;
  if (!items.length)
    return (
      <Empty text="No playbooks yet.">
        <LinkButton href={href("newPlaybook")}>New playbook</LinkButton>
        <code>noetl register FILE</code>
      </Empty>
    );
  const toggle = (path: string) => {
    const next = new Set(closed.value);
    if (!next.delete(path)) next.add(path);
    closed.value = next;
  };
  return (
    <table class="card playbook-tree">
      <thead>
        <tr>
          <th>Path</th>
          <th>Version</th>
          <th>Registered</th>
          <th>Last run</th>
          <th>
            <span class="hidden-text">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {treeRows(items, closed.value).map((row) =>
          row.item ? (
            <PlaybookRow key={row.path} row={row} item={row.item} />
          ) : (
            <tr key={row.path} class="folder" style={depth(row)}>
              <td colSpan={5}>
                <button type="button" aria-expanded={!closed.value.has(row.path)} onClick={() => toggle(row.path)}>
                  <Icon name={closed.value.has(row.path) ? "right" : "down"} /> {row.name}/{" "}
                  <span class="quiet">{counted(row.count, "playbook")}</span>
                </button>
              </td>
            </tr>
          ),
        )}
      </tbody>
    </table>
  );
}

const depth = (row: TreeRow<PlaybookItem>) => ({ "--depth": row.depth });

function PlaybookRow({ row, item }: { row: TreeRow<PlaybookItem>; item: PlaybookItem }) {
  const { path, last_run: last } = item;
  return (
    <tr style={depth(row)}>
      <td>
        <a href={href("playbook", { path })} title={path}>
          {row.name}
        </a>
      </td>
      <td>
        {item.version}
        {item.label && <span class="quiet"> {item.label}</span>}
      </td>
      <td class="secondary">
        <Moment at={item.registered} />
      </td>
      <td>
        {last ? (
          <a class="playbook-last" href={href("run", { id: last.execution_id })}>
            <Status status={last.status} /> <Moment at={last.started} />
          </a>
        ) : (
          <span class="quiet">never</span>
        )}
      </td>
      <td>
        <LinkButton kind="quiet" role="operator" href={href("start", { path })}>
          Start...
        </LinkButton>
      </td>
    </tr>
  );
}
