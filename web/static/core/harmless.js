// Text of others (names, commands, lines of logs) as it may be shown: no character in it turns the direction of
// writing, hides what stands beside it, or is itself unseen. Pure.

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
const PLAIN = /^[\x20-\x7e]*$/;

/**
 * @param {string} character
 */
function escaped(character) {
  if (character === "\n") return "\\n";
  if (character === "\t") return "\\t";
  if (character === "\r") return "\\r";
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\u{${code.toString(16)}}`;
}

/**
 * On one line, with what is not seen shown as escapes.
 * @param {unknown} text
 */
export function harmless(text) {
  const words = String(text ?? "");
  return PLAIN.test(words) ? words : words.replace(HIDDEN, escaped);
}

/**
 * A text of several lines: line ends and tabs stay.
 * @param {unknown} text
 */
export function harmlessLines(text) {
  return String(text ?? "").replace(HIDDEN, (one) => (one === "\n" || one === "\t" ? one : escaped(one)));
}
