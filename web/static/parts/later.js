// A part of a page whose module, and whose words, are loaded when somebody looks at it.

import { html, useEffect, useState } from "../core/html.js";
import { needWords, t } from "../core/i18n.js";
import { reloadOnceThere } from "../core/reload.js";
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
 * @param {(module: any) => any} props.draw it, once both have come
 */
export function Later({ load, words = [], draw }) {
  const [module, setModule] = useState(/** @type {any} */ (come.get(load) ?? null));
  const [isLost, setLost] = useState(false);
  useEffect(() => {
    Promise.all([load(), needWords(words)]).then(
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
