"""The chaos run at full size: sixteen machines, every fault there is, and an audit that knows nothing of our code.

`plan` says what befalls whom and when, from a seed. `clients` submit without rest and keep a book of their own of what
they were answered; `witness` is what the tasks themselves write down; `watchers` look on from outside. `master_lane`
and `host_lane` strike, and `audit` compares. `run` puts it together, `report` tells it.
"""
