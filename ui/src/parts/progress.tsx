import { count } from "../text/number.ts";
import "./progress.css";

interface ProgressProps {
  total: number;
  ok: number;
  failed: number;
  running?: number;
}

/** A bar of a loop: done, failed (hatched), running, remaining. */
export function ProgressBar({ total, ok, failed, running = 0 }: ProgressProps) {
  const share = (part: number) => (total ? `${(100 * part) / total}%` : "0");
  return (
    <span
      class="progress"
      role="img"
      aria-label={`${count(ok + failed)} of ${count(total)} done${failed ? `, ${count(failed)} failed` : ""}`}
    >
      <span class="progress-ok" style={{ width: share(ok) }} />
      <span class="progress-failed" style={{ width: share(failed) }} />
      <span class="progress-running" style={{ width: share(running) }} />
    </span>
  );
}
