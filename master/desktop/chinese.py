"""Refusals in the language of the desktop client, whose boxes are Chinese.

Errors are written once, in English, where they arise. This module translates the messages that the client's users
can meet, by their text. Any other message gets a Chinese heading by its code, and its English text follows. Owns the
Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from wire.errors import MusterError

HEADS = {
    "bad_request": "请求有误",
    "not_found": "找不到所指的对象",
    "conflict": "当前状态下无法执行",
    "forbidden": "没有权限",
    "limit": "超出限制",
    "impossible": "没有节点能满足该任务的要求",
    "storage": "存储出错",
    "store_unavailable": "服务端磁盘暂时无法写入",
    "node_unreachable": "节点没有响应",
    "config": "服务端配置有误",
}
OTHERWISE = "服务端拒绝了该请求"

STATES = {
    "waiting": "等待中", "held": "已暂缓", "starting": "准备中", "running": "运行中", "paused": "已暂停",
    "succeeded": "已完成", "failed": "已失败", "cancelled": "已中止", "timed_out": "已超时", "lost": "结果未知",
}  # fmt: skip

_DIGITS = {"id", "other", "n", "s", "most", "mib"}
_WORDS = {"state", "kind"}
# <NAME> is a part that varies: of digits, of letters, without a colon, or any text. `state` is put into Chinese by
# STATES, `why` by this same table, `rest` piece by piece; all others stay as they are.
_TABLE = [
    # tasks
    (r"there is no task <id>; .*", "任务 {id} 不存在"),
    (r"there is no task <id> to come after", "前置任务 {id} 不存在"),
    (r"task <id> is <state> and cannot be changed: .*", "任务 {id} {state}，不能修改：请先停止它，或另外添加一个任务"),
    (r"task <id> is <state> and cannot be removed: .*", "任务 {id} {state}，不能删除：请先停止它"),
    (r"task <id> is <state> and cannot be \w+: .*", "任务 {id} {state}，当前不能执行该操作"),
    (r"task <id> has already ended \(<state>\)", "任务 {id} 已经结束（{state}）"),
    (r"task <id> cannot wait for task <other>: .*", "任务 {id} 不能等待任务 {other}：后者正在等待前者"),
    (r"task <id> has ended as <state>: .*", "前置任务 {id} 已结束（{state}），条件无法满足"),
    (r"<found> is not the id of a task; .*", "{found} 不是任务编号：请等待列表刷新后再试"),
    (r"its command is too long to be changed here: .*", "命令过长，不能在此修改：请使用 muster edit"),
    (r"need_gpus: <found> is not a number of GPUs; .*", "GPU 数量 {found} 不是有效的数字：0 表示不使用 GPU"),
    (r"path: <path> lies outside the home folder; .*", "路径 {path} 不在主目录中：请选择列表中的文件夹"),
    (r"command: it is empty; .*", "命令为空：请填写要运行的命令"),
    (r"command: it holds a NUL .*", "命令中含有 NUL 字符，无法运行"),
    (r"command: \d+ bytes in a word .*", "命令过长：请把它写成脚本，或把数据放进文件"),
    (r"there is no node '<node>' \(did you mean '<meant>'\? nodes: <nodes>\).*",
     "节点 {node} 不存在，是否为 {meant}？（现有节点：{nodes}）"),
    (r"there is no node '<node>' \(nodes: <nodes>\).*", "节点 {node} 不存在（现有节点：{nodes}）"),
    (r"it asks for <n> GPUs?, but <rest>", "任务需要 {n} 块 GPU，没有节点有这么多（{rest}）"),
    (r"it asks for <n> GPUs? on node <node>, but <rest>",
     "任务需要节点 {node} 的 {n} 块 GPU，该节点没有这么多（{rest}）"),
    (r"it asks for <mib> MiB of <n> GPUs?, but <rest>",
     "任务需要 {n} 块 GPU（每块 {mib} MiB），没有节点能满足（{rest}）"),
    (r"it asks for <mib> MiB of <n> GPUs? on node <node>, but <rest>",
     "任务需要节点 {node} 的 {n} 块 GPU（每块 {mib} MiB），该节点不能满足（{rest}）"),
    (r"node <name> has <n> GPUs?", "节点 {name} 有 {n} 块"),
    (r"nodes <several> have <n> GPUs?", "节点 {several} 各有 {n} 块"),
    (r"node <name> has no slots for tasks without GPUs", "节点 {name} 不运行不用 GPU 的任务"),
    (r"nodes <several> have no slots for tasks without GPUs", "节点 {several} 不运行不用 GPU 的任务"),
    (r"the GPUs of node <name> have no more than <n> MiB to give", "节点 {name} 的 GPU 最多有 {n} MiB"),
    (r"the GPUs of nodes <several> have no more than <n> MiB to give", "节点 {several} 的 GPU 最多有 {n} MiB"),
    (r"(?:node <node> is|nodes <several> are) leaving: .*", "即将移除的节点不接受任务"),
    (r"another node is asked for", "其他节点不是所选的节点"),
    (r"the registry has no nodes: .*", "还没有任何节点：请联系管理员"),
    (r"it asks for <n> GPUs?, and <what> is <most>: ask for fewer, or .*",
     "任务需要 {n} 块 GPU，超过配额（{what} = {most}）：请减少数量，或联系管理员"),
    (r"<what> is 0, until an admin raises it .*", "配额不允许运行任务（{what} = 0）：请联系管理员"),
    (r"project <path> belongs to group <group>, and .*",
     "项目 {path} 属于组 {group}，您不在其中：请换一个项目，或联系管理员"),
    (r"<n> tasks wait already and .*", "已有 {n} 个任务在等待，达到上限：请稍后再试"),
    (r"<who> has <n> waiting tasks, and <s> more would be beyond <most>: .*",
     "{who} 已有 {n} 个任务在等待，再加 {s} 个会超过上限 {most}：请等一些任务开始，或停止一些，或联系管理员"),
    (r"large tasks that have not ended hold <said>, and <rest> more would be beyond .*",
     "未结束的大任务共占 {said}，已达上限：请把较长的内容放进文件，或稍后再试"),
    (r"large tasks of <who> that have not ended hold <said>, and .*",
     "{who} 未结束的大任务共占 {said}，已达上限：请把较长的内容放进文件，或停止一些，或联系管理员"),
    (r".* before the tasks of others: only an admin can do that, or who looks after .* group: <names> \(.*",
     "不能排到他人的任务之前：请联系组内导师（{names}）或管理员"),
    (r".* would put it before the tasks of others: .*", "不能排到他人的任务之前：请联系管理员"),
    # why one ended
    (r"could not be started: <why>", "无法启动：{why}"),
    (r"the folder <path> does not exist on <name>: .*", "节点 {name} 上没有文件夹 {path}：请选择各节点共享的文件夹"),
    (r"the folder <path> cannot be entered on <name>: <said>", "节点 {name} 上不能进入文件夹 {path}：{said}"),
    (r"<path> is not a folder on <name>", "节点 {name} 上的 {path} 不是文件夹"),
    (r"the program <path> does not exist on <name>", "节点 {name} 上没有程序 {path}"),
    (r"log_too_large: <said> \(.*", "日志超过上限，任务已被终止（{said}）：请减少输出"),
    (r"share_outgrown: it used <n> MiB of GPU <gpu> of <name>, had asked for <most>, .*",
     "显存用了 {n} MiB，超过申请的 {most} MiB（节点 {name}，GPU {gpu}），任务已被终止：请按实际所需申请"),
    (r"stray_task: it computed on <said>, which it was not given, .*",
     "使用了没有分给它的 GPU（{said}），任务已被终止：请按实际所需申请，不要改动 CUDA_VISIBLE_DEVICES"),
    (r"idle_task: its GPUs? \(<said>\) did nothing .*",
     "占着 GPU（{said}）却长时间不工作，日志也没有输出，任务已被终止"),
    (r"exit code <n>: out of memory on its GPU, of which others had <rest> MiB: .*",
     "显存不足（退出码 {n}）：其中别人占用 {rest} MiB，请换一块 GPU 重试"),
    (r"exit code <n>: out of memory on its GPU: .*", "显存不足（退出码 {n}）：请减小 batch，或选择显存更大的 GPU"),
    (r"exit code <n>: out of memory on the machine .*", "内存不足（退出码 {n}）：请减少 worker 等占用，或换一个节点"),
    (r"exit code <n>: shared memory .*", "共享内存 /dev/shm 已满（退出码 {n}）：请减少 DataLoader 的 worker"),
    (r"exit code <n>: a disk, .*", "磁盘或配额已满（退出码 {n}）：请先清理，详情见任务日志"),
    # environments
    (r"env: <env> is neither the name of .*", "{env} 不是环境名，也不是绝对路径"),
    (r"env: <env> does not lie beneath <root>", "环境 {env} 不在 {root} 中"),
    (r"<env> could not be activated on <name>: <said>; see .*", "环境 {env} 在节点 {name} 上无法激活：{said}"),
    (r"no node is online, so .*", "没有在线的节点，无法查询环境"),
    (r"node <node>: timed out; .*", "节点 {node} 超时没有响应：其存储或 Python 可能卡住，请换一个节点"),
    (r"node <node> is not connected; .*", "节点 {node} 未连接"),
    (r"node <node> did not answer within <s> s", "节点 {node} 在 {s} 秒内没有响应"),
    (r"more than <n> <kind>\.\* requests a minute .*: try again in <s> s",
     "每分钟的 {kind}.* 请求超过 {n} 次：请在 {s} 秒后再试"),
    # files
    (r"Directory not empty: '<path>'", "文件夹不为空，没有删除：{path}（Directory not empty）"),
    (r"<path>: there is no such file or folder", "文件或文件夹不存在：{path}"),
    (r"<path>: a part of this path is not a folder", "路径中有一部分不是文件夹：{path}"),
    (r"<path> exists already; .*", "{path} 已存在：请换一个名字，或先删除它"),
    (r"<path> is a folder", "{path} 是文件夹"),
    (r"<path> is no text", "{path} 不是文本文件"),
    (r"'<path>': not in a visible folder \(<names>\).*", "{path} 不在可见文件夹中（{names}）"),
    (r"nothing is chosen; .*", "没有选中文件或文件夹；主目录本身不能删除"),
    (r"<path> is a visible folder itself; .*", "{path} 是可见文件夹本身，不能移动或删除"),
    (r"<path> can be neither deleted nor moved: <why>", "{path} 不能删除或移动：{why}"),
    (r"the logs of tasks lie there .*", "任务日志存放在其中"),
    (r"the environments lie there .*", "运行环境存放在其中"),
    (r"the queues lie there .*", "任务队列存放在其中"),
    (r"the master's own files lie there", "服务端的文件存放在其中"),
    (r"it is a visible folder itself", "它是可见文件夹本身"),
    (r"it is, or holds, the folder of task <id>, which is <state>", "任务 {id}（{state}）的工作目录在其中"),
    (r"it is, or holds, the environment of task <id>, which is <state>", "任务 {id}（{state}）的环境在其中"),
    (r"it is, or holds, the folder of the log of task <id>, which is <state>", "任务 {id}（{state}）的日志在其中"),
    (r"<path>: a link leads out of the visible folders", "{path}：链接指向可见文件夹之外"),
    (r"<path>: paths begin with a visible folder .*", "{path}：路径须从可见文件夹开始"),
    (r"<path>…: longer than file systems take .*", "名称过长：{path}…"),
    (r"<path>: the name is too long", "名称过长：{path}"),
    (r"<path>: the disk is full .*", "磁盘已满（或配额已用完）：{path}"),
    (r"<path>: the master's user \(<user>\) may not do this there; .*", "服务端账户 {user} 对 {path} 没有权限"),
    (r"<path> has \d+ bytes; more than <most> are not opened", "文件过大，超过 {most} 字节，不能打开：{path}"),
    (r"<name> is no name of a file or folder: .*", "{name} 不是有效的名称：不能为空，也不能含有 /"),
    (r"the content is not base64; .*", "内容不是 base64 编码，没有写入"),
    (r"the form of the task could not be read: <what>", "任务表单无法读取：{what}"),
    (r"the request could not be read: <what>", "请求无法读取：{what}"),
    # any request
    (r"the master met a defect; .*", "服务端出现内部错误，详情见服务端日志"),
    (r"no answer within <s> s; it may still happen: .*", "在 {s} 秒内没有完成，可能仍会执行：请先查看结果再重试"),
    (r"no answer within <s> s; .*", "在 {s} 秒内没有响应：请稍后再试"),
]  # fmt: skip


def _part_of(match: re.Match[str]) -> str:
    name = match[1]
    kind = r"[0-9.]+" if name in _DIGITS else r"[a-z_]+" if name in _WORDS else r"[^:]*" if name == "name" else r".*"
    return f"(?P<{name}>{kind})"


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Made when there is something to translate: a twentieth of a start."""
    return [(re.compile(re.sub("<([a-z]+)>", _part_of, words), re.DOTALL), text) for words, text in _TABLE]


