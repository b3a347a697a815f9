// An array as a table: what its tasks' values are, which value stands in which row and column, and what failed alike. Pure.

/** @typedef {import("./cluster.js").Task & {sweep?: Record<string, string> | null, array?: {id: number, index: number} | null, last_line?: string | null}} Task */

const BAD = new Set(["failed", "timed_out", "lost"]);
/** An array without values is shown in rows of so many. */
const ROW = 10;

/**
 * The last name's values are the columns, the others' combinations the rows; of an array of numbers ten stand in a row.
 * @param {Task[]} tasks
 * @returns {{across: string, down: string, columns: string[], rows: {name: string, cells: (Task | undefined)[]}[]}}
 */
export function tableOf(tasks) {
  const names = Object.keys(tasks.find((task) => task.sweep)?.sweep ?? {});
  const across = names.at(-1) ?? "";
  const before = names.slice(0, -1);
  /** @param {Task} task */
  const place = (task) => {
    const index = task.array?.index ?? 0;
    if (!across) return [`${index - (index % ROW)}`, `${index % ROW}`];
    const values = task.sweep ?? {};
    return [before.map((name) => values[name]).join(", "), values[across]];
  };
  /** @type {Map<string, Map<string, Task>>} */
  const rows = new Map();
  /** @type {Set<string>} */
  const columns = new Set(across ? [] : Array.from({ length: ROW }, (_, at) => `${at}`));
  for (const task of [...tasks].sort((a, b) => (a.array?.index ?? 0) - (b.array?.index ?? 0))) {
    const [row, column] = place(task);
    columns.add(column);
    const cells = rows.get(row) ?? new Map();
    cells.set(column, task);
    rows.set(row, cells);
  }
  return {
    across,
    down: before.join(", "),
    columns: [...columns],
    rows: [...rows].map(([name, cells]) => ({ name, cells: [...columns].map((column) => cells.get(column)) })),
  };
}

/**
 * Those that failed, by what their logs ended with; the most first.
 * @param {Task[]} tasks
 * @returns {{line: string, tasks: Task[]}[]}
 */
export function failuresOf(tasks) {
  /** @type {Map<string, Task[]>} */
  const found = new Map();
  for (const task of tasks) {
    if (!BAD.has(task.state)) continue;
    const line = task.last_line ?? "";
    found.set(line, [...(found.get(line) ?? []), task]);
  }
  return [...found].map(([line, alike]) => ({ line, tasks: alike })).sort((a, b) => b.tasks.length - a.tasks.length);
}
