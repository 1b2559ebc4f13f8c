/** Data about the selection at the event of the view. The old data stays visible until the new data is loaded. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { API, url } from "../../api/client.ts";
import { type Resource, useResource } from "../../api/resource.ts";
import { Loading, ProblemBox } from "../../parts/states.tsx";
import type { RunModel } from "../model.ts";

export type Query = Parameters<typeof url>[1];

/** A part of a run in the API, with its query. */
export function partPath(model: RunModel, part: string, query: Query): string {
  return url(model.path(part), query).slice(API.length);
}

interface Following<T> {
  data: T | undefined;
  of: Resource<T>;
  past: number | null; // the event that it is of, null for the latest
}

/** A part of the run as it was at the event of the view; null loads nothing, nor does an event before `first`. */
export function useFollowing<T>(model: RunModel, part: string, query: Query | null, first = 1): Following<T> {
  const subject = query ? partPath(model, part, query) : null;
  const rest = useRef({ at: 0, isPast: false }); // where the slider came to rest; 0 until the outline is there
  if (!model.isMoving.value) rest.current = { at: model.settled.value, isPast: model.isPast.value };
  const { at, isPast } = rest.current;
  const of = useResource<T>(query && at >= first ? partPath(model, part, { ...query, at }) : null);
  const last = useRef<{ subject: string | null; data: T } | null>(null);
  const data = of.data.value;
  if (data !== undefined) last.current = { subject, data };
  return { data: last.current?.subject === subject ? last.current.data : undefined, of, past: isPast ? at : null };
}

export function Followed<T>({ by, children }: { by: Following<T>; children: (data: T) => ComponentChildren }) {
  if (by.data !== undefined) return <>{children(by.data)}</>;
  const problem = by.of.problem.value;
  return problem ? <ProblemBox problem={problem} onRetry={by.of.load} /> : <Loading rows={4} />;
}

/** The current state of a part of the run, loaded again while the run goes on. */
export function useLatest<T>(model: RunModel, path: string): Resource<T> {
  const resource = useResource<T>(path);
  const settled = model.settled.value;
  useEffect(() => {
    if (resource.data.peek() !== undefined && !model.isPast.peek()) void resource.load();
  }, [settled, resource, model]);
  return resource;
}