LONGEST = 1000
"""Characters of a text that is looked for: nobody wrote a longer one."""


def in_chinese(error: MusterError) -> str:
    """Return the text that a box of the client shows for the error."""
    text = str(error)
    return next(_found(text), f"{HEADS.get(error.code, OTHERWISE)}：{text}")


def words_in_chinese(text: str) -> str:
    """The same of words that are no error of ours; without a translation they stay as they are."""
    return next(_found(text), text)


def _found(text: str) -> Iterator[str]:
    if len(text) > LONGEST:
        return
    for pattern, chinese in _patterns():
        match = pattern.fullmatch(text)
        if match is not None:
            yield chinese.format_map({name: _part(name, value) for name, value in match.groupdict().items()})


def _part(name: str, value: str) -> str:
    if name == "state":
        return STATES.get(value, value)
    if name == "rest":
        return _pieces(value)
    if name == "several":
        return value.replace(", ", "、").replace(" and ", " 和另外 ").replace(" more", " 个")
    return words_in_chinese(value) if name == "why" else value


_BETWEEN = re.compile(r", (?=nodes? [^ ]|the GPUs of |another )")
"""Between what is said of some nodes and of others. Their names have commas between them, too, and no blanks."""
_MORE = re.compile(r" and (?P<more>\d+) more$")


def _pieces(text: str) -> str:
    """Translate reasons that are listed for several nodes. Parts without a translation are left out, because all of
    it is one sentence, which must not be half in English."""
    more = _MORE.search(text)
    whole = text if more is None else text[: more.start()]
    found = [chinese for piece in _BETWEEN.split(whole) for chinese in list(_found(piece))[:1]]
    return "，".join([*found, *([] if more is None else [f"另有 {more['more']} 种情况"])]) or "详见 muster nodes"
