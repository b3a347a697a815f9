// A sentence as it is read: what stands between backticks in it is a command, and looks like one.

import { html } from "../core/html.js";

/** @param {{text: string}} props */
export function Said({ text }) {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return html`${text}`;
  return html`${parts.map((part, at) => (at % 2 ? html`<code key=${at}>${part}</code>` : part))}`;
}
