"""The state of the queue and its decisions, and nothing else. Pure: no I/O, no clock, no asyncio; time is an argument.

`core.Core` is what clients and agents talk to: it owns the parts and names what each can do. `law` says what may happen
to a task, `book` is the only place where one's state changes and tells whom it concerns: `nodes` (what is held where),
`dispatch` (attempts), `waiting` (the queue), `dependencies`. `client_events`, `dispatch`, `reconcile`, `machines`,
`health`, `notes` and `gpus` are the events of clients, agents and people; `outcome` collects what they did. `backlog`,
`inventory`, `free_nodes`, `resources`, `placement` and `scheduler` order, account and place; `gpu_watch` reads samples.
"""
