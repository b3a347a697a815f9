// 墙上屏幕的用语。

/** @type {Record<string, string>} */
export const WORDS = {
  "wall.idle": "没有正在运行的任务。",
  "wall.gpus": "{count} 块 GPU",
};
