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
