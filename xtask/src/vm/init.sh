#!/bin/busybox sh
# The guest's first process. The host reads ttyS1, which carries nothing but what is printed here and by the job;
# lines with this mark are for the host. It kills the machine after the last one.
mark=@monohull-vm

/bin/busybox --install -s /bin
export PATH=/bin HOME=/scratch TMPDIR=/scratch
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs tmp /dev/shm
# What tests write has room of its own, however much the files of the guest take of theirs. It is not /tmp: files of the
# host have the paths that they have there, and a repository may lie below it.
mount -t tmpfs -o size=1g,mode=1777 scratch /scratch
ip link set lo up

# A pipe, not the port itself: what the job prints must look as it does for a program and not for a person.
mkfifo /run/said
stty -F /dev/ttyS1 raw
cat /run/said >/dev/ttyS1 &
exec >/run/said 2>&1 </dev/null

echo "$mark up"
for driver in /drivers/*.ko; do
    [ ! -e "$driver" ] || insmod "$driver" || echo "$driver cannot be loaded"
done
if grep -qw pku /proc/cpuinfo && keys-proof; then
    echo "$mark keys"
    # The first process's argument is the host's.
    sh /job "$1"
    echo "$mark ended $?"
fi
echo "$mark over"
exec sleep 1000000
