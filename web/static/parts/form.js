// Forms of admins: what was changed in one against what stands there, and sending that alone.

import { asFailure } from "../core/failure.js";
import { html, useState } from "../core/html.js";
import { t } from "../core/i18n.js";
import { Refusal } from "./refusal.js";
import { complain, tell } from "./toast.js";

/**
 * A form whose fields have the names of what they change. Only what differs is sent.
 * @param {object} props
 * @param {Record<string, string>} props.before what stands in the fields, by their names
 * @param {(changes: Record<string, string>) => Promise<unknown>} props.send
 * @param {() => Promise<void> | void} props.done what stands there is asked for anew
 * @param {any} props.children
 */
export function ChangeForm({ before, send, done, children }) {
  const [fault, setFault] = useState(/** @type {unknown} */ (null));
  const [isBusy, setBusy] = useState(false);
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const words = Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.currentTarget)).entries());
    const changes = /** @type {Record<string, string>} */ (Object.fromEntries(Object.entries(words).filter(([name, text]) => String(text).trim() !== (before[name] ?? "")).map(([name, text]) => [name, String(text).trim()])));
    if (!Object.keys(changes).length) return tell(t("admin.unchanged"));
    setBusy(true);
    setFault(null);
    try {
      await send(changes);
      await done(); // what is typed before it is there anew would go with the old form
      tell(t("admin.saved"));
    } catch (error) {
      setFault(asFailure(error));
    } finally {
      setBusy(false);
    }
  };
  return html`<form class="stack" onSubmit=${submit}><div class="stack" inert=${isBusy}>${children}</div>
    ${fault ? html`<${Refusal} fault=${fault} />` : null}
    <div class="dialog-actions"><button class="primary" disabled=${isBusy}>${t("files.save")}</button></div></form>`;
}

const QUOTAS = /** @type {const} */ (["max_total_gpus", "max_manual_gpus", "max_gpus_per_task", "max_running"]);

/** @param {any} quota */
export function quotaWords(quota) {
  return Object.fromEntries(QUOTAS.map((name) => [name, quota[name] === null ? "" : String(quota[name])]));
}

/**
 * Empty is no bound; what is no number the master refuses.
 * @param {Record<string, string>} changes
 */
export function withQuotas(changes) {
  return Object.fromEntries(Object.entries(changes).map(([name, text]) => {
    if (!QUOTAS.some((one) => one === name)) return [name, text];
    return [name, text === "" ? null : Number.isFinite(Number(text)) ? Number(text) : text];
  }));
}

/** @param {{quota: any, use: any}} props */
export function QuotaFields({ quota, use }) {
  const words = quotaWords(quota);
  return html`<fieldset class="fields"><legend>${t("me.quotas")} <small>${t("admin.in-use", { gpus: use.gpus, running: use.running })}</small></legend>
    ${QUOTAS.map((name) => html`<label key=${name} class="labelled">${t(`admin.${name}`)}<input name=${name} value=${words[name]} inputmode="numeric" placeholder="∞" autocomplete="off" /></label>`)}
  </fieldset>`;
}

/**
 * Do it, and say so or why not.
 * @param {() => Promise<unknown>} does
 * @param {string} says
 * @param {() => void} done
 */
export async function attempt(does, says, done) {
  try {
    await does();
    tell(says);
    done();
  } catch (error) {
    complain(error);
  }
}
