// What admins look after, a section each; each is loaded when somebody goes there.

import { html, useEffect, useRef } from "../core/html.js";
import { t, useLanguage } from "../core/i18n.js";
import { Later } from "../parts/later.js";

/** @type {Record<string, () => Promise<{Section: any}>>} */
const SECTIONS = {
  users: () => import("./admin/users.js"),
  groups: () => import("./admin/groups.js"),
  projects: () => import("./admin/projects.js"),
  tokens: () => import("./admin/tokens.js"),
  settings: () => import("./admin/settings.js"),
  conf: () => import("./admin/conf.js"),
  maintenance: () => import("./admin/maintenance.js"),
  audit: () => import("./admin/audit.js"),
  log: () => import("./admin/log.js"),
};

/** @param {{Section: any}} module */
const draw = ({ Section }) => html`<${Section} />`;

/** @param {{parts: string[]}} props */
export function Page({ parts }) {
  useLanguage();
  const name = parts[0] ?? "users";
  const tabs = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => tabs.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [name]);
  return html`<div class="page fills admin">
    <h1 class="unseen">${t("page.admin")}</h1>
    <nav class="tabs is-line" ref=${tabs} aria-label=${t("page.admin")}>
      ${Object.keys(SECTIONS).map((one) => html`<a key=${one} href=${`admin/${one}`} aria-current=${one === name ? "page" : undefined}>${t(`admin.${one}`)}</a>`)}
    </nav>
    ${SECTIONS[name] ? html`<${Later} key=${name} load=${SECTIONS[name]} draw=${draw} />` : html`<div class="empty">${t("nowhere")}</div>`}
  </div>`;
}
