// A command line that does what the page does, to be copied.

import { html, useRef, useState } from "../core/html.js";
import { t } from "../core/i18n.js";
import { Icon } from "./icons.js";

/** @param {{text: string}} props */
export function Command({ text }) {
  const [isCopied, setCopied] = useState(false);
  const line = useRef(/** @type {HTMLElement | null} */ (null));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // the browser forbids it: the next best is Ctrl+C
      if (line.current) getSelection()?.selectAllChildren(line.current);
      return;
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  };
  return html`<div class="command">
    <code tabindex="0" ref=${line}>${text}</code>
    <button type="button" class="quiet" aria-label=${t("copy")} title=${isCopied ? t("copied") : t("copy")} onClick=${copy}>
      <${Icon} name="copy" />
    </button>
    <span class="unseen" role="status">${isCopied ? t("copied") : ""}</span>
  </div>`;
}
