import { useEffect, useRef } from "preact/hooks";
import { printable } from "../text/printable.ts";
import "./source-text.css";

/** The text of a playbook with linkable line numbers; one line can be marked. */
export function SourceText({
  text,
  line,
  lineHref,
}: {
  text: string;
  line: number | null;
  lineHref: (line: number) => string;
}) {
  const marked = useRef<HTMLLIElement>(null);
  useEffect(() => marked.current?.scrollIntoView({ block: "center" }), [line]);
  return (
    <ol class="source-text">
      {text.split("\n").map((content, index) => (
        <li key={index} ref={index + 1 === line ? marked : null} class={index + 1 === line ? "marked" : ""}>
          <a href={lineHref(index + 1)} aria-label={`Line ${index + 1}`}>
            {index + 1}
          </a>
          <code>{printable(content) || " "}</code>
        </li>
      ))}
    </ol>
  );
}
