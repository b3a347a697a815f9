// A table of any number of rows, of which only those in sight are in the document: real rows and cells of one height,
// counted for who has them read aloud, with a cursor, a selection and an order. It owns scrolling; what a row means,
// and which are selected, is its page's.

import { Component, classes, html, useCallback, useEffect, useLayoutEffect, useRef, useState } from "../core/html.js";
import { t } from "../core/i18n.js";
import { Icon } from "./icons.js";

/**
 * @template R
 * @typedef {object} Column
 * @property {string} name its words are given by `title`
 * @property {string} title
 * @property {string} [label] what is read aloud where there is no room for a title
 * @property {number} width px; 0 for what is left
 * @property {boolean} [isNumber]
 * @property {boolean} [sorts]
 * @property {(row: R, now: number) => any} cell
 */

const SPARE = 8;
/** The height of a row, as the style sheet has it. */
const HEIGHT = { table: 32, wide: 44 };

/**
 * @template R
 * @param {object} props
 * @param {string} props.label
 * @param {Column<R>[]} props.columns
 * @param {R[]} props.rows
 * @param {(row: R) => string | number} props.keyOf
 * @param {number} [props.now] for cells that show a time
 * @param {Set<string | number>} [props.selected]
 * @param {(keys: Set<string | number>) => void} [props.onSelect]
 * @param {string | number | null} [props.cursor]
 * @param {(key: string | number) => void} [props.onCursor]
 * @param {(row: R) => void} [props.onOpen]
 * @param {string | null} [props.sort] a column's name, with `-` before it the other way round
 * @param {(sort: string) => void} [props.onSort]
 * @param {() => void} [props.onEnd] the last rows are in sight
 * @param {(row: R, target: R, isBehind: boolean) => void} [props.onDrop] a row was dragged by its box onto another, or behind it
 * @param {any} [props.empty] what is shown where there are no rows
 * @param {boolean} [props.isTall]
 * @param {(row: R) => any} [props.heading] of a row that stands over others, and is none itself: what it says; null for any other
 */
