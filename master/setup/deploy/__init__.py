"""`muster deploy DIR`: what the system around a lab needs, written as files for an admin to put in place."""
