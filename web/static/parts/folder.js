// What is in a folder: a list of any length, filtered, ordered, chosen and acted upon; files are dropped on it to be sent.

import { live } from "../core/context.js";
import { asFailure } from "../core/failure.js";
import { count, moment, size, wholeMoment } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { classes, html, useCallback, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { saidOfFailure, t } from "../core/i18n.js";
import { useKeys } from "../core/keys.js";
import { useNarrow } from "../core/narrow.js";
import { folderOf, joined, pageOf } from "../core/paths.js";
import { go, setQuery, usePlace } from "../core/route.js";
import { NAMES, useSelection } from "../core/selection.js";
import { hasRole } from "../core/session.js";
import { useSignal } from "../core/signal.js";
import { addUploads, arrived } from "../core/uploads.js";
import { Breadcrumb } from "./breadcrumb.js";
import { ACTIONS, FileActions, makeFolder } from "./file-actions.js";
import { Icon } from "./icons.js";
import { Said } from "./said.js";
import { Table } from "./table.js";
import { UploadList } from "./upload-list.js";
import { Waits } from "./waits.js";

/** @typedef {import("@muster/wire").Entry} Entry */

const PAGE = 2_000;
/** @param {Entry} entry */
const nameOf = (entry) => entry.name;

/** @param {{path: string}} props */
export function Folder({ path }) {
  const { query } = usePlace();
  const isNarrow = useNarrow();
  const folder = useListing(path);
  const shown = useShown(folder, { filter: query.get("q") ?? "", sort: query.get("sort") ?? "", isHidden: query.has("hidden") });
  const [selected, setSelected] = useSelection(NAMES);
  const [cursor, setCursor] = useState(/** @type {string | number | null} */ (null));
  const chosen = useMemo(() => shown.filter((entry) => selected.has(entry.name)), [shown, selected]);
  const done = useCallback(() => {
    setSelected(new Set());
    folder.again();
  }, [folder.again]);
  const columns = useColumns(path, isNarrow);
  const why = !hasRole("user") ? t("not.allowed.viewer") : path ? null : t("not.in-a-folder");
  const open = (/** @type {Entry} */ entry) => entry.kind !== "other" && go(pageOf(joined(path, entry.name)));
  useFolderKeys({ path, shown, chosen, cursor, setCursor, selected, setSelected, open, done, why });
  const drop = useDrop(path, why);
  return html`<div class=${classes("page fills files", drop.isOver && "is-over")} ...${drop.on}>
    <div class="tools">
      <${Breadcrumb} path=${path} />
      <span class="grow"></span>
      <${Tools} path=${path} query=${query} why=${why} done=${done} />
    </div>
    <${UploadList} />
    <div class=${classes("action-bar", chosen.length > 0 && "is-on")} role="toolbar" aria-label=${t("queue.actions")}>
      <span class="action-count" role="status">${chosen.length ? t("queue.selected", { count: count(chosen.length) }) : told(folder, shown)}</span>
      ${chosen.length && path
        ? html`<${FileActions} folder=${path} entries=${chosen} done=${done} /><button class="quiet" onClick=${() => setSelected(new Set())}>${t("queue.clear")}</button>`
        : html`<span class="hint">${why ?? t("files.hint")}</span>`}
    </div>
    <${Table}
      label=${t("page.files")}
      columns=${columns}
      rows=${shown}
      keyOf=${nameOf}
      selected=${path && !(isNarrow && selected.size === 0) ? selected : undefined}
      onSelect=${setSelected}
      cursor=${cursor}
      onCursor=${setCursor}
      onOpen=${open}
      sort=${query.get("sort")}
      onSort=${(/** @type {string} */ sort) => setQuery({ sort })}
      onEnd=${folder.more}
      empty=${html`<${Empty} folder=${folder} path=${path} isFiltered=${query.has("q")} />`}
    />
  </div>`;
}

/** @param {{path: string, query: URLSearchParams, why: string | null, done: () => void}} props */
function Tools({ path, query, why, done }) {
  const files = useRef(/** @type {HTMLInputElement | null} */ (null));
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useKeys({ "/": { does: () => field.current?.focus(), says: "keys.filter" }, i: { does: () => !why && files.current?.click(), says: "keys.upload" } });
  const send = (/** @type {any} */ event) => {
    addUploads(path, event.target.files);
    event.target.value = "";
  };
  return html`<div class="field"><${Icon} name="search" />
      <input ref=${field} type="search" aria-label=${t("filter.label")} placeholder=${t("files.filter")} value=${query.get("q") ?? ""}
        onInput=${(/** @type {any} */ event) => setQuery({ q: event.target.value })}
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && field.current?.blur()} />
    </div>
    <label class="switch"><input type="checkbox" checked=${query.has("hidden")} onChange=${(/** @type {any} */ event) => setQuery({ hidden: event.target.checked ? 1 : null })} />${t("files.hidden")}</label>
    <button aria-disabled=${Boolean(why)} title=${why ?? `muster files mkdir  [n]`} onClick=${() => !why && makeFolder(path, done)}>${t("files.new-folder")}</button>
    <button class="primary" aria-disabled=${Boolean(why)} title=${why ?? `muster files put  [i]`} onClick=${() => !why && files.current?.click()}>${t("files.upload")}</button>
    <input ref=${files} type="file" multiple hidden onChange=${send} />`;
}

/** @param {ReturnType<typeof useListing>} folder @param {Entry[]} shown */
function told(folder, shown) {
  if (!folder.entries) return "";
  if (folder.isWhole) return t("files.count", { count: count(shown.length), n: shown.length });
  return t("files.count-more", { count: count(shown.length) });
}

/** @param {{folder: ReturnType<typeof useListing>, path: string, isFiltered: boolean}} props */
function Empty({ folder, path, isFiltered }) {
  if (folder.fault) return html`<p class="refusal"><span><${Said} text=${saidOfFailure(asFailure(folder.fault))} /></span></p><button onClick=${folder.again}>${t("files.again")}</button>`;
  if (!folder.entries) return html`<${Waits} isWithin />`;
  if (isFiltered) return html`<p>${t("files.none-like")}</p><button onClick=${() => setQuery({ q: null })}>${t("queue.show-all")}</button>`;
  if (!path) return html`<p>${t("files.no-folders")}</p><code>"visible_folders": ["data"]</code>`;
  return html`<p>${t("files.none")}</p>`;
}

/**
 * The entries of a folder, a page at a time as they come into sight; looked at anew when a file arrived here, and when
 * somebody comes back to the page.
 * @param {string} path
 */
function useListing(path) {
  const [told, setTold] = useState({ entries: /** @type {Entry[] | null} */ (null), isWhole: false, fault: /** @type {unknown} */ (null) });
  const of = useRef({ generation: 0, isBusy: false, told });
  of.current.told = told;
  const grown = useSignal(arrived);
  const ask = useCallback(async (/** @type {boolean} */ isAnew) => {
    const mine = of.current;
    if (mine.isBusy && !isAnew) return;
    mine.generation += 1;
    const { generation } = mine;
    mine.isBusy = true;
    const before = isAnew ? [] : (mine.told.entries ?? []);
    try {
      const page = path ? await live.call("file.list", { path, after: before.at(-1)?.name ?? "", limit: Math.max(PAGE, isAnew ? Math.min(mine.told.entries?.length ?? 0, 10_000) : 0) }) : await visible();
      if (generation === mine.generation) setTold({ entries: before.concat(page.entries), isWhole: !page.truncated, fault: null });
    } catch (fault) {
      if (generation === mine.generation) setTold({ ...mine.told, fault });
    } finally {
      if (generation === mine.generation) mine.isBusy = false;
    }
  }, [path]);
  const again = useCallback(() => void ask(true), [ask]);
  const more = useCallback(() => {
    if (of.current.told.entries && !of.current.told.isWhole) ask(false);
  }, [ask]);
  useEffect(again, [again, grown]);
  useEffect(() => {
    addEventListener("focus", again);
    return () => removeEventListener("focus", again);
  }, [again]);
  return { ...told, again, more };
}

/** The visible folders, as if they lay in one. */
async function visible() {
  const { folders } = await live.call("file.roots");
  const entries = folders.map((/** @type {any} */ one) => ({ name: one.name, kind: one.exists ? "folder" : "other", size: 0, mtime: null, mode: 0, link: false, hidden: false }));
  return { entries, truncated: false };
}

/**
 * What is shown, in its order. An order or a filter goes over the whole folder: the rest is asked for.
 * @param {ReturnType<typeof useListing>} folder
 * @param {{filter: string, sort: string, isHidden: boolean}} asked
 * @returns {Entry[]}
 */
function useShown(folder, { filter, sort, isHidden }) {
  const { entries, isWhole, more } = folder;
  useEffect(() => {
    if (!isWhole && (filter || (sort && sort !== "name"))) more();
  }, [entries, isWhole, filter, sort]);
  return useMemo(() => {
    const words = filter.toLowerCase();
    const found = (entries ?? []).filter((entry) => (isHidden || !entry.hidden) && entry.name.toLowerCase().includes(words));
    return sort ? ordered(found, sort) : foldersFirst(found);
  }, [entries, filter, sort, isHidden]);
}

/** @param {Entry[]} entries in the order of their names */
function foldersFirst(entries) {
  return [...entries.filter((one) => one.kind === "folder"), ...entries.filter((one) => one.kind !== "folder")];
}

/** @param {Entry[]} entries @param {string} sort */
function ordered(entries, sort) {
  const isDown = sort.startsWith("-");
  const by = /** @type {"size" | "mtime" | "name"} */ (isDown ? sort.slice(1) : sort);
  const [less, more] = isDown ? [1, -1] : [-1, 1];
  const collator = new Intl.Collator(undefined, { numeric: true });
  return [...entries].sort((a, b) => {
    if (by === "name") return collator.compare(a.name, b.name) * more;
    return a[by] === b[by] ? 0 : a[by] < b[by] ? less : more;
  });
}

/** @param {string} path @param {boolean} isNarrow */
function useColumns(path, isNarrow) {
  return useMemo(() => {
    /** @type {import("./table.js").Column<Entry>[]} */
    const all = [
      { name: "name", title: t("column.name"), width: 0, sorts: true, cell: (entry) => html`<${Name} folder=${path} entry=${entry} />` },
      { name: "size", title: t("files.size"), width: isNarrow ? 84 : 112, isNumber: true, sorts: true, cell: (entry) => (entry.kind === "file" ? html`<span title=${count(entry.size)}>${size(entry.size)}</span>` : "") },
      { name: "mtime", title: t("files.changed"), width: isNarrow ? 104 : 160, sorts: true, cell: (entry) => html`<time title=${wholeMoment(entry.mtime)}>${moment(entry.mtime)}</time>` },
      { name: "mode", title: t("files.rights"), width: 112, cell: (entry) => html`<code>${entry.mode ? rights(entry.mode) : ""}</code>` },
    ];
    if (!path) return all.slice(0, 1);
    return isNarrow ? all.slice(0, 3) : all;
  }, [path, isNarrow, t("column.name")]);
}

/** @param {{folder: string, entry: Entry}} props */
function Name({ folder, entry }) {
  const shown = harmless(entry.name);
  const mark = entry.link ? html` <small>${t("files.link")}</small>` : null;
  if (entry.kind === "other") return html`<span class="file-name dim" title=${shown}><${Icon} name="file" /><span>${shown}</span> <small>${t(folder ? "files.other" : "files.not-there")}</small></span>`;
  return html`<a class="file-name" href=${pageOf(joined(folder, entry.name))} title=${shown}><${Icon} name=${entry.kind === "folder" ? "folder" : "file"} /><span>${shown}</span>${mark}</a>`;
}

/**
 * `rw-r-----`
 * @param {number} mode
 */
export function rights(mode) {
  return [6, 3, 0].map((shift) => ["r", "w", "x"].map((letter, at) => ((mode >> shift) & (4 >> at) ? letter : "-")).join("")).join("");
}

/**
 * Files that are dropped on the page.
 * @param {string} path
 * @param {string | null} why not
 */
function useDrop(path, why) {
  const [isOver, setOver] = useState(false);
  const isFiles = (/** @type {DragEvent} */ event) => !why && event.dataTransfer?.types.includes("Files");
  const on = {
    onDragOver: (/** @type {DragEvent} */ event) => {
      if (!isFiles(event)) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: (/** @type {DragEvent} */ event) => event.relatedTarget instanceof Node && /** @type {Node} */ (event.currentTarget).contains(event.relatedTarget) || setOver(false),
    onDrop: (/** @type {DragEvent} */ event) => {
      setOver(false);
      if (!isFiles(event)) return;
      event.preventDefault();
      addUploads(path, event.dataTransfer?.files ?? []);
    },
  };
  return { isOver, on };
}

/** @param {any} of */
function useFolderKeys({ path, shown, chosen, cursor, setCursor, selected, setSelected, open, done, why }) {
  const at = shown.findIndex((/** @type {Entry} */ entry) => entry.name === cursor);
  const move = (/** @type {number} */ by) => {
    const next = shown[Math.max(0, Math.min(shown.length - 1, at < 0 ? 0 : at + by))];
    if (next) setCursor(next.name);
  };
  const meant = () => (chosen.length ? chosen : at >= 0 ? [shown[at]] : []);
  const acts = path ? Object.fromEntries(ACTIONS.map((action) => [action.key, { does: () => action.does(path, meant(), done), says: `files.${action.name}` }])) : {};
  useKeys({
    j: { does: () => move(1), says: "keys.next" },
    k: { does: () => move(-1), says: "keys.before" },
    ArrowDown: { does: () => move(1), says: "keys.next" },
    ArrowUp: { does: () => move(-1), says: "keys.before" },
    Enter: { does: () => at >= 0 && open(shown[at]), says: "keys.open" },
    Backspace: { does: () => path && go(pageOf(folderOf(path))), says: "keys.up-folder" },
    x: {
      does: () => {
        if (at < 0 || !path) return;
        const names = new Set(selected);
        if (!names.delete(shown[at].name)) names.add(shown[at].name);
        setSelected(names);
      },
      says: "keys.select",
    },
    ...(selected.size ? { Escape: { does: () => setSelected(new Set()), says: "keys.clear" } } : {}), // else it leads back from the page
    n: { does: () => !why && makeFolder(path, done), says: "keys.new-folder" },
    ...acts,
  });
}
