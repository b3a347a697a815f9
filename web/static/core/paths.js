// Paths of files: as the master has them, as addresses of our pages and of the server, and their parts. Pure.

/** @param {string} path of the master's, `data/run1` */
export function encoded(path) {
  return path.split("/").map(encodeURIComponent).join("/");
}

/**
 * The page of a folder or a file.
 * @param {string} path
 */
export function pageOf(path) {
  return path ? `files/${encoded(path)}` : "files";
}

/** @param {string} folder empty for that in which the visible ones lie @param {string} name */
export function joined(folder, name) {
  return folder ? `${folder}/${name}` : name;
}

/** @param {string} path */
export function folderOf(path) {
  return path.split("/").slice(0, -1).join("/");
}

/** @param {string} path */
export function nameOf(path) {
  return path.split("/").at(-1) ?? "";
}

/**
 * What a folder of the master's machine is called among the visible ones; null where it lies in none of them.
 * @param {{root: string, folders: {name: string}[]}} visible as `file.roots` tells
 * @param {string} folder from the root of all on
 */
export function visiblePath({ root, folders }, folder) {
  const above = root.endsWith("/") ? root : `${root}/`;
  if (!folder.startsWith(above)) return null;
  const path = folder.slice(above.length).split("/").filter(Boolean).join("/");
  return folders.some(({ name }) => path === name || path.startsWith(`${name}/`)) ? path : null;
}

/**
 * A visible folder can neither be renamed nor deleted.
 * @param {string} path
 */
export function isVisibleFolder(path) {
  return !path.includes("/");
}

/**
 * From the first folder down to the path itself.
 * @param {string} path
 */
export function lineage(path) {
  const names = path.split("/").filter(Boolean);
  return names.map((name, at) => ({ name, path: names.slice(0, at + 1).join("/") }));
}
