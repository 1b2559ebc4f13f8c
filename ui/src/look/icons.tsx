/** Icons of actions, 16 px, in the colour of the text around them. */

const PATHS = {
  search: "M7 12.5A5.5 5.5 0 1 0 7 1.5a5.5 5.5 0 0 0 0 11zM11 11l3.5 3.5",
  close: "M3.5 3.5l9 9m0-9l-9 9",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  check: "M2.5 8.5l3.5 3.5 7.5-8",
  down: "M3.5 6l4.5 4.5L12.5 6",
  up: "M3.5 10L8 5.5l4.5 4.5",
  right: "M6 3.5l4.5 4.5L6 12.5",
  left: "M10 3.5L5.5 8l4.5 4.5",
  first: "M3.5 3v10M12.5 3.5L7 8l5.5 4.5",
  last: "M12.5 3v10M3.5 3.5L9 8l-5.5 4.5",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  plus: "M8 2.5v11M2.5 8h11",
  minus: "M2.5 8h11",
  fit: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4",
  link: "M6.5 9.5l3-3M7 4.5l1.5-1.5a3 3 0 0 1 4.5 4.5L11.5 9M9 11.5L7.5 13A3 3 0 0 1 3 8.5L4.5 7",
  download: "M8 2v8m-3.5-3L8 10.5 11.5 7M2.5 13.5h11",
  warning: "M8 2L1.5 13.5h13zM8 6.5v3.5M8 12h.01",
  runs: "M5 2.5l8 5.5-8 5.5z",
  playbooks: "M3 2.5h4a1.5 1.5 0 0 1 1 .5 1.5 1.5 0 0 1 1-.5h4v10H9a1.5 1.5 0 0 0-1 .5 1.5 1.5 0 0 0-1-.5H3zM8 3v10",
  schedules: "M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM8 4.5V8l2.5 1.5",
  workers: "M2.5 2.5h11v4h-11zM2.5 9.5h11v4h-11zM5 4.5h.01M5 11.5h.01",
  settings: "M2 4.5h6m4 0h2M2 11.5h2m4 0h6M10 2.5v4M6 9.5v4",
  user: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.5 14.5c.5-3 2.7-4.5 5.5-4.5s5 1.5 5.5 4.5",
  play: "M4.5 2.5l9 5.5-9 5.5z",
  pause: "M5 3v10M11 3v10",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      class="icon"
      width="16"
      height="16"
      viewBox="0 0 16 16"
      stroke-width={name === "more" ? 2.4 : 1.5}
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
