// What can be done to tasks: each action is one verb, says why it cannot be done where it cannot, and which command
// does the same. The master decides; what is told here is what it would say.

import { ENDED, RUNNING, WAITING } from "./cluster.js";
import { ranges } from "./format.js";
import { hasRole, me } from "./session.js";

/**
 * @typedef {import("./cluster.js").Task} Task
 * @typedef {object} Action
 * @property {string} name its words are `action.NAME`
 * @property {string} key on the keyboard
 * @property {string} verb
 * @property {boolean} destroys what it hits is listed, and it is asked once
 * @property {boolean} ownersOnly mentors may not
 * @property {(task: Task) => string | null} unfit why not in this state: a key of the words
 * @property {(task: Task) => Record<string, any>} params
 * @property {string} command
 * @property {string} [opens] the tab of a task's page where it is done, to one task at a time
 */

/** @param {Task} task */
const alive = (task) => !ENDED.has(task.state);

/** @type {Action[]} */
export const ACTIONS = [
  action("cancel", "c", "task.cancel", (task) => (alive(task) ? null : "not.ended"), { destroys: true }),
  action("hold", "h", "task.hold", (task) => (task.state === "waiting" ? null : "not.waiting")),
  action("release", "u", "task.release", (task) => (task.state === "held" ? null : "not.held")),
  action("retry", "r", "task.retry", (task) => (alive(task) ? "not.over" : null), { ownersOnly: true }),
  action("pause", "p", "task.pause", (task) => (task.state === "running" ? null : "not.running")),
  action("resume", "P", "task.resume", (task) => (task.state === "paused" ? null : "not.paused")),
  action("edit", "M", "task.edit", (task) => (RUNNING.has(task.state) ? "not.idle" : null), { opens: "edit", command: "edit" }),
  action("start", "S", "task.start", (task) => (WAITING.has(task.state) ? null : "not.waiting")),
  action("remove", "D", "task.remove", (task) => (RUNNING.has(task.state) ? "not.idle" : null), {
    destroys: true,
    ownersOnly: true,
    command: "rm",
  }),
];

/**
 * @param {string} name
 * @param {string} key
 * @param {string} verb
 * @param {Action["unfit"]} unfit
 * @param {{destroys?: boolean, ownersOnly?: boolean, command?: string, opens?: string}} [more]
 * @returns {Action}
 */
function action(name, key, verb, unfit, more = {}) {
  return {
    name,
    key,
    verb,
    unfit,
    destroys: more.destroys ?? false,
    ownersOnly: more.ownersOnly ?? false,
    command: `muster ${more.command ?? name}`,
    params: (task) => ({ id: task.id }),
    opens: more.opens,
  };
}

/** @param {string} name */
export function actionNamed(name) {
  return /** @type {Action} */ (ACTIONS.find((one) => one.name === name));
}

/**
 * Why this person cannot do this to the task: a key of the words, or null.
 * @param {Action} action
 * @param {Task} task
 */
export function obstacle(action, task) {
  const who = me.value;
  if (!who || !hasRole("user")) return "not.allowed.viewer";
  const isOwn = !who.is_shared || task.owner === who.user || who.role === "admin";
  // Whom a mentor looks after only the master knows: who has groups may try.
  if (!isOwn && (action.ownersOnly || who.groups.length === 0)) return "not.allowed.other";
  return action.unfit(task);
}

/**
 * Why it can be done to none of them: a key of the words, or null.
 * @param {Action} action
 * @param {Task[]} tasks
 */
export function obstacleToAll(action, tasks) {
  if (action.opens && tasks.length > 1) return "not.one";
  const found = tasks.map((task) => obstacle(action, task));
  return found.includes(null) ? null : (found[0] ?? null);
}

/**
 * The command that does the same.
 * @param {Action} action
 * @param {Task[]} tasks
 */
export function commandFor(action, tasks) {
  const ids = tasks.map((task) => task.id).sort((a, b) => a - b);
  return `${action.command} ${ranges(ids).replaceAll(",", " ")}${action.opens ? " …" : ""}`;
}

/**
 * Do it, to each. One that the master refuses keeps none of the others from it.
 * @param {import("./live.js").Live} live
 * @param {Action} action
 * @param {Task[]} tasks
 * @returns {Promise<{done: number, refused: {task: Task, failure: any}[]}>}
 */
export async function perform(live, action, tasks) {
  if (action.name === "cancel") {
    const ids = tasks.map((task) => task.id);
    const told = await live.call(action.verb, { ids });
    const refused = tasks
      .filter((task) => told.refused[task.id] !== undefined)
      .map((task) => ({ task, failure: { message: told.refused[task.id], ...told.messages[task.id] } }));
    return { done: tasks.length - refused.length, refused };
  }
  const results = await Promise.allSettled(tasks.map((task) => live.call(action.verb, action.params(task))));
  const refused = results.flatMap((result, at) =>
    result.status === "rejected" ? [{ task: tasks[at], failure: result.reason }] : [],
  );
  return { done: tasks.length - refused.length, refused };
}
