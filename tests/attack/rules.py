"""Who may do what, written down to be read: what the walk (`test_walk.py`) holds the master to.

Nothing here is made from the master's own tables. A verb, a request of the desktop client or a notification that is new
has to be written in here first.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Who = Literal["nobody", "viewer", "user", "mentor", "admin"]
"""Whoever calls. A mentor is a user who looks after a group."""
Object = Literal["own", "group's", "another's"]
"""Whose the task, the account or the file is: the caller's; of a member of the caller's group; of somebody who has
nothing to do with him."""

# role   the least that may call it; `anyone`: also who has said nothing of himself.
# scope  what a token needs that is confined to some; of two, one.
# whose  whose things it may be used on:
#        -         it is about nobody's
#        all       everybody's
#        group     tasks: one's own, and those of the members of a group whose mentor one is
#        own       tasks: one's own
#        ahead     tasks that go before those of others: of the members of a group whose mentor one is, and one's own
#                  where one is a mentor
#        account   what gives access: one's own
#        secret    likewise, and only for who came in with what is confined to nothing and that no task has
#        master    the master's own: for the account that runs it, and root, by the kernel's word
#        files     files: one's own, and those of one's groups, as `files` of conf.json says
#        An admin may use each on everybody's, but for `master`; with a token only if that has the scope `admin` where
#        it is an account.
RULES = """
verb                role    scope    whose

subscribe           viewer  read,wall  all
server.hello        anyone  -        -
server.info         viewer  read,wall  -
server.seen         admin   admin    -
server.stop         admin   admin    -
clock.accept        admin   admin    master

task.submit         user    submit   -
task.submit_batch   user    submit   -
task.submit_array   user    submit   -
task.places         user    submit   -
task.list           viewer  read,wall  all
task.archived       viewer  read     all
task.show           viewer  read     all
task.why            viewer  read     all
task.diff           viewer  read     all
task.cancel         user    submit   group
task.edit           user    submit   group
task.edit_array     user    submit   group
task.hold           user    submit   group
task.release        user    submit   group
task.pause          user    submit   group
task.resume         user    submit   group
task.move           user    submit   group
task.start          user    submit   ahead
task.retry          user    submit   own
task.remove         user    submit   own

alloc.new           user    submit   -
alloc.list          viewer  read     -
alloc.grow          user    submit   group
alloc.shrink        user    submit   group
alloc.release       user    submit   group

auth.login          anyone  -        -
auth.token          anyone  -        -
auth.relay          anyone  -        -
auth.session        anyone  -        -
auth.redeem         anyone  -        -
auth.logout         anyone  -        -
auth.whoami         anyone  -        -

user.list           admin   admin    -
user.add            admin   admin    -
user.edit           admin   admin    -
user.disable        admin   admin    -
user.enable         admin   admin    -
user.remove         admin   admin    -
user.password       viewer  account  secret
user.link           admin   admin    -
user.claim          admin   admin    -
group.list          viewer  read     -
group.add           admin   admin    -
group.edit          admin   admin    -
group.remove        admin   admin    -
token.list          viewer  account  account
token.new           viewer  account  secret
token.revoke        viewer  account  account

project.list        viewer  read     -
project.edit        admin   admin    -

setting.list        viewer  read     -
setting.set         admin   admin    -
setting.reset       admin   admin    -

log.read            viewer  read     group
log.search          viewer  read     group
file.roots          viewer  files    -
file.list           viewer  files    files
file.stat           viewer  files    files
file.read           viewer  files    files
file.write          user    files    files
file.make           user    files    files
file.move           user    files    files
file.copy           user    files    files
file.delete         user    files    files
file.upload_begin   user    files    files
file.upload_piece   user    files    files
file.upload_commit  user    files    files
file.upload_cancel  user    files    files

env.list            viewer  read     -
env.check           user    submit   -
env.python          user    submit   -
env.cuda            user    submit   -
env.packages        user    submit   -

