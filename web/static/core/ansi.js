// A line of a log as it would look on a terminal: what the last carriage return left, colours as classes, and every
// other character that acts on a terminal made harmless. Pure.

import { harmless } from "./harmless.js";

/** @typedef {{text: string, style: string, colour?: string, ground?: string}} Segment */

// eslint-disable-next-line no-control-regex
const SEQUENCE = /\x1b\[([0-9;:]*)([A-Za-z@`~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[()][A-Za-z0-9]|\x1b[=>78cDEHMNOZ]/g;
const LONGEST = 20_000;

/**
 * Of a progress bar only its last state, as it stands on a terminal.
 * @param {string} line
 */
export function collapsed(line) {
  const text = line.endsWith("\r") ? line.replace(/\r+$/, "") : line;
  const at = text.lastIndexOf("\r");
  return at < 0 ? text : text.slice(at + 1);
}

/**
 * @param {string} line
 * @returns {Segment[]}
 */
export function segments(line) {
  const text = line.length > LONGEST ? `${line.slice(0, LONGEST)} … (${line.length})` : line;
  if (!text.includes("\x1b")) return [{ text: shown(text), style: "" }];
  /** @type {Segment[]} */
  const found = [];
  let pen = new Pen();
  let at = 0;
  for (const match of text.matchAll(SEQUENCE)) {
    const begin = match.index ?? 0;
    if (begin > at) found.push(pen.segment(shown(text.slice(at, begin))));
    at = begin + match[0].length;
    if (match[2] === "m") pen = pen.after(match[1]);
  }
  if (at < text.length) found.push(pen.segment(shown(text.slice(at))));
  return found;
}

/**
 * Without its colours: for searching and copying.
 * @param {string} line
 */
export function bare(line) {
  return line.replace(SEQUENCE, "");
}

/** @param {string} text */
function shown(text) {
  return harmless(text.replaceAll("\t", "    "));
}

class Pen {
  constructor() {
    /** @type {Set<string>} */
    this.marks = new Set();
    /** @type {string | undefined} */
    this.colour = undefined;
    /** @type {string | undefined} */
    this.ground = undefined;
  }

  /** @param {string} text @returns {Segment} */
  segment(text) {
    return { text, style: [...this.marks].join(" "), colour: this.colour, ground: this.ground };
  }

  /** @param {string} numbers of a sequence that selects colours */
  after(numbers) {
    const next = new Pen();
    next.marks = new Set(this.marks);
    [next.colour, next.ground] = [this.colour, this.ground];
    const codes = numbers.split(/[;:]/).map(Number);
    while (codes.length) next._take(/** @type {number} */ (codes.shift()), codes);
    return next;
  }

  /** @param {number} code @param {number[]} rest */
  _take(code, rest) {
    if (code === 0) {
      this.marks.clear();
      this._paint("fg", null);
      this._paint("bg", null);
    } else if (code === 1) this.marks.add("bold");
    else if (code === 2) this.marks.add("faint");
    else if (code === 3) this.marks.add("italic");
    else if (code === 4) this.marks.add("underline");
    else if (code === 22) ["bold", "faint"].forEach((mark) => this.marks.delete(mark));
    else if (code === 23) this.marks.delete("italic");
    else if (code === 24) this.marks.delete("underline");
    else if (code >= 30 && code <= 37) this._paint("fg", code - 30);
    else if (code >= 90 && code <= 97) this._paint("fg", code - 82);
    else if (code >= 40 && code <= 47) this._paint("bg", code - 40);
    else if (code >= 100 && code <= 107) this._paint("bg", code - 92);
    else if (code === 39) this._paint("fg", null);
    else if (code === 49) this._paint("bg", null);
    else if (code === 38 || code === 48) this._paint(code === 38 ? "fg" : "bg", extended(rest));
  }

  /** @param {"fg" | "bg"} what @param {number | string | null} colour one of the sixteen, or any */
  _paint(what, colour) {
    for (const mark of this.marks) if (mark.startsWith(what)) this.marks.delete(mark);
    const any = typeof colour === "string" ? colour : undefined;
    if (what === "fg") this.colour = any;
    else this.ground = any;
    if (typeof colour === "number") this.marks.add(`${what}${colour}`);
  }
}

/** @param {number[]} rest what follows 38 or 48 @returns {number | string | null} */
function extended(rest) {
  const kind = rest.shift();
  if (kind === 2) {
    const [r, g, b] = rest.splice(0, 3).map((one) => Math.max(0, Math.min(255, one || 0)));
    return `rgb(${r ?? 0} ${g ?? 0} ${b ?? 0})`;
  }
  if (kind !== 5) return null;
  const code = rest.shift() ?? 0;
  if (code < 16) return code;
  if (code >= 232) return `rgb(${Array(3).fill(8 + (code - 232) * 10).join(" ")})`;
  const cube = code - 16;
  const level = (/** @type {number} */ one) => (one ? 55 + one * 40 : 0);
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}
