// A form that is sent twice in a moment with the same in it (a double click, a key that was held) is sent once: what it files
// would be filed twice, for the page has not been drawn anew between the two.

const MOMENT_MS = 600;

export function sendFormsOnce() {
  /** @type {WeakMap<EventTarget, {at: number, words: string}>} */
  const sent = new WeakMap();
  const look = (/** @type {SubmitEvent} */ event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    const words = JSON.stringify([...new FormData(form)]);
    const last = sent.get(form);
    if (last && last.words === words && event.timeStamp - last.at < MOMENT_MS) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    sent.set(form, { at: event.timeStamp, words });
  };
  document.addEventListener("submit", look, { capture: true });
}
