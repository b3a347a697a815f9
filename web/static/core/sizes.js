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

/**
 * In the largest unit that says it whole: a bound is exactly this.
 * @param {number} bytes
 */
export function wholeSize(bytes) {
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let [left, unit] = [bytes, 0];
  for (; left > 0 && left % 1024 === 0 && unit < units.length; unit += 1) left /= 1024;
  if (unit) return `${count(left)} ${units[unit - 1]}`;
  return bytes === 0 ? "0" : `${count(bytes)} bytes`;
}

/**
 * As people read it, never as `1e+21`.
 * @param {number} value
 */
export function number(value) {
  const [whole, rest] = Number(value).toFixed(6).replace(/\.?0+$/, "").split(".");
  return rest ? `${count(Number(whole))}.${rest}` : count(Number(whole));
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
