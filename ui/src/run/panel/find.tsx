import { useEffect, useRef, useState } from "preact/hooks";
import { parameter, setQuery } from "../../location.ts";

const TYPED_MS = 300;

/** The text that a tab looks for: in the URL, shortly after the last keystroke. */
export function PanelFind({ placeholder }: { placeholder: string }) {
  const q = parameter("q");
  const [text, setText] = useState(q);
  const timer = useRef(0);
  useEffect(() => setText(q), [q]);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const find = (wanted: string, ms: number) => {
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setQuery({ q: wanted.trim() }, { replace: true }), ms);
  };
  return (
    <input
      class="input panel-find"
      type="search"
      aria-label={placeholder}
      placeholder={placeholder}
      data-filter
      value={text}
      onInput={(event) => {
        setText(event.currentTarget.value);
        find(event.currentTarget.value, TYPED_MS);
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter") find(text, 0);
        if (event.key === "Escape") event.currentTarget.blur();
      }}
    />
  );
}
