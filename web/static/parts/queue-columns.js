// The columns that a table of tasks can have. Which of them are shown stands in the address.

import { useMemo } from "../core/html.js";
import { ENDED, RUNNING, WAITING } from "../core/cluster.js";
import { commandLine, memory, moment, placeOf, span, timeOf, titleOf, wholeMoment } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html } from "../core/html.js";
import { said, t, useLanguage } from "../core/i18n.js";
import { Said } from "./said.js";
import { State } from "./state.js";

/**
 * @typedef {import("../core/cluster.js").Task} Task
 * @typedef {import("./table.js").Column<Task> & {of: (task: Task, now: number) => string | number | null}} TaskColumn
 */

/** Alive ones first, as the queue has them. */
const RANKS = Object.fromEntries(
  ["running", "paused", "starting", "waiting", "held", "failed", "timed_out", "lost", "cancelled", "succeeded"].map((state, at) => [state, at]),
);

/** @type {Record<string, Omit<TaskColumn, "name" | "title" | "sorts">>} */
const COLUMNS = {
  id: { width: 72, isNumber: true, of: (task) => task.id, cell: (task) => html`<a href=${`tasks/${task.id}`}>${task.id}</a>` },
  state: { width: 112, of: (task) => RANKS[task.state], cell: (task) => html`<${State} state=${task.state} />` },
  name: { width: 200, of: (task) => task.name || commandLine(task.command), cell: (task) => html`<span title=${titleOf(task)}>${titleOf(task)}</span>` },
  owner: { width: 96, of: (task) => task.owner, cell: (task) => harmless(task.owner) },
  gpus: { width: 64, isNumber: true, of: (task) => task.gpus * (task.nodes || 1), cell: (task) => gpusAsked(task) },
  place: { width: 128, of: placeOf, cell: (task) => html`<span title=${placeOf(task)}>${placeOf(task)}</span>` },
  time: { width: 104, isNumber: true, of: (task, now) => timeOf(task, now), cell: (task, now) => span(timeOf(task, now)) },
  why: { width: 0, of: (task) => task.reason ?? "", cell: (task) => html`<${Why} task=${task} />` },
  command: { width: 280, of: (task) => commandLine(task.command), cell: (task) => html`<code title=${commandLine(task.command)}>${commandLine(task.command)}</code>` },
  project: { width: 112, of: (task) => task.project, cell: (task) => harmless(task.project) },
  env: { width: 112, of: (task) => task.env, cell: (task) => harmless(task.env) },
  priority: { width: 80, isNumber: true, of: (task) => task.priority, cell: (task) => task.priority || "" },
  submitted: { width: 112, of: (task) => task.submitted_at, cell: (task) => at(task.submitted_at) },
  started: { width: 112, of: (task) => task.started_at, cell: (task) => at(task.started_at) },
  ended: { width: 112, of: (task) => task.ended_at, cell: (task) => at(task.ended_at) },
  exit: { width: 64, isNumber: true, of: (task) => task.exit_code, cell: (task) => task.exit_code ?? "" },
  memory: { width: 88, isNumber: true, of: (task) => task.gpu_peak_mib, cell: (task) => memory(task.gpu_peak_mib) },
  attempt: { width: 72, isNumber: true, of: (task) => task.attempt, cell: (task) => task.attempt || "" },
};
export const COLUMN_NAMES = Object.keys(COLUMNS);
export const USUAL = ["id", "state", "name", "owner", "gpus", "place", "time", "why"];
const NARROW = ["state", "id", "name", "time"];
const NARROW_WIDTHS = /** @type {Record<string, number>} */ ({ state: 34, id: 54, name: 0, time: 96 });

/** @param {number | null} seconds */
function at(seconds) {
  return html`<time title=${wholeMoment(seconds)}>${moment(seconds)}</time>`;
}

/** @param {Task} task */
function gpusAsked(task) {
  const each = task.gpus_max ? `${task.gpus}-${task.gpus_max}` : `${task.gpus || ""}`;
  return task.nodes > 1 ? `${task.nodes}×${each || 0}` : each;
}

/**
 * Why it waits, what is wrong, or how it ended; of one that runs well, what it runs.
 * @param {{task: Task}} props
 */
function Why({ task }) {
  if (task.warning) {
    const text = said(task.warning_key, task.warning_args, task.warning);
    return html`<span class="warned" title=${text}><${Said} text=${text} /></span>`;
  }
  if (RUNNING.has(task.state) && !task.reason) return html`<code title=${commandLine(task.command)}>${commandLine(task.command)}</code>`;
  const text = task.last_line && ENDED.has(task.state) ? harmless(task.last_line) : said(task.reason_key, task.reason_args, task.reason);
  return html`<span class=${WAITING.has(task.state) ? "dim" : ""} title=${text}><${Said} text=${text} /></span>`;
}

/**
 * @param {string[]} names
 * @param {boolean} isNarrow a phone: what tells a task apart, and no more
 * @returns {TaskColumn[]}
 */
export function useColumns(names, isNarrow) {
  const words = useLanguage();
  return useMemo(
    () =>
      (isNarrow ? NARROW : names)
        .filter((name) => COLUMNS[name])
        .map((name) => {
          const column = { ...COLUMNS[name], name, title: t(`column.${name}`), sorts: true };
          if (!isNarrow) return column;
          const narrow = { ...column, width: NARROW_WIDTHS[name] };
          if (name !== "state") return narrow;
          return { ...narrow, title: "", label: t("column.state"), cell: (/** @type {Task} */ task) => html`<${State} state=${task.state} short=${true} />` };
        }),
    [names.join(), isNarrow, words],
  );
}

/**
 * Tasks in the order of a column.
 * @param {Task[]} tasks
 * @param {string} sort a column's name, with `-` before it the other way round
 * @param {number} now
 */
export function sorted(tasks, sort, now) {
  const isDown = sort.startsWith("-");
  const column = COLUMNS[isDown ? sort.slice(1) : sort];
  if (!column) return tasks;
  const keyed = tasks.map((task) => /** @type {const} */ ([column.of(task, now), task]));
  keyed.sort(([a, one], [b, other]) => compared(a, b) || one.id - other.id);
  const ordered = keyed.map(([, task]) => task);
  return isDown ? ordered.reverse() : ordered;
}

/**
 * @param {string | number | null} a
 * @param {string | number | null} b
 */
function compared(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : 1;
}

