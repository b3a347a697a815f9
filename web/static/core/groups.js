// Tasks of a list put together by what they have in common: one owner, one project, one array. Pure.

import { RUNNING } from "./cluster.js";

/**
 * @typedef {import("./cluster.js").Task} Task
 * @typedef {object} Group
 * @property {true} isGroup which no task has
 * @property {string} key
 * @property {string} name what they have in common; empty for those that have nothing of it
 * @property {Task[]} tasks in the order of the list
 * @property {[string, number][]} states how many are in which, the most first
 * @property {number} gpus that they hold
 * @property {boolean} isOpen
 * @property {number | null} array the one that all of them are of, where they are grouped by it
 */

const NAMES = /** @type {Record<string, (task: Task) => string>} */ ({
  array: (task) => (task.array ? `${task.array.id}/` : ""),
  owner: (task) => task.owner,
  project: (task) => task.project,
  node: (task) => task.allocation.map((part) => part.node).join(" "),
});
export const GROUPINGS = Object.keys(NAMES);

/**
 * The groups, in the order of their first tasks.
 * @param {Task[]} tasks
 * @param {string} by one of GROUPINGS
 * @param {Set<string>} open keys of those whose tasks are shown
 * @returns {Group[]}
 */
export function groupsOf(tasks, by, open) {
  const nameOf = NAMES[by];
  /** @type {Map<string, Task[]>} */
  const found = new Map();
  for (const task of tasks) {
    const name = nameOf(task);
    const group = found.get(name);
    if (group) group.push(task);
    else found.set(name, [task]);
  }
  return [...found].map(([name, members]) => {
    const key = `${by}:${name}`;
    const title = by === "array" && name ? `${commonName(members)} ${name}`.trim() : name;
    return { isGroup: true, key, name: title, tasks: members, states: statesOf(members), gpus: gpusOf(members), isOpen: open.has(key), array: by === "array" && name ? (members[0].array?.id ?? null) : null };
  });
}

/**
 * What the names of an array's tasks begin with, for a sweep writes its values into them.
 * @param {Task[]} tasks
 */
export function commonName(tasks) {
  let common = tasks[0].name;
  for (const { name } of tasks) while (!name.startsWith(common)) common = common.slice(0, -1);
  return tasks.every((task) => task.name === common) ? common : common.replace(/[\s\-_.,:;=/]+[\p{L}\d]*$/u, "") || common;
}

/**
 * A list as it is shown: each group, and behind an open one its tasks.
 * @param {Group[]} groups
 * @returns {(Group | Task)[]}
 */
export function rowsOf(groups) {
  return groups.flatMap((group) => (group.isOpen ? [group, ...group.tasks] : [group]));
}

/**
 * How many are in which state, the most first.
 * @param {Task[]} tasks
 * @returns {[string, number][]}
 */
export function statesOf(tasks) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const task of tasks) counts[task.state] = (counts[task.state] ?? 0) + 1;
  return Object.entries(counts).sort((a, b) => b[1] - a[1]);
}

/**
 * What has ended still tells where it was.
 * @param {Task[]} tasks
 */
function gpusOf(tasks) {
  return tasks.filter((task) => RUNNING.has(task.state)).reduce((sum, task) => sum + task.allocation.reduce((held, part) => held + part.gpus.length, 0), 0);
}
