import type { Signal } from "@preact/signals";
import "./split.css";

/** A splitter between two panes; it moves by pointer and by keyboard. The size belongs to the pane after it. */
export function Splitter({
  size,
  least,
  most,
  label,
  axis,
}: {
  size: Signal<number>;
  least: number;
  most: number;
  label: string;
  axis: "x" | "y";
}) {
  const set = (value: number) => {
    size.value = Math.round(Math.min(most, Math.max(least, value)));
  };
  const onPointerDown = (event: PointerEvent) => {
    const bar = event.currentTarget as HTMLElement;
    const start = { at: axis === "x" ? event.clientX : event.clientY, size: size.peek() };
    bar.setPointerCapture(event.pointerId);
    const onMove = (move: PointerEvent) => set(start.size - ((axis === "x" ? move.clientX : move.clientY) - start.at));
    bar.addEventListener("pointermove", onMove);
    bar.addEventListener("pointerup", () => bar.removeEventListener("pointermove", onMove), { once: true });
    event.preventDefault();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const [more, less] = axis === "x" ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
    if (event.key !== more && event.key !== less) return;
    event.preventDefault();
    event.stopPropagation();
    set(size.peek() + (event.key === more ? 16 : -16));
  };
  return (
    <div
      class={`splitter ${axis}`}
      role="separator"
      aria-label={label}
      aria-orientation={axis === "x" ? "vertical" : "horizontal"}
      aria-valuenow={size.value}
      aria-valuemin={least}
      aria-valuemax={most}
      tabIndex={0}
      onPointerDown={onPointerDown}
      onKeyDown={onKeyDown}
    />
  );
}
