// The password, once more, before what matters is changed: asked for, and kept for five minutes in this page alone, so that a
// browser that was left open changes nothing.

const KEPT_MS = 300_000;
let kept = "";
/** @type {ReturnType<typeof setTimeout> | undefined} */
let forgets;

/** What was shown a moment ago; empty where it has to be asked for. */
export function passwordShown() {
  return kept;
}

/** @param {string} password one that was right */
export function keepPassword(password) {
  clearTimeout(forgets);
  kept = password;
  forgets = setTimeout(forgetPassword, KEPT_MS);
}

export function forgetPassword() {
  kept = "";
}
