import type { ComponentType, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem } from "../api/client.ts";
import { Loading, ProblemBox } from "./states.tsx";

/** After an upgrade the server has other files, which a reload of the page finds. */
const NOT_LOADED = new Problem({
  title: "The view could not be loaded.",
  detail: "The server is not responding, or it serves a newer page than this one. Retry loads the page again.",
});

export interface Lazy<P> {
  (props: P): VNode | null;
  load: () => Promise<unknown>; // before it is rendered
}

/** A component that is loaded when it is first rendered; until then the placeholder is shown. */
export function lazy<P extends object>(
  load: () => Promise<{ default: ComponentType<P> }>,
  placeholder: VNode | null = <Loading />,
): Lazy<P> {
  let loading: Promise<unknown> | undefined;
  let Loaded: ComponentType<P> | undefined;
  const loadOnce = () => {
    loading ??= load().then((module) => {
      Loaded = module.default;
    });
    return loading;
  };
  function LazyComponent(props: P) {
    const [state, setState] = useState<"loading" | "loaded" | "failed">(Loaded ? "loaded" : "loading");
    useEffect(() => {
      loadOnce().then(
        () => setState("loaded"),
        () => setState("failed"),
      );
    }, []);
    if (Loaded) return <Loaded {...props} />;
    return state === "failed" ? (
      <ProblemBox problem={NOT_LOADED} onRetry={() => window.location.reload()} />
    ) : (
      placeholder
    );
  }
  return Object.assign(LazyComponent, { load: loadOnce });
}

type Later = typeof import("../later.ts").default;
type PropsOf<C> = C extends (props: infer P extends object) => unknown ? P : object;

/** A component of the table in later.ts. */
export function later<K extends keyof Later>(name: K, placeholder?: VNode | null): Lazy<PropsOf<Later[K]>> {
  const load = async () => ({ default: (await import("../later.ts")).default[name] });
  return lazy(load as () => Promise<{ default: ComponentType<PropsOf<Later[K]>> }>, placeholder);
}
