import { useSignal } from "@preact/signals";
import type { GraphNode } from "../../api/types.gen.ts";

const MAX_MATCHES = 8;

/** A field that finds a step by a part of its name. */
export function FindStep({
  nodes,
  onChoose,
  onClose,
}: {
  nodes: readonly GraphNode[];
  onChoose: (node: GraphNode) => void;
  onClose: () => void;
}) {
  const [text, place] = [useSignal(""), useSignal(0)];
  const wanted = text.value.toLowerCase();
  const matches = nodes.filter(({ name }) => name.toLowerCase().includes(wanted)).slice(0, MAX_MATCHES);
  const choose = (node: GraphNode | undefined) => {
    if (!node) return;
    onClose();
    onChoose(node);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) place.value = Math.max(0, Math.min(matches.length - 1, place.value + step));
    else if (event.key === "Enter") choose(matches[place.value]);
    else if (event.key === "Escape") onClose();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="find-step">
      <input
        class="input"
        role="combobox"
        aria-label="Find a step"
        aria-expanded="true"
        aria-controls="find-step-list"
        aria-activedescendant={matches.length ? `find-step-${place.value}` : undefined}
        placeholder="Find a step"
        value={text.value}
        ref={(element) => element?.focus()}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          place.value = 0;
        }}
        onKeyDown={onKeyDown}
        onBlur={onClose}
      />
      <ul id="find-step-list" role="listbox" aria-label="Steps">
        {matches.map((node, row) => (
          <li
            key={node.name}
            id={`find-step-${row}`}
            role="option"
            aria-selected={row === place.value}
            onMouseDown={(event) => {
              event.preventDefault();
              choose(node);
            }}
          >
            {node.name}
          </li>
        ))}
        {!matches.length && <li class="quiet">No step matches.</li>}
      </ul>
    </div>
  );
}
