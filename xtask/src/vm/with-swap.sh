#!/bin/busybox sh
# Runs a command while the guest can swap memory out, and says so to it by a variable. The area is a file in memory that
# is never swapped out itself (ramfs).
set -e
[ -e /sys/module/loop ] || insmod "/swap/loop-$(uname -r | cut -d. -f1,2).ko"
mkdir -p /swap/area
mount -t ramfs swap /swap/area
dd if=/dev/zero of=/swap/area/file bs=1M count=8 2>/dev/null
device=$(losetup -f)
losetup "$device" /swap/area/file
mkswap "$device" >/dev/null
swapon "$device"
set +e
MONOHULL_TEST_SWAP=1 "$@"
status=$?
swapoff "$device"
losetup -d "$device"
umount /swap/area
exit $status
