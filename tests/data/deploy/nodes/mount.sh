#!/bin/sh
# Made by `muster deploy`. On a node, as root: sh mount.sh NODE.fstab [USER]
# Installs the NFS client, makes the mount points, puts the lines into /etc/fstab (in place of those of an earlier run)
# and mounts. USER: the account that tasks run as; its number must be that of lab on boss, 1000.
set -eu
[ "$(id -u)" = 0 ] || { echo "run it as root: sudo sh $0 $*" >&2; exit 1; }
lines=${1:?which lines? sh mount.sh NODE.fstab [USER]}
[ -r "$lines" ] || { echo "$lines cannot be read" >&2; exit 1; }
if [ -n "${2:-}" ] && [ "$(id -u "$2")" != 1000 ]; then
    echo "the number of $2 is $(id -u "$2") here and 1000 on boss: what it writes would be another user's." >&2
    if [ "$(id -u "$2")" = 0 ]; then
        echo "Let the node log in as an account that is not root (registry: user_name); run this for that one." >&2
    else
        echo "Change it (usermod --uid 1000 $2, then chown its home) and run this again." >&2
    fi
    exit 1
fi
command -v mount.nfs4 >/dev/null || PATH=$PATH:/sbin:/usr/sbin command -v mount.nfs4 >/dev/null ||
    apt-get install --yes nfs-common
if [ "$(grep -c '^# BEGIN muster$' /etc/fstab)" != "$(grep -c '^# END muster$' /etc/fstab)" ]; then
    echo "/etc/fstab: '# BEGIN muster' without '# END muster', or the other way round: what is ours cannot be told from the rest." >&2
    echo "Remove our lines by hand and run this again." >&2
    exit 1
fi
# They belong to root: while nothing is mounted, no task can fill the disk beneath.
mkdir -p '/srv/mas ter 100%/实验 数据' '/srv/mas ter 100%/envs' '/srv/mas ter 100%/data #1 "raw"' '/srv/mas ter 100%/50%Umsatz' '/srv/mas ter 100%/it'"'"'s'
[ -e /etc/fstab.before-muster ] || cp -p /etc/fstab /etc/fstab.before-muster
sed -i '/^# BEGIN muster$/,/^# END muster$/d' /etc/fstab
{ echo '# BEGIN muster'; cat "$lines"; echo '# END muster'; } >>/etc/fstab
[ ! -d /run/systemd/system ] || systemctl daemon-reload
mount --all --types nfs,nfs4
findmnt --types nfs,nfs4
