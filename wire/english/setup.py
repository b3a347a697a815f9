"""Why `init`, the take-over of an old lab, or `deploy` cannot go on."""

from __future__ import annotations

SETUP: dict[str, str] = {
    # The take-over of an old lab.
    "no_old_conf": (
        "there is neither a conf.json nor a master/conf.json in it; give the folder that holds the old system's "
        "main.py, or the one above"
    ),
    "no_object_here": "expected an object {example}, found something else",
    "old_folders_missing": (
        "this machine does not have the folders of {folders:, }: run this where the old master ran, or change these "
        "keys first"
    ),
    "passwords_no_file": "it is no file; conf.json's `psw_file` says where the passwords lie",
    "passwords_not_yours": "others may read it, and it is not yours to change: run this as its owner",
    "mode_not_changed": "its mode cannot be changed: {detail}; type `chmod 600 {path}`",
    "y_or_n": "y or n is expected",
    "bind_elsewhere": (
        "bind: {address} is no address of this machine ({detail}); `ip -brief address` lists them, 0.0.0.0 means all"
    ),
    "no_network": "networks: {found!r} is no network; expected ADDRESS/BITS, such as 192.168.36.0/24",
    "no_network_but": (
        "networks: {found!r} is no network (did you mean {meant}?); expected ADDRESS/BITS, such as 192.168.36.0/24"
    ),
    # `init` and `deploy`.
    "no_folder_here": "it is there, and no folder: name another one",
    "file_unwritable": "cannot be written: {detail}",
    "folder_unmakable": "cannot be made: {detail}",
    "link_in_the_way": "{path} is a link: nothing is written through it; remove it, or name another folder",
    "path_for_units": (
        "{key}: {found!r} cannot be written into units, fstab and smb.conf; allowed are paths without control "
        "characters and backslashes, and without a blank at a name's end"
    ),
    "influx_url_for_deploy": "influx.url: http://HOST:PORT is expected, without user and password",
}
