// Everything that is known of a task: what was asked, what it has, and each attempt.

import { useNow } from "../core/clock.js";
import { RUNNING } from "../core/cluster.js";
import { live } from "../core/context.js";
import { html, useEffect, useState } from "../core/html.js";
import { withSignal } from "../core/exit-codes.js";
import { commandLine, memory, quoted, ranges, span, wholeMoment } from "../core/format.js";
import { harmless, harmlessLines } from "../core/harmless.js";
import { said, t } from "../core/i18n.js";
import { draftOf, optionsOf, TYPED } from "../core/wish.js";
import { Command } from "./command.js";
import { Waits } from "./waits.js";

/** @typedef {import("../core/cluster.js").Task} Task */

/** @param {{task: Task, page: any}} props */
export function Details({ task, page }) {
  return html`<div class="details">
    <section class="card">
      <h2>${t("details.command")}</h2>
      <pre class="block" tabindex="0">${typeof task.command === "string" ? harmlessLines(task.command) : commandLine(task.command)}</pre>
      <h2>${t("details.again")}</h2>
      <${Command} text=${submitLine(task)} />
    </section>
    <section class="card">
      <h2>${t("details.asked")}</h2>
      <dl class="facts">${facts(task).map(([name, value]) => html`<div key=${name}><dt>${t(`field.${name}`)}</dt><dd>${value}</dd></div>`)}</dl>
    </section>
    <section class="card is-wide">
      <h2>${t("details.attempts")}</h2>
      ${page ? html`<${Attempts} attempts=${page.attempts} />` : html`<${Waits} isWithin />`}
    </section>
    ${Object.keys(task.variables ?? {}).length
      ? html`<section class="card is-wide">
          <h2>${t("details.variables")}</h2>
          <dl class="facts">${Object.entries(task.variables).map(([name, value]) => html`<div key=${name}><dt class="mono">${harmless(name)}</dt><dd class="mono">${harmless(value)}</dd></div>`)}</dl>
        </section>`
      : null}
  </div>`;
}

/**
 * What was asked for and is not nothing.
 * @param {Task} task
 * @returns {[string, any][]}
 */
function facts(task) {
  const any = /** @type {any} */ (task);
  /** @type {[string, any][]} */
  const all = [
    ["owner", harmless(task.owner)],
    ["project", harmless(task.project)],
    ["cwd", harmless(task.cwd)],
    ["snapshot", any.snapshot ? copied(any.snapshot) : ""],
    ["env", harmless(task.env)],
    ["setup", harmless(task.setup)],
    ["gpus", task.gpus_max ? `${task.gpus}-${task.gpus_max}` : task.gpus],
    ["gpu_ids", task.gpu_ids ? ranges(task.gpu_ids) : ""],
    ["gpu_models", task.gpu_models.map(harmless).join(", ")],
    ["gpu_memory_mib", memory(task.gpu_memory_mib)],
    ["gpu_peak_mib", memory(task.gpu_peak_mib)],
    ["share", yes(any.share)],
    ["min_free_util", any.min_free_util ? `${any.min_free_util} %` : ""],
    ["licences", harmless(draftOf(task).licences)],
    ["cpus", task.cpus],
    ["memory_mib", memory(task.memory_mib)],
    ["tmp_disk_mib", memory(task.tmp_disk_mib)],
    ["nodes", task.nodes > 1 ? task.nodes : ""],
    ["node", harmless(draftOf(task).node)],
    ["gpus_on", harmless(draftOf(task).gpus_on)],
    ["exclude", task.exclude.map(harmless).join(", ")],
    ["after", task.after.map((one) => html`<a key=${one.id} href=${`tasks/${one.id}`}>${one.id}${one.array ? "/" : ""}:${one.on}</a> `)],
    ["priority", task.priority || ""],
    ["urgent", yes(any.urgent)],
    ["time_limit_s", span(task.time_limit_s)],
    ["requeue", yes(any.on_timeout === "requeue")],
    ["signal", any.signal ? harmless(TYPED.signal.write(any.signal)) : ""],
    ["begin_at", wholeMoment(task.begin_at)],
    ["max_retries", task.max_retries ? `${task.retries} / ${task.max_retries}` : ""],
    ["retry_on", (any.retry_on ?? []).join(", ")],
    ["within", any.within ? html`<a href=${`tasks/${any.within}`}>${any.within}</a>` : ""],
    ["elastic", yes(any.elastic)],
    ["checkpoint", harmless(any.checkpoint ?? "")],
    ["resizes", any.resizes || ""],
    ["array", any.array ? html`<a href=${`sweeps/${any.array.id}`}>${any.array.id}/${any.array.index}</a>` : ""],
    ["sweep", any.sweep ? Object.entries(any.sweep).map(([name, value]) => `${harmless(name)}=${harmless(value)}`).join(" ") : ""],
    ["by_admin", yes(any.by_admin)],
    ["gpu_use", RUNNING.has(task.state) && task.allocation.some((part) => part.gpus.length > 0) ? html`<${GpuUse} task=${task} />` : ""],
    ["log_path", harmless(task.log_path)],
    ["submitted_at", wholeMoment(task.submitted_at)],
    ["started_at", wholeMoment(task.started_at)],
    ["ended_at", wholeMoment(task.ended_at)],
  ];
  return all.filter(([, value]) => value !== "" && value !== null && value !== undefined && !(Array.isArray(value) && value.length === 0));
}

