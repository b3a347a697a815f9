// The answers of the master, as the pages read them. Made by `make documents` from wire/openapi.json.

export interface Account {
  kind: string;
  name: string;
  quota: Quota;
  use: Use;
}

export interface After {
  id: number;
  on: string;
  array?: boolean;
}

export interface AgentsDone {
  done: (string)[];
  refused: Record<string, string>;
}

export interface Allocated {
  id: number;
  name: string;
  owner: string;
  project: string;
  state: TaskState;
  gpus: number;
  nodes: number;
  held: (Place)[];
  free: (Place)[];
  tasks: (number)[];
  waiting: (number)[];
  since: number | null;
  ends_at: number | null;
  is_ending: boolean;
  reason: string | null;
  reason_key: string | null;
  reason_args: Record<string, any> | null;
}

export interface Allocation {
  node: string;
  gpus: (number)[];
  gpu_mib: number | null;
}

export interface Archive {
  version: string;
  sha256: string;
  content: string;
}

export interface ArchivedTasks {
  tasks: (Task)[];
  total: number;
  unreadable: Record<string, number>;
}

export interface Array {
  id: number;
  count: number;
  cap: number | null;
  max_fails: number | null;
  failed: (number)[];
}

export interface ArrayPlace {
  id: number;
  index: number;
}

export interface AskedEnd {
  why: "allocation" | "cancel" | "limit" | "node_lost" | "release" | "resize";
  by: string;
}

export interface Attempt {
  no: number;
  parts: (Part)[];
  asked_end: AskedEnd | null;
  started_at: number | null;
  ended_at: number | null;
  exit_code: number | null;
  reason: string | null;
  reason_key: string | null;
  reason_args: Record<string, any> | null;
  last_line: string | null;
}

export interface AuditEntry {
  at: number;
  user: string | null;
  from: string;
  via: string;
  verb: string;
  target: string;
  result: string;
  left_out?: number;
  task?: number;
}

export interface AuditPage {
  entries: (AuditEntry)[];
  unreadable: number;
}

export interface Batch {
  first: number;
  count: number;
}

export interface Begun {
  upload: string;
  received: number;
  piece: number;
}

export interface Brought {
  version: string;
  sha256: string;
  size: number;
}

export interface Cancelled {
  cancelled: (number)[];
  signalled: (number)[];
  refused: Record<string, string>;
  codes: Record<string, string>;
  messages: Record<string, Message>;
  names?: Record<string, string>;
}

export interface Claimed {
  count: number;
}

export interface ClockAccepted {
  was: number;
  now: number;
  ended: number;
  users: (string)[];
  tasks: (number)[];
}

export interface ClockTrouble {
  key: string;
  args: Record<string, any>;
  text: string;
}

export interface ClosedName {
  key: string;
  args: Record<string, any>;
  text: string;
}

export interface ClosedNodes {
  key: string;
  args: Record<string, any>;
  text: string;
}

export interface Copied {
  of: string;
  digest: string;
  files?: number;
  bytes?: number;
  commit?: string;
  changed?: boolean;
}

export interface Deleted {
  deleted: number;
}

export interface Difference {
  field: string;
  here: any;
  there: any;
}

export interface Differing {
  id: number;
  other: number;
  fields: (Difference)[];
  hidden: (string)[];
}

export interface Disabled {
  held: (number)[];
  running: (number)[];
  cancelled: (number)[];
}

export interface Done {
}

export interface EarlySignal {
  name: string;
  before_s: number;
  main_only: boolean;
}

export interface Entry {
  name: string;
  kind: "file" | "folder" | "other";
  size: number;
  mtime: number;
  mode: number;
  link: boolean;
  hidden: boolean;
}

export interface Env {
  name: string;
  path: string;
}

export interface EnvList {
  node: string | null;
  envs: (Env)[];
}

export interface Examined {
  name: string;
  state: NodeState | null;
  verdict: "fault" | "ok" | "skipped" | "warning";
  findings: (Finding)[];
}

export interface Expected {
  low: number;
  high: number;
  source: "all" | "command" | "gpus" | "owner";
  runs: number;
}

export interface FailingHook {
  key: string;
  args: Record<string, any>;
  text: string;
}

