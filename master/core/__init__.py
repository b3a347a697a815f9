"""What the queue knows and decides, and nothing else. Pure: no I/O, no clock, no asyncio; time is an argument.

`core.Core` is what clients and agents talk to; it stands on `cordon`, that on `dispatch`, that on `ledger`. `backlog`,
`inventory` and `scheduler` order, account and place; `gpu_watch` and `idle_watch` read samples.
"""
