/** Users, tokens and sessions. */

import { parameter, setQuery } from "../location.ts";
import { FilterField } from "../parts/filter.tsx";
import { Guarded } from "../parts/states.tsx";
import { type Tab, Tabs } from "../parts/tabs.tsx";
import { SettingsTabs } from "../shell/settings-tabs.tsx";
import { Sessions } from "./sessions.tsx";
import { Tokens } from "./tokens.tsx";
import { Users } from "./users.tsx";

const TABS: Tab[] = [
  { name: "users", label: "Users" },
  { name: "tokens", label: "Tokens" },
  { name: "sessions", label: "Sessions" },
];

export default function AccessPage() {
  const tab = TABS.find(({ name }) => name === parameter("tab"))?.name ?? "users";
  return (
    <div class="page">
      <SettingsTabs />
      <header>
        <h1>Access</h1>
        <FilterField />
      </header>
      <Tabs label="Access" tabs={TABS} active={tab} onChoose={(name) => setQuery({ tab: name })} />
      {tab === "sessions" ? <Sessions /> : <Guarded role="admin">{tab === "users" ? <Users /> : <Tokens />}</Guarded>}
    </div>
  );
}
