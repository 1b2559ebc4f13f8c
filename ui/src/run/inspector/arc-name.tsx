import { Icon } from "../../look/icons.tsx";

/** "start to approve", with an arrow for the eye. */
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
