/** Levels and groups of events, as the URL has them. Pure. */

export const LEVELS = ["step", "task", "event"] as const;
export type Level = (typeof LEVELS)[number];

export interface EventGroup {
  name: string;
  label: string;
  types: string; // as the API filters them
}

export const GROUPS: readonly EventGroup[] = [
  { name: "run", label: "Run", types: "playbook.*,workflow.*,execution.*" },
  { name: "steps", label: "Steps", types: "step.*" },
  { name: "tasks", label: "Tasks", types: "task.*,sink.*,poll.*" },
  { name: "loops", label: "Loops", types: "loop.*" },
  { name: "arcs", label: "Arcs", types: "next.*,case.*" },
  { name: "tokens", label: "Tokens", types: "token.*" },
  { name: "data", label: "ctx", types: "ctx.*" },
  { name: "waits", label: "Signals and timers", types: "message.*,timer.*" },
  { name: "failures", label: "Failures", types: "step.failed,loop.iteration.failed,task.retry.scheduled,token.denied" },
];

/** The level that the URL names; every event unless it names another. */
export function levelOf(text: string): Level {
  return LEVELS.find((level) => level === text) ?? "event";
}

export function groupsOf(text: string): string[] {
  const names = text.split(",");
  return GROUPS.filter(({ name }) => names.includes(name)).map(({ name }) => name);
}

/** The `types` of the URL with one group switched on or off, null if none is left. */
export function toggledGroup(text: string, name: string): string | null {
  const chosen = new Set(groupsOf(text));
  if (!chosen.delete(name)) chosen.add(name);
  return groupsOf([...chosen].join(",")).join(",") || null;
}

/** The `types` of a request for the groups of the URL. */
export function typesOf(text: string): string {
  const chosen = groupsOf(text);
  return GROUPS.filter(({ name }) => chosen.includes(name))
    .map(({ types }) => types)
    .join(",");
}
