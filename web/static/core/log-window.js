// A stretch of a log that may be a gigabyte: the last lines first, then what stands before or behind, piece by piece.
// Lines that are far from what is looked at are let go. It asks through a function that it is given, and draws nothing.

/**
 * @typedef {{at: number, text: string}} Line `at`: the offset of its first byte
 * @typedef {{data: string, offset: number, size: number, ended: boolean, missing?: boolean}} Piece
 * @typedef {(asked: {offset: number, limit: number, wait_s?: number}) => Promise<Piece>} Read
 */

const PIECE = 65_536;
const NEWS = 1_048_576;
const MOST_BYTES = 8_388_608;
const NEWLINE = 10;

export class LogWindow {
  /** @param {Read} read */
  constructor(read) {
    this.read = read;
    /** @type {Line[]} */
    this.lines = [];
    /** The bytes that the lines stand for: from the first byte of the first to behind the last. */
    this.from = 0;
    this.to = 0;
    /** Bytes of the whole file, as last told. */
    this.size = 0;
    /** Nothing will be added to it any more. */
    this.ended = false;
    /** Bytes behind the last line's end. */
    this._open = new Uint8Array(0);
    this._decoder = new TextDecoder();
    /** Grows when another stretch is shown: what was asked for before it is not wanted any more. */
    this._generation = 0;
    this._asked = 0;
  }

  get isAtStart() {
    return this.from === 0;
  }

  get isAtEnd() {
    return this.to >= this.size;
  }

  /** The last lines. */
  async toEnd() {
    await this._show({ offset: -PIECE, limit: PIECE });
  }

  /**
   * The lines around a byte.
   * @param {number} offset
   */
  async toOffset(offset) {
    await this._show({ offset: Math.max(0, offset - PIECE / 2), limit: PIECE });
  }

  /** Another stretch. Of two requests the later one is shown, whichever answer comes last.
   * @param {{offset: number, limit: number}} stretch */
  async _show(stretch) {
    const asked = (this._asked += 1);
    const piece = await this.read(stretch);
    if (asked !== this._asked) return;
    this._generation += 1;
    const bytes = decoded(piece.data);
    this._told(piece);
    const start = piece.offset === 0 ? 0 : firstLineAt(bytes);
    this.from = piece.offset + start;
    this.to = this.from;
    this.lines = [];
    this._open = new Uint8Array(0);
    this._append(bytes.subarray(start));
  }

  /**
   * The piece before the first line.
   * @returns {Promise<number>} how many lines it brought
   */
  async earlier() {
    if (this.isAtStart) return 0;
    const generation = this._generation;
    const begin = Math.max(0, this.from - PIECE);
    const piece = await this.read({ offset: begin, limit: this.from - begin });
    if (generation !== this._generation) return 0;
    const bytes = decoded(piece.data);
    const start = begin === 0 ? 0 : firstLineAt(bytes, true);
    const added = this._lines(bytes.subarray(start), begin + start).lines;
    this.lines = added.concat(this.lines);
    this.from = begin + start;
    while (this.to - this.from > MOST_BYTES && this.lines.length > added.length) {
      const last = /** @type {Line} */ (this.lines.pop());
      this.to = last.at;
      this._open = new Uint8Array(0);
    }
    return added.length;
  }

  /**
   * What stands behind the last line. With `wait` it is waited for.
   * @param {number} [wait] seconds
   * @returns {Promise<{added: number, dropped: number}>} lines at the end, and of those at the start let go
   */
  async later(wait = 0) {
    const generation = this._generation;
    const before = this.lines.length;
    const piece = await this.read({ offset: this.to, limit: NEWS, ...(wait ? { wait_s: wait } : {}) });
    if (generation !== this._generation) return { added: 0, dropped: 0 };
    this._told(piece);
    if (piece.offset !== this.to || piece.size < this.to) {
      await this.toEnd(); // it was begun anew: another attempt, or somebody emptied it
      return { added: this.lines.length, dropped: before };
    }
    const hadOpen = this._open.length > 0 ? 1 : 0;
    this._append(decoded(piece.data));
    const added = this.lines.length - before + (hadOpen && this.lines.length < before ? 1 : 0);
    return { added: Math.max(0, added), dropped: this._letGoOfStart() };
  }

  _letGoOfStart() {
    let dropped = 0;
    while (this.to - this.from > MOST_BYTES && dropped < this.lines.length - 1) {
      dropped += 1;
      this.from = this.lines[dropped].at;
    }
    if (dropped) this.lines = this.lines.slice(dropped);
    return dropped;
  }

  /** @param {Piece} piece */
  _told(piece) {
    this.size = piece.size;
    this.ended = piece.ended;
  }

  /** @param {Uint8Array} bytes */
  _append(bytes) {
    if (bytes.length === 0) return;
    if (this._open.length) {
      this.lines = this.lines.slice(0, -1); // the line without an end goes on
      this.to -= this._open.length;
      const joined = new Uint8Array(this._open.length + bytes.length);
      joined.set(this._open);
      joined.set(bytes, this._open.length);
      bytes = joined;
    }
    const { lines, open } = this._lines(bytes, this.to);
    this.lines = this.lines.concat(lines);
    this._open = open;
    this.to += bytes.length;
  }

  /**
   * @param {Uint8Array} bytes
   * @param {number} offset of the first
   */
  _lines(bytes, offset) {
    /** @type {Line[]} */
    const lines = [];
    let start = 0;
    while (start < bytes.length) {
      const end = bytes.indexOf(NEWLINE, start);
      if (end < 0) break;
      lines.push({ at: offset + start, text: this._decoder.decode(bytes.subarray(start, end)) });
      start = end + 1;
    }
    const open = bytes.slice(start);
    if (open.length) lines.push({ at: offset + start, text: this._decoder.decode(open) });
    return { lines, open };
  }
}

/**
 * Where the first whole line begins; a piece without an end of line is one line itself.
 * @param {Uint8Array} bytes
 * @param {boolean} [isBeforeLine] its last byte ends a line
 */
function firstLineAt(bytes, isBeforeLine = false) {
  const end = bytes.indexOf(NEWLINE);
  return end < 0 || (isBeforeLine && end === bytes.length - 1) ? 0 : end + 1;
}

/** @param {string} base64 */
function decoded(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}
