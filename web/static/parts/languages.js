// The choice of the language, each by its own name.

import { html } from "../core/html.js";
import { LANGUAGES, language, setLanguage, t } from "../core/i18n.js";

export function Languages() {
  return html`<div class="languages" role="group" aria-label=${t("me.language")}>
    ${Object.entries(LANGUAGES).map(
      ([name, own]) => html`<button
        key=${name}
        class="link"
        lang=${name}
        aria-pressed=${language.value === name}
        onClick=${() => setLanguage(/** @type {any} */ (name))}
      >
        ${own}
      </button>`,
    )}
  </div>`;
}
