import { request } from "../api/client.ts";
import { type Me, me, setToken } from "../me.ts";
import { Menu, type MenuItem } from "../parts/menu.tsx";
import { toastProblem } from "../parts/toast.tsx";
import { singleKeys, type Theme, theme, zone } from "../preferences.ts";
import { clearSession } from "../storage.ts";
import { openHelp } from "./help-state.ts";

const THEMES: [Theme, string][] = [
  ["system", "System theme"],
  ["light", "Light theme"],
  ["dark", "Dark theme"],
];

export function UserMenu({ user }: { user: Me }) {
  const items: MenuItem[] = [
    ...THEMES.map(([name, label]) => ({
      label,
      checked: theme.value === name,
      onChoose: () => {
        theme.value = name;
      },
    })),
    {
      label: zone.value === "UTC" ? "Times in the time zone of the browser" : "Times in UTC",
      hint: `Now ${zone.value || Intl.DateTimeFormat().resolvedOptions().timeZone}`,
      onChoose: () => {
        zone.value = zone.value === "UTC" ? "" : "UTC";
      },
    },
    {
      label: singleKeys.value ? "Turn off single-key shortcuts" : "Turn on single-key shortcuts",
      onChoose: () => {
        singleKeys.value = !singleKeys.value;
      },
    },
    { label: "Keyboard shortcuts", hint: "?", onChoose: openHelp },
    { label: "Sign out", onChoose: signOut },
  ];
  return (
    <Menu label={`${user.name}, ${user.role}`} icon="user" items={items}>
      {user.name}
    </Menu>
  );
}

async function signOut(): Promise<void> {
  try {
    await request("DELETE", "/sessions", { anonymous: true });
  } catch (error) {
    return toastProblem("You were not signed out", error);
  }
  setToken(null);
  me.value = null;
  clearSession();
  window.location.assign("/sign-in");
}
