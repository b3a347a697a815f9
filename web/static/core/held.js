// How many GPUs tasks held over the last day, from when they began and ended. Pure. Of a task that was tried several times only the
// last attempt is known here.

/** @typedef {import("./cluster.js").Task} Task */

/**
 * The mean of each step; null for one in which not all tasks are known.
 * @param {Iterable<Task>} tasks
 * @param {number} until seconds since the epoch
 * @param {number} length seconds
 * @param {number} steps
 * @param {number} since seconds since the epoch: what ended before is not known
 * @returns {(number | null)[]} the oldest first
 */
export function heldOver(tasks, until, length, steps, since) {
  const step = length / steps;
  const held = new Array(steps).fill(0);
  for (const task of tasks) {
    const gpus = task.allocation.reduce((sum, part) => sum + part.gpus.length, 0);
    if (!gpus || task.started_at === null) continue;
    const [from, to] = [task.started_at - until + length, Math.min(length, (task.ended_at ?? until) - until + length)];
    for (let at = Math.max(0, Math.floor(from / step)); at < steps && at * step < to; at += 1) {
      const within = Math.min(to, (at + 1) * step) - Math.max(from, at * step);
      held[at] += (gpus * within) / step;
    }
  }
  return held.map((one, at) => (until - length + at * step < since ? null : one));
}
