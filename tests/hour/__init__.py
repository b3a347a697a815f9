"""An hour of a lab's day in which people share GPUs: real processes on the hosts of a testbed, whose `nvidia-smi`
reports what the processes declare; somebody who looks all the time; and an audit of what was seen.

`make soak ARGS="--hour 60"` runs it; `test_hour.py` has it in a minute, and shows that the audit finds what it looks
for.
"""
