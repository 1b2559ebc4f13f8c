/** The URLs of the page: one table that is parsed and built from. Pure. */

const PATTERNS = {
  home: "/",
  runs: "/runs",
  run: "/runs/:id",
  fork: "/runs/:id/fork",
  compare: "/compare/:a/:b",
  playbooks: "/playbooks",
  playbook: "/playbooks/*path",
  newPlaybook: "/edit",
  edit: "/edit/*path",
  start: "/start/*path",
  schedules: "/schedules",
  schedule: "/schedules/:name",
  hooks: "/hooks",
  workers: "/workers",
  credentials: "/credentials",
  access: "/access",
  system: "/system",
  signIn: "/sign-in",
} as const;

export type View = keyof typeof PATTERNS;

export interface Route {
  view: View;
  params: Record<string, string>;
}

type Segment = { name: string; kind: "text" | "one" | "rest" };

const ROUTES = (Object.entries(PATTERNS) as [View, string][]).map(([view, pattern]) => ({
  view,
  segments: pattern.split("/").filter(Boolean).map(segment),
}));

function segment(text: string): Segment {
  if (text.startsWith(":")) return { name: text.slice(1), kind: "one" };
  if (text.startsWith("*")) return { name: text.slice(1), kind: "rest" };
  return { name: text, kind: "text" };
}

/** The view that a path names, null if it names none. */
export function parsePath(path: string): Route | null {
  const parts = path.split("/").filter(Boolean);
  for (const { view, segments } of ROUTES) {
    const params = match(segments, parts);
    if (params) return { view, params };
  }
  return null;
}

function match(segments: Segment[], parts: string[]): Record<string, string> | null {
  const params: Record<string, string> = {};
  for (const [place, { name, kind }] of segments.entries()) {
    const part = parts[place];
    if (part === undefined) return null;
    if (kind === "rest") {
      params[name] = parts.slice(place).map(decode).join("/");
      return params;
    }
    if (kind === "text" && part !== name) return null;
    if (kind === "one") params[name] = decode(part);
  }
  return parts.length === segments.length ? params : null;
}

/** Decoded text of a URL; invalid encodings are left unchanged. */
export function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export type Query = Record<string, string | number | null | undefined>;

/** The URL of a view; parameters of the query that are null are left out. */
export function href(view: View, params: Record<string, string> = {}, query: Query = {}): string {
  const path = PATTERNS[view].replace(/[:*](\w+)/g, (marker, name: string) => {
    const value = params[name] ?? "";
    return marker[0] === "*" ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value);
  });
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value != null && value !== "") search.set(name, String(value));
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/** A path on this server, for `next` of the sign-in view; anything else is the list of runs. */
export function safeNext(next: string | null): string {
  return next && /^\/(?![/\\])/.test(next) ? next : "/runs";
}