node.list           viewer  read,wall  -
node.show           viewer  read     -
node.add            admin   nodes    -
node.edit           admin   nodes    -
node.remove         admin   nodes    -
node.drain          admin   nodes    -
node.resume         admin   nodes    -
node.doctor         admin   nodes    -
node.token          admin   nodes    -
node.archive        admin   nodes    -
node.trust          admin   nodes    -
node.lost           admin   nodes    -
node.attempts       admin   nodes    -
node.adopt          admin   nodes    -
node.end_attempt    admin   nodes    -
node.dismiss_attempt admin  nodes    -
agent.stop          admin   nodes    -
agent.start         admin   nodes    -
agent.restart       admin   nodes    -
conf.read           admin   admin    -
conf.kept           admin   admin    -
conf.write          admin   admin    -
audit.read          admin   admin    -
"""

# roles   as which role somebody comes in so.
# scopes  to what he is confined at most.
# verbs   to what verbs he is confined at most, by the first part of their names.
KINDS = """
kind       roles                     scopes               verbs

kernel     admin                     all                  all
account    viewer,user,mentor,admin  all                  all
password   viewer,user,mentor,admin  all                  all
token      viewer,user,mentor,admin  its                  all
task       viewer,user,mentor,admin  read,submit          all
service    viewer                    read                 task,server,subscribe
desktop    viewer,user,mentor        read,submit,files    task,log,env,file,subscribe
unknown    nobody                    -                    all
"""

# Of each request of the desktop client the verb whose rule it follows.
DESKTOP = """
request             verb

get_root            file.roots
get_folder          file.list
get_file            file.read
save_file           file.write
file_operate        file.make
rm_file             file.delete
add_task            task.submit
change_task         task.edit
del_task            task.remove
resub_task          task.retry
stop_task           task.cancel
get_train_log_path  log.read
get_server_log      log.read
env_list            env.list
test_env            env.check
py_v                env.python
cuda_pt             env.cuda
cuda_tf             env.cuda
pkgs                env.packages
"""

# What is told without being asked for, to whom `subscribe` lets in on that port, and to desktop clients likewise.
STREAMS = """
port               notification

train_state_port   task.changed
monitor_port       node.changed
monitor_port       node.sample
train_state_port   task_mon
monitor_port       mon
"""

# Of each request over HTTP the verb whose rule it follows. What is not beneath /api/v1 is open to everybody, but for
# /metrics and tickets, which are of whoever asks.
HTTP = """
request                         verb

GET    /info                    server.info
GET    /me                      auth.whoami
GET    /metrics                 node.list
GET    /events                  subscribe

GET    /tasks                   task.list
POST   /tasks                   task.submit
POST   /tasks/batch             task.submit_batch
POST   /tasks/array             task.submit_array
GET    /tasks/archived          task.archived
GET    /tasks/{id}              task.show
PATCH  /tasks/{id}              task.edit
DELETE /tasks/{id}              task.remove
GET    /tasks/{id}/why          task.why
GET    /tasks/{id}/log          log.read
POST   /tasks/{id}/cancel       task.cancel
POST   /tasks/{id}/hold         task.hold
POST   /tasks/{id}/release      task.release
POST   /tasks/{id}/pause        task.pause
POST   /tasks/{id}/resume       task.resume
POST   /tasks/{id}/move         task.move
POST   /tasks/{id}/start        task.start
POST   /tasks/{id}/retry        task.retry

GET    /nodes                   node.list
POST   /nodes                   node.add
GET    /nodes/{name}            node.show
PATCH  /nodes/{name}            node.edit
DELETE /nodes/{name}            node.remove
POST   /nodes/{name}/drain      node.drain
POST   /nodes/{name}/resume     node.resume

GET    /users                   user.list
POST   /users                   user.add
PATCH  /users/{name}            user.edit
DELETE /users/{name}            user.remove
POST   /users/{name}/disable    user.disable
POST   /users/{name}/enable     user.enable
GET    /groups                  group.list
POST   /groups                  group.add
PATCH  /groups/{name}           group.edit
DELETE /groups/{name}           group.remove
GET    /projects                project.list
PATCH  /projects/{name}         project.edit
GET    /tokens                  token.list
POST   /tokens                  token.new
DELETE /tokens/{id}             token.revoke

