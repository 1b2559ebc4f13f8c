// Generated.
export interface StartRequest {
  path?: string | null;
  version?: number | null;
  playbook_id?: string | null;
  playbook?: string | null;
  payload?: Record<string, unknown>;
  ctx?: Record<string, unknown>;
  strict_keys?: string[];
}

export interface Started {
  execution_id: string;
  warnings: string[];
}

export interface ExecutionView {
  execution_id: string;
  status: "cancelled" | "cancelling" | "failed" | "paused" | "pending" | "running" | "succeeded" | "waiting";
  result: unknown;
  ctx: Record<string, unknown>;
  steps: Record<string, StepView>;
  error: ErrorView | null;
  continued_errors: number;
  continued: ErrorView[];
  warnings: string[];
  events: number;
  duration_ms: number;
  name: string;
  path: string;
  playbook_id: string;
  parent: string | null;
  actor: Actor | null;
  missing_pools: string[];
  cancel_reason: string | null;
  cancelled_by: Actor | null;
  started: string;
  ended: string | null;
  tokens: TokenView[];
  progress: Record<string, LoopView>;
  running: RunningTaskView[];
  waiting: WaitView[];
  waits: Wait[];
  activity: string;
  trigger: Trigger;
  source: string | null;
  local: boolean;
  file: string;
}

export interface StepView {
  status: string;
  runs: number;
  result: unknown;
  error: Record<string, unknown> | null;
  items: LoopView | null;
}

export interface LoopView {
  total: number;
  ok: number;
  failed: number;
  running: number;
}

export interface ErrorView {
  kind: string | null;
  message: string | null;
  step: string | null;
  task: string | null;
  attempt: number | null;
  item: number | null;
  file: string;
  line: number | null;
  column: number | null;
  details: Record<string, unknown>;
}

export interface Actor {
  kind: "hook" | "local" | "schedule" | "token" | "user" | "worker";
  name: string;
}

export interface TokenView {
  id: number;
  step: string;
  status: "delayed" | "held" | "ready" | "waiting";
  due: string | null;
}

export interface RunningTaskView {
  step: string;
  run: string;
  task: string;
  item: number | null;
  attempt: number;
  started: string;
  duration_ms: number;
}

export interface WaitView {
  step: string;
  run: string | null;
  item: number | null;
  kind: "child" | "delay" | "event" | "gate" | "join" | "retry" | "signal";
  names: string[];
  child: string | null;
  commands: string[];
  until: string | null;
  message: string;
}

export interface Wait {
  run: string;
  item: number | null;
  for: "admission" | "child" | "event" | "join" | "retry" | "signal" | "timer" | "worker";
  name: string;
  due: string | null;
  since: string;
  message: string;
  fields: SignalField[];
}

export interface SignalField {
  path: string;
  type: "any" | "boolean" | "number" | "string";
}

export interface Trigger {
  kind: "api" | "child" | "fork" | "hook" | "schedule";
  name: string;
}

export interface ExecutionDetails {
  execution_id: string;
  status: "cancelled" | "cancelling" | "failed" | "paused" | "pending" | "running" | "succeeded" | "waiting";
  result: unknown;
  ctx: Record<string, unknown>;
  steps: Record<string, StepView>;
  error: ErrorView | null;
  continued_errors: number;
  continued: ErrorView[];
  warnings: string[];
  events: number;
  duration_ms: number;
  name: string;
  path: string;
  playbook_id: string;
  parent: string | null;
  actor: Actor | null;
  missing_pools: string[];
  cancel_reason: string | null;
  cancelled_by: Actor | null;
  started: string;
  ended: string | null;
  tokens: TokenView[];
  progress: Record<string, LoopView>;
  running: RunningTaskView[];
  waiting: WaitView[];
  waits: Wait[];
  activity: string;
  trigger: Trigger;
  source: string | null;
  local: boolean;
  file: string;
  version: number | null;
  payload: Record<string, unknown>;
  forked_from: ForkPoint | null;
  children: number;
  forks: number;
}

export interface ForkPoint {
  execution_id: string;
  seq: number;
  reason: "fork" | "retry";
}

export interface ExecutionPage {
  items: ExecutionItem[];
  next: string | null;
}

