import { Status } from "../look/status.tsx";
import { Elapsed, Moment } from "../parts/moment.tsx";
import { href } from "../routes.ts";
import type { RunModel } from "./model.ts";
import "./header.css";

export function RunHeader({ model }: { model: RunModel }) {
  const details = model.details.value;
  if (!details) return null;
  return (
    <header class="run-header">
      <h1>{details.name}</h1>
      <a href={href("playbook", { path: details.path }, { version: details.version })}>
        {details.path}
        {details.version !== null && `@${details.version}`}
      </a>
      <Status status={model.frame.value?.status ?? details.status} soft />
      <span class="cut">{model.frame.value?.activity ?? details.activity}</span>
      <span class="secondary">
        <Moment at={details.started} />, <Elapsed from={details.started} to={details.ended} />
      </span>
    </header>
  );
}
