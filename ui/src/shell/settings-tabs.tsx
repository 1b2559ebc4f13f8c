import { path } from "../location.ts";
import { href, type View } from "../routes.ts";
import "./settings-tabs.css";

const SETTINGS: [View, string][] = [
  ["hooks", "Hooks"],
  ["credentials", "Credentials"],
  ["access", "Access"],
  ["system", "System"],
];

/** The four sections under Settings. */
export function SettingsTabs() {
  return (
    <nav class="tabs settings-tabs" aria-label="Settings">
      {SETTINGS.map(([view, label]) => (
        <a key={view} href={href(view)} aria-current={path.value === href(view) ? "page" : undefined}>
          {label}
        </a>
      ))}
    </nav>
  );
}
