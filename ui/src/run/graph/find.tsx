import type { GraphNode } from "../../api/types.gen.ts";

/** A field that finds a step by a part of its name; the browser suggests the names. */
export function FindStep({
  nodes,
  onChoose,
  onClose,
}: {
  nodes: readonly GraphNode[];
  onChoose: (node: GraphNode) => void;
  onClose: () => void;
}) {
  const choose = (text: string) => {
    const [node] = nodes
      .filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()))
      .sort((a, b) => a.name.length - b.name.length);
    if (!node) return;
    onClose();
    onChoose(node);
  };
  return (
    <div class="find-step">
      <input
        class="input"
        list="find-step-names"
        aria-label="Find a step"
        placeholder="Find a step"
        ref={(element) => element?.focus()}
        onInput={(event) => {
          const { inputType } = event as InputEvent;
          if (!inputType || inputType === "insertReplacementText") choose(event.currentTarget.value); // a suggestion
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") choose(event.currentTarget.value);
          if (event.key === "Escape") onClose();
        }}
        onBlur={onClose}
      />
      <datalist id="find-step-names">
        {nodes.map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </div>
  );
}
