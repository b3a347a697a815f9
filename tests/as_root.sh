#!/bin/sh
# as_root.sh [--own-network] COMMAND…: runs it as root, and gives its exit code; with --own-network where no other network
# is than the loopback. Who is not the machine's root becomes that of namespaces of
# his own, where the kernel lets him: of users (all that newuidmap grants him, else himself alone), mounts, processes and
# network; mounts and networks that tests make are then seen by nobody else, and end with the command whatever becomes
# of it. Where the kernel does not let him, the command runs as who he is. What a test cannot have then: tests/rights.py.
set -u
PATH=$PATH:/usr/sbin:/sbin # where root's programs lie, which the PATH of others leaves out
export PATH

if [ "${1:-}" = --inside ]; then # as process 1, which takes in every orphan while it waits
    shift
    mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/sshd /run/samba # where programs of root's put what they do
    mount -t tmpfs -o mode=700 tmpfs /root
    ip link set lo up
    HOME=/root USER=root LOGNAME=root "$@"
    exit $?
fi

network=
if [ "${1:-}" = --own-network ]; then
    network=--net
    shift
fi

if [ "${1:-}" = --own-mounts ]; then
    shift
    [ -z "$network" ] || ip link set lo up
    # What root of this machine has his shells do at each log-in (an env manager takes a second, and locks) is not tried.
    empty=$(mktemp)
    for file in ~root/.bash_profile ~root/.bash_login ~root/.profile ~root/.bashrc; do
        [ ! -f "$file" ] || mount --bind "$empty" "$file"
    done
    rm "$empty"
    exec "$@"
fi

if [ "$(id -u)" = 0 ]; then
    unshare --mount $network true >/dev/null 2>&1 || exec "$@"
    exec unshare --mount $network sh "$0" ${network:+--own-network} --own-mounts "$@"
fi
for users in --map-auto ""; do
    own="--user --map-root-user $users --mount --net --pid --fork --mount-proc --kill-child"
    # shellcheck disable=SC2086  # these are words
    if unshare $own sh -c 'mount -t tmpfs tmpfs /run && ip link set lo up' >/dev/null 2>&1; then
        # Whoever is called root here and root outside would otherwise meet in the folders that tests name after their user.
        folder=${TMPDIR:-/tmp}
        [ -w "$folder" ] || folder=/tmp
        mine=$folder/mt-$(id -u) # short: a socket's path has 107 bytes
        mkdir -p "$mine" && [ -O "$mine" ] && chmod 755 "$mine" || mine=$(mktemp -d -p "$folder") || exit
        TMPDIR=$mine exec unshare $own sh "$0" --inside "$@"
    fi
done
exec "$@"
