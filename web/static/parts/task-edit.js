// The form that changes a waiting task, or queues a finished one again with changes. Untouched fields follow the task;
// edited fields stay until they are sent or given up, also while another tab is shown.

import { actionNamed, obstacle } from "../core/actions.js";
import { ENDED } from "../core/cluster.js";
import { live } from "../core/context.js";
import { changedFields, changesOf, draftNow, editLine } from "../core/edit-spec.js";
import { asFailure } from "../core/failure.js";
import { harmless } from "../core/harmless.js";
import { html, useEffect, useMemo, useState } from "../core/html.js";
import { saidOfFailure, t, useLanguage } from "../core/i18n.js";
import { setQuery } from "../core/route.js";
import { hasRole, me } from "../core/session.js";
import { useSignal } from "../core/signal.js";
import { fieldOf } from "../core/wish.js";
import { Command } from "./command.js";
import { Refusal } from "./refusal.js";
import { tell } from "./toast.js";
import { Field, sendsAtOnce, SomeFields, WishFields, written } from "./wish-fields.js";

/**
 * @typedef {import("../core/cluster.js").Task} Task
 * @typedef {Record<string, {text: string, over: string}>} Typed by its field what was written, and what stood there then
 */

/** What one who looks after others may change of theirs. */
const OF_MENTORS = ["project", "priority", "urgent"];
/** What one who only holds GPUs has. */
const OF_ALLOCATIONS = ["name", "gpus", "gpu_memory_mib", "gpu_models", "gpu_ids", "nodes", "node", "exclude", "gpus_on", "begin_at", "priority", "time_limit_s", "project", "urgent"];
/**
 * What was written and not sent, by who wrote it and the task: another may sign in at the same window.
 * @type {Map<string, Typed>}
 */
const begun = new Map();

/** @param {{task: Task}} props */
export function Edit({ task }) {
  useLanguage();
  const who = useSignal(me);
  const mine = `${task.id} ${who?.user}`;
  const [typed, setTyped] = useState(/** @type {Typed} */ (begun.get(mine) ?? {}));
  const [fault, setFault] = useState(/** @type {import("../core/failure.js").Failure | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const before = useMemo(() => draftNow(task), [task]);
  const draft = { ...before, ...Object.fromEntries(Object.entries(typed).map(([name, { text }]) => [name, text])) };
  useEffect(() => void begun.set(mine, typed), [typed]);
  const change = (/** @type {string} */ name, /** @type {string} */ text) =>
    setTyped((/** @type {Typed} */ was) => ({ ...was, [name]: { text, over: was[name]?.over ?? before[name] ?? "" } }));
  const leave = () => {
    begun.delete(mine);
    setQuery({ tab: null });
  };
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setFault(null);
    try {
      await live.call("task.edit", { id: task.id, changes: changesOf(before, draft) });
      leave();
      tell(t("edit.done", { id: task.id }));
    } catch (error) {
      setFault(asFailure(error));
    } finally {
      setBusy(false);
    }
  };
  const faultOf = (/** @type {string} */ name) => {
    if (fault && fieldOf(fault) === name) return saidOfFailure(fault);
    const over = typed[name]?.over ?? before[name] ?? "";
    return over === (before[name] ?? "") ? null : t("edit.meanwhile", { value: harmless(before[name] || "–") });
  };
  const isOwn = !who?.is_shared || task.owner === who.user;
  const some = isOwn || hasRole("admin") ? (task.is_allocation ? OF_ALLOCATIONS : null) : OF_MENTORS;
  const blocked = obstacle(actionNamed("edit"), task);
  const changed = changedFields(before, draft);
  const isSame = changed.length === 0;
  const isQueued = ENDED.has(task.state) && changed.some((name) => name !== "owner");
  return html`<div class="submit edit">
    <form class="card stack" onSubmit=${send} onInput=${(/** @type {any} */ event) => change(...written(event))} onKeyDown=${sendsAtOnce}>
      <h2>${t("action.edit")}</h2>
      <div class="stack" inert=${isBusy}>
        ${some
          ? html`<${SomeFields} names=${some} draft=${draft} faultOf=${faultOf} />`
          : html`<${CommandField} draft=${draft} fault=${faultOf("command")} /><${WishFields} draft=${draft} change=${change} faultOf=${faultOf} hidesVariables=${!isOwn} />`}
        ${hasRole("admin") ? html`<div class="fields"><${Field} name="owner" value=${draft.owner} fault=${faultOf("owner")} /></div>` : null}
      </div>
      ${fault ? html`<${Refusal} fault=${fault} />` : null}
      ${blocked ? html`<p class="warned">${t(blocked)}</p>` : null}
      <div class="dialog-actions">
        <button type="button" onClick=${leave}>${t("dialog.leave")}</button>
        <button class="primary" disabled=${isBusy || isSame || Boolean(blocked)} title=${blocked ? t(blocked) : isSame ? t("edit.nothing") : ""}>${isQueued ? t("edit.again") : t("files.save")}</button>
      </div>
    </form>
    <aside class="stack">
      <section class="card"><h2>${t("submit.line")}</h2>${isSame ? html`<p class="dim">${t("edit.nothing")}</p>` : html`<${Command} text=${editLine(task.id, before, draft)} />`}</section>
    </aside>
  </div>`;
}

/** @param {{draft: import("../core/wish.js").Draft, fault: string | null}} props */
function CommandField({ draft, fault }) {
  return html`<label class="labelled">${t("submit.command")}
    <textarea name="command" rows="3" class="mono" spellcheck=${false} required value=${draft.command} aria-invalid=${Boolean(fault)}></textarea>
    ${fault ? html`<span class="field-fault">${fault}</span>` : null}
  </label>`;
}
