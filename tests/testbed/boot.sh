# Turns fresh namespaces into a host and stays as its process 1. Started by host.py, as root, with a clean environment.
# boot.sh NAME HOST ETC SHARED REPOSITORY: its name, its own folder, the room's copy of /etc, the shared folder, and
# the sources that no node has.
set -eu
name=$1 host=$2 etc=$3 shared=$4 repository=$5

hostname "$name"
mount -t tmpfs -o size=64k,mode=755 tmpfs /mnt # the room's own folders, before /tmp hides them
mkdir /mnt/host /mnt/shared
mount --bind "$host" /mnt/host
mount --bind "$shared" /mnt/shared

mount --bind "$etc" /etc
for file in hostname machine-id; do mount --bind "$host/$file" "/etc/$file"; done
mount --bind "$host/ssh" /etc/ssh

cat /proc/sys/kernel/random/uuid >"$host/boot_id" # another at each power-on
mount --bind "$host/boot_id" /proc/sys/kernel/random/boot_id

for folder in home root tmp var/tmp var/log; do mount --bind "/mnt/host/disk/$folder" "/$folder"; done
[ ! -d /mt ] || mount --bind /mnt/host/disk/tmp /mt # what as_root.sh has in the place of /tmp
mount -t tmpfs -o size=16m,mode=755 tmpfs /run
mkdir -p /run/sshd "$shared"
mount --bind /mnt/shared "$shared"
[ ! -d "$repository" ] || mount --bind /mnt/host/nothing "$repository"

cd /
/usr/sbin/sshd -E /var/log/sshd.log
sleep infinity & # the shell takes in every orphan meanwhile
wait
