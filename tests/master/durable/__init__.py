"""What survives, on real disks and on a simulated one."""
