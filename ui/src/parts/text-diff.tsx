import { useMemo } from "preact/hooks";
import { type DiffRow, folded, lineDiff } from "../text/line-diff.ts";
import { counted } from "../text/number.ts";
import { printable } from "../text/printable.ts";
import "./text-diff.css";

/** Two texts side by side, line by line; equal parts are folded. In narrow windows the lines are below each other. */
export function TextDiff({ a, b, labels }: { a: string; b: string; labels: [string, string] }) {
  const [left, right] = [useMemo(() => a.split("\n"), [a]), useMemo(() => b.split("\n"), [b])];
  const rows = useMemo(() => folded(lineDiff(left, right)), [left, right]);
  if (a === b) return <p class="text-diff-same secondary">The texts are the same.</p>;
  return (
    <div class="text-diff" role="table" aria-label={`Differences between ${labels[0]} and ${labels[1]}`}>
      <div role="row" class="text-diff-head">
        <span role="columnheader">{labels[0]}</span>
        <span role="columnheader">{labels[1]}</span>
      </div>
      {rows.map((row) =>
        typeof row === "number" ? null : (
          <div key={`${row.a}/${row.b}`} role="row" class={row.kind}>
            <Line number={row.a} text={row.a === null ? null : left[row.a - 1]} mark={markOf(row, "a")} />
            <Line number={row.b} text={row.b === null ? null : right[row.b - 1]} mark={markOf(row, "b")} />
          </div>
        ),
      )}
      <p class="quiet">{counted(hiddenLines(rows), "equal line")} not shown</p>
    </div>
  );
}

function hiddenLines(rows: (DiffRow | number)[]): number {
  return rows.reduce<number>((sum, row) => sum + (typeof row === "number" ? row : 0), 0);
}

function markOf({ kind, a, b }: DiffRow, side: "a" | "b"): string {
  if (kind === "same" || (side === "a" ? a : b) === null) return "";
  return side === "a" ? "-" : "+";
}

function Line({ number, text, mark }: { number: number | null; text: string | null | undefined; mark: string }) {
  return (
    <span role="cell" class={`text-diff-line ${mark === "-" ? "old" : mark === "+" ? "new" : number ? "" : "none"}`}>
      <span class="text-diff-number">{number ?? ""}</span>
      <span class="text-diff-mark">{mark}</span>
      <code>{printable(text ?? "")}</code>
    </span>
  );
}
