import { useEffect, useState } from "preact/hooks";
import { lostSince } from "../clock.ts";
import { Button } from "../parts/button.tsx";
import { Moment } from "../parts/moment.tsx";
import type { RunModel } from "./model.ts";

const BANNER_AFTER_MS = 30_000;

/** After 30 s without frames: since when, and when the page tries again. */
export function ReconnectBanner({ model }: { model: RunModel }) {
  const [now, setNow] = useState(Date.now());
  const [lost, retryAt] = [model.brokenSince.value, model.retryAt.value];
  useEffect(() => {
    if (lost === null) return;
    const timer = window.setInterval(() => setNow(Date.now()), 1000);
    return () => window.clearInterval(timer);
  }, [lost === null]);
  if (lost === null || retryAt === null || now - lost < BANNER_AFTER_MS) return null;
  const seconds = Math.max(0, Math.ceil((retryAt - now) / 1000));
  return (
    <div class="reconnect-banner" role="status">
      <span>
        No connection to the server since <Moment at={lostSince.value ?? lost} />.{" "}
        <span aria-live="off">{seconds ? `Next attempt in ${seconds} s.` : "Connecting."}</span>
      </span>
      <Button onClick={model.retryNow}>Try now</Button>
    </div>
  );
}