export interface ExecutionItem {
  execution_id: string;
  name: string;
  path: string;
  status: "cancelled" | "cancelling" | "failed" | "paused" | "pending" | "running" | "succeeded" | "waiting";
  started: string;
  ended: string | null;
  duration_ms: number;
  playbook_id: string;
  version: number | null;
  parent: string | null;
  source: string | null;
  local: boolean;
  continued_errors: number;
  activity: string;
  progress: LoopProgress | null;
  failed_items: number;
  waits: Wait[];
  error: ErrorLine | null;
  trigger: Trigger | null;
  events: number | null;
}

export interface LoopProgress {
  total: number;
  ok: number;
  failed: number;
}

export interface ErrorLine {
  kind: string;
  step: string | null;
  message: string;
}

export interface ExecutionCounts {
  pending?: number;
  running?: number;
  waiting?: number;
  paused?: number;
  cancelling?: number;
  succeeded?: number;
  failed?: number;
  cancelled?: number;
}

export interface RelatedView {
  parent: ExecutionItem | null;
  source: ExecutionItem | null;
  children: ExecutionPage;
  forks: ExecutionItem[];
}

export interface EventPage {
  items: ((number | string)[] | EventView)[];
  next: number | null;
  prev: number | null;
  scanned_to: number | null;
}

export interface EventView {
  event_id: string;
  seq: number;
  event_type: string;
  timestamp: string;
  source: string;
  entity_type: string;
  entity_id: string;
  parent_id: string | null;
  status: string;
  execution_id: string;
  step_run_id: string | null;
  task_run_id: string | null;
  iteration_id: string | null;
  task_label: string | null;
  attempt: number | null;
  action_id: string | null;
  trace_id: string;
  actor: Actor | null;
  payload: Record<string, unknown>;
  name: string;
  ts: string;
  entity: string;
  data: Record<string, unknown>;
  workflow_run_id: string;
  tool_run_id: string | null;
  iteration: number | null;
  page: number | null;
}

export interface StateView {
  execution_id: string;
  seq: number;
  timestamp: string | null;
  status: "cancelled" | "cancelling" | "failed" | "paused" | "pending" | "running" | "succeeded" | "waiting";
  workload?: Record<string, unknown>;
  ctx?: Record<string, unknown>;
  steps?: Record<string, StepView>;
  tokens?: TokenView[];
  progress?: Record<string, LoopView>;
  result?: unknown;
  error?: ErrorView | null;
  runs?: StateRunView[];
  signals?: Record<string, number>;
  timers?: TimerView[];
}

export interface StateRunView {
  run: string;
  step: string;
  status: "running" | "scheduled" | "waiting";
  started: string | null;
  task: string | null;
  worker: string | null;
  pool: string;
  waits: Wait[];
}

export interface TimerView {
  name: string;
  due: string;
}

export interface VarsView {
  execution_id: string;
  vars: Record<string, unknown>;
}

export interface CancelRequest {
  reason?: string;
}

export interface ExecutionStatus {
  execution_id: string;
  status: "cancelled" | "cancelling" | "failed" | "paused" | "pending" | "running" | "succeeded" | "waiting";
}

export type Nothing = Record<string, unknown>;

export interface SignalRequest {
  name: string;
  id?: string | null;
  payload?: unknown;
  keep?: boolean;
}

export interface SignalAnswer {
  execution_id: string;
  name: string;
  id: string;
  answer: "accepted" | "dropped" | "duplicate" | "late";
  accepted: boolean;
  duplicate: boolean;
  late: boolean;
  pending: boolean;
  awaited: string[];
}

export interface ExecutionDiff {
  equal: boolean | null;
  status: Sides;
  result: Sides;
  error: Sides;
  ctx: Record<string, Sides>;
  steps: StepSides[];
  first_difference: EventSides | null;
  scanned_to: number;
}

export interface Sides {
  a: unknown;
  b: unknown;
}

export interface StepSides {
  step: string;
  a: Record<string, unknown> | null;
  b: Record<string, unknown> | null;
  differs: string[];
}

export interface EventSides {
  a_seq: number | null;
  b_seq: number | null;
  a: Record<string, unknown> | null;
  b: Record<string, unknown> | null;
}

export interface ExplainView {
  execution_id: string;
  step: string;
  run: string | null;
  status: string | null;
  runs: number;
  file: string;
  line: number | null;
  column: number | null;
  decisions: DecisionView[];
  next: number | null;
  stands: string[];
}

export interface DecisionView {
  seq: number;
  timestamp: string;
  kind: "admission" | "arcs" | "case" | "rules";
  about: string;
  says: string;
  reasons: ReasonView[];
  differs: string | null;
  error: ErrorView | null;
  inputs: Record<string, unknown> | null;
}

