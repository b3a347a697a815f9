// The cluster, followed: it subscribes, lists, and lets pages draw what changed, at most once a frame. While somebody
// holds the pointer down or has text selected nothing moves: new messages wait, and are counted.

import { Cluster } from "./cluster.js";
import { asFailure } from "./failure.js";
import { useEffect, useReducer } from "./html.js";
import { Signal } from "./signal.js";

/** @typedef {"tasks" | "ended" | "nodes" | "samples"} What */

const MOST_HELD_BACK = 20_000;
const HIDDEN_MS = 1_000;
/** Figures of nodes, which come one after the other, are drawn together: sixty nodes would be drawn sixty times a second. */
const FIGURES_MS = 500;
/** Before lists that did not come are asked for again: the first pause, which doubles, and the longest. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;

export class Store {
  /** @param {import("./live.js").Live} live */
  constructor(live) {
    this.live = live;
    this.cluster = new Cluster();
    /** How many changes wait for the hand to be lifted. */
    this.heldBack = new Signal(0);
    /**
     * Why the first lists did not come.
     * @type {Signal<import("./failure.js").Failure | null>}
     */
    this.fault = new Signal(/** @type {import("./failure.js").Failure | null} */ (null));
    /** @type {Set<() => void>} */
    this._viewers = new Set();
    /** @type {[string, any][]} */
    this._inbox = [];
    this._isHeld = false;
    this._isDue = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._figures = undefined;
    /** So many times it was listed anew; the last of them is what counts. */
    this._listings = 0;
    this._isListing = false;
    this._pause = FIRST_PAUSE_MS;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this._again = undefined;
    live.told = (method, params) => {
      this._inbox.push([method, params]);
      if (this._isListing) return;
      if (this._isHeld && this._inbox.length < MOST_HELD_BACK) this.heldBack.set(this._inbox.length);
      else if (method === "node.sample") this._later();
      else this._soon();
    };
    live.opened = () => {
      this._resync();
    };
  }

  /** Nothing moves while the pointer is down on the page, or text is selected. */
  holdStill() {
    let isDown = false;
    const look = () => {
      const selection = getSelection();
      this._hold(isDown || Boolean(selection && !selection.isCollapsed && selection.toString().trim()));
    };
    addEventListener("pointerdown", (event) => {
      isDown = event.target instanceof Element && event.target.closest("main") !== null;
      look();
    });
    for (const end of ["pointerup", "pointercancel", "dragend"]) {
      addEventListener(end, () => {
        isDown = false;
        setTimeout(look, 0); // the click that ends with it goes to what was under the hand
      });
    }
    document.addEventListener("selectionchange", look);
  }

  /** Let go of what was held back, whatever is selected. */
  letGo() {
    getSelection()?.removeAllRanges();
    this._hold(false);
  }

  /**
   * Load finished tasks into the cluster: the newest ones, or those behind them, in the order that the master has by itself (its
   * `sort` begins with the oldest).
   * @param {{limit: number, offset: number, since?: number}} page
   * @returns {Promise<{tasks: any[], total: number}>} these, and how many there are in all
   */
  async askEnded(page) {
    const asked = { ended: true, active: false, sparse: true, ...page };
    const answer = await this.live.call("task.list", asked);
    this.cluster.someEnded(answer);
    this._draw();
    return answer;
  }

  /** @param {() => void} viewer is called when something changed */
  watch(viewer) {
    this._viewers.add(viewer);
    return () => {
      this._viewers.delete(viewer);
    };
  }

  /** Subscribed first, listed second, and what is told before the list has come is taken after it: a long list was made
   * before some of that, and would take it back. A list that does not come is requested again: a master
   * that starts opens one port after the other. */
  async _resync() {
    clearTimeout(this._again);
    const listing = (this._listings += 1);
    this._isListing = true;
    this._inbox = [];
    try {
      const { live } = this;
      const [, , tasks, nodes] = await Promise.all([
        live.call("subscribe", { stream: "tasks", snapshot: "none" }),
        live.call("subscribe", { stream: "nodes", snapshot: "none" }),
        live.call("task.list", { sparse: true }),
        live.call("node.list"),
      ]);
      if (listing !== this._listings) return;
      this.cluster.allTasks(tasks);
      this.cluster.allNodes(nodes);
      this.fault.set(null);
      this._pause = FIRST_PAUSE_MS;
      this._draw();
    } catch (error) {
      if (listing !== this._listings) return;
      const failure = asFailure(error);
      this.fault.set(failure);
      if (failure.code !== "forbidden") this._askAgain();
    }
    this._isListing = false;
    if (this._inbox.length) this._soon();
  }

  /** After a pause. A connection that is lost asks by itself once it is back. */
  _askAgain() {
    this._again = setTimeout(() => this.live.state.value === "live" && this._resync(), this._pause);
    this._pause = Math.min(this._pause * 2, LONGEST_PAUSE_MS);
  }

  /** @param {boolean} isHeld */
  _hold(isHeld) {
    if (isHeld === this._isHeld) return;
    this._isHeld = isHeld;
    if (!isHeld) {
      this.heldBack.set(0);
      if (this._inbox.length) this._soon();
    }
  }

  _later() {
    this._figures ??= setTimeout(() => this._soon(), FIGURES_MS);
  }

  _soon() {
    clearTimeout(this._figures);
    this._figures = undefined;
    if (this._isDue) return;
    this._isDue = true;
    const take = () => {
      this._isDue = false;
      if (this._isListing) return;
      if (this._isHeld && this._inbox.length < MOST_HELD_BACK) {
        this.heldBack.set(this._inbox.length);
        return;
      }
      const inbox = this._inbox;
      this._inbox = [];
      for (const [method, params] of inbox) this.cluster.take(method, params);
      this._draw();
    };
    if (document.hidden) setTimeout(take, HIDDEN_MS);
    else requestAnimationFrame(take);
  }

  _draw() {
    for (const viewer of [...this._viewers]) viewer();
  }
}

/**
 * The cluster, and to be drawn again when one of these changed.
 * @param {Store} store
 * @param {What[]} what
 */
export function useCluster(store, what) {
  const [, again] = useReducer((/** @type {number} */ count) => count + 1, 0);
  const { cluster } = store;
  useEffect(() => {
    let seen = what.map((one) => cluster.versions[one]).join();
    again(undefined);
    return store.watch(() => {
      const now = what.map((one) => cluster.versions[one]).join();
      if (now !== seen) {
        seen = now;
        again(undefined);
      }
    });
  }, [store, what.join()]);
  return cluster;
}
