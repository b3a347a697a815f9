// Sizes, numbers and moments as people read them, whatever their language. Pure.

/** @param {number} number */
export const two = (number) => String(number).padStart(2, "0");

/**
 * A moment by the reader's own clock; of today the time alone.
 * @param {number | null | undefined} at seconds since the epoch
 */
export function moment(at) {
  if (at === null || at === undefined) return "";
  const date = new Date(at * 1000);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  const today = new Date();
  if (date.toDateString() === today.toDateString()) return time;
  const day = `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return date.getFullYear() === today.getFullYear() ? `${day} ${time.slice(0, 5)}` : `${date.getFullYear()}-${day}`;
}

/** @param {number | null | undefined} at seconds since the epoch; the whole moment, for a tip */
export function wholeMoment(at) {
  if (at === null || at === undefined) return "";
  const date = new Date(at * 1000);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** @param {number | null | undefined} bytes */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  let left = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (left < 1024 || unit === "TiB") return `${unit === "B" || left >= 100 ? Math.round(left) : left.toFixed(1)} ${unit}`;
    left /= 1024;
  }
  return "";
}

/** @param {number | null | undefined} mib */
export function memory(mib) {
  return mib === null || mib === undefined ? "" : size(mib * 1024 * 1024);
}

/** @param {number | null | undefined} part of one */
export function percent(part) {
  return part === null || part === undefined ? "" : `${Math.round(part)} %`;
}

/**
 * With commas. Not by `toLocaleString`: the first call of that takes 30 ms of a page that is just coming up.
 * @param {number} count
 */
export function count(count) {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, ",");
}
