// With what a task is compared: tasks that are like it, and its own attempts. Pure.

/**
 * @typedef {import("./cluster.js").Task} Task
 * @typedef {import("@muster/wire").Attempt} Attempt
 * @typedef {import("@muster/wire").Difference} Difference
 */

const MOST = 6;
/** What became of it, and not what was asked for. */
export const BECAME = new Set(["state", "exit_code", "last_line", "attempt", "gpu_peak_mib", "reason", "where", "runs_as", "waited_s", "took_s"]);

/**
 * Those of its array, then those of the same name or command, then its owner's; of each kind first what succeeded, and the nearest.
 * @param {Task} task
 * @param {Task[]} tasks
 * @returns {Task[]}
 */
export function alike(task, tasks) {
  const command = JSON.stringify(task.command);
  const rank = (/** @type {Task} */ one) => {
    if (task.array && one.array?.id === task.array.id) return 0;
    if (one.owner !== task.owner) return 3;
    return (task.name && one.name === task.name) || JSON.stringify(one.command) === command ? 1 : 2;
  };
  return tasks
    .filter((one) => one.id !== task.id)
    .map((one) => ({ one, rank: rank(one), far: Math.abs(one.id - task.id) }))
    .filter(({ rank }) => rank < 3)
    .sort((a, b) => a.rank - b.rank || Number(b.one.state === "succeeded") - Number(a.one.state === "succeeded") || a.far - b.far || b.one.id - a.one.id)
    .slice(0, MOST)
    .map(({ one }) => one);
}

/**
 * In what two attempts of a task differ, but for the times of the clock.
 * @param {Attempt} here
 * @param {Attempt} there
 * @returns {Difference[]}
 */
export function attemptsDiffer(here, there) {
  const [one, other] = [factsOf(here), factsOf(there)];
  return Object.keys(one)
    .map((field) => ({ field, here: one[field], there: other[field] }))
    .filter(({ here: a, there: b }) => JSON.stringify(a) !== JSON.stringify(b));
}

/**
 * @param {Attempt} attempt
 * @returns {Record<string, any>}
 */
function factsOf(attempt) {
  const { parts, started_at: begin, ended_at: end } = attempt;
  return {
    exit_code: attempt.exit_code,
    last_line: attempt.last_line,
    reason: attempt.reason,
    where: parts.map(({ node, gpus }) => ({ node, gpus })),
    runs_as: parts.map((part) => part.run_as || part.account).filter(Boolean),
    took_s: begin && end ? Math.round(end - begin) : null,
  };
}
