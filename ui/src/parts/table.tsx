import type { ComponentChildren } from "preact";
import { NoMatch } from "./filter.tsx";
import "./table.css";

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  kind?: "number" | "actions";
}

/** A short table, with a message if a filter matches no row; on phones each row is a card whose cells have titles. */
export function Table<T>({
  label,
  columns,
  rows,
  rowKey,
}: {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
}) {
  if (!rows.length) return <NoMatch what={label.toLowerCase()} />;
  return (
    <div class="table-scroll card">
      <table class="table" aria-label={label}>
        <thead>
          <tr>
            {columns.map(({ title, kind }) => (
              <th key={title} scope="col" class={kind}>
                {kind === "actions" ? <span class="hidden-text">{title}</span> : title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map(({ title, cell, kind }) => (
                <td key={title} class={kind} data-title={kind === "actions" ? "" : title}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
