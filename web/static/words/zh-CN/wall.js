// 墙上屏幕的用语。

/** @type {Record<string, string>} */
export const WORDS = {
  "wall.idle": "没有正在运行的任务。",
  "wall.kept": "GPU {gpus} 已为 #{task} 预留",
  "wall.kept-until": "GPU {gpus} 已为 #{task} 预留，预计 {at} 前启动",
  "wall.gpus": "{count} 块 GPU",
};
