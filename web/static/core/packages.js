// The packages of an environment, and beside them those of another. Pure.

/** @typedef {[string, string, string]} Package its name, its version, `conda` or `pip` */
/** @typedef {{name: string, version: string | null, from: string, other: string | null, isDifferent: boolean}} PackageRow */

/**
 * By name, whatever its spelling: `typing_extensions` and `typing-extensions` are one package (PEP 503).
 * @param {Package[]} packages
 * @param {Package[] | null} others null: there is nothing to compare with
 * @returns {PackageRow[]}
 */
export function comparedPackages(packages, others) {
  /** @type {Map<string, PackageRow>} */
  const rows = new Map();
  for (const [name, version, from] of packages) rows.set(known(name), { name, version, from, other: null, isDifferent: others !== null });
  for (const [name, version, from] of others ?? []) {
    const row = rows.get(known(name)) ?? { name, version: null, from, other: null, isDifferent: true };
    rows.set(known(name), { ...row, other: version, isDifferent: row.version !== version });
  }
  return [...rows.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

/** @param {string} name */
function known(name) {
  return name.toLowerCase().replace(/[-_.]+/g, "-");
}
