// What can be done to a node: take it out of the queue's hands and give it back, and pin the key of its machine. For admins.

import { live } from "../core/context.js";
import { moment, quoted, ranges } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html } from "../core/html.js";
import { said, t } from "../core/i18n.js";
import { hasRole } from "../core/session.js";
import { Command } from "./command.js";
import { askFor } from "./dialog.js";
import { complain, tell } from "./toast.js";

/** @typedef {import("../core/cluster.js").Node} Node */

/**
 * What keeps tasks from it, or us from it, in one line.
 * @param {Node} node
 */
export function reasonsOf(node) {
  if (!node.reason_messages.length) return harmless(node.reason ?? "");
  return node.reason_messages.map((one) => said(one.key, one.args, node.reason)).join(" · ");
}

/**
 * For which task GPUs of it are reserved, and by when that is expected to start; "" for none.
 * @param {Node} node
 */
export function keptOn(node) {
  if (!node.reservation) return "";
  const { task, gpus, expected_at: at } = node.reservation;
  return t(at === null ? "node.kept" : "node.kept-until", { task, gpus: ranges(gpus), at: at === null ? "" : moment(at) });
}

/** @param {{node: Node}} props */
export function NodeActions({ node }) {
  const isClosed = node.drained !== null || node.sick !== null;
  const why = hasRole("admin") ? null : t("not.allowed.admin");
  return html`<button aria-disabled=${Boolean(why)} title=${why ?? `muster node drain ${quoted(node.name)}`} onClick=${() => !why && drain(node)}>${t("node.drain")}</button>
    <button aria-disabled=${Boolean(why) || !isClosed} title=${why ?? (isClosed ? `muster node resume ${quoted(node.name)}` : t("not.drained"))}
      onClick=${() => !why && isClosed && resume(node.name)}>${t("node.resume")}</button>
    ${node.state === "untrusted" ? html`<button class="primary" aria-disabled=${Boolean(why)} title=${why ?? `muster node trust ${quoted(node.name)}`} onClick=${() => !why && trust(node.name)}>${t("node.trust")}</button>` : null}`;
}

/**
 * Show the key that the machine has, to whoever compares it, and pin that very one.
 * @param {string} name
 */
async function trust(name) {
  try {
    const { offered, known, pinned } = await live.call("node.trust", { name });
    const hits = [`${offered.type} ${offered.fingerprint}`, ...(known ? [t("node.trust.known", { known })] : [])];
    const asked = { title: t("node.trust.ask", { name: harmless(name) }), text: t("node.trust.text"), hits, command: `muster node trust ${quoted(name)} --fingerprint ${offered.fingerprint}`, confirm: t("node.trust"), destroys: Boolean(known) };
    if (!pinned && !(await askFor(asked))) return;
    if (!pinned) await live.call("node.trust", { name, fingerprint: offered.fingerprint });
    tell(t("node.trust.done", { name: harmless(name) }));
  } catch (error) {
    complain(error);
  }
}

/** @param {Node} node */
async function drain(node) {
  const reason = await askFor({ title: t("node.drain.ask", { name: harmless(node.name) }), text: t("node.drain.text"), confirm: "", content: Reason(node) });
  if (reason === null) return;
  try {
    await live.call("node.drain", { name: node.name, ...(reason ? { reason } : {}) });
    tell(t("node.drain.done", { name: harmless(node.name) }));
  } catch (error) {
    complain(error);
  }
}

/**
 * @param {string} name
 * @param {number[]} [gpus] these alone, which were set aside
 */
export async function resume(name, gpus) {
  try {
    await live.call("node.resume", { name, ...(gpus ? { gpus } : {}) });
    tell(t("node.resume.done", { name: harmless(name) }));
  } catch (error) {
    complain(error);
  }
}

/**
 * The form that asks why.
 * @param {Node} node
 */
function Reason(node) {
  return (/** @type {{done: (reason: string | null) => void}} */ { done }) => {
    const submit = (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      done(String(new FormData(/** @type {HTMLFormElement} */ (event.currentTarget)).get("reason") ?? ""));
    };
    return html`<form class="stack" onSubmit=${submit}>
      <label class="labelled">${t("node.drain.why")}<input name="reason" autofocus /></label>
      <${Command} text=${`muster node drain ${quoted(node.name)}`} />
      <div class="dialog-actions">
        <button type="button" onClick=${() => done(null)}>${t("dialog.leave")}</button>
        <button class="primary">${t("node.drain")}</button>
      </div>
    </form>`;
  };
}
