// The folder that a task runs in, where it lies in the visible ones: the same list as on the page of files.

import { useAsked } from "../core/asked.js";
import { harmless } from "../core/harmless.js";
import { html } from "../core/html.js";
import { t } from "../core/i18n.js";
import { visiblePath } from "../core/paths.js";
import { Folder } from "./folder.js";
import { Refusal } from "./refusal.js";
import { Waits } from "./waits.js";

/** @param {{task: import("../core/cluster.js").Task}} props */
export function TaskFiles({ task }) {
  const told = useAsked("file.roots");
  if (!task.cwd.startsWith("/")) return html`<div class="empty"><p>${t("task-files.untold")}</p></div>`;
  if (told.fault) return html`<div class="empty"><${Refusal} fault=${told.fault} again=${told.again} /></div>`;
  if (!told.answer) return html`<${Waits} />`;
  const path = visiblePath(told.answer, task.cwd);
  if (path === null) return html`<div class="empty"><p>${t("task-files.outside")}</p><code>${harmless(task.cwd)}</code></div>`;
  return html`<${Folder} key=${path} path=${path} />`;
}