export interface ReasonView {
  leads_to: string;
  when: string | null;
  verdict: "error" | "matched" | "not matched" | "not reached";
  values: Record<string, unknown>;
  missing: string[];
  note: string | null;
  file: string;
  line: number | null;
  column: number | null;
}

export interface ReplayRequest {
  playbook: string;
  after?: number;
}

export interface ReplayView {
  equal: boolean | null;
  scanned_to: number;
  first_difference?: Difference | null;
}

export interface Difference {
  seq: number;
  event_type: string;
  logged: Record<string, unknown> | null;
  replayed: Record<string, unknown> | null;
  message: string;
}

export interface ForkRequest {
  playbook?: string | null;
  ctx?: Record<string, unknown>;
  payload?: Record<string, unknown>;
  strict_keys?: string[];
  at?: number | null;
}

export interface ForkView {
  execution_id: string;
  source_id: string;
  source_seq: number;
  again: AgainView[];
  done: string[];
  warnings: string[];
}

export interface AgainView {
  run: string;
  step: string;
  task: string | null;
  items: number | null;
  failed: boolean;
}

export interface ForkPreview {
  source_id: string;
  source_seq: number;
  again: AgainView[];
  done: string[];
  warnings: string[];
}

export interface RetryRequest {
  playbook?: string | null;
  ctx?: Record<string, unknown>;
  payload?: Record<string, unknown>;
  strict_keys?: string[];
  step?: string | null;
  failed_items?: boolean;
}

export interface LoopItemPage {
  items: ItemView[];
  next: number | null;
  scanned_to: number | null;
}

export interface ItemView {
  index: number;
  status: "failed" | "ok" | "pending" | "running" | "waiting";
  preview: string | null;
  started: string | null;
  duration_ms: number | null;
  attempts: number;
  error: ItemErrorView | null;
  seq: number | null;
}

export interface ItemErrorView {
  kind: string;
  message: string;
}

export interface ItemsSummary {
  total: number;
  ok: number;
  failed: number;
  running: number;
  waiting: number;
  remaining: number;
  errors: ErrorGroup[];
  durations: Durations;
  slowest: SlowItem[];
}

export interface ErrorGroup {
  kind: string;
  message: string;
  count: number;
  first: number;
  last: number;
}

export interface Durations {
  p50: number | null;
  p95: number | null;
  max: number | null;
  unknown: number;
  bins: DurationBin[];
}

export interface DurationBin {
  up_to_ms: number | null;
  count: number;
}

export interface SlowItem {
  index: number;
  duration_ms: number;
}

export interface StepRunPage {
  items: StepRunRowView[];
  next: number | null;
}

export interface StepRunRowView {
  run: string;
  step: string;
  n: number;
  scheduled_seq: number;
  started_seq: number;
  ended_seq: number;
  scheduled_ms: number;
  started_ms: number;
  ended_ms: number;
  status: "cancelled" | "failed" | "running" | "scheduled" | "skipped" | "succeeded" | "waiting";
  retries: number;
  loop: boolean;
  from_runs: string[];
  waited_ms: WaitedView;
}

export interface WaitedView {
  worker: number;
  retry: number;
  external: number;
}

export interface StepRunView {
  run: string;
  item: number | null;
  step: string;
  status: "cancelled" | "failed" | "running" | "scheduled" | "skipped" | "succeeded" | "waiting";
  args: Record<string, unknown>;
  scheduled: string | null;
  started: string | null;
  ended: string | null;
  worked_ms: number;
  waited_ms: number;
  leases: LeaseView[];
  waits: StepRunWaitView[];
  writes: WriteView[];
  tasks: VisitView[];
  result: unknown;
  error: Error | null;
  children: string[];
  loop: LoopView | null;
  truncated: boolean;
}

export interface LeaseView {
  fence: number;
  worker: string;
  from: string;
  to: string | null;
  end_reason: string | null;
}

export interface StepRunWaitView {
  run: string;
  item: number | null;
  for: string;
  name: string;
  due: string | null;
  since: string;
  to: string | null;
  message: string;
}

export interface WriteView {
  seq: number;
  scope: string;
  key: string;
  op: string;
  value: unknown;
}

export interface VisitView {
  task: string;
  label: string;
  kind: string;
  visit: number;
  attempts: AttemptView[];
}

export interface AttemptView {
  attempt: number;
  seq: number;
  started: string;
  duration_ms: number | null;
  status: string;
  do: string | null;
  to: string | null;
  error: Error | null;
  due: string | null;
}

