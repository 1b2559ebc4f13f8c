/** Playbooks as a tree of their paths. Pure. */

export interface TreeRow<T> {
  path: string; // of the folder or of the playbook
  name: string; // its last part
  depth: number;
  item: T | null; // null for a folder
  count: number; // playbooks in a folder
}

/** The rows of the tree, without the contents of folders in `closed`. */
export function treeRows<T extends { path: string }>(items: T[], closed: ReadonlySet<string>): TreeRow<T>[] {
  const rows: TreeRow<T>[] = [];
  const add = (inside: T[], prefix: string, depth: number) => {
    const folders = new Map<string, T[]>();
    for (const item of inside) {
      const [first = "", ...rest] = item.path.slice(prefix.length).split("/");
      if (rest.length) folders.set(first, [...(folders.get(first) ?? []), item]);
      else rows.push({ path: item.path, name: first, depth, item, count: 0 });
    }
    for (const [name, content] of folders) {
      const path = prefix + name;
      rows.push({ path, name, depth, item: null, count: content.length });
      if (!closed.has(path)) add(content, `${path}/`, depth + 1);
    }
  };
  add(items, "", 0);
  return rows;
}

/** The path of a playbook in the API and in URLs. */
export function encodedPath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}
