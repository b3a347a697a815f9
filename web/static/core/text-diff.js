// In what two texts, or two commands, differ: piece by piece, those that both have between those of one. Pure.

/** @typedef {{kind: "both" | "here" | "there", text: string}} Piece */

/** More than so many pairs of pieces are not compared: then all of one goes, and all of the other comes. */
const MOST_PAIRS = 1_000_000;
const AROUND = 2;

/**
 * The pieces of both in order, as few as possible of which only one has.
 * @param {string[]} here
 * @param {string[]} there
 * @returns {Piece[]}
 */
export function pieces(here, there) {
  let first = 0;
  while (first < Math.min(here.length, there.length) && here[first] === there[first]) first += 1;
  let last = 0;
  while (last < Math.min(here.length, there.length) - first && here.at(-1 - last) === there.at(-1 - last)) last += 1;
  const both = (/** @type {string[]} */ texts) => texts.map((text) => /** @type {Piece} */ ({ kind: "both", text }));
  return [
    ...both(here.slice(0, first)),
    ...between(here.slice(first, here.length - last), there.slice(first, there.length - last)),
    ...both(here.slice(here.length - last)),
  ];
}

/**
 * @param {string[]} here
 * @param {string[]} there
 * @returns {Piece[]}
 */
function between(here, there) {
  /** @type {Piece[]} */
  const found = [];
  const [rows, width] = [here.length, there.length + 1];
  if (rows * there.length > MOST_PAIRS) return [...here.map((text) => /** @type {Piece} */ ({ kind: "here", text })), ...there.map((text) => /** @type {Piece} */ ({ kind: "there", text }))];
  const common = new Uint32Array((rows + 1) * width); // of what stands from here on: the most that both have
  for (let at = rows - 1; at >= 0; at -= 1) {
    for (let to = there.length - 1; to >= 0; to -= 1) {
      common[at * width + to] = here[at] === there[to] ? common[(at + 1) * width + to + 1] + 1 : Math.max(common[(at + 1) * width + to], common[at * width + to + 1]);
    }
  }
  let [at, to] = [0, 0];
  while (at < rows || to < there.length) {
    if (at < rows && to < there.length && here[at] === there[to]) {
      found.push({ kind: "both", text: here[at] });
      at += 1;
      to += 1;
    } else if (at < rows && (to === there.length || common[(at + 1) * width + to] >= common[at * width + to + 1])) {
      found.push({ kind: "here", text: here[at] });
      at += 1;
    } else {
      found.push({ kind: "there", text: there[to] });
      to += 1;
    }
  }
  return found;
}

/**
 * As `diff -u` has it, without the names of files: the lines that differ, and a few around them.
 * @param {string} here
 * @param {string} there
 * @returns {string[]}
 */
export function differingLines(here, there) {
  const all = pieces(here.split("\n"), there.split("\n"));
  const isNear = (/** @type {number} */ at) => all.slice(Math.max(0, at - AROUND), at + AROUND + 1).some((one) => one.kind !== "both");
  const marks = { both: " ", here: "-", there: "+" };
  /** @type {string[]} */
  const lines = [];
  let line = 1;
  let isShown = false;
  for (const [at, piece] of all.entries()) {
    const wasShown = isShown;
    isShown = isNear(at);
    if (isShown && !wasShown) lines.push(`@@ ${line} @@`);
    if (isShown) lines.push(marks[piece.kind] + piece.text);
    if (piece.kind !== "there") line += 1;
  }
  return lines;
}
