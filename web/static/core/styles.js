// Style sheets that come with what needs them; index.html names those of all pages. A page is drawn once its sheets have come, so
// that nobody sees it without its style. The sheets of two pages may both be there, in any order: none relies on coming later.

/**
 * By its address; one that did not come is asked for again.
 * @type {Map<string, Promise<void>>}
 */
const asked = new Map();

/** @param {string[]} names of files in `style/` */
export function needStyles(names) {
  return Promise.all(names.map((name) => needSheet(new URL(`../style/${name}.css`, import.meta.url).href)));
}

/** @param {string} href */
export function needSheet(href) {
  const coming = asked.get(href) ?? sheet(href);
  asked.set(href, coming);
  coming.catch(() => asked.delete(href));
  return coming;
}

/** @param {string} href @returns {Promise<void>} */
function sheet(href) {
  return new Promise((resolve, reject) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
    link.onload = () => resolve();
    link.onerror = () => {
      link.remove();
      reject(new TypeError(href));
    };
    document.head.append(link);
  });
}
