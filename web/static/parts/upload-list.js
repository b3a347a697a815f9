// Files that are being sent: how far each is, and what is to be done where one is there already or is refused.

import { size } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html } from "../core/html.js";
import { saidOfFailure, t } from "../core/i18n.js";
import { useSignal } from "../core/signal.js";
import { clearDone, drop, replace, tryAgain, uploads } from "../core/uploads.js";
import { Icon } from "./icons.js";
import { Said } from "./said.js";

/** @typedef {import("../core/uploads.js").Upload} Upload */

const MOST = 20;

export function UploadList() {
  const all = useSignal(uploads);
  if (!all.length) return null;
  const open = all.filter((one) => one.state !== "done");
  const shown = [...open, ...all.filter((one) => one.state === "done")].slice(0, MOST);
  const isThere = open.filter((one) => one.state === "exists");
  return html`<section class="uploads" aria-label=${t("files.uploads")}>
    <header><h2>${t("files.uploaded", { done: all.length - open.length, count: all.length })}</h2><span class="grow"></span>
      ${isThere.length > 1 ? html`<button onClick=${() => isThere.forEach(replace)}>${t("files.replace-all", { count: isThere.length })}</button>` : null}
      ${open.length < all.length ? html`<button class="quiet" onClick=${clearDone}>${t("files.clear-done")}</button>` : null}</header>
    <ul>${shown.map((one) => html`<${Row} key=${one.id} upload=${one} />`)}</ul>
    ${all.length > MOST ? html`<small>${t("dialog.more", { count: all.length - MOST })}</small>` : null}
  </section>`;
}

/** @param {{upload: Upload}} props */
function Row({ upload }) {
  const { file, state, sent } = upload;
  const part = file.size ? sent / file.size : state === "done" ? 1 : 0;
  return html`<li class=${`upload is-${state}`}>
    <span class="upload-name" title=${harmless(upload.path)}>${harmless(file.name)}</span>
    <progress value=${state === "done" ? 1 : part} max="1" aria-label=${harmless(file.name)}></progress>
    <span class="upload-said">${state === "sending" ? t("files.sent", { sent: size(sent), size: size(file.size), percent: Math.floor(part * 100) }) : t(`upload.${state}`)}</span>
    ${state === "exists" ? html`<button onClick=${() => replace(upload)}>${t("files.replace")}</button>` : null}
    ${state === "refused" ? html`<button onClick=${() => tryAgain(upload)}>${t("files.again")}</button>` : null}
    <button class="quiet" aria-label=${t("files.drop", { name: harmless(file.name) })} title=${t("files.drop", { name: harmless(file.name) })} onClick=${() => drop(upload)}><${Icon} name="close" /></button>
    ${state === "refused" && upload.failure ? html`<p class="refusal"><span><${Said} text=${saidOfFailure(upload.failure)} /></span></p>` : null}
  </li>`;
}
