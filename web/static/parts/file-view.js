// What is in a file: its beginning as text, or a picture; a text that is not too long can be changed here, and what somebody else
// wrote meanwhile is not overwritten unseen.

import { isPicture, lineEnd, readBeginning, saveText, textOf } from "../core/content.js";
import { draftOf, forgetDraft, keepDraft } from "../core/drafts.js";
import { asFailure } from "../core/failure.js";
import { size, wholeMoment } from "../core/format.js";
import { harmlessLines } from "../core/harmless.js";
import { html, useEffect, useState } from "../core/html.js";
import { saidOfFailure, t } from "../core/i18n.js";
import { useKeys } from "../core/keys.js";
import { encoded, folderOf, nameOf, pageOf } from "../core/paths.js";
import { go } from "../core/route.js";
import { ask, hasRole } from "../core/session.js";
import { Breadcrumb } from "./breadcrumb.js";
import { download } from "./download.js";
import { FileActions } from "./file-actions.js";
import { rights } from "./folder.js";
import { Said } from "./said.js";
import { tell } from "./toast.js";
import { Waits } from "./waits.js";

/** @typedef {import("@muster/wire").Entry} Entry */

const FIRST = 256 << 10;
const MOST = 4 << 20;
const MOST_EDITED = 1 << 20;
const MOST_PICTURE = 32 << 20;

/** @param {{path: string, entry: Entry, again: () => void}} props */
export function FileView({ path, entry, again }) {
  const [most, setMost] = useState(FIRST);
  const { content, fault, look } = useContent(path, most, entry);
  const [isEdited, setEdited] = useState(draftOf(nameOfDraft(path)) !== null);
  const up = pageOf(folderOf(path));
  useKeys({
    Backspace: { does: () => go(up), says: "keys.up-folder" },
    d: { does: () => download(`files/${encoded(path)}`), says: "files.download" },
    e: { does: () => !whyNotEdited(content) && setEdited(true), says: "files.edit" },
  });
  const why = whyNotEdited(content);
  if (isEdited && content?.text !== null && content?.text !== undefined) {
    const leave = (/** @type {boolean} */ isSaved) => {
      setEdited(false);
      if (isSaved) again();
      look();
    };
    return html`<${Editor} path=${path} text=${content.text} tag=${content.tag} leave=${leave} />`;
  }
  const isOther = entry.kind === "other";
  return html`<div class="page fills files">
    <div class="tools"><${Breadcrumb} path=${path} /></div>
    <div class="action-bar" role="toolbar" aria-label=${t("queue.actions")}>
      <span class="action-count">${size(entry.size)}</span>
      <span class="dim"><time>${wholeMoment(entry.mtime)}</time> <code>${rights(entry.mode)}</code></span>
      <span class="grow"></span>
      ${isOther ? null : html`<button aria-disabled=${Boolean(why)} title=${why ? t(why) : "[e]"} onClick=${() => !why && setEdited(true)}>${t("files.edit")}</button>
        <${FileActions} folder=${folderOf(path)} entries=${[{ ...entry, name: nameOf(path) }]} done=${() => go(up)} />`}
    </div>
    ${fault ? html`<div class="empty"><p class="refusal"><span><${Said} text=${saidOfFailure(asFailure(fault))} /></span></p><button onClick=${look}>${t("files.again")}</button></div>` : isOther ? html`<div class="empty">${t("files.is-other")}</div>` : html`<${Content} path=${path} content=${content} more=${() => setMost(MOST)} />`}
  </div>`;
}

/** @typedef {{text: string | null, isPicture: boolean, shown: number, size: number, tag: string}} Shown */

/**
 * @param {string} path
 * @param {number} most bytes
 * @param {Entry} entry looked at anew when this changes
 */
function useContent(path, most, entry) {
  const [content, setContent] = useState(/** @type {Shown | null} */ (null));
  const [fault, setFault] = useState(/** @type {unknown} */ (null));
  const look = () => {
    if (entry.kind !== "file") return;
    readBeginning(path, most).then(({ bytes, size: whole, tag }) => {
      setFault(null);
      setContent({ text: textOf(bytes, bytes.length < whole), isPicture: isPicture(bytes), shown: bytes.length, size: whole, tag });
    }, setFault);
  };
  useEffect(look, [path, most, entry]);
  return { content, fault, look };
}

