import type { ComponentChildren } from "preact";
import { href } from "../routes.ts";
import type { RunModel } from "./model.ts";

/** A link to the playbook that ran, at a line; plain text if it is not registered. */
export function PlaybookLink({
  model,
  line,
  children,
}: {
  model: RunModel;
  line?: number;
  children: ComponentChildren;
}) {
  const details = model.details.value;
  if (!details || details.version === null) return <span>{children}</span>;
  return <a href={href("playbook", { path: details.path }, { version: details.version, line })}>{children}</a>;
}