export interface FileText {
  name: "conf" | "registry";
  path: string;
  text: string;
  version: string;
  fixed: (string)[];
}

export interface FileWritten {
  name: "conf" | "registry";
  diff: (string)[];
  changed: (string)[];
  counts: "now" | "start";
  version: string;
  kept: string | null;
  at_start: (string)[];
}

export interface Finding {
  check: string;
  verdict: "fault" | "ok" | "skipped" | "warning";
  told: string;
  cure: string;
  told_message: Message;
  cure_message: Message | null;
}

export interface FirstEnd {
  rank: number;
  node: string;
  state: TaskState;
  code: number | null;
  unbegun: boolean;
}

export interface Foreign {
  pid: number;
  user: string;
  memory_mib: number | null;
}

export interface Framework {
  env: string;
  node: string;
  installed: boolean;
  own: boolean;
  version: string | null;
  cuda: string | null;
  available: boolean;
  gpus: (string)[];
  error: string | null;
}

export interface Gpu {
  index: number;
  model: string | null;
  memory_mib: number | null;
  memory_used_mib: number | null;
  utilization: number | null;
  condition: "aside" | "broken" | "busy" | "clearing" | "ok" | "unknown";
  health: string;
  health_message: Message | null;
  held_by: (number)[];
  foreign: (Foreign)[];
}

export interface GpuUse {
  node: string;
  gpu: number;
  used_mib: number | null;
  memory_used_mib: number | null;
  memory_mib: number | null;
  utilization: number | null;
}

export interface Greeted {
  lab: string;
}

export interface Group {
  id: number;
  name: string;
  members: (string)[];
  mentors: (string)[];
  quota: Quota;
  use: Use;
}

export interface HeldBy {
  id: number;
  owner: string;
  name: string;
}

export interface Info {
  version: string;
  pid: number;
  started_at: number;
  conf: string;
  task_info: string;
  root: string;
  visible_folders: (string)[];
  bind: string;
  ports: Record<string, number>;
  desktop_ports: Record<string, number> | null;
  registry_fault: string | null;
  tls: TlsInfo;
  console: string | null;
  desktop_closed: (ClosedName)[];
  conf_fault: string | null;
  conf_at_start: (string)[];
  protocol: number;
  user: string;
  privacy: "open" | "own";
  store_fault: string | null;
  compaction_fault: string | null;
  ids_fault: string | null;
  damage: (Loss)[];
  unsaved: (number)[];
  tasks: Record<string, number>;
  warned: (number)[];
  nodes: Record<string, number>;
  clock: (ClockTrouble)[];
  loop?: LoopTimes;
  closed_nodes: (ClosedNodes)[];
  conf_outranked: (Setting)[];
  failing_hooks: (FailingHook)[];
  share: Share | null;
  filled?: Share;
  near_shares: (UserShare)[];
}

export interface KeptFile {
  name: string;
  at: number;
  size: number;
}

export interface Key {
  type: string;
  fingerprint: string;
}

export interface Link {
  name: string;
  link: string;
  until: number;
}

export interface Listing {
  path: string;
  entries: (Entry)[];
  truncated: boolean;
}

export interface LogMatches {
  matches: (Match)[];
  next: number | null;
  searched: number;
  size: number;
  ended: boolean;
  path: string;
}

export interface LogPiece {
  data: string;
  offset: number;
  size: number;
  ended: boolean;
  path: string;
  rest?: string;
  next?: number;
  warning?: string | null;
  missing?: boolean;
}

export interface LoggedIn {
  user: string;
  role: "admin" | "user" | "viewer";
  id: string;
  token: string;
  until: number;
}

export interface LoopTimes {
  since: number;
  turns: number;
  wall: number;
  cpu: number;
  edges: (number)[];
  by_wall: (number)[];
  by_cpu: (number)[];
  minute_wall: number;
  minute_cpu: number;
  longest: (Stall)[];
}

export interface Loss {
  at: number;
  what: string;
  key: string | null;
  args: Record<string, any> | null;
}

export interface Lost {
  lost: (number)[];
}

export interface Match {
  offset: number;
  text: string;
  begin: number;
  end: number;
  cut: boolean;
}