export interface Error {
  kind: string;
  message: string;
  retryable?: boolean;
  details?: Record<string, unknown>;
}

export interface LogPage {
  items: LogLineView[];
  next: number | null;
  prev: number | null;
  scanned_to: number | null;
}

export interface LogLineView {
  number: number;
  task: string;
  timestamp: string;
  stream: string;
  line: string;
}

export interface OutlineView {
  execution_id: string;
  seq: number;
  status: "cancelled" | "cancelling" | "failed" | "paused" | "pending" | "running" | "succeeded" | "waiting";
  started: string;
  ended: string | null;
  digests: ((number | string)[])[];
  steps: string[];
  runs: StepRunColumns | null;
  parked: ParkedColumns | null;
  tokens: TokenColumns | null;
  loops: LoopOutline[];
  arcs: ArcOutline[];
  markers: Marker[];
  critical_path: number[];
  histogram: HistogramColumns;
  by_step: StepOutline[] | null;
}

export interface StepRunColumns {
  step: number[];
  n: number[];
  scheduled_seq: number[];
  started_seq: number[];
  ended_seq: number[];
  scheduled_ms: number[];
  started_ms: number[];
  ended_ms: number[];
  status: number[];
  retries: number[];
  loop: number[];
  from_runs: number[][];
  waited_ms: WaitedColumns;
}

export interface WaitedColumns {
  worker: number[];
  retry: number[];
  external: number[];
}

export interface ParkedColumns {
  run: number[];
  from_seq: number[];
  to_seq: number[];
}

export interface TokenColumns {
  step: number[];
  from_run: number[];
  enqueued_seq: number[];
  consumed_seq: number[];
  held_seq: number[];
}

export interface LoopOutline {
  run: string;
  total: number;
  progress: ProgressColumns;
}

export interface ProgressColumns {
  seq: number[];
  ok: number[];
  failed: number[];
  in_flight: number[];
}

export interface ArcOutline {
  step: string;
  arc: number;
  fired: number;
  last_seq: number;
}

export interface Marker {
  seq: number;
  kind: string;
  entity: string;
}

export interface HistogramColumns {
  events_per_bin: number;
  events: number[];
  errors: number[];
  retries: number[];
  end_ms: number[];
}

export interface StepOutline {
  step: string;
  runs: number;
  active: number[];
  succeeded: number[];
  failed: number[];
}

export interface Frame {
  seq: number;
  timestamp: string;
  status: "cancelled" | "cancelling" | "failed" | "paused" | "pending" | "running" | "succeeded" | "waiting";
  activity: string;
  new_events: number;
  rows: unknown[][];
  outline: OutlineChange;
  ctx_keys: string[];
  waits: Wait[];
  last_log_line: number;
  reload?: boolean;
}

export interface OutlineChange {
  seq: number;
  status: "cancelled" | "cancelling" | "failed" | "paused" | "pending" | "running" | "succeeded" | "waiting";
  ended?: string | null;
  steps?: string[] | null;
  digests?: ((number | string)[])[] | null;
  runs?: StepRunColumns | null;
  parked?: ParkedColumns | null;
  tokens?: TokenColumns | null;
  loops?: LoopOutline[];
  arcs?: ArcOutline[];
  markers?: Marker[];
}

export interface ValuePage {
  kind: "binary" | "list" | "map" | "text" | "value";
  total: number;
  items: unknown[];
  next: number | null;
}

export interface Registered {
  playbook_id: string;
  path: string;
  version: number;
  problems: Finding[];
}

export interface Finding {
  file: string;
  line: number;
  column: number;
  code: string;
  severity: "error" | "warning";
  message: string;
  hint: string | null;
  end_line: number;
  end_column: number;
  path: string[];
  fix: Fix | null;
}

export interface Fix {
  text: string;
}

export interface PlaybookPage {
  items: PlaybookItem[];
  next: string | null;
}

export interface PlaybookItem {
  path: string;
  last_run: LastRun | null;
  version: number;
  playbook_id: string;
  label: string;
  registered: string;
}

export interface LastRun {
  execution_id: string;
  status: string;
  started: string;
}

export interface Validity {
  valid: boolean;
  problems: Finding[];
  next_version: number | null;
  graph?: Graph | null;
  names?: Names | null;
  form?: FormField[] | null;
}

export interface Graph {
  name: string;
  width: number;
  height: number;
  nodes: GraphNode[];
  edges: GraphEdge[];
}

