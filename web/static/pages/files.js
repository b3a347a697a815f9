// Files: the visible folders, what is in one, and what is in a file. Which of the three, the path decides.

import { live } from "../core/context.js";
import { asFailure } from "../core/failure.js";
import { html, useCallback, useEffect, useState } from "../core/html.js";
import { saidOfFailure, t, useLanguage } from "../core/i18n.js";
import { folderOf, pageOf } from "../core/paths.js";
import { FileView } from "../parts/file-view.js";
import { Folder } from "../parts/folder.js";
import { Icon } from "../parts/icons.js";
import { Said } from "../parts/said.js";
import { Waits } from "../parts/waits.js";

/** @typedef {import("@muster/wire").Entry} Entry */

/** @param {{parts: string[]}} props */
export function Page({ parts }) {
  useLanguage();
  const path = parts[0] ?? "";
  const { entry, fault, again } = useEntry(path);
  if (fault && entry?.path !== path) {
    return html`<div class="empty"><p class="refusal"><${Icon} name="warn" /><span><${Said} text=${saidOfFailure(asFailure(fault))} /></span></p>
      <p><a href=${pageOf(folderOf(path))}>${t("files.up")}</a> <button onClick=${again}>${t("files.again")}</button></p></div>`;
  }
  if (entry?.path !== path) return html`<${Waits} />`;
  if (entry.kind === "folder") return html`<${Folder} key=${path} path=${path} />`;
  return html`<${FileView} key=${path} path=${path} entry=${entry} again=${again} />`;
}

/**
 * What a path leads to.
 * @param {string} path empty for the folder in which the visible ones lie
 */
function useEntry(path) {
  const [entry, setEntry] = useState(/** @type {(Entry & {path: string}) | null} */ (null));
  const [fault, setFault] = useState(/** @type {unknown} */ (null));
  const look = useCallback(() => {
    const asked = path ? live.call("file.stat", { path }) : Promise.resolve({ kind: "folder" });
    let isWanted = true;
    asked.then(
      (it) => isWanted && (setEntry({ ...it, path }), setFault(null)),
      (error) => isWanted && setFault(error),
    );
    return () => {
      isWanted = false;
    };
  }, [path]);
  useEffect(look, [look]);
  return { entry, fault, again: look };
}
