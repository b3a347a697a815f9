// What went wrong with a question: the master's stable code, the key and values of its sentence, and the sentence.

export class Failure extends Error {
  /**
   * @param {string} code the stable name, as in docs/wire.md
   * @param {string} text the sentence, in English
   * @param {string | null} [key]
   * @param {Record<string, any> | null} [args]
   */
  constructor(code, text, key = null, args = null) {
    super(text);
    this.code = code;
    this.key = key;
    this.args = args;
  }
}

/**
 * @param {unknown} error
 * @returns {Failure}
 */
export function asFailure(error) {
  if (error instanceof Failure) return error;
  return new Failure("internal", error instanceof Error ? error.message : String(error), "ui.defect", {});
}