export interface GraphNode {
  name: string;
  role: "computed" | "missing" | "step";
  x: number;
  y: number;
  w: number;
  h: number;
  entry: boolean;
  final: boolean;
  inclusive: boolean;
  description: string;
  line: number;
  badges: GraphBadge[];
  tasks: GraphTask[];
}

export interface GraphBadge {
  kind: "event" | "final" | "gate" | "join" | "loop" | "route" | "time";
  text: string;
  title: string;
}

export interface GraphTask {
  label: string;
  kind: string;
  note: string;
  depth: number;
  line: number;
}

export interface GraphEdge {
  source: number;
  target: number;
  arc: number;
  guard: string;
  label: string;
  delay: number | null;
  failure: boolean;
  reversed: boolean;
  path: string;
  label_x: number;
  label_y: number;
  line: number;
}

export interface Names {
  steps: string[];
  labels: Record<string, string[]>;
  ctx: string[];
}

export interface FormField {
  path: string;
  type: "any" | "array" | "boolean" | "integer" | "number" | "object" | "string";
  default: unknown;
  help: string;
  template: boolean;
  required: boolean;
  enum: unknown[] | null;
}

export interface Assist {
  completions?: Completion[];
  hover?: Hover | null;
}

export interface Completion {
  label: string;
  kind: "credential" | "field" | "filter" | "function" | "key" | "kind" | "name" | "step" | "task" | "test" | "value";
  detail: string;
  insert: string;
  doc: string;
}

export interface Hover {
  from: Position;
  to: Position;
  text: string;
}

export interface Position {
  line: number;
  column: number;
}

export interface PlaybookText {
  path: string;
  version: number;
  playbook_id: string;
  text: string;
  versions: PlaybookVersion[];
  last_run: LastRun | null;
  form?: FormField[] | null;
}

export interface PlaybookVersion {
  version: number;
  playbook_id: string;
  label: string;
  registered: string;
}

export interface ToolKinds {
  items: ToolKind[];
}

export interface ToolKind {
  kind: string;
  summary: string;
  extra: string | null;
  timeout: number | null;
  outcome: string | null;
  one_of: string[][];
  inputs: ToolInput[];
}

export interface ToolInput {
  name: string;
  type: string;
  required: boolean;
  default: string;
  description: string;
}

export interface NewSchedule {
  path: string;
  version?: number | null;
  payload?: Record<string, unknown>;
  ctx?: Record<string, unknown>;
  cron?: string | null;
  every?: number | string | null;
  at?: string | null;
  timezone?: string;
  overlap?: "allow" | "queue" | "skip";
  missed?: "all" | "once" | "skip";
  paused?: boolean | null;
  strict_keys?: string[];
  name: string;
}

export interface StoredSchedule {
  name: string;
  path: string;
  version: number | null;
  payload: Record<string, unknown>;
  ctx: Record<string, unknown>;
  cron: string | null;
  every: number | null;
  at: string | null;
  timezone: string;
  overlap: "allow" | "queue" | "skip";
  missed: "all" | "once" | "skip";
  status: "active" | "paused" | "retired";
  created: string;
  updated: string;
  next: string | null;
  last: FiredView | null;
  queued: number;
  running: string[];
  recent: FiredView[];
  warnings: string[];
}

export interface FiredView {
  due: string;
  at: string;
  outcome: "failed" | "missed" | "skipped" | "started";
  execution_id: string | null;
  reason: string;
  count: number;
}

export interface SchedulePage {
  items: ScheduleView[];
  next: string | null;
}

export interface ScheduleView {
  name: string;
  path: string;
  version: number | null;
  payload: Record<string, unknown>;
  ctx: Record<string, unknown>;
  cron: string | null;
  every: number | null;
  at: string | null;
  timezone: string;
  overlap: "allow" | "queue" | "skip";
  missed: "all" | "once" | "skip";
  status: "active" | "paused" | "retired";
  created: string;
  updated: string;
  next: string | null;
  last: FiredView | null;
  queued: number;
  running: string[];
  recent: FiredView[];
}

export interface ScheduleRequest {
  path: string;
  version?: number | null;
  payload?: Record<string, unknown>;
  ctx?: Record<string, unknown>;
  cron?: string | null;
  every?: number | string | null;
  at?: string | null;
  timezone?: string;
  overlap?: "allow" | "queue" | "skip";
  missed?: "all" | "once" | "skip";
  paused?: boolean | null;
  strict_keys?: string[];
}

export interface Triggered {
  execution_id: string;
  queued: boolean;
}

