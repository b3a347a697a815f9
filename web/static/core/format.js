// Spans of time, commands and tasks as people read them.

import { ENDED, RUNNING } from "./cluster.js";
import { harmless } from "./harmless.js";
import { t } from "./i18n.js";
import { two } from "./sizes.js";

export { count, memory, moment, number, percent, size, wholeMoment, wholeSize } from "./sizes.js";

const DAY = 86_400;

/**
 * A span of time in its two largest units.
 * @param {number | null | undefined} seconds
 */
export function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "";
  const whole = Math.max(0, Math.floor(seconds));
  const [days, hours] = [Math.floor(whole / DAY), Math.floor((whole % DAY) / 3600)];
  const [minutes, rest] = [Math.floor((whole % 3600) / 60), whole % 60];
  if (days) return t("span.days", { days, hours: two(hours) });
  if (hours) return t("span.hours", { hours, minutes: two(minutes) });
  if (minutes) return t("span.minutes", { minutes, seconds: two(rest) });
  return t("span.seconds", { seconds: rest });
}

/**
 * As a shell would read it back.
 * @param {string[] | string} command
 */
export function commandLine(command) {
  return harmless(typeof command === "string" ? command : command.map(quoted).join(" "));
}

/** What `harmlessLines` would show as an escape: no shell but one that is told so would read that back. */
const UNSEEN = /[^\P{C}\n\t]|[\p{Zl}\p{Zp}]/gu;

/**
 * A word as a shell reads it back: in bash's own escapes where some of it is unseen.
 * @param {string} word
 */
export function quoted(word) {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (word.search(UNSEEN) < 0) return `'${word.replaceAll("'", `'"'"'`)}'`;
  return `$'${word.replace(/[\\']/g, "\\$&").replace(UNSEEN, (one) => `\\U${Number(one.codePointAt(0)).toString(16).padStart(8, "0")}`)}'`;
}

/**
 * What a task is called: its name, else its command.
 * @param {import("./cluster.js").Task} task
 */
export function titleOf(task) {
  return task.name ? harmless(task.name) : commandLine(task.command);
}

/**
 * How long a task has run, or waits.
 * @param {import("./cluster.js").Task} task
 * @param {number} now seconds since the epoch
 */
export function timeOf(task, now) {
  if (ENDED.has(task.state)) {
    return task.started_at !== null && task.ended_at !== null ? task.ended_at - task.started_at : null;
  }
  if (RUNNING.has(task.state)) return task.started_at !== null ? now - task.started_at : null;
  return now - task.submitted_at;
}

/**
 * Where a task runs or ran: `gpu1:0-3`.
 * @param {import("./cluster.js").Task} task
 */
export function placeOf(task) {
  return task.allocation.map((part) => harmless(part.node) + (part.gpus.length ? `:${ranges(part.gpus)}` : "")).join(" ");
}

/**
 * `0-3,5`
 * @param {number[]} numbers in order
 */
export function ranges(numbers) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(",");
}
