// Which rows of a list are selected. They stand in the address, so that a link shows what its sender saw and the way back leads to
// the list as it was left; a selection that is too long for an address is kept by the page alone.

import { ranges } from "./format.js";
import { useCallback, useMemo, useState } from "./html.js";
import { setQuery, usePlace } from "./route.js";

/** @typedef {Set<string | number>} Keys */

/** Characters; not every program in which people send links takes longer ones. */
const MOST = 1_500;
/** Of one address, whatever somebody wrote into it. */
const MOST_KEYS = 100_000;

/**
 * How keys are written into the address and read from it.
 * @typedef {{write: (keys: Keys) => string, read: (text: string) => Keys}} Writing
 */

/** @type {Writing} */
export const IDS = {
  write: (keys) => ranges([...keys].map(Number).sort((one, other) => one - other)),
  read: (text) => {
    const keys = new Set();
    for (const [, first, last = first] of text.matchAll(/(?<![^,])(\d{1,15})(?:-(\d{1,15}))?(?![^,])/g)) {
      for (let id = Number(first); id <= Number(last) && keys.size < MOST_KEYS; id += 1) keys.add(id);
    }
    return keys;
  },
};

/** @type {Writing} */
export const NAMES = {
  write: (keys) => [...keys].map((key) => encodeURIComponent(key)).join(","),
  read: (text) => new Set(text.split(",").flatMap(decoded)),
};

/** @param {string} word */
function decoded(word) {
  try {
    return word ? [decodeURIComponent(word)] : [];
  } catch { // somebody cut the address off
    return [];
  }
}

/**
 * The selected keys, and how to select others in their place.
 * @param {Writing} writing the same object each time
 * @returns {[Keys, (keys: Keys) => void]}
 */
export function useSelection(writing) {
  const text = usePlace().query.get("selected") ?? "";
  const [long, setLong] = useState(/** @type {Keys | null} */ (null));
  const selected = useMemo(() => (text || !long ? writing.read(text) : long), [text, long]);
  const select = useCallback((/** @type {Keys} */ keys) => {
    const written = writing.write(keys);
    const isLong = written.length > MOST;
    setLong(isLong ? keys : null);
    setQuery({ selected: isLong ? null : written });
  }, []);
  return [selected, select];
}
