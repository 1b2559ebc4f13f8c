import { useSignal } from "@preact/signals";
import { request } from "../api/client.ts";
import { type Me, me, setToken } from "../me.ts";
import { later } from "../parts/lazy.tsx";
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

const ZONES = [
  ["", "Times in the zone of the browser"],
  ["UTC", "Times in UTC"],
] as const;
const ZoneDialog = later("zoneDialog", null);

export function UserMenu({ user }: { user: Me }) {
  const isChoosing = useSignal(false);
  const items: MenuItem[] = [
    ...THEMES.map(([name, label]) => ({
      label,
      checked: theme.value === name,
      onChoose: () => {
        theme.value = name;
      },
    })),
    ...ZONES.map(([name, label]) => ({
      label,
      checked: zone.value === name,
      onChoose: () => {
        zone.value = name;
      },
    })),
    {
      label: "Times in another zone...",
      checked: !ZONES.some(([name]) => name === zone.value),
      hint: zone.value || Intl.DateTimeFormat().resolvedOptions().timeZone,
      onChoose: () => {
        isChoosing.value = true;
      },
    },
    {
      label: singleKeys.value ? "Turn off single-key shortcuts" : "Turn on single-key shortcuts",
      onChoose: () => {
        singleKeys.value = !singleKeys.value;
      },
    },
    { label: "Keyboard shortcuts", hint: "?", onChoose: openHelp },
    { label: "Sign out", hint: `${user.name}, ${user.role}`, onChoose: signOut },
  ];
  return (
    <>
      <Menu label={`${user.name}, ${user.role}`} icon="user" items={items}>
        {user.name}
      </Menu>
      {isChoosing.value && (
        <ZoneDialog
          onClose={() => {
            isChoosing.value = false;
          }}
        />
      )}
    </>
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
