// Places in the queue and priorities, by buttons, keys and by dragging: what waits is put before others as far as the master lets
// whoever asks.

import { live, store } from "../core/context.js";
import { html } from "../core/html.js";
import { t } from "../core/i18n.js";
import { movesBefore, movesBy } from "../core/moves.js";
import { queued } from "../core/order.js";
import { WAITING } from "../core/cluster.js";
import { hasRole } from "../core/session.js";
import { Icon } from "./icons.js";
import { askText } from "./text-question.js";
import { complain, tell } from "./toast.js";

/** @typedef {import("../core/cluster.js").Task} Task */

/** Moves that a tip says as commands. */
const MOST_TOLD = 8;

/**
 * Why none of these can be moved: a key of the words, or null.
 * @param {Task[]} tasks
 */
function obstacleOf(tasks) {
  if (!hasRole("user")) return "not.allowed.viewer";
  return tasks.some((task) => WAITING.has(task.state)) ? null : "not.waiting";
}

/** @typedef {"first" | "up" | "down"} Where */

/** @param {Task[]} tasks @param {Where} where */
export async function move(tasks, where) {
  const why = obstacleOf(tasks);
  if (why) return tell(t(why));
  await carryOut(movesTo(tasks, where));
}

/** @param {Task[]} tasks @param {Where} where */
function movesTo(tasks, where) {
  const queue = queued(store.cluster).map((task) => task.id);
  const chosen = new Set(tasks.filter((task) => WAITING.has(task.state)).map((task) => task.id));
  return where === "first" ? movesBefore(queue, chosen, queue.find((id) => !chosen.has(id)) ?? null) : movesBy(queue, chosen, where === "up" ? -1 : 1);
}

/** @param {{id: number, position: number}[]} moves */
function commandOf(moves) {
  const words = moves.slice(0, MOST_TOLD).map((one) => `muster move ${one.id} ${one.position}`).join("; ");
  return moves.length > MOST_TOLD ? `${words}; …` : words;
}

/**
 * Before another, or behind it.
 * @param {Task[]} tasks
 * @param {Task} target
 * @param {boolean} isBehind
 */
export async function moveTo(tasks, target, isBehind) {
  if (obstacleOf(tasks) || !WAITING.has(target.state)) return tell(t("not.waiting"));
  const queue = queued(store.cluster).map((task) => task.id);
  const chosen = new Set(tasks.filter((task) => WAITING.has(task.state)).map((task) => task.id));
  const at = queue.indexOf(target.id) + (isBehind ? 1 : 0);
  await carryOut(movesBefore(queue, chosen, queue[at] ?? null));
}

/**
 * One after the other; the first that is refused ends it, for the next would land elsewhere.
 * @param {{id: number, position: number}[]} moves
 */
async function carryOut(moves) {
  try {
    for (const one of moves) await live.call("task.move", one);
    if (moves.length) tell(t("done.move", { count: moves.length }));
  } catch (error) {
    complain(error);
  }
}

/** @param {Task[]} tasks @param {number} by */
export async function raise(tasks, by) {
  const why = obstacleOf(tasks);
  if (why) return tell(t(why));
  await prioritise(tasks.filter((task) => WAITING.has(task.state)), (task) => task.priority + by);
}

/** @param {Task[]} tasks @param {(task: Task) => number | string} priority */
async function prioritise(tasks, priority) {
  const results = await Promise.allSettled(tasks.map((task) => live.call("task.edit", { id: task.id, changes: { priority: priority(task) } })));
  const done = results.filter((one) => one.status === "fulfilled").length;
  if (done) tell(t("done.priority", { count: done }));
  results.flatMap((one) => (one.status === "rejected" ? [one.reason] : [])).slice(0, 3).forEach(complain);
}

/** @param {Task[]} tasks */
async function askPriority(tasks) {
  const [first] = tasks;
  const text = await askText({ title: t("queue.priority.ask", { count: tasks.length }), note: t("queue.priority.text"), label: t("column.priority"), text: String(first.priority), confirm: t("apply"), command: (value) => tasks.slice(0, 8).map((task) => `muster edit ${task.id} priority=${value}`).join("; ") });
  if (text !== null) await prioritise(tasks, () => (Number.isFinite(Number(text)) ? Number(text) : text));
}

/** @param {{tasks: Task[]}} props */
export function QueueMoves({ tasks }) {
  const why = obstacleOf(tasks);
  const waiting = tasks.filter((task) => WAITING.has(task.state));
  const arrow = (/** @type {Where} */ where, /** @type {string} */ key) => {
    const word = t(`move.${where}`);
    // Worked out where somebody asks for it: it takes the whole queue, which changes all the time.
    const tip = (/** @type {any} */ event) => {
      const command = why ? "" : commandOf(movesTo(tasks, where));
      event.currentTarget.title = why ? t(why) : `${word} [${key}]${command && `  ${command}`}`;
    };
    return html`<button key=${where} aria-disabled=${Boolean(why)} aria-label=${word} onPointerEnter=${tip} onFocus=${tip} onClick=${() => !why && move(tasks, where)}><${Icon} name=${where} /></button>`;
  };
  const word = t("move.priority");
  return html`${arrow("first", "T")}${arrow("up", "K")}${arrow("down", "J")}
    <button aria-disabled=${Boolean(why)} title=${why ? t(why) : `${word} [+ -]`} onClick=${() => !why && askPriority(waiting)}>${word}</button>`;
}
