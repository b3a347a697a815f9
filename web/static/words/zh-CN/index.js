// 简体中文：主控所说各句（docs/wire.md, Messages）的译文。每页都可能出现的在此，其余的在需要时载入；界面用语按页载入。

import { WORDS as LINKS } from "./links.js";
import { WORDS as NODES } from "./nodes.js";
import { WORDS as TASKS } from "./tasks.js";

export { FORMS, NAMES } from "./forms.js";
export { SAYINGS } from "./sayings.js";

/** @type {Record<string, string>} */
export const MESSAGES = { ...TASKS, ...NODES, ...LINKS };

/**
 * 其余各句：先是拒绝的原因，再是文件、用户、体检、证书等。
 * @type {(() => Promise<Record<string, string>>)[]}
 */
export const OTHER_MESSAGES = [
  async () => (await import("./errors.js")).WORDS,
  async () => {
    const files = await Promise.all([import("./files.js"), import("./people.js"), import("./doctor.js"), import("./certificates.js"), import("./console.js"), import("./configuration.js"), import("./setup.js"), import("./client.js"), import("./connection.js"), import("./commands.js"), import("./rare.js")]);
    return Object.assign({}, ...files.map((file) => file.WORDS));
  },
];
