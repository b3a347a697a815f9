// conf.json and the registry, as texts: what is changed is looked at by the master first, shown as a difference, and then put in the
// place of the version that was read, and of no other. Secrets are marks here.

import { forgetPassword, keepPassword, passwordShown } from "../../core/again.js";
import { live } from "../../core/context.js";
import { draftOf, forgetDraft, keepDraft } from "../../core/drafts.js";
import { asFailure } from "../../core/failure.js";
import { harmless } from "../../core/harmless.js";
import { html, useCallback, useEffect, useState } from "../../core/html.js";
import { t } from "../../core/i18n.js";
import { setQuery, usePlace } from "../../core/route.js";
import { askFor } from "../../parts/dialog.js";
import { Diff } from "../../parts/diff.js";
import { Refusal } from "../../parts/refusal.js";
import { tell } from "../../parts/toast.js";
import { Waits } from "../../parts/waits.js";

/** @typedef {{name: "conf" | "registry", path: string, text: string, version: string, fixed: string[]}} FileText */

const NAMES = /** @type {const} */ (["conf", "registry"]);

export function Section() {
  const { query } = usePlace();
  const name = query.get("file") === "registry" ? "registry" : "conf";
  const [file, setFile] = useState(/** @type {FileText | null} */ (null));
  const [fault, setFault] = useState(/** @type {unknown} */ (null));
  const read = useCallback(async () => {
    try {
      const it = await live.call("conf.read", { name });
      forgetDraft(name);
      setFile(it);
      setFault(null);
    } catch (error) {
      setFault(error);
    }
  }, [name]);
  useEffect(() => {
    const draft = draftOf(name);
    if (draft) setFile(draft.from); // and no newer one: who saves it is told of what another wrote meanwhile
    else read();
  }, [read]);
  return html`<div class="list-part">
    <div class="tools">
      <div class="tabs" role="group" aria-label=${t("admin.conf")}>${NAMES.map((one) => html`<button key=${one} aria-pressed=${one === name} onClick=${() => setQuery({ file: one === "conf" ? null : one })}>${t(`conf.${one}`)}</button>`)}</div>
      ${file?.name === name ? html`<code class="dim conf-path">${harmless(file.path)}</code>` : null}
    </div>
    ${fault ? html`<div class="empty"><${Refusal} fault=${fault} again=${read} /></div>` : file?.name === name ? html`<${Editor} key=${`${name} ${file.version}`} file=${file} read=${read} />` : html`<${Waits} />`}
  </div>`;
}

/** @param {{file: FileText, read: () => Promise<void>}} props */
function Editor({ file, read }) {
  const [text, setText] = useState(draftOf(file.name)?.text ?? file.text);
  const write = (/** @type {string} */ words) => {
    if (words === file.text) forgetDraft(file.name);
    else keepDraft(file.name, file, words);
    setText(words);
  };
  const [isBusy, setBusy] = useState(false);
  const [fault, setFault] = useState(/** @type {import("../../core/failure.js").Failure | null} */ (null));
  const isChanged = text !== file.text;
  useEffect(() => {
    const warn = (/** @type {BeforeUnloadEvent} */ event) => event.preventDefault();
    if (isChanged) addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [isChanged]);
  const save = async () => {
    setBusy(true);
    setFault(null);
    try {
      const made = await change(file, text);
      if (made) {
        await read(); // what is written before the file is there anew would go with the old one
        tell(t("conf.done", { kept: made.kept ?? "" }));
      }
    } catch (error) {
      setFault(asFailure(error));
    }
    setBusy(false);
  };
  const keyed = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "s" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (isChanged && !isBusy) save();
  };
  return html`<div class="action-bar is-wrapping" role="toolbar" aria-label=${t("queue.actions")}>
      <span class="dim">${t(file.name === "conf" ? "conf.each-when" : "conf.at-once")}</span><span class="grow"></span>
      <button aria-disabled=${!isChanged} onClick=${() => isChanged && write(file.text)}>${t("files.leave")}</button>
      <button class="primary" disabled=${isBusy || !isChanged} title=${"Ctrl+S"} onClick=${save}>${t("conf.look")}</button>
    </div>
    ${fault ? html`<div class="conf-fault"><${Refusal} fault=${fault} />${fault.key === "registry_changed" ? html`<button onClick=${read}>${t("conf.theirs")}</button>` : null}</div>` : null}
    <textarea class="file-text" spellcheck=${false} aria-label=${t(`conf.${file.name}`)} value=${text} readonly=${isBusy} onInput=${(/** @type {any} */ event) => write(event.target.value)} onKeyDown=${keyed}></textarea>
    <p class="file-cut"><span>${t("conf.marks")}</span>${file.fixed.length ? html`<span>${t("conf.fixed", { keys: file.fixed.join(", ") })}</span>` : null}</p>`;
}

/**
 * When a change takes effect.
 * @param {any} told
 */
function whenOf(told) {
  if (told.counts === "now") return t(told.name === "conf" ? "conf.settings-at-once" : "conf.at-once");
  const keys = told.at_start ?? [];
  const isAll = told.changed.every((/** @type {string} */ key) => keys.includes(key));
  return isAll ? t("conf.from-start") : t("conf.some-from-start", { keys: keys.join(", ") });
}

/**
 * Look at a change, ask, and make it. Raises a Failure.
 * @param {FileText} file
 * @param {string} text
 * @returns {Promise<any>} what was made of it; null where it was not
 */
async function change(file, text) {
  const asked = { name: file.name, text, version: file.version };
  const told = await live.call("conf.write", { ...asked, dry_run: true });
  if (!told.diff.length) {
    tell(t("admin.unchanged"));
    return null;
  }
  return askFor({ title: t("conf.ask"), text: whenOf(told), confirm: "", content: Confirm(told, asked) });
}

/**
 * The difference, and the password where it was not shown a moment ago.
 * @param {any} told
 * @param {Record<string, any>} asked
 */
function Confirm(told, asked) {
  return (/** @type {{done: (made: any) => void}} */ { done }) => {
    const [isAsked, setAsked] = useState(false);
    const [fault, setFault] = useState(/** @type {unknown} */ (null));
    const submit = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      const typed = String(new FormData(/** @type {HTMLFormElement} */ (event.currentTarget)).get("password") ?? "");
      const password = typed || passwordShown();
      try {
        const made = await live.call("conf.write", password ? { ...asked, password } : asked);
        if (password) keepPassword(password);
        done(made);
      } catch (error) {
        const failure = asFailure(error);
        forgetPassword();
        if (failure.key === "password_again" && !isAsked) setAsked(true);
        else setFault(failure);
      }
    };
    return html`<form class="stack" onSubmit=${submit}>
      <p><b>${told.changed.map(harmless).join(", ")}</b></p><${Diff} lines=${told.diff} />
      ${isAsked ? html`<label class="labelled">${t("conf.password")}<input name="password" type="password" autocomplete="current-password" required ref=${(/** @type {HTMLInputElement | null} */ field) => field?.focus()} /></label>` : null}
      ${fault ? html`<${Refusal} fault=${fault} />` : null}
      <div class="dialog-actions"><button type="button" onClick=${() => done(null)}>${t("dialog.leave")}</button><button class="primary" autofocus>${t("files.save")}</button></div>
    </form>`;
  };
}
