#!/bin/sh
# as_root.sh [--own-network] COMMAND…: runs it as root, and gives its exit code; with --own-network where no other network
# is than the loopback. Who is not the machine's root becomes that of namespaces of
# his own, where the kernel lets him: of users (all that newuidmap grants him, else himself alone), mounts, processes and
# network; mounts and networks that tests make are then seen by nobody else, and end with the command whatever becomes
# of it. Where the kernel does not let him, the command runs as who he is. What a test cannot have then: tests/rights.py.
set -u
PATH=$PATH:/usr/sbin:/sbin # where root's programs lie, which the PATH of others leaves out
export PATH

show() { # FOLDER PLACE: what lies in the one, in the other too, a file system of its own, unless it has such a thing
    for path in "${1%/}"/* "${1%/}"/.[!.]*; do
        name=$2/${path##*/}
        if [ -e "$name" ] || [ -L "$name" ]; then
            continue
        elif [ -L "$path" ]; then
            cp -P "$path" "$name"
        elif [ -d "$path" ]; then
            mkdir "$name" && mount -n --rbind "$path" "$name"
        elif [ -f "$path" ]; then
            : >"$name" && mount -n --bind "$path" "$name"
        fi || return
    done
}

pass() { # let the accounts that tests become come to the clone, through a home of mode 0700 as well
    here=$(pwd -P) way=$(pwd -P)
    while way=$(dirname "$way") && [ "$way" != / ]; do
        case $(stat -c %A "$way") in *[xt]) continue ;; esac
        open=$(mktemp -d) && mount -n -t tmpfs -o mode=755 tmpfs "$open" && show "$way" "$open" &&
            mount -n --move "$open" "$way" && rmdir "$open" || return
    done
    cd "$here"
}

if [ "${1:-}" = --inside ]; then # FOLDER COMMAND…, as process 1, which takes in every orphan while it waits
    # The machine's / and /tmp belong to nobody here; where tests work, / and all above must be root's. So / is made anew.
    here=$(pwd -P) folder=$2
    shift 2
    mount -n -t tmpfs -o mode=755 tmpfs /run && cd /run || exit
    mkdir -p run/sshd run/samba mt && mkdir -m 700 root || exit # where programs of root's put what they do, and his home
    show / . && mount -n --rbind /sys sys || exit # twice: `ip netns exec` takes one away, and needs to see one
    mount -n --rbind "$folder" mt && pivot_root . . && umount -l . && cd "$here" && ip link set lo up || exit
    export TMPDIR=/mt HOME=/root USER=root LOGNAME=root # a short name: a socket's path has 107 bytes
    pass || exit
    "$@"
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
        [ ! -s "$file" ] || mount --bind "$empty" "$file"
    done
    rm "$empty"
    pass || exit
    exec "$@"
fi

if [ "$(id -u)" = 0 ]; then
    unshare --mount $network true >/dev/null 2>&1 || exec "$@"
    exec unshare --mount $network sh "$0" ${network:+--own-network} --own-mounts "$@"
fi
for users in --map-auto ""; do
    own="--user --map-root-user $users --mount --net --pid --fork --mount-proc --kill-child"
    # shellcheck disable=SC2086  # these are words
    if unshare $own sh "$0" --inside /tmp true >/dev/null 2>&1; then
        # Whoever is called root here and root outside would otherwise meet in the folders that tests name after their user.
        folder=${TMPDIR:-/tmp}
        [ -w "$folder" ] || folder=/tmp
        mine=$folder/mt-$(id -u)
        mkdir -p "$mine" && [ -O "$mine" ] && chmod 755 "$mine" || mine=$(mktemp -d -p "$folder") || exit
        exec unshare $own sh "$0" --inside "$mine" "$@"
    fi
done
exec "$@"