/** @param {{path: string, content: Shown | null, more: () => void}} props */
function Content({ path, content, more }) {
  if (!content) return html`<${Waits} />`;
  if (content.isPicture && content.size <= MOST_PICTURE) return html`<${Picture} path=${path} tag=${content.tag} />`;
  if (content.size === 0) return html`<div class="empty">${t("files.is-empty")}</div>`;
  if (content.text === null) return html`<div class="empty"><p>${t("files.no-text")}</p><button onClick=${() => download(`files/${encoded(path)}`)}>${t("files.download")}</button></div>`;
  const isCut = content.shown < content.size;
  return html`<pre class="file-text" tabindex="0" aria-label=${t("files.content")}>${harmlessLines(content.text.replaceAll("\r\n", "\n"))}</pre>
    ${isCut ? html`<p class="file-cut">${t("files.cut", { shown: size(content.shown), size: size(content.size) })}
      ${content.shown < MOST ? html`<button onClick=${more}>${t("files.more")}</button>` : html`<button onClick=${() => download(`files/${encoded(path)}`)}>${t("files.download")}</button>`}</p>` : null}`;
}

/**
 * By a ticket, as downloads are: no key may stand in an address.
 * @param {{path: string, tag: string}} props
 */
function Picture({ path, tag }) {
  const [url, setUrl] = useState("");
  useEffect(() => {
    ask("POST", "tickets", { path: `files/${encoded(path)}` }).then((it) => setUrl(new URL(it.url, document.baseURI).href), () => undefined);
  }, [path, tag]);
  return html`<div class="file-picture">${url ? html`<img src=${url} alt=${nameOf(path)} />` : html`<${Waits} />`}</div>`;
}

/** @param {Shown | null} content @returns {string | null} a key of the words */
function whyNotEdited(content) {
  if (!hasRole("user")) return "not.allowed.viewer";
  if (!content || content.text === null || content.shown < content.size || content.size > MOST_EDITED) return "not.short-text";
  return lineEnd(content.text) === null ? "not.one-line-end" : null;
}

/** @param {string} path */
function nameOfDraft(path) {
  return `files/${path}`;
}

/**
 * @param {{path: string, text: string, tag: string, leave: (isSaved: boolean) => void}} props
 */
function Editor({ path, text: now, tag: tagNow, leave }) {
  const name = nameOfDraft(path);
  const [{ text, tag }] = useState(draftOf(name)?.from ?? { text: now, tag: tagNow });
  const end = lineEnd(text) ?? "\n";
  const plain = text.replaceAll("\r\n", "\n");
  const [words, setWords] = useState(draftOf(name)?.text ?? plain);
  const write = (/** @type {string} */ all) => {
    if (all === plain) forgetDraft(name);
    else keepDraft(name, { text, tag }, all);
    setWords(all);
  };
  const close = (/** @type {boolean} */ isSaved) => {
    forgetDraft(name);
    leave(isSaved);
  };
  const [isBusy, setBusy] = useState(false);
  const [fault, setFault] = useState(/** @type {import("../core/failure.js").Failure | null} */ (null));
  const isChanged = words !== plain;
  useEffect(() => {
    const warn = (/** @type {BeforeUnloadEvent} */ event) => event.preventDefault();
    if (isChanged) addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [isChanged]);
  const save = async (/** @type {string | null} */ over) => {
    setBusy(true);
    try {
      await saveText(path, words.replaceAll("\n", end), over);
      tell(t("files.saved", { name: nameOf(path) }));
      close(true);
    } catch (error) {
      setFault(asFailure(error));
      setBusy(false);
    }
  };
  const keyed = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "s" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (isChanged && !isBusy) save(tag);
  };
  return html`<div class="page fills files">
    <div class="tools"><${Breadcrumb} path=${path} /></div>
    <div class="action-bar is-on" role="toolbar" aria-label=${t("queue.actions")}>
      <span class="action-count">${t(isChanged ? "files.changed-here" : "files.edit")}</span><span class="grow"></span>
      <button onClick=${() => close(false)}>${t("files.leave")}</button>
      <button class="primary" disabled=${isBusy || !isChanged} title=${"Ctrl+S"} onClick=${() => save(tag)}>${t("files.save")}</button>
    </div>
    ${fault ? html`<p class="refusal" role="alert"><span><${Said} text=${saidOfFailure(fault)} /></span>${fault.key === "file_changed" ? html` <button onClick=${() => save(null)}>${t("files.overwrite")}</button>` : null}</p>` : null}
    <textarea class="file-text" spellcheck=${false} aria-label=${t("files.content")} value=${words} onInput=${(/** @type {any} */ event) => write(event.target.value)} onKeyDown=${keyed}></textarea>
  </div>`;
}
