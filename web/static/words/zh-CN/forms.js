// How values are put into Chinese sentences: lists, names in short, sizes and moments, and words that stand for things.

import { signalOf } from "../../core/exit-codes.js";
import { harmless } from "../../core/harmless.js";
import { size, wholeMoment } from "../../core/sizes.js";

/**
 * @typedef {{parts: string[], count: number, more: number}} Several
 * @typedef {(value: any) => string} Say a value within another one
 */

/** @param {any[]} values @param {string} between @param {Say} say */
function joined(values, between, say) {
  return values.map(say).join(between);
}

/** @param {Several} names */
function several(names) {
  const told = names.parts.map(harmless).join("、");
  return names.more ? `${told} 等另外 ${names.more} 个` : told;
}

/** @param {any} values @param {Say} say */
const listed = (values, say) => (Array.isArray(values) ? joined(values, "、", say) : several(values));

/** @type {Record<string, (value: any, say: Say) => string>} */
export const FORMS = {
  several,
  quoted: (text) => `“${harmless(text)}”`,
  ", ": listed,
  "; ": (values, say) => joined(values, "；", say),
  " and ": (values, say) => joined(values, " 和 ", say),
  " or ": (values, say) => joined(values, " 或 ", say),
  few: (names) => names.parts.map(harmless).join("、") + (names.more ? "…" : ""),
  colon: (values, say) => (values.length ? `：${joined(values, "；", say)}` : ""),
  "and more": (more) => (more ? `，以及另外 ${more} 项` : ""),
  label: (where) => (where ? `${harmless(where)}：` : ""),
  "list or none": (values, say) => listed(values, say) || "无",
  "list or nothing": (values, say) => listed(values, say) || "无",
  gpus: (names) => (names.count ? ` 的 GPU ${several(names)}` : ""),
  "or none": (names) => several(names) || "无",
  subject: (nodes) => (nodes.count ? `节点 ${several(nodes)}` : "整个集群"),
  on: (nodes) => (nodes.count ? `（${several(nodes)}）` : ""),
  signal: (code) => (signalOf(code) ? `（${signalOf(code)}）` : ""),
  size: (bytes) => size(bytes),
  minute: (at) => wholeMoment(at).slice(0, 16),
  by: (at) => wholeMoment(Math.ceil(at / 60) * 60).slice(0, 16),
  moment: (at) => wholeMoment(at),
};

/**
 * Words that stand for a thing where a value has this name.
 * @type {Record<string, Record<string, string>>}
 */
export const NAMES = {
  state: {
    waiting: "等待中", held: "已暂缓", starting: "准备中", running: "运行中", paused: "已暂停", succeeded: "已完成",
    failed: "已失败", cancelled: "已中止", timed_out: "已超时", lost: "结果未知", online: "在线", connecting: "连接中",
    unreachable: "无法连接", untrusted: "未信任",
  },
  unit: { slot: "槽位", GPU: "GPU", CPU: "CPU" },
  kind: { user: "用户", group: "组", project: "项目", cluster: "集群" },
  role: { viewer: "访客", user: "用户", admin: "管理员" },
  has: { viewer: "访客", user: "用户", admin: "管理员" },
};
