// 很少出现、较长的话，在需要时才载入：身份、实验室、丢失的运行记录、提交时的提示。

/** @type {Record<string, string>} */
export const WORDS = {
  machine_is: "它报告的身份与 {node} 相同，而 {node} 先有此身份：两条登记会重复分配同一批 GPU，因此 {name} 不会收到任务。如果两者是同一台机器，请只保留一条登记；否则其中一台冒用了另一台的标识：请在两台机器上比较 `/etc/machine-id` 和 `/proc/sys/kernel/random/boot_id`",
  machine_is_over: "它报告的身份与 {node} 相同，只是以用户 {user} 而不是 {other} 登录。{node} 先有此身份：两条登记会重复分配同一批 GPU，因此 {name} 不会收到任务。如果两者是同一台机器，请只保留一条登记，并在其 `accounts` 中写明各用户的 SSH 账号；否则其中一台冒用了另一台的标识：请在两台机器上比较 `/etc/machine-id` 和 `/proc/sys/kernel/random/boot_id`",
  machine_changed: "它原有自己的 machine-id，现在报告的却是 {node} 的，而 {node} 先有此标识：两者声称同一次启动时，以 {node} 为准，{name} 不会被采用",
  other_lab: "这是另一个实验室（{lab}）的主控：不执行此连接上的任何请求",
  unnamed_lab: "这是另一个实验室的主控：不执行此连接上的任何请求",
  folder_nowhere: "能运行此任务的节点（{count} 个）上都没有文件夹 {path}：启动时若仍没有，任务将失败",
  env_nowhere: "能运行此任务的节点（{count} 个）上都没有环境 {env}：用 `muster env list` 查看现有环境",
  command_is_one_word: "命令是一个含空格的词（{word:quoted}），会被当作程序名：请去掉引号，或写 `-- bash -c '…'`",
  program_is_beside: "不会在文件夹里查找程序：请写 ./{name} 或 --script {name:quoted}",
  script_is_beside: "不会在文件夹里查找程序：请写 `{reader} {name:quoted}`",
  unproven: "它在 {node} 上的运行记录已丢失，那里有进程可能属于它，但无法证明：pid {pids:, }。不会向它们发信号，GPU 仍被占用。请在 {node} 上查看并结束它们（`kill PID`）",
  cancel_unproven: "没有向任务 {id} 的任何进程发信号：它在 {node} 上的运行记录已丢失，那里有进程可能属于它，但无法证明：pid {pids:, }。请在 {node} 上查看并结束它们（`kill PID`）：它们结束后任务即为已取消",
  unreachable_command: "它在 {node} 上的命令已成为另一个账户的进程（pid {pids:, }），代理无权向它发信号。GPU 仍被占用。请在 {node} 上查看并结束它（`kill PID`）",
  cancel_unreachable_command: "没有向任务 {id} 的任何进程发信号：它在 {node} 上的命令已成为另一个账户的进程（pid {pids:, }），代理无权向它发信号。请在 {node} 上查看并结束它（`kill PID`）：它结束后任务即为已取消",
  name_without_mine: "`name` 与 `mine` 一起使用：别人的任务用编号指明",
  unproven_there: "运行记录已丢失，那里有进程可能属于这些运行，但无法证明：pid {pids:, }。它们结束之前不接新任务：请在该节点上查看并结束它们（`kill PID`）",
};
