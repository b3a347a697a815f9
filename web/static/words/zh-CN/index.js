// 简体中文：主控所说各句（docs/wire.md, Messages）的译文。每页都可能出现的在此，其余的在需要时载入；界面用语按页载入。

import { WORDS as NODES } from "./nodes.js";
import { WORDS as TASKS } from "./tasks.js";

export { FORMS, NAMES } from "./forms.js";
export { SAYINGS } from "./sayings.js";

/** @type {Record<string, string>} */
export const MESSAGES = { ...TASKS, ...NODES };

/**
 * 其余各句：先是拒绝的原因和节点为何无法连接，再是文件、用户、体检、证书等。
 * @type {(() => Promise<Record<string, string>>)[]}
 */
export const OTHER_MESSAGES = [
  () => all([import("./errors.js"), import("./links.js")]),
  () => all([import("./files.js"), import("./people.js"), import("./doctor.js"), import("./certificates.js"), import("./console.js"), import("./configuration.js"), import("./setup.js"), import("./store.js"), import("./client.js"), import("./connection.js"), import("./commands.js"), import("./rare.js")]),
];

/** @param {Promise<{WORDS: Record<string, string>}>[]} files */
async function all(files) {
  return Object.assign({}, ...(await Promise.all(files)).map((file) => file.WORDS));
}
