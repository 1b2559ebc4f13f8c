/** The sections of the page: a bar at the top, on phones at the bottom. */

import { connection, lostSince } from "../clock.ts";
import { path } from "../location.ts";
import { Icon, type IconName } from "../look/icons.tsx";
import { me } from "../me.ts";
import { Moment } from "../parts/moment.tsx";
import { zone } from "../preferences.ts";
import { href, type View } from "../routes.ts";
import { zoneName } from "../text/time.ts";
import { openPalette } from "./palette-state.ts";
import { UserMenu } from "./user-menu.tsx";
import "./sections.css";

interface Section {
  view: View;
  label: string;
  icon: IconName;
  prefixes: string[]; // of the paths that belong to it
}

const SECTIONS: Section[] = [
  { view: "runs", label: "Runs", icon: "runs", prefixes: ["/runs", "/compare"] },
  { view: "playbooks", label: "Playbooks", icon: "playbooks", prefixes: ["/playbooks", "/edit", "/start"] },
  { view: "schedules", label: "Schedules", icon: "schedules", prefixes: ["/schedules"] },
  { view: "workers", label: "Workers", icon: "workers", prefixes: ["/workers"] },
  { view: "system", label: "Settings", icon: "settings", prefixes: ["/hooks", "/credentials", "/access", "/system"] },
];

function SectionLinks({ withIcons }: { withIcons: boolean }) {
  return (
    <>
      {SECTIONS.map(({ view, label, icon, prefixes }) => {
        const isHere = prefixes.some((prefix) => path.value === prefix || path.value.startsWith(`${prefix}/`));
        return (
          <a key={view} href={href(view)} aria-current={isHere ? "page" : undefined}>
            {withIcons && <Icon name={icon} />}
            {label}
          </a>
        );
      })}
    </>
  );
}

export function TopBar() {
  return (
    <header class="top-bar">
      <a class="product" href="/runs">
        noetl
      </a>
      <nav class="tabs sections" aria-label="Sections">
        <SectionLinks withIcons={false} />
      </nav>
      <button type="button" class="search-button" onClick={openPalette} aria-label="Search Ctrl K">
        <Icon name="search" />
        <span>Search </span>
        <kbd>Ctrl K</kbd>
      </button>
      <ConnectionIndicator />
      <small title="Time zone of the page">{zoneName(zone.value, Date.now())}</small>
      {me.value && <UserMenu user={me.value} />}
    </header>
  );
}

export function BottomBar() {
  return (
    <nav class="bottom-bar" aria-label="Sections">
      <SectionLinks withIcons={true} />
    </nav>
  );
}

function ConnectionIndicator() {
  const state = connection.value;
  if (state === "online")
    return <span class="connection online" role="img" aria-label="Connected" title="Connected to the server" />;
  return (
    <span class={`connection ${state}`} role="status">
      <span class="ring" />
      {state === "down" ? "The server is not responding" : "Reconnecting"}{" "}
      <small>
        as of <Moment at={lostSince.value} />
      </small>
    </span>
  );
}
