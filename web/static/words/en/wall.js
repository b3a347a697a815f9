// The words of a screen on a wall.

/** @type {Record<string, string>} */
export const WORDS = {
  "wall.idle": "Nothing runs.",
  "wall.kept": "GPU {gpus} reserved for #{task}",
  "wall.kept-until": "GPU {gpus} reserved for #{task}, by {at}",
  "wall.gpus": "{count} {n:GPU|GPUs}",
};