export interface Message {
  key: string;
  args: Record<string, any>;
}

export interface Missing {
  missing: (string)[];
  missing_messages: (Message)[];
}

export interface Node {
  name: string;
  driver: string | null;
  address: string;
  state: NodeState;
  schedulable: boolean;
  reason: string | null;
  reason_messages: (Message)[];
  drained: string | null;
  sick: string | null;
  registry: "changing" | "leaving" | "ok";
  gpus: (Gpu)[];
  mismatch: string | null;
  cpus: number | null;
  cpus_held: number;
  slots: number | null;
  slots_held: number;
  memory_mib: number | null;
  tmp_disk_mib: number | null;
  tmp_disk_held_mib: number;
  load: (number)[] | null;
  clock_offset_s: number | null;
  tasks: (number)[];
  hostname: string | null;
  python: string | null;
  agent_version: string | null;
  reservation: NodeReservation | null;
  own_account: "admins" | "everybody" | "opened" | null;
}

export interface NodeAccount {
  user: string;
  user_name: string;
  state: NodeState | null;
  reason: string | null;
  reason_messages: (Message)[];
}

export interface NodeAdded {
  node: Node;
  needs_trust: boolean;
}

export interface NodeEdited {
  node: Node;
  deferred: boolean;
  tasks: (number)[];
}

export interface NodeList {
  nodes: (Node)[];
}

export interface NodePage {
  name: string;
  driver: string | null;
  address: string;
  state: NodeState;
  schedulable: boolean;
  reason: string | null;
  reason_messages: (Message)[];
  drained: string | null;
  sick: string | null;
  registry: "changing" | "leaving" | "ok";
  gpus: (Gpu)[];
  mismatch: string | null;
  cpus: number | null;
  cpus_held: number;
  slots: number | null;
  slots_held: number;
  memory_mib: number | null;
  tmp_disk_mib: number | null;
  tmp_disk_held_mib: number;
  load: (number)[] | null;
  clock_offset_s: number | null;
  tasks: (number)[];
  hostname: string | null;
  python: string | null;
  agent_version: string | null;
  reservation: NodeReservation | null;
  own_account: "admins" | "everybody" | "opened" | null;
  user_name: string | null;
  account: string | null;
  can_run_as: boolean;
  accounts: (NodeAccount)[] | null;
  port: number | null;
  labels: Record<string, string>;
  drained_by: string | null;
  drained_at: number | null;
}

export interface NodeRemoved {
  name: string;
  leaving: boolean;
  tasks: (number)[];
}

export interface NodeReservation {
  task: number;
  gpus: (number)[];
  expected_at: number | null;
}

export type NodeState = "connecting" | "online" | "unreachable" | "untrusted";

export interface Packages {
  env: string;
  node: string;
  packages: ((string)[])[];
  own: boolean;
}

export interface Part {
  node: string;
  gpus: (number)[];
  launch_id?: string;
  boot_id?: string;
  state_id?: string;
  address?: string;
  machine?: string;
  pid?: number;
  pid_start?: number | null;
  run_as?: string;
  gpu_mib?: number | null;
  account?: string;
  ended_at?: number | null;
  exit_code?: number | null;
  is_free?: boolean;
  login?: string;
  clock_offset_s?: number | null;
}

export interface PauseAsked {
  by: string;
  at: number;
}

export interface Piece {
  offset: number;
  data: string;
  size: number;
  mtime_ns: number;
  mode: number;
  file: string;
}

export interface Place {
  node: string;
  gpus: (number)[];
}

export interface Predecessor {
  id: number;
  on?: "any" | "fail" | "ok";
  array?: boolean;
}

export interface Preview {
  possible: boolean;
  placement: Allocation | null;
  placements: (Allocation)[];
  reason: string | null;
  reason_key: string | null;
  reason_args: Record<string, any> | null;
}

export interface Project {
  name: string;
  group: string | null;
  quota: Quota;
  use: Use;
  tasks: number;
}

export interface Python {
  env: string;
  node: string;
  version: string;
  executable: string;
  prefix: string;
  own: boolean;
}

