// 总览与最近一天的用语。

/** @type {Record<string, string>} */
export const WORDS = {
  "overview.gpus": "GPU",
  "overview.held": "已占用 GPU",
  "overview.use": "平均利用率 {use} %",
  "overview.running": "运行中",
  "overview.waiting": "等待中",
  "overview.heldback": "另有 {count} 个暂缓",
  "overview.failed": "24 小时内失败",
  "overview.slots": "无 GPU · 槽位 {held} / {slots}",
  "overview.next": "接下来的任务",
  "overview.none-waiting": "没有等待中的任务。",
  "overview.needs": "需要处理",
  "overview.nothing": "没有需要处理的事项。",
  "overview.mine": "我在运行的任务",
  "overview.none-running": "您没有正在运行的任务。",
  "overview.all": "查看全部",
  "day.title": "24 小时内占用的 GPU",
  "day.label": "平均占用 {mean} % 的 GPU",
  "day.held": "占用 {held}",
  "day.unknown": "未知",
  "day.none": "所有节点均无 GPU。",
  "day.hours": "按小时查看",
  "chart.lost": "曲线未能载入，稍后会自动重试。",
};
