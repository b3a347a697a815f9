// The order of the queue, as the master has it: forced before all, then urgent, higher priorities, lower places (the id
// unless it was moved), lower ids. Pure.

import { WAITING } from "./cluster.js";

/** @typedef {import("./cluster.js").Task} Task */

/**
 * @param {Task} a
 * @param {Task} b
 */
export function before(a, b) {
  return (
    Number(b.forced) - Number(a.forced) ||
    Number(b.urgent) - Number(a.urgent) ||
    b.priority - a.priority ||
    (a.position ?? a.id) - (b.position ?? b.id) ||
    a.id - b.id
  );
}

/**
 * Those that wait, the next one first.
 * @param {import("./cluster.js").Cluster} cluster
 */
export function queued(cluster) {
  return [...cluster.tasks.values()].filter((task) => WAITING.has(task.state)).sort(before);
}

/**
 * How many stand before a task that waits, itself counted, and how many wait in all.
 * @param {import("./cluster.js").Cluster} cluster
 * @param {Task} task
 */
export function standing(cluster, task) {
  let [position, count] = [1, 0];
  for (const one of cluster.tasks.values()) {
    if (!WAITING.has(one.state)) continue;
    count += 1;
    if (one.id !== task.id && before(one, task) < 0) position += 1;
  }
  return { position, count };
}
