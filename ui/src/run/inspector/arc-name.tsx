import { Icon } from "../../look/icons.tsx";

/** An arrow on the screen, "start to approve" for screen readers. */
export function ArcName({ from, to }: { from: string; to: string }) {
  return (
    <span class="arc-name">
      {from}
      <span class="hidden-text"> to </span>
      <Icon name="right" />
      {to}
    </span>
  );
}
