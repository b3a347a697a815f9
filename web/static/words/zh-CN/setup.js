// 安装与部署时的错误：`init`、旧实验室的接管、`deploy`。

/** @type {Record<string, string>} */
export const WORDS = {
  no_old_conf: "其中既没有 conf.json 也没有 master/conf.json；请给出旧系统 main.py 所在的文件夹，或它的上一级",
  no_object_here: "应为对象 {example}，得到的是别的",
  old_folders_missing: "本机没有这些键的文件夹：{folders:, }。请在旧主控运行的机器上执行，或先修改这些键",
  passwords_no_file: "它不是文件；密码的位置由 conf.json 的 `psw_file` 指定",
  passwords_not_yours: "别人可以读取它，而您无权修改：请以它的所有者执行",
  mode_not_changed: "无法修改它的权限：{detail}；请执行 `chmod 600 {path}`",
  y_or_n: "应为 y 或 n",
  bind_elsewhere: "bind：{address} 不是本机的地址（{detail}）；`ip -brief address` 列出本机的地址，0.0.0.0 表示全部",
  no_network: "networks：{found!r} 不是网络；应为 ADDRESS/BITS，如 192.168.36.0/24",
  no_network_but: "networks：{found!r} 不是网络（是否为 {meant}？）；应为 ADDRESS/BITS，如 192.168.36.0/24",
  no_folder_here: "它存在，但不是文件夹：请另选一个",
  file_unwritable: "无法写入：{detail}",
  folder_unmakable: "无法建立：{detail}",
  link_in_the_way: "{path} 是链接：不会经它写入；请删除它，或另选文件夹",
  path_for_units: "{key}：{found!r} 无法写入 unit、fstab 和 smb.conf；路径不能含控制字符和反斜杠，名称末尾不能有空格",
  influx_url_for_deploy: "influx.url：应为 http://HOST:PORT，不含用户和密码",
};
