"""The state of the queue and its decisions, and nothing else. Pure: no I/O, no clock, no asyncio; time is an argument.

`core.Core` is what clients and agents talk to: it owns the parts and names what each can do. `tasks` has the tasks,
their states and their order, `attempts` what is sent to nodes and reported by them, `nodes` the machines and what is
held of them, `planning` who starts where, `people` the users and their rights. `outcome` collects what an event did.
"""