export interface Delivered {
  execution_id: string;
  duplicate: boolean;
  warnings: string[];
}

export interface HookPage {
  items: HookView[];
}

export interface HookView {
  name: string;
  path: string;
  version: number | null;
  created: string;
  updated: string;
}

export interface HookRequest {
  path: string;
  version?: number | null;
  secret?: string | null;
}

export interface HookSecret {
  name: string;
  path: string;
  version: number | null;
  created: string;
  updated: string;
  secret: string | null;
}

export interface TokenPage {
  items: TokenItem[];
}

export interface TokenItem {
  id: string;
  role: "admin" | "author" | "operator" | "viewer" | "worker";
  name: string;
  pool: string | null;
  created: string;
  expires: string | null;
  revoked: string | null;
}

export interface TokenRequest {
  role: "admin" | "author" | "operator" | "viewer" | "worker";
  name?: string;
  pool?: string | null;
  expires_in?: number | null;
}

export interface NewToken {
  id: string;
  token: string;
  role: "admin" | "author" | "operator" | "viewer" | "worker";
  name: string;
  pool: string | null;
  expires: string | null;
}

export interface UserPage {
  items: UserView[];
}

export interface UserView {
  name: string;
  role: "admin" | "author" | "operator" | "viewer" | "worker";
  created: string;
}

export interface UserRequest {
  name: string;
  password: string;
  role?: "admin" | "author" | "operator" | "viewer" | "worker";
}

export interface UserChange {
  password?: string | null;
  role?: "admin" | "author" | "operator" | "viewer" | "worker" | null;
}

export interface CredentialPage {
  items: CredentialView[];
}

export interface CredentialView {
  name: string;
  kind: string;
  paths: string[];
  pools: string[];
  created: string;
  updated: string;
}

export interface CredentialDetails {
  name: string;
  kind: string;
  paths: string[];
  pools: string[];
  created: string;
  updated: string;
  fields: Record<string, unknown>;
}

export interface CredentialRequest {
  kind: string;
  data: Record<string, unknown>;
  paths?: string[];
  pools?: string[];
}

export interface LoginRequest {
  user?: string | null;
  password?: string | null;
  token?: string | null;
}

export interface NewSession {
  session_id: string;
  user: string;
  role: "admin" | "author" | "operator" | "viewer" | "worker";
  csrf_token: string;
  expires: string;
}

export interface SessionPage {
  name: string;
  role: "admin" | "author" | "operator" | "viewer" | "worker";
  csrf_token: string | null;
  items: SessionView[];
}

export interface SessionView {
  id: string;
  user: string;
  created: string;
  last_seen: string;
  expires: string;
  agent: string;
  address: string;
  current: boolean;
}

export interface PruneRequest {
  older_than?: number;
  dry_run?: boolean;
}

export interface Pruned {
  removed: number;
  more: boolean;
  items?: ExecutionItem[];
}

export interface Verified {
  executions: number;
  violations: Violation[];
}

export interface Violation {
  execution_id: string;
  seq: number;
  invariant: string;
  message: string;
}

export interface VerifiedPage {
  executions: number;
  violations: Violation[];
  next: string | null;
}

export interface WorkersView {
  items: WorkerView[];
  pools: PoolView[];
}

export interface WorkerView {
  worker: string;
  pool: string;
  status: "active" | "draining" | "gone" | "stopping";
  slots: number;
  busy: number;
  host: string;
  version: string;
  started: string | null;
  last_heard: string | null;
}

export interface PoolView {
  pool: string;
  workers?: number;
  slots?: number;
  busy?: number;
  draining?: number;
  queued?: number;
  oldest?: string | null;
}

export interface WorkerSelection {
  worker?: string | null;
  pool?: string | null;
}

export interface WorkerPage {
  items: WorkerView[];
}

export interface ServerView {
  version: string;
  started: string;
  pools: PoolView[];
  executions: Record<string, number>;
  ready: number;
  leases: number;
}

export interface Stopping {
  status?: "stopping";
}

export interface Liveness {
  status?: "ok";
}

export interface Readiness {
  status: "down" | "ok";
  checks: Record<string, string>;
  dependencies: Dependency[];
}

export interface Dependency {
  name: string;
  status: "down" | "ok";
  detail: string;
  required: boolean;
  since: string;
  seconds: number;
}

export interface Version {
  name: string;
  version: string;
  api: string;
}

export interface ProblemDetails {
  type: string;
  title: string;
  status: number;
  detail: string;
  request_id: string;
  problems?: Finding[];
}

