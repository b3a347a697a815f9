// A question whose answer is one line of text, with the command that does the same beneath it as one writes.

import { harmless } from "../core/harmless.js";
import { html, useState } from "../core/html.js";
import { t } from "../core/i18n.js";
import { Command } from "./command.js";
import { askFor } from "./dialog.js";

/**
 * @param {{title: string, label: string, confirm: string, text?: string, note?: string, hits?: string[], isOptional?: boolean, destroys?: boolean, command?: (text: string) => string}} asked
 * @returns {Promise<string | null>} null where it was left
 */
export function askText(asked) {
  return askFor({ title: asked.title, text: asked.note, hits: asked.hits, confirm: "", content: (/** @type {any} */ props) => html`<${Form} asked=${asked} done=${props.done} />` });
}

/** @param {{asked: Parameters<typeof askText>[0], done: (text: string | null) => void}} props */
function Form({ asked, done }) {
  const [text, setText] = useState(asked.text ?? "");
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    done(text.trim());
  };
  return html`<form class="stack" onSubmit=${submit}>
    <label class="labelled">${asked.label}<input name="text" value=${text} autofocus autocomplete="off" spellcheck=${false} required=${!asked.isOptional} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>
    ${asked.command ? html`<${Command} text=${harmless(asked.command(text.trim()))} />` : null}
    <div class="dialog-actions">
      <button type="button" onClick=${() => done(null)}>${t("dialog.leave")}</button>
      <button class=${asked.destroys ? "primary is-danger" : "primary"}>${asked.confirm}</button>
    </div>
  </form>`;
}
