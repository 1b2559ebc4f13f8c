import { cut, printable } from "../../text/printable.ts";
import "./why.css";

const ONE_LINE = 60;

/** The value of a name in one line; a long one opens on a click. */
export function ShortValue({ name, value }: { name: string; value: unknown }) {
  const text = JSON.stringify(value) ?? "null";
  if (text.length <= ONE_LINE)
    return (
      <p class="short-value">
        <code>
          <span>{name} = </span>
          {printable(text)}
        </code>
      </p>
    );
  return (
    <details class="short-value">
      <summary>
        <code class="cut">
          <span>{name} = </span>
          {printable(cut(text, 200))}
        </code>
      </summary>
      <pre tabIndex={0}>{printable(cut(JSON.stringify(value, null, 2), 100_000))}</pre>
    </details>
  );
}
