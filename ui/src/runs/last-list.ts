/** The list that the user came from, so that the run view can go to its next and previous run. */

const KEY = "noetl.list";
const MAX_RUNS = 1000;

export function rememberList(ids: string[]): void {
  try {
    window.sessionStorage.setItem(KEY, ids.slice(0, MAX_RUNS).join(" "));
  } catch {
    // Without storage the run view has no neighbours.
  }
}

/** The run `step` places after another one in the list, null at its ends. */
export function neighbour(id: string, step: 1 | -1): string | null {
  let ids: string[] = [];
  try {
    ids = (window.sessionStorage.getItem(KEY) ?? "").split(" ");
  } catch {
    // As above.
  }
  const place = ids.indexOf(id);
  return place < 0 ? null : (ids[place + step] ?? null);
}
