// 节点的代理所说的话：代理只说英文一句（monitor/agent/gpu/faults.py 的 GPU 故障，wire/account.py 的账户），这里按其样式译出。

const XIDS = /** @type {Record<string, string>} */ ({
  46: "GPU 停止处理", 48: "双比特 ECC 错误", 62: "内部微控制器停机", 63: "显存待复位后重映射", 64: "显存重映射失败",
  74: "NVLink 错误", 79: "从总线脱落", 94: "已隔离的显存错误", 95: "未隔离的显存错误", 110: "安全故障", 119: "GSP 调用超时",
  120: "GSP 错误", 136: "链路训练失败", 140: "未恢复的 ECC 错误", 143: "初始化错误", 156: "资源停用", 158: "致命超时",
});

/** @type {[RegExp, (...found: string[]) => string][]} */
export const SAYINGS = [
  [/^(\d+) uncorrectable ECC errors? since its driver was loaded: it needs a reset$/, (count) => `驱动加载以来有 ${count} 个无法纠正的 ECC 错误：需要复位`],
  [/^Xid (\d+) \((.*)\): it needs a reset, or its machine a reboot$/, (number, text) => `Xid ${number}（${XIDS[number] ?? text}）：需要复位，或重启机器`],
  [/^it fell off the bus: reboot the machine$/, () => "已从总线脱落：请重启机器"],
  [/^its GPU driver is not loaded: install the one that fits its kernel, or reboot$/, () => "GPU 驱动未加载：请安装与内核相符的驱动，或重启"],
  [/^its GPU driver and the driver's libraries differ in version: reboot it after the update$/, () => "GPU 驱动与其库版本不一致：更新后请重启"],
  [/^its GPU driver does not answer \((.*) hung for (\d+) s\)$/, (who, seconds) => `GPU 驱动没有响应（${who} 已 ${seconds} 秒无回应）`],
  [/^its GPU driver fails: (.*) \(NVML error (\d+)\)$/, (text, code) => `GPU 驱动出错：${text}（NVML 错误 ${code}）`],
  [/^its driver cannot use it: (.*) \(NVML error (\d+)\)$/, (text, code) => `驱动无法使用它：${text}（NVML 错误 ${code}）`],
  [/^this account may not use (its GPU driver|it): look at the rights of \/dev\/nvidia\*$/, () => "此账户无权使用：请查看 /dev/nvidia* 的权限"],
  [/^there is no account (\S+) on (\S+): make it there \(`(.*)`, with the uid that it has on the other machines\)(, or choose another node)?$/,
    (name, host, command, other) => `${host} 上没有账户 ${name}：请在那里建立（\`${command}\`，uid 与其他机器上的相同）${other ? "，或换一个节点" : ""}`],
  [/^(\S+) \(uid (\d+)\) on (\S+) is an account of the system's: if that is meant, name it in `run_as_allowed` of conf.json$/,
    (name, uid, host) => `${host} 上的 ${name}（uid ${uid}）是系统账户：若确要使用，请写入 conf.json 的 \`run_as_allowed\``],
  [/^its power cables are not connected$/, () => "供电线没有接好"],
  [/^its interrupts do not arrive$/, () => "收不到它的中断"],
  [/^it needs a reset: stop the node's agent and run nvidia-smi --gpu-reset$/, () => "需要复位：请停止节点的代理，再运行 nvidia-smi --gpu-reset"],
];
