// 命令或 Python 接口在向主控请求之前就拒绝的原因。

/** @type {Record<string, string>} */
export const WORDS = {
  not_one_id: "{found!r} 不是单个任务的编号",
  no_task_named: "您没有名为 {name!r} 的活动任务：`muster queue --mine` 列出您的任务",
  task_named_has_ended: "您没有名为 {name!r} 的活动任务；此名称的任务 {id} 已结束：请给出其编号",
  task_named_is_anothers: "您没有名为 {name!r} 的活动任务；此名称的任务 {id} 是 {owner} 的：请给出其编号",
  tasks_named_alike: "您有 {count} 个活动任务名为 {name!r}：{tasks}；请给出编号",
  array_named_alike: "您有 {count} 个活动任务名为 {name!r}：{tasks}；请给出编号，或用 {array}/ 表示整个数组",
  folder_deleted: "{path}：这个文件夹已被删除：请换到存在的文件夹，或给出一个",
  current_folder_deleted: "当前文件夹已被删除：请换到存在的文件夹，或给出一个",
  part_not_yours: "{path} 不是您的文件：请删除它，或下载到别人不能写入的文件夹",
  fetched_already: "另一个进程正在下载 {path}：请等它完成",
  became_shorter: "{path} 在读取时变短了；请重试",
  no_free_ports: "本机没有空闲的端口：请停止占用端口的程序，然后重试",
  verb_not_known: "没有 {verb!r} 这个动词：`muster api` 列出全部",
  verb_not_known_but: "没有 {verb!r} 这个动词（是不是 `{meant}`？）：`muster api` 列出全部",
  snapshot_of_no_folder: "{path}：本机没有这个文件夹，而快照在本机制作：请给出存在的文件夹",
  snapshot_of_snapshot: "{path}：这已经是不再改变的快照：请去掉 --snapshot",
  snapshot_not_taken: "{path}：无法制作快照：{detail}；没有快照时，任务运行启动那一刻的文件",
  snapshot_of_nothing: "{path}：没有可以制作快照的文件",
  git_reads_no_tree: "{path}：git 不读取其工作树；`git -C {path} status` 说明原因",
  git_lists_no_files: "{path}：git 不列出其文件；`git -C {path} status` 说明原因",
  snapshot_too_large: "{path}：超过 {files} 个文件或 {megabytes} MB，对快照来说太多（其中有 {name}）：请让 git 知道哪些不是代码（`git init`，并把数据和结果写入 .gitignore），或去掉 --snapshot",
  snapshots_changed: "{path}：它和旁边的全部快照都被修改过；请删除它们",
  snapshot_beside_too_many: "{path}：代码和超过 {most} 个其他文件放在一起；请给其他文件单独的文件夹",
};
