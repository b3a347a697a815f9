// How values are put into Chinese sentences: lists, names in short, sizes and moments, and words that stand for things.

import { signalOf } from "../../core/exit-codes.js";
import { harmless } from "../../core/harmless.js";
import { number, size, wholeMoment, wholeSize } from "../../core/sizes.js";

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

/**
 * What a value should be, which msgspec and `master/edited_files/mismatch.py` say in English.
 * @type {[RegExp, string][]}
 */
const KINDS = [
  [/\ba whole number/g, "整数"], [/\ba number/g, "数"], [/\ba text in quotes/g, "带引号的文字"], [/\ban object/g, "对象"], [/\ba list/g, "列表"],
  [/^the name of a user$/, "用户名"], [/ of length /g, "，长度 "], [/ matching regex /g, "，符合 "], [/ or /g, " 或 "], [/ with (\d+) entries$/, "，共 $1 项"],
  [/^something else \(not shown\)$/, "其他内容（不显示）"],
];

/** @param {any} value @param {Say} say */
function kind(value, say) {
  return typeof value === "string" ? KINDS.reduce((text, [english, chinese]) => text.replace(english, chinese), harmless(value)) : say(value);
}

/** @type {Record<string, (value: any, say: Say) => string>} */
export const FORMS = {
  kind,
  found: (value, say) => (String(value).startsWith('"') ? harmless(value) : kind(value, say)), // a text is the user's own
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
  "whole size": (bytes) => wholeSize(bytes),
  number: (value) => number(value),
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
