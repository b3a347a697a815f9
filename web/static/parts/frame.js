// What stands around every page: navigation, who is here, whether what is shown is live, and the keys.

import { live, store } from "../core/context.js";
import { classes, html, useEffect, useState } from "../core/html.js";
import { moment, count } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { needWords, saidOfFailure, t, useLanguage } from "../core/i18n.js";
import { allKeys, useKeys } from "../core/keys.js";
import { reloadOnceThere } from "../core/reload.js";
import { go, usePlace } from "../core/route.js";
import { hasRole, me } from "../core/session.js";
import { useSignal } from "../core/signal.js";
import { loadPage, pageAt, PAGES } from "../pages/index.js";
import { askFor } from "./dialog.js";
import { Icon } from "./icons.js";
import { Said } from "./said.js";
import { Waits } from "./waits.js";

/**
 * How keys are shown whose names are longer than what stands on them.
 * @type {Record<string, string>}
 */
const SIGNS = { ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc" };

export function Frame() {
  const { path } = usePlace();
  const [isOpen, setOpen] = useState(false);
  useLanguage();
  const found = pageAt(path);
  useEffect(() => setOpen(false), [path]);
  useKeys({
    "?": { does: () => askFor({ title: t("keys.title"), confirm: "", content: Keys }), says: "keys.help" },
    ...Object.fromEntries(
      PAGES.filter((page) => page.key && hasRole(page.role ?? "viewer")).map((page) => [
        `g ${page.key}`,
        { does: () => go(page.path || "./"), says: `page.${page.name}` },
      ]),
    ),
  });
  return html`<a class="skip" href="#main" onClick=${skip}>${t("skip")}</a>
    <div class="frame">
      <header class="top">
        <button class="quiet burger" aria-label=${t("nav.menu")} aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
          <${Icon} name="menu" />
        </button>
        <a class="brand" href="./"><img src="static/icon.svg" alt="" width="20" height="20" />Muster</a>
        <${Search} />
        <${Connection} />
        <a class="who" href="me" title=${t("page.me")}><${Icon} name="me" /><span>${harmless(me.value?.display || me.value?.user)}</span></a>
      </header>
      <nav class=${classes("side", isOpen && "is-open")} aria-label=${t("nav.pages")}>
        ${PAGES.filter((page) => page.icon && hasRole(page.role ?? "viewer")).map(
          (page) => html`<a
            key=${page.name}
            href=${page.path || "./"}
            title=${page.key ? `g ${page.key}` : undefined}
            aria-current=${found?.page === page ? "page" : page.path && path.startsWith(`${page.path}/`) ? "true" : undefined}
            ><${Icon} name=${page.icon} /><span>${t(`page.${page.name}`)}</span></a
          >`,
        )}
      </nav>
      <main id="main" tabindex="-1">
        <${Banner} />
        ${found ? html`<${Loaded} key=${found.page.name} page=${found.page} parts=${found.parts} />` : html`<${Nowhere} />`}
      </main>
    </div>`;
}

/** @param {MouseEvent} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/**
 * A page, once its module, its style and its words have come.
 * @param {{page: import("../pages/index.js").Page, parts: string[]}} props
 */
function Loaded({ page, parts }) {
  const [module, setModule] = useState(/** @type {{Page: any} | null} */ (null));
  const [isLost, setLost] = useState(false);
  useEffect(() => {
    Promise.all([loadPage(page), needWords(page.words ?? [])]).then(
      ([it]) => setModule(() => it),
      () => {
        setLost(true);
        reloadOnceThere();
      },
    );
  }, [page]);
  useEffect(() => {
    document.title = `${t(`page.${page.name}`)}${parts[0] ? ` ${harmless(parts[0])}` : ""} · Muster`;
  }, [page, parts.join("/"), useLanguage()]);
  if (!hasRole(page.role ?? "viewer")) return html`<div class="empty">${t("page.forbidden")}</div>`;
  if (isLost) return html`<div class="empty" role="status">${t("ui.lost")}</div>`;
  return module ? html`<${module.Page} parts=${parts} />` : html`<${Waits} />`;
}

function Nowhere() {
  return html`<div class="empty"><p>${t("nowhere")}</p><a href="./">${t("page.overview")}</a></div>`;
}

/** A number goes to the task, anything else into the queue's filter. */
function Search() {
  const [text, setText] = useState("");
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const words = text.trim();
    if (!words) return;
    go(/^\d+$/.test(words) ? `tasks/${words}` : `queue?show=all&q=${encodeURIComponent(words)}`);
    setText("");
  };
  return html`<form class="search" role="search" onSubmit=${submit}>
    <${Icon} name="search" />
    <input
      type="search"
      aria-label=${t("search.label")}
      placeholder=${t("search.hint")}
      value=${text}
      onInput=${(/** @type {any} */ event) => setText(event.target.value)}
    />
  </form>`;
}

function Connection() {
  const state = useSignal(live.state);
  const heldBack = useSignal(store.heldBack);
  if (heldBack && state === "live") {
    return html`<button class="chip is-held" onClick=${() => store.letGo()}>${t("live.held", { count: count(heldBack) })}</button>`;
  }
  return html`<span class=${`live is-${state}`} role="status"><i aria-hidden="true"></i><span>${t(`live.${state}`)}</span></span>`;
}

/** What everybody must see: that nothing new comes, or what the server says is wrong. */
function Banner() {
  const state = useSignal(live.state);
  const fault = useSignal(store.fault);
  if (state === "lost") {
    const since = live.lostAt ? moment(live.lostAt / 1000) : "";
    return html`<div class="banner is-bad" role="alert">
      <${Icon} name="warn" />${since ? t("live.lost.since", { since }) : t("live.lost.never")}
    </div>`;
  }
  return fault ? html`<div class="banner is-bad" role="alert"><${Icon} name="warn" /><span><${Said} text=${saidOfFailure(fault)} /></span></div>` : null;
}

/** @param {{done: (value: any) => void}} props */
function Keys({ done }) {
  return html`<dl class="keys">
      ${allKeys().map(([name, key]) => html`<div key=${name}><dt><kbd>${SIGNS[name] ?? name}</kbd></dt><dd>${t(key.says)}</dd></div>`)}
    </dl>
    <div class="dialog-actions"><button class="primary" onClick=${() => done(null)}>${t("close")}</button></div>`;
}
