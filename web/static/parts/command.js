// A command line that does what the page does, to be copied.

import { html, useState } from "../core/html.js";
import { t } from "../core/i18n.js";
import { Icon } from "./icons.js";

/** @param {{text: string}} props */
export function Command({ text }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  };
  return html`<div class="command">
    <code tabindex="0">${text}</code>
    <button class="quiet" aria-label=${t("copy")} title=${isCopied ? t("copied") : t("copy")} onClick=${copy}>
      <${Icon} name="copy" />
    </button>
    <span class="unseen" role="status">${isCopied ? t("copied") : ""}</span>
  </div>`;
}
