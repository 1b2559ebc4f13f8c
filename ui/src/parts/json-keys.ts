/** Where a key leads in a tree (the tree pattern of ARIA). Pure. */

import type { TreeRow } from "./json-rows.ts";

/** The row to go to, "act" to open or close the active one, null if the key does nothing. */
export function keyTarget(key: string, rows: readonly TreeRow[], active: number): number | "act" | null {
  const row = rows[active];
  if (!row) return null;
  switch (key) {
    case "ArrowDown":
      return Math.min(active + 1, rows.length - 1);
    case "ArrowUp":
      return Math.max(active - 1, 0);
    case "Home":
      return 0;
    case "End":
      return rows.length - 1;
    case "Enter":
    case " ":
      return "act";
    case "ArrowRight":
      if (row.row !== "node" || !row.canOpen) return null;
      return row.isOpen ? Math.min(active + 1, rows.length - 1) : "act";
    case "ArrowLeft": {
      if (row.row === "node" && row.isOpen) return "act";
      const parent = rows.findIndex(({ id }) => id === row.parent);
      return parent < 0 ? null : parent;
    }
    default:
      return null;
  }
}
