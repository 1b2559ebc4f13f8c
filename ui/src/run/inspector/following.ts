/** Data about the selection that follows the event of the view. What is shown stays until the new data is there. */

import { useEffect, useRef } from "preact/hooks";
import { API, url } from "../../api/client.ts";
import { type Resource, useResource } from "../../api/resource.ts";
import type { RunModel } from "../model.ts";

export type Query = Parameters<typeof url>[1];

/** A part of a run in the API, with its query. */
export function partPath(model: RunModel, part: string, query: Query): string {
  return url(model.path(part), query).slice(API.length);
}

/** A part of the run as it was at the event of the view. */
export function useFollowing<T>(model: RunModel, part: string, query: Query): { data: T | undefined; of: Resource<T> } {
  const subject = partPath(model, part, query);
  const at = model.settled.value; // 0 until the outline is there
  const path = useRef<string | null>(null);
  if (at && !model.isMoving.value) path.current = partPath(model, part, { ...query, at });
  const of = useResource<T>(path.current);
  const last = useRef<{ subject: string; data: T } | null>(null);
  const data = of.data.value;
  if (data !== undefined) last.current = { subject, data };
  return { data: last.current?.subject === subject ? last.current.data : undefined, of };
}

/** A part of the run as it is now, loaded again while the run goes on. */
export function useLatest<T>(model: RunModel, path: string): Resource<T> {
  const resource = useResource<T>(path);
  const settled = model.settled.value;
  useEffect(() => {
    if (resource.data.peek() !== undefined && !model.isPast.peek()) void resource.load();
  }, [settled, resource, model]);
  return resource;
}
