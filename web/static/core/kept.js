// What this browser keeps between visits: small values under names of ours. A browser that keeps nothing (private
// windows, a full store) costs people their choices, and no page.

const PREFIX = "muster.";

/**
 * @param {string} name
 * @returns {any} what was kept, or null
 */
export function kept(name) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * @param {string} name
 * @param {unknown} value null or undefined to keep it no longer
 */
export function keep(name, value) {
  try {
    if (value === null || value === undefined) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // It is forgotten with the page, then.
  }
}
