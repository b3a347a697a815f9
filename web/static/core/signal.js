// A value that others are told of when it changes. Owns who listens; knows nothing of what the value means.

import { useLayoutEffect, useReducer } from "./html.js";

/** @template T */
export class Signal {
  /** @param {T} value */
  constructor(value) {
    this.value = value;
    /** @type {Set<(value: T) => void>} */
    this.listeners = new Set();
  }

  /** @param {T} value */
  set(value) {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const listener of [...this.listeners]) listener(value);
  }

  /**
   * Be told of each change; what is returned ends that.
   * @param {(value: T) => void} listener
   */
  watch(listener) {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }
}

/**
 * The value, and to be drawn again when it changes.
 * @template T
 * @param {Signal<T>} signal
 * @returns {T}
 */
export function useSignal(signal) {
  const [, again] = useReducer((/** @type {number} */ count) => count + 1, 0);
  const drawn = signal.value;
  useLayoutEffect(() => {
    if (!Object.is(drawn, signal.value)) again(undefined); // it changed between the drawing and the watching
    return signal.watch(() => again(undefined));
  }, [signal]);
  return drawn;
}
