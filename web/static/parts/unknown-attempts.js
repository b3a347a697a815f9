// What runs on a node and is no task, because the lab lost its records: an admin adopts it, ends it or leaves it alone.

import { live } from "../core/context.js";
import { moment, quoted, ranges } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html, useEffect, useState } from "../core/html.js";
import { t } from "../core/i18n.js";
import { hasRole } from "../core/session.js";
import { askFor } from "./dialog.js";
import { askText } from "./text-question.js";
import { complain, tell } from "./toast.js";

/** @typedef {{launch_id: string, name: string, account: string, gpus: number[] | null, started_at: number | null, ended_by: string | null, dismissed_by: string | null}} Attempt */

/**
 * Nothing where there is none; asked for anew when the node changes.
 * @param {{node: import("../core/cluster.js").Node}} props
 */
export function UnknownAttempts({ node }) {
  const [found, setFound] = useState(/** @type {Attempt[]} */ ([]));
  const isAdmin = hasRole("admin");
  const look = () => live.call("node.attempts", { name: node.name });
  useEffect(() => {
    let isWanted = isAdmin;
    if (isAdmin) look().then((them) => isWanted && setFound(them), () => undefined);
    return () => {
      isWanted = false;
    };
  }, [node, isAdmin]);
  if (!found.length) return null;
  /** @param {(node: string, one: Attempt) => Promise<string | null>} act @param {Attempt} one */
  const after = (act, one) => async () => {
    try {
      const done = await act(node.name, one);
      if (done) tell(done);
      setFound(await look());
    } catch (error) {
      complain(error);
    }
  };
  const hasAccounts = found.some((one) => one.account); // else all run as the agent, which the card of the machine tells
  const columns = ["launch", "name", ...(hasAccounts ? ["account"] : []), "gpus", "since", "state", "actions"];
  return html`<section class="card">
    <h2>${t("unknown")}</h2>
    <div class="stack">
    <p>${t("unknown.text")}</p>
    <div class="scrolls" tabindex="0"><table class="plain is-middle">
      <thead><tr>${columns.map((one) => html`<th key=${one} scope="col">${t(`unknown.${one}`)}</th>`)}</tr></thead>
      <tbody>
        ${found.map((one) => {
          const launch = quoted(one.launch_id);
          const line = `muster node attempts ${quoted(node.name)}`;
          return html`<tr key=${`${one.launch_id} ${one.account}`}>
            <td class="whole"><code>${harmless(one.launch_id)}</code></td>
            <td>${harmless(one.name)}</td>
            ${hasAccounts ? html`<td class="whole">${harmless(one.account)}</td>` : null}
            <td class="whole">${one.gpus === null ? t("unknown.gpus-unknown") : ranges(one.gpus)}</td>
            <td class="whole">${one.started_at === null ? "" : moment(one.started_at)}</td>
            <td class="whole">${t(`unknown.is-${one.ended_by ? "ending" : one.dismissed_by ? "dismissed" : "held"}`)}</td>
            <td class="whole"><button title=${`${line} --adopt ${launch}`} onClick=${after(adopt, one)}>${t("unknown.adopt")}</button>
              ${" "}<button title=${`${line} --end ${launch}`} onClick=${after(end, one)}>${t("unknown.end")}</button>
              ${" "}<button title=${`${line} --dismiss ${launch}`} onClick=${after(dismiss, one)}>${t("unknown.dismiss")}</button></td>
          </tr>`;
        })}
      </tbody>
    </table></div>
    </div>
  </section>`;
}

/**
 * Whose it becomes is asked, and which GPUs it has where nobody knows.
 * @param {string} node
 * @param {Attempt} one
 */
async function adopt(node, one) {
  const title = t("unknown.adopt.ask", { launch: harmless(one.launch_id) });
  const line = `muster node attempts ${quoted(node)} --adopt ${quoted(one.launch_id)}`;
  const gpus = one.gpus === null ? await askText({ title, label: t("unknown.adopt.gpus"), confirm: t("unknown.adopt"), isOptional: true, command: (text) => `${line}${text && ` --gpu ${text}`}` }) : "";
  if (gpus === null) return null;
  const more = gpus ? ` --gpu ${gpus}` : "";
  const owner = await askText({ title, label: t("unknown.adopt.owner"), confirm: t("unknown.adopt"), isOptional: true, command: (text) => `${line}${more}${text && ` --owner ${quoted(text)}`}` });
  if (owner === null) return null;
  const task = await live.call("node.adopt", { name: node, launch_id: one.launch_id, account: one.account, ...(gpus ? { gpus: gpus.split(",").map(Number) } : {}), ...(owner ? { owner } : {}) });
  return t("unknown.adopt.done", { task: task.id, owner: harmless(task.owner) });
}

/** @param {string} node @param {Attempt} one */
async function end(node, one) {
  return settled(node, one, "end", "node.end_attempt");
}

/** @param {string} node @param {Attempt} one */
async function dismiss(node, one) {
  return settled(node, one, "dismiss", "node.dismiss_attempt");
}

/**
 * Asked once, then done.
 * @param {string} node
 * @param {Attempt} one
 * @param {"end" | "dismiss"} what
 * @param {string} verb
 */
async function settled(node, one, what, verb) {
  const launch = harmless(one.launch_id);
  const command = `muster node attempts ${quoted(node)} --${what} ${quoted(one.launch_id)}`;
  if (!(await askFor({ title: t(`unknown.${what}.ask`, { launch }), text: t(`unknown.${what}.text`), command, confirm: t(`unknown.${what}`), destroys: what === "end" }))) return null;
  await live.call(verb, { name: node, launch_id: one.launch_id, account: one.account });
  return t(`unknown.${what}.done`, { launch });
}
