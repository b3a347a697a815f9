// What can be done to files and folders, each one verb; what destroys lists what it hits and asks once.

import { live } from "../core/context.js";
import { Failure } from "../core/failure.js";
import { quoted } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html } from "../core/html.js";
import { t } from "../core/i18n.js";
import { encoded, joined } from "../core/paths.js";
import { hasRole } from "../core/session.js";
import { askFor } from "./dialog.js";
import { download } from "./download.js";
import { askText } from "./text-question.js";
import { complain, tell } from "./toast.js";

/**
 * @typedef {import("@muster/wire").Entry} Entry
 * @typedef {object} FileAction
 * @property {string} name its words are `files.NAME`
 * @property {string} key on the keyboard
 * @property {boolean} [destroys]
 * @property {(entries: Entry[]) => string | null} unfit why not these: a key of the words
 * @property {(folder: string, entries: Entry[], done: () => void) => unknown} does
 */

const MOST_LISTED = 12;

/** @type {FileAction[]} */
export const ACTIONS = [
  { name: "download", key: "d", unfit: (entries) => (entries.every((one) => one.kind === "file") ? null : "not.file"), does: downloadAll },
  { name: "rename", key: "r", unfit: (entries) => changes() ?? (entries.length === 1 ? null : "not.one"), does: rename },
  { name: "move", key: "m", unfit: changes, does: (folder, entries, done) => transfer("move", folder, entries, done) },
  { name: "copy", key: "c", unfit: changes, does: (folder, entries, done) => transfer("copy", folder, entries, done) },
  { name: "delete", key: "D", destroys: true, unfit: changes, does: remove },
];

/** Who may look on only changes nothing. */
function changes() {
  return hasRole("user") ? null : "not.allowed.viewer";
}

/** @param {{folder: string, entries: Entry[], done: () => void}} props */
export function FileActions({ folder, entries, done }) {
  return html`${ACTIONS.map((action) => {
    const why = action.unfit(entries);
    return html`<button key=${action.name} class=${action.destroys ? "is-danger" : ""} aria-disabled=${Boolean(why)}
      title=${why ? t(why) : `[${action.key}]`} onClick=${() => !why && action.does(folder, entries, done)}>${t(`files.${action.name}`)}</button>`;
  })}`;
}

/** @param {string} folder @param {Entry[]} entries */
async function downloadAll(folder, entries) {
  if (ACTIONS[0].unfit(entries)) return;
  for (const entry of entries) await download(`files/${encoded(joined(folder, entry.name))}`);
}

/** @param {string} folder @param {() => void} done */
export async function makeFolder(folder, done) {
  const name = await askText({ title: t("files.new-folder"), label: t("column.name"), confirm: t("files.make"), command: (text) => `muster files mkdir ${quoted(joined(folder, text))}` });
  if (!name) return;
  await attempt(() => live.call("file.make", { path: joined(folder, name), kind: "folder" }), done);
}

/** @param {string} folder @param {Entry[]} entries @param {() => void} done */
async function rename(folder, entries, done) {
  if (ACTIONS[1].unfit(entries)) return;
  const [entry] = entries;
  const from = joined(folder, entry.name);
  const name = await askText({
    title: t("files.rename.ask", { name: harmless(entry.name) }), label: t("files.new-name"), text: entry.name, confirm: t("files.rename"),
    command: (text) => `muster files mv ${quoted(from)} ${quoted(joined(folder, text))}`,
  });
  if (!name || name === entry.name) return;
  await attempt(() => live.call("file.move", { from, to: joined(folder, name) }), done);
}

/** @param {"move" | "copy"} what @param {string} folder @param {Entry[]} entries @param {() => void} done */
async function transfer(what, folder, entries, done) {
  if (!entries.length || changes()) return;
  const sources = entries.map((entry) => joined(folder, entry.name));
  const target = await askText({
    title: t(`files.${what}.ask`, { count: entries.length }), label: t("files.target"), text: folder, confirm: t(`files.${what}`), hits: listed(entries),
    command: (text) => `muster files ${what === "move" ? "mv" : "cp -r"} ${sources.map(quoted).join(" ")} ${quoted(text)}`,
  });
  const into = target?.replace(/^\/+|\/+$/g, "");
  if (!into || (what === "move" && into === folder)) return;
  await each(entries, (entry) => live.call(`file.${what}`, { from: joined(folder, entry.name), to: joined(into, entry.name) }), done, `files.${what}.done`);
}

/** @param {string} folder @param {Entry[]} entries @param {() => void} done */
async function remove(folder, entries, done) {
  if (!entries.length || changes()) return;
  const paths = entries.map((entry) => joined(folder, entry.name));
  const hasFolders = entries.some((entry) => entry.kind === "folder" && !entry.link);
  const asked = {
    title: t("files.delete.ask", { count: entries.length, n: entries.length }), text: t(hasFolders ? "files.delete.folders" : "files.delete.text"), hits: listed(entries),
    command: harmless(`muster files rm ${hasFolders ? "-r " : ""}${paths.map(quoted).join(" ")}`),
    confirm: t("files.delete"), destroys: true,
  };
  if (!(await askFor(asked))) return;
  await each(entries, (entry) => live.call("file.delete", { path: joined(folder, entry.name), recursive: entry.kind === "folder" && !entry.link }), done, "files.delete.done");
}

/** @param {Entry[]} entries */
function listed(entries) {
  const hits = entries.slice(0, MOST_LISTED).map((entry) => harmless(entry.name) + (entry.kind === "folder" ? "/" : ""));
  return entries.length > MOST_LISTED ? [...hits, t("dialog.more", { count: entries.length - MOST_LISTED })] : hits;
}

/**
 * One after the other; one that is refused keeps none of the others from it.
 * @param {Entry[]} entries
 * @param {(entry: Entry) => Promise<unknown>} does
 * @param {() => void} done
 * @param {string} says
 */
async function each(entries, does, done, says) {
  let count = 0;
  const refused = [];
  for (const entry of entries) {
    try {
      await does(entry);
      count += 1;
    } catch (error) {
      refused.push(error);
      if (error instanceof Failure && error.code === "unreachable") break;
    }
  }
  if (count) tell(t(says, { count }));
  refused.slice(0, 3).forEach(complain);
  done();
}

/** @param {() => Promise<unknown>} does @param {() => void} done */
async function attempt(does, done) {
  try {
    await does();
    done();
  } catch (error) {
    complain(error);
  }
}
