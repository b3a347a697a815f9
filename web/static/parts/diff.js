// A change of a text, line by line: what goes, what comes, and a few lines around it.

import { html } from "../core/html.js";
import { harmlessLines } from "../core/harmless.js";
import { t } from "../core/i18n.js";

const KINDS = /** @type {Record<string, string>} */ ({ "+": "is-new", "-": "is-old", "@": "is-place" });

/** @param {{lines: string[]}} props as `diff -u` has them; the names of the files, which come first, are not shown */
export function Diff({ lines }) {
  const own = /^--- /.test(lines[0] ?? "") ? lines.slice(2) : lines;
  return html`<pre class="diff" tabindex="0" aria-label=${t("diff.label")}>${own.map((line, at) => html`<span key=${at} class=${KINDS[line[0]] ?? ""}>${harmlessLines(line)}</span>`)}</pre>`;
}
