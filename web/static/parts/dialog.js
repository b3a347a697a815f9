// Questions that are asked once: a native dialog, which lists what is hit and shows the command that does the same.
// One at a time; there is never one on another.

import { html, useLayoutEffect, useRef } from "../core/html.js";
import { t } from "../core/i18n.js";
import { Signal, useSignal } from "../core/signal.js";
import { Command } from "./command.js";
import { Said } from "./said.js";

/**
 * @typedef {object} Question
 * @property {string} title
 * @property {string} [text]
 * @property {string[]} [hits] what it hits, a line each
 * @property {string} [command]
 * @property {string} confirm
 * @property {boolean} [destroys]
 * @property {any} [content] a component, which gets `done(value)`
 */

/** @type {Signal<{question: Question, answer: (value: any) => void} | null>} */
const asked = new Signal(/** @type {{question: Question, answer: (value: any) => void} | null} */ (null));

/**
 * Ask; resolves to true, to what the content gave, or to null.
 * @param {Question} question
 * @returns {Promise<any>}
 */
export function askFor(question) {
  asked.value?.answer(null);
  return new Promise((resolve) => {
    asked.set({
      question,
      answer: (value) => {
        asked.set(null);
        resolve(value);
      },
    });
  });
}

export function Dialogs() {
  const open = useSignal(asked);
  return open ? html`<${Dialog} key=${open.question.title} ...${open} />` : null;
}

/** @param {{question: Question, answer: (value: any) => void}} props */
function Dialog({ question, answer }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    // At once: the first letter that somebody types next belongs here.
    const before = document.activeElement;
    element.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const Content = question.content;
  return html`<dialog
    ref=${element}
    aria-labelledby="dialog-title"
    onClose=${() => answer(null)}
    onClick=${(/** @type {MouseEvent} */ event) => event.target === element.current && answer(null)}
  >
    <div class="dialog-body">
      <h2 id="dialog-title">${question.title}</h2>
      ${question.text ? html`<p><${Said} text=${question.text} /></p>` : null}
      ${question.hits ? html`<ul class="hits">${question.hits.map((hit) => html`<li>${hit}</li>`)}</ul>` : null}
      ${Content ? html`<${Content} done=${answer} />` : null}
      ${question.command ? html`<${Command} text=${question.command} />` : null}
      ${Content
        ? null
        : html`<div class="dialog-actions">
            <button onClick=${() => answer(null)}>${t("dialog.leave")}</button>
            <button class=${question.destroys ? "primary is-danger" : "primary"} autofocus onClick=${() => answer(true)}>
              ${question.confirm}
            </button>
          </div>`}
    </div>
  </dialog>`;
}