GET    /files                   file.roots
GET    /files/{path}            file.read
PUT    /files/{path}            file.write
DELETE /files/{path}            file.delete
GET    /settings                setting.list
PUT    /settings/{name}         setting.set
DELETE /settings/{name}         setting.reset
GET    /conf/{name}             conf.read
PUT    /conf/{name}             conf.write
GET    /conf/{name}/kept        conf.kept
GET    /envs                    env.list
GET    /audit                   audit.read
"""

SCOPES = {
    "viewer": {"read", "submit", "files", "account"},
    "user": {"read", "submit", "files", "account"},
    "mentor": {"read", "submit", "files", "account"},
    "admin": {"read", "submit", "files", "account", "nodes", "admin"},
}
"""What each role is confined to at most. That a viewer may call nothing that needs `submit` is the verbs' matter."""
WALL = {"wall"}
"""Of a screen's token, whose ever it is: it goes with no other scope."""
RANKS = {"nobody": 0, "anyone": 0, "viewer": 1, "user": 2, "mentor": 2, "admin": 3}


class Rule(NamedTuple):
    """A line of RULES."""

    role: str
    scope: str
    whose: str


class Kind(NamedTuple):
    """A line of KINDS."""

    roles: tuple[Who, ...]
    scopes: str
    verbs: str


class Caller(NamedTuple):
    """Somebody who came in: how, who he is, and to what his token is confined, None where to nothing."""

    kind: str
    who: Who
    scopes: frozenset[str] | None = None

    def __str__(self) -> str:
        confined = "" if self.scopes is None else f" confined to {'+'.join(sorted(self.scopes)) or 'nothing'}"
        return f"{self.who} by {self.kind}{confined}"


def _lines(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()[1:] if line]


VERBS = {verb: Rule(*words) for verb, *words in _lines(RULES)}
CALLERS = {
    kind: Kind(tuple(roles.split(",")), scopes, verbs)  # type: ignore[arg-type]  # the table's words are read as they are
    for kind, roles, scopes, verbs in _lines(KINDS)
}
REQUESTS = {request: verb for request, verb in _lines(DESKTOP)}  # noqa: C416  (two words each, or it fails here)
OVER_HTTP = {(method, path): verb for method, path, verb in _lines(HTTP)}
NOTIFICATIONS = {name: port for port, name in _lines(STREAMS)}


def acting_as(caller: Caller) -> Who:
    """What makes a mentor or an admin of somebody is not his tasks', nor a screen's."""
    if caller.scopes == WALL:
        return "viewer"
    return "user" if caller.kind == "task" and caller.who in ("mentor", "admin") else caller.who


def scopes_of(caller: Caller) -> set[str]:
    """What he is confined to."""
    if caller.who == "nobody":
        return set()
    if caller.scopes == WALL:
        return WALL
    has, most = SCOPES[acting_as(caller)], CALLERS[caller.kind].scopes
    if most not in ("all", "its"):
        has = has & set(most.split(","))
    return has if caller.scopes is None else has & caller.scopes


def may_call(caller: Caller, verb: str) -> bool:
    """May he call the verb at all?"""
    rule, most = VERBS[verb], CALLERS[caller.kind].verbs
    if rule.role == "anyone":
        return True
    is_enough = RANKS[acting_as(caller)] >= RANKS[rule.role] and bool(set(rule.scope.split(",")) & scopes_of(caller))
    return is_enough and (most == "all" or verb.partition(".")[0] in most.split(","))


def may_use(caller: Caller, verb: str, thing: Object, whose: str = "") -> bool:
    """May he use the verb on what is his, his group's or another's? `whose`: where the call asks for more than others
    of its verb."""
    whose = whose or VERBS[verb].whose
    if not may_call(caller, verb):
        return False
    if whose == "master":
        return caller.kind == "kernel"
    if whose == "secret" and (caller.kind == "task" or caller.scopes is not None):
        return False
    who = acting_as(caller)
    if who == "admin":
        return thing == "own" or whose not in ("account", "secret") or "admin" in scopes_of(caller)
    if whose in ("group", "ahead") and who == "mentor":
        return thing != "another's"
    if thing == "group's":
        return whose in ("-", "all", "files")
    return whose in ("-", "all") or (thing == "own" and whose != "ahead")
