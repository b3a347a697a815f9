// 日志的用语。

/** @type {Record<string, string>} */
export const WORDS = {
  "log.none": "还没有日志。",
  "log.empty": "日志为空。",
  "log.following": "实时跟踪",
  "log.at-end": "已完整",
  "log.paused": "已暂停 · 点此跟踪",
  "log.paused-new": "已暂停，新增 {count} 行 · 点此跟踪",
  "log.follow": "跟踪最新",
  "log.first": "首个错误",
  "log.last": "最后的异常",
  "log.search": "搜索日志",
  "log.searching": "正在搜索…… {percent}",
  "log.found": "{count} 行",
  "log.found-many": "前 {count} 行",
  "log.start": "开头",
  "log.end": "末尾",
  "log.wrap": "自动换行",
  "log.download": "下载",
  "log.link": "此行的链接",
  "log.no-fault": "没有出现错误的行。",
};