export interface Quota {
  max_total_gpus: number | null;
  max_manual_gpus: number | null;
  max_gpus_per_task: number | null;
  max_running: number | null;
}

export interface Received {
  received: number;
}

export interface Removed {
  removed: (number)[];
  names?: Record<string, string>;
}

export interface Resizing {
  gpus: number;
  was: number;
  waiter: number | null;
  at: number;
}

export interface Revoked {
  ids: (string)[];
}

export interface Root {
  name: string;
  exists: boolean;
}

export interface Roots {
  root: string;
  folders: (Root)[];
}

export interface Setting {
  name: string;
  value: number | number | string | null;
  default: number | number | string | null;
  range: SettingRange;
  unit: "bytes" | "days" | "number" | "seconds" | "share" | "word";
  meaning: string;
  in_conf: boolean;
  by: string | null;
  at: number | null;
}

export interface SettingRange {
  least: number | number | null;
  most: number | number | null;
  words: (string)[];
  none: boolean;
}

export interface Share {
  waiting: number;
  most_waiting: number;
  bytes: number;
  most_bytes: number;
}

export interface Snapshot {
  of: string;
  digest: string;
  files: number;
  bytes: number;
  commit: string;
  changed: boolean;
}

export interface SparseTask {
  id: number;
  name?: string;
  owner?: string;
  project?: string;
  state?: TaskState;
  reason?: string | null;
  command: (string)[] | string;
  cwd?: string;
  env?: string;
  setup?: string;
  variables?: Record<string, string>;
  gpus?: number;
  gpu_ids?: (number)[] | null;
  gpu_memory_mib?: number | null;
  share?: boolean;
  cpus?: number | null;
  node?: string | null;
  after?: (After)[];
  waits_for?: (After)[];
  priority?: number;
  urgent?: boolean;
  position?: number | null;
  time_limit_s?: number | null;
  attempt?: number;
  submitted_at?: number;
  started_at?: number | null;
  ended_at?: number | null;
  exit_code?: number | null;
  log_path?: string;
  cancel_requested?: boolean;
  forced?: boolean;
  allocation?: (Part)[];
  unstarted?: (Unstarted)[];
  seq?: number;
  snapshot?: Snapshot | null;
  gpus_max?: number | null;
  gpu_models?: (string)[];
  min_free_util?: number;
  memory_mib?: number | null;
  tmp_disk_mib?: number | null;
  licences?: Record<string, number>;
  nodes?: number;
  node_list?: (string)[];
  gpus_on?: Record<string, (number)[]>;
  exclude?: (string)[];
  begin_at?: number | null;
  on_timeout?: string;
  max_retries?: number;
  retry_on?: (string)[];
  signal?: EarlySignal | null;
  token?: string;
  within?: number | null;
  elastic?: boolean;
  checkpoint?: string;
  reason_key?: string | null;
  reason_args?: Record<string, any> | null;
  asked_end?: AskedEnd | null;
  over_quota?: boolean;
  first_end?: FirstEnd | null;
  learned_gpu_mib?: number | null;
  gpu_peak_mib?: number | null;
  pause_asked?: PauseAsked | null;
  last_line?: string | null;
  not_before?: number | null;
  eligible_at?: number | null;
  retries?: number;
  array?: ArrayPlace | null;
  sweep?: Record<string, string>;
  is_allocation?: boolean;
  resizing?: Resizing | null;
  resizes?: number;
  ran_s?: number;
  by_admin?: boolean;
}

export interface SparseTaskList {
  tasks: (SparseTask)[];
  defaults: Record<string, any>;
  reasons: Record<string, (number)[]>;
  reason_messages: Record<string, Message>;
  warnings: Record<string, (number)[]>;
  warning_messages: Record<string, Message>;
  unsaved: (number)[];
  total: number;
}

export interface Stall {
  at: number;
  wall: number;
  cpu: number;
  denied: number | null;
  garbage: number;
  where: string;
}

export interface Submitted {
  id: number;
}

export interface Tally {
  files: number;
  folders: number;
  links: number;
  bytes: number;
  skipped: (string)[];
}

