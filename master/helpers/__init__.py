"""Files and logs, touched with the rights of whose call it is: a process for each account."""