/**
 * How full and how busy its GPUs are: asked anew every few seconds, for no change of a task tells it.
 * @param {{task: Task}} props
 */
function GpuUse({ task }) {
  const [uses, setUses] = useState(/** @type {any[]} */ ([]));
  const holds = task.allocation.some((part) => part.gpus.length > 0);
  const tick = Math.floor(useNow() / 5);
  useEffect(() => {
    let isWanted = true;
    if (holds) {
      live.call("task.show", { id: task.id }).then(
        (it) => isWanted && setUses(it.gpu_use ?? []),
        () => {}, // whoever looks at the task is told elsewhere
      );
    }
    return () => {
      isWanted = false;
    };
  }, [task.id, holds, tick]);
  const known = uses.filter((one) => (one.used_mib ?? one.memory_used_mib ?? one.utilization) !== null);
  return known.map((one) => {
    const used = one.used_mib ?? one.memory_used_mib;
    const figures = [
      used === null ? "" : memory(used) + (one.memory_mib ? ` / ${memory(one.memory_mib)}` : ""),
      one.utilization === null ? "" : `${Math.round(one.utilization)} %`,
    ];
    return html`<div key=${`${one.node}:${one.gpu}`} class="gpu-use"><span class="mono">${harmless(one.node)}:${one.gpu}</span> ${figures.filter(Boolean).join(", ")}</div>`;
  });
}

/** @param {unknown} is */
function yes(is) {
  return is ? t("yes") : "";
}

/** @param {{of: string, files: number, commit: string, changed: boolean}} copy */
export function copied({ of, files, commit, changed }) {
  const at = commit ? t("details.at-commit", { commit: harmless(commit.slice(0, 10)) }) : "";
  return [t("details.copy-of", { files, folder: harmless(of) }), at, changed ? t("details.with-changes") : ""].filter(Boolean).join(" ");
}

/** @param {{attempts: any[]}} props */
function Attempts({ attempts }) {
  if (attempts.length === 0) return html`<p class="dim">${t("details.no-attempts")}</p>`;
  return html`<div class="scrolls" tabindex="0"><table class="plain">
    <thead>
      <tr>${["no", "place", "started", "span", "exit", "why"].map((name) => html`<th key=${name} scope="col">${t(`attempt.${name}`)}</th>`)}</tr>
    </thead>
    <tbody>
      ${[...attempts].reverse().map(
        (one) => html`<tr key=${one.no}>
          <td class="number">${one.no}</td>
          <td class="mono">${one.parts.map((/** @type {any} */ part) => harmless(part.node) + (part.gpus.length ? `:${ranges(part.gpus)}` : "")).join(" ")}</td>
          <td class="whole">${wholeMoment(one.started_at)}</td>
          <td class="number whole">${one.started_at && one.ended_at ? span(one.ended_at - one.started_at) : ""}</td>
          <td class="number">${one.exit_code === null ? "" : withSignal(one.exit_code)}</td>
          <td>
            ${one.asked_end ? html`<span class="chip">${t(`asked_end.${one.asked_end.why}`, { by: one.asked_end.by })}</span> ` : null}
            ${said(one.reason_key, one.reason_args, one.reason)}
            ${one.last_line ? html`<code>${harmless(one.last_line)}</code>` : null}
          </td>
        </tr>`,
      )}
    </tbody>
  </table></div>`;
}

/**
 * The command that would submit it once more. A line end stays one: `\n` between quotes would be two characters to a shell.
 * @param {Task} task
 */
export function submitLine(task) {
  const words = ["muster submit", ...optionsOf(draftOf(task))]; // without variables, whose values nobody is shown
  const command = typeof task.command === "string" ? `bash -c ${quoted(task.command)}` : task.command.map(quoted).join(" ");
  return harmlessLines(`${words.join(" ")} -- ${command}`);
}
