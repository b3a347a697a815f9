// 命令行无法使用地址、登录、令牌或证书机构的原因。

/** @type {Record<string, string>} */
export const WORDS = {
  conf_and_master: "conf 和 master：请只给出其中一个",
  no_master_named: "这里和上级文件夹中都没有 conf.json：请给出 --conf FILE 或 --master HOST[:PORT]（或设置 MUSTER_CONF 或 MUSTER_MASTER），或用 `muster login HOST` 登录，或用 `muster init` 建立一个",
  no_conf_here: "这里和上级文件夹中都没有 conf.json：请给出 --conf FILE（或设置 MUSTER_CONF），或用 `muster init` 建立一个",
  conf_not_obeyed: "{path} {why}，因此不会未经要求就照它执行：用 --conf {conf} 照它执行",
  conf_folder_not_obeyed: "conf.json 所在的 {path} {why}，因此不会未经要求就照它执行：用 --conf {conf} 照它执行",
  no_host_and_port: "{found!r} 不是 HOST 或 HOST:PORT",
  ports_missing: "socket_info：缺少；它包含 {ports:, }",
  bind_no_address: "bind：应为地址，不是 {found}",
  conf_missing: "没有这个文件；`muster init` 会建立一个",
  not_json: "不是 JSON：{detail}",
  json_too_deep: "不是正常的 JSON：嵌套太深",
  object_expected: "应为对象",
  port_expected: "socket_info.{key}：应为 1 到 65535 的端口，得到 {found}",
  login_unreadable: "这不是登录文件：请删除它，再次 `muster login`",
  login_of_another: "登录文件属于 uid {uid}，不属于您，因此不使用",
  login_open: "别人可以读取登录文件（权限 {mode}），因此不使用：`muster logout` 结束它，`muster login` 建立新的（如果没有人读过，也可以 `chmod 600`）",
  login_refused: "登录文件无法保存或读取：{detail}",
  token_file_refused: "{variable}：{path}：{detail}；任务的令牌随运行一起失效",
  token_file_wrong: "{variable}：{path}：这不是令牌；任务的令牌随运行一起失效",
  token_file_empty: "{variable}：{path}：它是空的；任务的令牌随运行一起失效",
  top_needs_textual: "`muster top` 需要 textual，而它没有安装：请 pip install textual，或使用 --once",
  authority_open: "{why}，因此不相信 {path} 中的证书机构：可能有人换成了别的。请禁止别人写入，与主控的机器上 `muster status` 显示的指纹比较，并用 --ca-fingerprint 给出一次",
  authority_not_kept: "无法记住证书机构：{detail}",
  proxy_expected: "--proxy（或 MUSTER_PROXY）：应为 {way}（{remote}://：由代理解析名称）",
};
