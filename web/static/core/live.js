// The one WebSocket: the master's JSON-RPC over it, and what it tells by itself. A connection that breaks is opened anew
// for as long as it takes; calls that waited for an answer fail. The store interprets the messages.

import { Failure } from "./failure.js";
import { inWords } from "./i18n.js";
import { Signal } from "./signal.js";

/** @typedef {"connecting" | "live" | "lost" | "ended"} LiveState */

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;
const SILENCE_MS = 15_000;
const PATIENCE_MS = 10_000;
const NO_SESSION = 4401;
const SILENT = 1006; // as browsers say where the other end said nothing

export class Live {
  /**
   * @param {() => string | null} key the session's half that this browser keeps
   */
  constructor(key) {
    /** @type {Signal<LiveState>} */
    this.state = new Signal(/** @type {LiveState} */ ("connecting"));
    /** When the connection was lost, in ms since the epoch. */
    this.lostAt = 0;
    /** @type {(method: string, params: any) => void} */
    this.told = () => {};
    /** @type {() => void} */
    this.opened = () => {};
    /** @type {() => void} */
    this.refused = () => {};
    /**
     * The master refused something to this user: their rights may have changed.
     * @type {() => void}
     */
    this.forbidden = () => {};
    this._key = key;
    /** @type {WebSocket | null} */
    this._socket = null;
    this._number = 0;
    /** @type {Map<number, {resolve: (result: any) => void, reject: (failure: Failure) => void}>} */
    this._waiting = new Map();
    this._pause = FIRST_PAUSE_MS;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._again = undefined;
    this._heardAt = 0;
    this._asked = false;
    addEventListener("online", () => this._hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this._hurry());
    setInterval(() => this._listen(), 5_000);
  }

  /** Connect, and stay connected. */
  start() {
    if (this._socket) return;
    clearTimeout(this._again);
    const url = new URL("live", document.baseURI);
    url.protocol = url.protocol === "http:" ? "ws:" : "wss:";
    const socket = new WebSocket(url);
    this._socket = socket;
    this._heardAt = Date.now();
    this._asked = false;
    if (this.state.value === "ended") this.state.set("connecting");
    socket.onopen = () => {
      socket.send(JSON.stringify({ key: this._key() }));
      this._heardAt = Date.now();
      this.state.set("live");
      this.opened();
    };
    socket.onmessage = (event) => {
      if (this._socket === socket) this._heard(JSON.parse(event.data));
    };
    socket.onclose = (event) => {
      if (this._socket === socket) this._closed(event.code);
    };
  }

  /** Leave for good. */
  stop() {
    const socket = this._socket;
    this._socket = null;
    clearTimeout(this._again);
    if (socket?.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close(); // earlier the browser calls it a failure
    else socket?.close();
    this._giveUp();
    this.state.set("ended");
  }

  /**
   * Ask the master. Rejects with a Failure; `unreachable` where nothing was asked, `unanswered` where nobody knows
   * whether it was done.
   * @param {string} verb
   * @param {Record<string, any>} [params]
   * @returns {Promise<any>}
   */
  async call(verb, params = {}) {
    if (this.state.value !== "live") await this._connected();
    const socket = this._socket;
    if (!socket || socket.readyState !== WebSocket.OPEN) throw unreachable();
    this._number += 1;
    const id = this._number;
    const answer = new Promise((resolve, reject) => this._waiting.set(id, { resolve, reject }));
    socket.send(JSON.stringify({ jsonrpc: "2.0", id, method: verb, params }));
    return answer;
  }

  _connected() {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        leave();
        reject(unreachable());
      }, PATIENCE_MS);
      const leave = this.state.watch((state) => {
        if (state !== "live") return;
        clearTimeout(timer);
        leave();
        resolve(undefined);
      });
    });
  }

  /** @param {any} message */
  _heard(message) {
    this._heardAt = Date.now();
    this._asked = false;
    this._pause = FIRST_PAUSE_MS;
    if (message.method) {
      this.told(message.method, message.params ?? {});
      return;
    }
    const waiting = this._waiting.get(message.id);
    this._waiting.delete(message.id);
    if (!waiting) return;
    if (message.error) {
      const data = message.error.data ?? {};
      if (data.code === "forbidden") this.forbidden();
      const failure = new Failure(data.code ?? "internal", message.error.message, data.key ?? null, data.args ?? null);
      inWords(failure).then(waiting.reject);
    } else {
      waiting.resolve(message.result);
    }
  }

  /** @param {number} code */
  _closed(code) {
    this._socket = null;
    this._giveUp();
    if (code === NO_SESSION) {
      this.state.set("ended");
      this.refused();
      return;
    }
    if (this.state.value === "live") this.lostAt = Date.now();
    this.state.set("lost");
    const spread = 0.7 + 0.6 * Math.random(); // not all browsers at once after a restart
    this._again = setTimeout(() => this.start(), this._pause * spread);
    this._pause = Math.min(this._pause * 2, LONGEST_PAUSE_MS);
  }

  _giveUp() {
    for (const { reject } of this._waiting.values()) {
      reject(new Failure("unanswered", "the connection broke before the answer came", "ui.unanswered", {}));
    }
    this._waiting.clear();
  }

  _hurry() {
    if (this.state.value === "lost" && !this._socket) this.start();
  }

  /** A connection that says nothing is asked whether it is there; one that does not answer, or does not come about, is none. */
  _listen() {
    const socket = this._socket;
    if (!socket || Date.now() - this._heardAt < SILENCE_MS) return;
    if (this.state.value === "live" && !this._asked) {
      this._asked = true;
      this.call("auth.whoami").catch(() => undefined);
      return;
    }
    this._socket = null; // the browser would wait a minute for the other end to agree
    socket.close(); // also where it never came about: until then no other one to the same address does
    this._closed(SILENT);
  }
}

function unreachable() {
  return new Failure("unreachable", "there is no connection to the master", "ui.unreachable", {});
}