export function Table(props) {
  const { columns, rows, keyOf, selected, cursor } = props;
  const height = props.isTall ? HEIGHT.wide : HEIGHT.table;
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [sight, setSight] = useState({ top: 0, height: 800 });
  const look = useCallback(() => {
    const element = box.current;
    if (element) setSight({ top: element.scrollTop, height: element.clientHeight });
  }, []);
  useLayoutEffect(() => {
    look();
    const observer = new ResizeObserver(look);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.min(Math.floor(sight.top / height) - SPARE, rows.length));
  const last = Math.min(rows.length, Math.ceil((sight.top + sight.height) / height) + SPARE);
  useEffect(() => {
    if (last >= rows.length) props.onEnd?.();
  }, [last >= rows.length, rows.length]);
  useFollowedCursor(box, rows, keyOf, cursor, height);
  const anchor = useRef(/** @type {string | number | null} */ (null));
  const newest = useRef(props); // a row that was not drawn since has an older `pick`
  newest.current = props;
  const pick = (/** @type {R} */ row, /** @type {MouseEvent} */ event) => {
    props.onSelect?.(picked(newest.current, row, anchor.current, event.shiftKey));
    anchor.current = keyOf(row);
  };
  const width = columns.reduce((sum, column) => sum + (column.width || 160), selected ? 36 : 0);
  return html`<div class=${props.isTall ? "table-box is-tall" : "table-box"} ref=${box} onScroll=${look} tabindex="0">
    <table aria-label=${props.label} aria-rowcount=${rows.length + 1} style=${{ minWidth: `${width}px` }}>
      <colgroup>
        ${selected ? html`<col style=${{ width: "36px" }} />` : null}
        ${columns.map((column) => html`<col key=${column.name} style=${{ width: column.width ? `${column.width}px` : "auto" }} />`)}
      </colgroup>
      <${Head} ...${props} />
      <tbody>
        ${first > 0 ? html`<tr class="spacer" aria-hidden="true" style=${{ height: `${first * height}px` }}></tr>` : null}
        ${rows.slice(first, last).map((row, at) => {
          const key = keyOf(row);
          const heading = props.heading?.(row);
          if (heading) {
            return html`<tr key=${key} class="group" aria-rowindex=${first + at + 2}>
              <th scope="rowgroup" colspan=${columns.length + (selected ? 1 : 0)}>${heading}</th>
            </tr>`;
          }
          return html`<${Row}
            key=${key}
            row=${row}
            at=${first + at + 2}
            columns=${columns}
            now=${props.now}
            isOdd=${(first + at) % 2 === 1}
            isSelected=${selected?.has(key) ?? null}
            isCursor=${cursor === key}
            onPick=${pick}
            onOpen=${props.onOpen}
            onCursor=${props.onCursor}
            onDrop=${props.onDrop}
            keyOf=${keyOf}
          />`;
        })}
        ${last < rows.length
          ? html`<tr class="spacer" aria-hidden="true" style=${{ height: `${(rows.length - last) * height}px` }}></tr>`
          : null}
      </tbody>
    </table>
    ${rows.length === 0 ? html`<div class="empty">${props.empty}</div>` : null}
  </div>`;
}

/**
 * Which are selected when the box of a row is clicked: with the shift key all from the one before.
 * @param {any} props
 * @param {any} row
 * @param {string | number | null} anchor
 * @param {boolean} isRange
 */
function picked(props, row, anchor, isRange) {
  const { rows, keyOf } = props;
  const key = keyOf(row);
  const keys = new Set(props.selected);
  const isOn = !keys.has(key);
  const from = isRange && anchor !== null ? rows.findIndex((/** @type {any} */ one) => keyOf(one) === anchor) : -1;
  const to = rows.indexOf(row);
  const range = from < 0 ? [row] : rows.slice(Math.min(from, to), Math.max(from, to) + 1).filter((/** @type {any} */ one) => !props.heading?.(one));
  for (const one of range) {
    if (isOn) keys.add(keyOf(one));
    else keys.delete(keyOf(one));
  }
  return keys;
}

/**
 * The row of the cursor is kept in sight when the cursor moves.
 * @param {{current: HTMLDivElement | null}} box
 * @param {any[]} rows
 * @param {(row: any) => string | number} keyOf
 * @param {string | number | null | undefined} cursor
 * @param {number} height
 */
function useFollowedCursor(box, rows, keyOf, cursor, height) {
  useEffect(() => {
    const element = box.current;
    if (!element || cursor === null || cursor === undefined) return;
    const at = rows.findIndex((row) => keyOf(row) === cursor);
    if (at < 0) return;
    const [top, bottom] = [at * height, (at + 1) * height + height];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
  }, [cursor]);
}

/**
 * The row that is being dragged: one at a time, in one window.
 * @type {any}
 */
let dragged = null;

/**
 * By its box, so that the words of a row can still be selected.
 * @param {any} row
 */
function dragHandle(row) {
  return {
    draggable: true,
    title: t("table.drag"),
    onDragStart: (/** @type {DragEvent} */ event) => {
      dragged = row;
      const element = /** @type {Element} */ (event.currentTarget).closest("tr");
      event.dataTransfer?.setData("text/plain", "");
      if (element) event.dataTransfer?.setDragImage(element, 8, 16);
    },
    onDragEnd: () => {
      dragged = null;
    },
  };
}

/** @param {any} row @param {(row: any, target: any, isBehind: boolean) => void} onDrop */
function dropTarget(row, onDrop) {
  const isBehind = (/** @type {DragEvent} */ event) => {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    return event.clientY > box.top + box.height / 2;
  };
  const mark = (/** @type {DragEvent} */ event, /** @type {boolean | null} */ behind) => {
    const names = /** @type {Element} */ (event.currentTarget).classList;
    names.toggle("drop-before", behind === false);
    names.toggle("drop-behind", behind === true);
  };
  return {
    onDragOver: (/** @type {DragEvent} */ event) => {
      if (dragged === null || dragged === row) return;
      event.preventDefault();
      mark(event, isBehind(event));
    },
    onDragLeave: (/** @type {DragEvent} */ event) => mark(event, null),
    onDrop: (/** @type {DragEvent} */ event) => {
      mark(event, null);
      if (dragged === null) return;
      event.preventDefault();
      onDrop(dragged, row, isBehind(event));
      dragged = null;
    },
  };
}

/** @param {any} props */
function Head({ columns, rows: shown, heading, keyOf, selected, onSelect, sort, onSort }) {
  const rows = heading ? shown.filter((/** @type {any} */ row) => !heading(row)) : shown;
  const all = selected && rows.length > 0 && rows.every((/** @type {any} */ row) => selected.has(keyOf(row)));
  return html`<thead>
    <tr aria-rowindex="1">
      ${selected
        ? html`<th class="pick">
            <input
              type="checkbox"
              aria-label=${t("table.all")}
              checked=${all}
              disabled=${rows.length === 0}
              onChange=${() => onSelect(all ? new Set() : new Set(rows.map(keyOf)))}
            />
          </th>`
        : null}
      ${columns.map((/** @type {Column<any>} */ column) => {
        const order = sort === column.name ? "ascending" : sort === `-${column.name}` ? "descending" : undefined;
        return html`<th key=${column.name} scope="col" class=${classes(column.isNumber && "number")} aria-sort=${order}>
          ${column.sorts && onSort
            ? html`<button class="sort" aria-label=${column.title ? undefined : column.label} onClick=${() => onSort(order === "ascending" ? `-${column.name}` : order ? "" : column.name)}>
                <span>${column.title}</span>${order ? html`<${Icon} name=${order === "ascending" ? "up" : "down"} />` : null}
              </button>`
            : column.title}
        </th>`;
      })}
    </tr>
  </thead>`;
}

/** A row is drawn anew only when something of it changed: of ten thousand a second only a few are. */
class Row extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    const now = /** @type {any} */ (this.props);
    return (
      next.row !== now.row || next.isSelected !== now.isSelected || next.isCursor !== now.isCursor ||
      next.columns !== now.columns || next.onDrop !== now.onDrop || next.now !== now.now || next.at !== now.at
    );
  }

  render() {
    const { row, at, columns, now, isSelected, isCursor, isOdd, onPick, onOpen, onCursor, onDrop, keyOf } = /** @type {any} */ (
      this.props
    );
    const open = (/** @type {MouseEvent} */ event) => {
      onCursor?.(keyOf(row));
      const target = /** @type {Element} */ (event.target);
      if (!target.closest("a, button, input, label") && getSelection()?.isCollapsed) onOpen?.(row);
    };
    return html`<tr
      aria-rowindex=${at}
      aria-selected=${isSelected ?? undefined}
      class=${classes(isOdd && "odd", isCursor && "cursor", isSelected && "selected", onOpen && "opens")}
      onClick=${open}
      ...${onDrop ? dropTarget(row, onDrop) : null}
    >
      ${isSelected === null
        ? null
        : html`<td class="pick" ...${onDrop ? dragHandle(row) : null}>
            <input type="checkbox" aria-label=${t("table.one", { key: String(keyOf(row)) })} checked=${isSelected}
              onClick=${(/** @type {MouseEvent} */ event) => onPick(row, event)} />
          </td>`}
      ${columns.map(
        (/** @type {Column<any>} */ column) =>
          html`<td key=${column.name} class=${classes(`of-${column.name}`, column.isNumber && "number")}>${column.cell(row, now)}</td>`,
      )}
    </tr>`;
  }
}
