// A question to the master, and its answer as long as the question is the same.

import { live } from "./context.js";
import { asFailure } from "./failure.js";
import { useEffect, useRef, useState } from "./html.js";

/** Failures that say nothing about the question itself. */
const AWAY = ["unreachable", "unanswered"];

/**
 * What the master answers; asked again when the question changes, when the connection is back that failed before, or
 * when `again` is called, whose promise is kept once the answer is there. While it is asked again the answer before stands.
 * @param {string} verb
 * @param {Record<string, any>} [params]
 * @param {boolean} [isWanted]
 * @returns {{answer: any, fault: unknown, again: () => Promise<void>}}
 */
export function useAsked(verb, params = {}, isWanted = true) {
  const [told, setTold] = useState({ answer: /** @type {any} */ (null), fault: /** @type {unknown} */ (null), of: "" });
  const [turn, setTurn] = useState(0);
  const waiting = useRef(/** @type {(() => void)[]} */ ([]));
  const answered = () => waiting.current.splice(0).forEach((tell) => tell());
  const returned = useReturned(told.fault);
  const question = JSON.stringify([verb, params]);
  useEffect(() => {
    if (!isWanted) return undefined;
    let isStill = true;
    live.call(verb, params).then(
      (answer) => isStill && (setTold({ answer, fault: null, of: question }), answered()),
      (fault) => isStill && (setTold({ answer: null, fault, of: question }), answered()),
    );
    return () => {
      isStill = false;
    };
  }, [question, isWanted, turn, returned]);
  useEffect(() => answered, []);
  const again = () => /** @type {Promise<void>} */ (new Promise((tell) => {
    waiting.current.push(tell);
    setTurn((/** @type {number} */ before) => before + 1);
  }));
  return told.of === question && isWanted ? { answer: told.answer, fault: told.fault, again } : { answer: null, fault: null, again };
}

/**
 * How often the connection came back after a question had failed because there was none: the question is asked again
 * with each.
 * @param {unknown} fault of the question, or null
 * @returns {number}
 */
export function useReturned(fault) {
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (!fault || !AWAY.includes(asFailure(fault).code)) return undefined;
    return live.state.watch((state) => {
      if (state === "live") setCount((/** @type {number} */ before) => before + 1);
    });
  }, [fault]);
  return count;
}