export interface Task {
  id: number;
  name: string;
  owner: string;
  project: string;
  state: TaskState;
  reason: string | null;
  command: (string)[] | string;
  cwd: string;
  env: string;
  setup: string;
  variables: Record<string, string>;
  gpus: number;
  gpu_ids: (number)[] | null;
  gpu_memory_mib: number | null;
  share: boolean;
  cpus: number | null;
  node: string | null;
  after: (After)[];
  waits_for: (After)[];
  priority: number;
  urgent: boolean;
  position: number | null;
  time_limit_s: number | null;
  attempt: number;
  submitted_at: number;
  started_at: number | null;
  ended_at: number | null;
  exit_code: number | null;
  log_path: string;
  cancel_requested: boolean;
  forced: boolean;
  allocation: (Part)[];
  unstarted: (Unstarted)[];
  seq: number;
  snapshot: Snapshot | null;
  gpus_max: number | null;
  gpu_models: (string)[];
  min_free_util: number;
  memory_mib: number | null;
  tmp_disk_mib: number | null;
  licences: Record<string, number>;
  nodes: number;
  node_list: (string)[];
  gpus_on: Record<string, (number)[]>;
  exclude: (string)[];
  begin_at: number | null;
  on_timeout: string;
  max_retries: number;
  retry_on: (string)[];
  signal: EarlySignal | null;
  token: string;
  within: number | null;
  elastic: boolean;
  checkpoint: string;
  reason_key: string | null;
  reason_args: Record<string, any> | null;
  asked_end: AskedEnd | null;
  over_quota: boolean;
  first_end: FirstEnd | null;
  learned_gpu_mib: number | null;
  gpu_peak_mib: number | null;
  pause_asked: PauseAsked | null;
  last_line: string | null;
  not_before: number | null;
  eligible_at: number | null;
  retries: number;
  array: ArrayPlace | null;
  sweep: Record<string, string>;
  is_allocation: boolean;
  resizing: Resizing | null;
  resizes: number;
  ran_s: number;
  by_admin: boolean;
  warning: string | null;
  warning_key: string | null;
  warning_args: Record<string, any> | null;
  unsaved: boolean;
}

export interface TaskList {
  tasks: (Task)[];
  total: number;
}

export interface TaskPage {
  id: number;
  name: string;
  owner: string;
  project: string;
  state: TaskState;
  reason: string | null;
  command: (string)[] | string;
  cwd: string;
  env: string;
  setup: string;
  variables: Record<string, string>;
  gpus: number;
  gpu_ids: (number)[] | null;
  gpu_memory_mib: number | null;
  share: boolean;
  cpus: number | null;
  node: string | null;
  after: (After)[];
  waits_for: (After)[];
  priority: number;
  urgent: boolean;
  position: number | null;
  time_limit_s: number | null;
  attempt: number;
  submitted_at: number;
  started_at: number | null;
  ended_at: number | null;
  exit_code: number | null;
  log_path: string;
  cancel_requested: boolean;
  forced: boolean;
  allocation: (Part)[];
  unstarted: (Unstarted)[];
  seq: number;
  snapshot: Snapshot | null;
  gpus_max: number | null;
  gpu_models: (string)[];
  min_free_util: number;
  memory_mib: number | null;
  tmp_disk_mib: number | null;
  licences: Record<string, number>;
  nodes: number;
  node_list: (string)[];
  gpus_on: Record<string, (number)[]>;
  exclude: (string)[];
  begin_at: number | null;
  on_timeout: string;
  max_retries: number;
  retry_on: (string)[];
  signal: EarlySignal | null;
  token: string;
  within: number | null;
  elastic: boolean;
  checkpoint: string;
  reason_key: string | null;
  reason_args: Record<string, any> | null;
  asked_end: AskedEnd | null;
  over_quota: boolean;
  first_end: FirstEnd | null;
  learned_gpu_mib: number | null;
  gpu_peak_mib: number | null;
  pause_asked: PauseAsked | null;
  last_line: string | null;
  not_before: number | null;
  eligible_at: number | null;
  retries: number;
  array: ArrayPlace | null;
  sweep: Record<string, string>;
  is_allocation: boolean;
  resizing: Resizing | null;
  resizes: number;
  ran_s: number;
  by_admin: boolean;
  warning: string | null;
  warning_key: string | null;
  warning_args: Record<string, any> | null;
  unsaved: boolean;
  attempts: (Attempt)[];
  expected_s: Expected | null;
  gpu_use: (GpuUse)[];
  held_by: (HeldBy)[];
  holders: number;
}

