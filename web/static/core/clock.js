// The time, for what is shown of it: one clock for all of the page, once a second while somebody looks.

import { Signal, useSignal } from "./signal.js";

const now = new Signal(Math.floor(Date.now() / 1000));

setInterval(() => {
  if (!document.hidden) now.set(Math.floor(Date.now() / 1000));
}, 1_000);

/** Seconds since the epoch; the caller is drawn again each second. */
export function useNow() {
  return useSignal(now);
}
