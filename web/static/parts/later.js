// A part of what is seen whose module, words and style are loaded when somebody looks at it.

import { html, useEffect, useState } from "../core/html.js";
import { needWords, t } from "../core/i18n.js";
import { reloadOnceThere } from "../core/reload.js";
import { needStyles } from "../core/styles.js";
import { Waits } from "./waits.js";

/**
 * What has come of what was loaded, so that whoever comes again sees nothing being loaded.
 * @type {WeakMap<() => Promise<any>, any>}
 */
const come = new WeakMap();

/**
 * @param {object} props `key` is to name the part: another one is another element
 * @param {() => Promise<any>} props.load its module; the same function each time
 * @param {string[]} [props.words] parts of the dictionary
 * @param {string[]} [props.styles] files of `style/` that the page around it does not have
 * @param {(module: any) => any} props.draw it, once all have come
 */
export function Later({ load, words = [], styles = [], draw }) {
  const [module, setModule] = useState(/** @type {any} */ (come.get(load) ?? null));
  const [isLost, setLost] = useState(false);
  useEffect(() => {
    Promise.all([load(), needWords(words), needStyles(styles)]).then(
      ([it]) => {
        come.set(load, it);
        setModule(() => it);
      },
      () => {
        setLost(true);
        reloadOnceThere();
      },
    );
  }, []);
  if (isLost) return html`<div class="empty" role="status">${t("ui.lost")}</div>`;
  return module ? draw(module) : html`<${Waits} />`;
}