export type TaskState = "cancelled" | "failed" | "held" | "lost" | "paused" | "running" | "starting" | "succeeded" | "timed_out" | "waiting";

export interface TlsInfo {
  mode: string;
  authority: string | null;
  ends: number | null;
  problems: (TlsProblem)[];
}

export interface TlsProblem {
  key: string;
  args: Record<string, any>;
  text: string;
}

export interface Token {
  id: string;
  user: string;
  kind: "session" | "token";
  label: string;
  scopes: ("account" | "admin" | "files" | "nodes" | "read" | "submit" | "wall")[] | null;
  made_at: number;
  made_by: string;
  from: string;
  expires_at: number | null;
  used_on: number | null;
  is_this: boolean;
}

export interface TokenMade {
  id: string;
  token: string;
  user: string;
  scopes: ("account" | "admin" | "files" | "nodes" | "read" | "submit" | "wall")[] | null;
  expires_at: number | null;
}

export interface TokenTold {
  name: string;
  token: string | null;
  old_until: number | null;
  master: string;
  outside: boolean;
  authority: string | null;
  archive: Brought;
}

export interface Trusted {
  name: string;
  offered: Key;
  known: string | null;
  pinned: boolean;
}

export interface UnknownAttempt {
  node: string;
  launch_id: string;
  task: number | null;
  name: string;
  account: string;
  gpus: (number)[] | null;
  pid: number | null;
  started_at: number | null;
  since: number;
  log_path: string | null;
  ended_by: string | null;
  dismissed_by: string | null;
}

export interface Unstarted {
  node: string;
  why: string;
  ran?: boolean;
}

export interface Use {
  gpus: number;
  running: number;
  manual: number;
}

export interface User {
  id: number;
  name: string;
  display: string;
  role: "admin" | "user" | "viewer";
  mail: string;
  language: "" | "en" | "zh";
  groups: (string)[];
  mentors: (string)[];
  added_at: number;
  added_by: string;
  expires_at: number | null;
  disabled: string | null;
  has_password: boolean;
  is_owner_only: boolean;
  log_ins: number;
  tokens: number;
  quota: Quota;
  use: Use;
}

export interface UserShare {
  waiting: number;
  most_waiting: number;
  bytes: number;
  most_bytes: number;
  user: string;
}

export interface Warned {
  name: "ABRT" | "ALRM" | "CONT" | "HUP" | "INT" | "QUIT" | "TERM" | "URG" | "USR1" | "USR2" | "WINCH" | "XCPU";
  before_s: number;
  main_only?: boolean;
}

export interface Who {
  user: string | null;
  display: string;
  role: "admin" | "user" | "viewer";
  scopes: ("account" | "admin" | "files" | "nodes" | "read" | "submit" | "wall")[];
  via: "desktop" | "local" | "owner" | "service" | "session" | "task" | "token" | "unknown";
  groups: (string)[];
  until: number | null;
  is_shared: boolean;
  quotas: (Account)[];
  barred: string | null;
  share: Share | null;
}

export interface Why {
  id: number;
  state: TaskState;
  reason: string | null;
  reason_key: string | null;
  reason_args: Record<string, any> | null;
  brief?: string | null;
  warning: string | null;
  warning_key: string | null;
  warning_args: Record<string, any> | null;
  blocked_by: (number)[];
  details: (string)[];
  detail_messages: (Message)[];
  would_start?: (string)[];
  would_start_messages?: (Message)[];
}

export interface Written {
  size: number;
}

export interface Problem {
  code: "protocol" | "unknown_method" | "bad_request" | "not_found" | "conflict" | "impossible" | "unauthenticated" | "forbidden" | "limit" | "store_unavailable" | "unreachable" | "config" | "store_corrupt" | "locked" | "untrusted" | "node_unreachable" | "directory" | "storage" | "store_changed" | "internal";
  detail: string;
  key?: string;
  args?: Record<string, any>;
}
