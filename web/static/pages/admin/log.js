// The master's own log, as a task's is shown.

import { html } from "../../core/html.js";
import { Command } from "../../parts/command.js";
import { Log } from "../../parts/log.js";

/** @type {import("../../parts/log.js").Which} */
const SERVER = { server: true };

export function Section() {
  return html`<${Log} which=${SERVER} path="server/log" /><div class="under"><${Command} text="muster logs --server -f" /></div>`;
}
