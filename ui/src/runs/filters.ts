/** The filters of the list of runs: from the URL, and for the API. Pure. */

export const STATUSES = [
  "running",
  "waiting",
  "paused",
  "failed",
  "succeeded",
  "cancelled",
  "pending",
  "cancelling",
] as const;
export const WAITS = ["signal", "worker", "admission", "join", "retry", "child", "timer", "resume"] as const;

export const PERIODS: readonly { value: string; label: string; ms: number | null }[] = [
  { value: "", label: "any time", ms: null },
  { value: "1h", label: "last hour", ms: 3_600_000 },
  { value: "24h", label: "last 24 h", ms: 86_400_000 },
  { value: "7d", label: "last 7 days", ms: 7 * 86_400_000 },
  { value: "30d", label: "last 30 days", ms: 30 * 86_400_000 },
];

export interface Filters {
  statuses: string[];
  playbook: string;
  since: string; // a period such as 24h, or a time
  until: string;
  waits: string;
  children: boolean;
  q: string;
}

export function filtersOf(query: URLSearchParams): Filters {
  const known = (name: string, values: readonly string[]) =>
    query
      .getAll(name)
      .flatMap((text) => text.split(","))
      .filter((value) => values.includes(value));
  return {
    statuses: known("status", STATUSES),
    playbook: query.get("playbook") ?? "",
    since: query.get("since") ?? "",
    until: query.get("until") ?? "",
    waits: known("waits", WAITS)[0] ?? "",
    children: query.get("children") === "1",
    q: query.get("q") ?? "",
  };
}

export function isFiltered(filters: Filters): boolean {
  const { statuses, playbook, since, until, waits, q } = filters;
  return Boolean(statuses.length || playbook || since || until || waits || q);
}

/** Parameters of GET /executions. A period is counted from `now`, in whole minutes, so that the ETag can match. */
export function listQuery(filters: Filters, now: number): Record<string, string | string[] | number> {
  return {
    limit: 100,
    status: filters.statuses,
    ...countsQuery(filters, now),
    until: filters.until,
    waits: filters.waits,
    q: filters.q,
  };
}

/** Parameters of GET /executions/counts: the counts are for the choices of status, so status is no part of it. */
export function countsQuery(filters: Filters, now: number): Record<string, string> {
  return {
    path: filters.playbook,
    since: sinceTime(filters.since, now),
    parent: filters.children ? "" : "none",
  };
}

function sinceTime(since: string, now: number): string {
  const period = PERIODS.find(({ value }) => value === since);
  if (!period) return since;
  if (period.ms === null) return "";
  return new Date(Math.floor((now - period.ms) / 60_000) * 60_000).toISOString();
}

/** The selected time: a period, or the times of a link in words. */
export function periodOf({ since, until }: Filters): string {
  const isPeriod = !until && PERIODS.some(({ value }) => value === since);
  return isPeriod ? since : [since && `since ${since}`, until && `until ${until}`].filter(Boolean).join(" ");
}

/** What a click on a status does: it is added to the choice or taken away. */
export function toggled(statuses: string[], status: string): string {
  const rest = statuses.filter((other) => other !== status);
  return (rest.length === statuses.length ? [...statuses, status] : rest).join(",");
}
