// Tasks that are given another place in the queue: which moves, one after the other, lead to an order. Pure.

/**
 * Put the chosen ones, in their order, before the one at `target`.
 * @param {number[]} queue ids, the next one first
 * @param {Set<number>} chosen
 * @param {number | null} target an id of the queue; null: behind all
 * @returns {{id: number, position: number}[]} to be made in this order; `position` 1 is the next one
 */
export function movesBefore(queue, chosen, target) {
  const rest = queue.filter((id) => !chosen.has(id));
  const behind = target === null ? -1 : queue.indexOf(target);
  const next = behind < 0 ? undefined : queue.slice(behind).find((id) => !chosen.has(id));
  const at = next === undefined ? rest.length : rest.indexOf(next);
  const wanted = [...rest.slice(0, at), ...queue.filter((id) => chosen.has(id)), ...rest.slice(at)];
  const place = new Map(wanted.map((id, index) => [id, index]));
  const moved = queue.filter((id, index) => chosen.has(id) && place.get(id) !== index);
  const isUp = (/** @type {number} */ id) => /** @type {number} */ (place.get(id)) < queue.indexOf(id);
  // Those that go up one after the other from the front, those that go down from the back: each then finds the others where they will be.
  const order = [...moved.filter(isUp), ...moved.filter((id) => !isUp(id)).reverse()];
  return order.map((id) => ({ id, position: /** @type {number} */ (place.get(id)) + 1 }));
}

/**
 * One place up or down, all of them together.
 * @param {number[]} queue
 * @param {Set<number>} chosen
 * @param {-1 | 1} by
 */
export function movesBy(queue, chosen, by) {
  const places = queue.flatMap((id, at) => (chosen.has(id) ? [at] : []));
  if (!places.length) return [];
  if (by < 0) {
    const before = places[0] - 1;
    return before < 0 ? movesBefore(queue, chosen, queue[0]) : movesBefore(queue, chosen, queue[before]);
  }
  const behind = queue[/** @type {number} */ (places.at(-1)) + 2];
  return movesBefore(queue, chosen, behind ?? null);
}
