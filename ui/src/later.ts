/** Modules that are loaded when they are first opened: views, panels of a run and dialogs. It is one table, since a
 *  module for each of them would add a kilobyte to the page. */

import access from "./access/page.tsx";
import compare from "./compare/page.tsx";
import credentials from "./credentials/page.tsx";
import fork from "./fork/page.tsx";
import hooks from "./hooks/page.tsx";
import playbooks from "./playbooks/page.tsx";
import playbook from "./playbooks/playbook.tsx";
import respondDialog from "./respond/dialog.tsx";
import runDialogs from "./run/actions-dialogs.tsx";
import data from "./run/data/data.tsx";
import events from "./run/events/events.tsx";
import items from "./run/items/items.tsx";
import logs from "./run/logs/logs.tsx";
import related from "./run/related/related.tsx";
import bulkDialog from "./runs/bulk-dialog.tsx";
import schedules from "./schedules/page.tsx";
import schedule from "./schedules/schedule.tsx";
import zoneDialog from "./shell/zone-dialog.tsx";
import signIn from "./sign-in/page.tsx";
import start from "./start/page.tsx";
import system from "./system/page.tsx";
import workers from "./workers/page.tsx";

export default {
  access,
  bulkDialog,
  compare,
  credentials,
  data,
  events,
  fork,
  hooks,
  items,
  logs,
  playbook,
  playbooks,
  related,
  respondDialog,
  runDialogs,
  schedule,
  schedules,
  signIn,
  start,
  system,
  workers,
  zoneDialog,
};
