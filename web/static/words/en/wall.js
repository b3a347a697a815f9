// The words of a screen on a wall.

/** @type {Record<string, string>} */
export const WORDS = {
  "wall.idle": "Nothing runs.",
  "wall.gpus": "{count} {n:GPU|GPUs}",
};
