// Light, dark, or as the system has it. The style sheets know the rest.

import { keep, kept } from "./kept.js";
import { Signal } from "./signal.js";

export const THEMES = /** @type {const} */ (["auto", "light", "dark"]);
/** @typedef {(typeof THEMES)[number]} Theme */

/** @type {Signal<Theme>} */
export const theme = new Signal(/** @type {Theme} */ (kept("theme") ?? "auto"));

/** @param {Theme} name */
export function setTheme(name) {
  theme.set(name);
  keep("theme", name === "auto" ? null : name);
  show();
}

function show() {
  const isDark = theme.value === "dark" || (theme.value === "auto" && wantsDark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}

const wantsDark = matchMedia("(prefers-color-scheme: dark)");
wantsDark.addEventListener("change", show);
show();
