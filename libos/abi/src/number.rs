//! The numbered table of hostcalls.
//!
//! Numbers come in blocks of sixteen or thirty-two per module, but for a few of `mm`, and are never reused. Arguments are given in order;
//! `→` is the value returned when the call succeeds. Failure is a negated [`crate::Errno`].

/// Entries in a domain's dispatch table.
pub const TABLE_SIZE: usize = 256;
/// Functions may call numbers below this; the rest are for trusted callers (the visor, other modules).
pub const SYSTEM_ONLY: u32 = 192;

macro_rules! hostcalls {
    ($( $module:literal { $( $(#[$doc:meta])* $name:ident = $number:literal, )* } )*) => {
        $( $( $(#[$doc])* pub const $name: u32 = $number; )* )*

        /// The module that serves `number`: `"core"` for the visor itself, `None` for an unknown number.
        pub const fn module_of(number: u32) -> Option<&'static str> {
            match number {
                $( $( $name => Some($module), )* )*
                _ => None,
            }
        }

        /// The name of `number`, as in this table.
        pub const fn name_of(number: u32) -> Option<&'static str> {
            match number {
                $( $( $name => Some(stringify!($name)), )* )*
                _ => None,
            }
        }
    };
}

hostcalls! {
    "core" {
        /// `()` → 0. Does nothing; measures the cost of a call.
        NULL = 0,
        /// `(status: i32)`. Ends the instance: 0 is success, anything else fails it as `exit`.
        EXIT = 1,
        /// `(kind: AbortKind, text, len)`. Ends the instance as failed, with a text for the report.
        ABORT = 2,
        /// `(entry, argument)` → thread number. `entry` gets `argument` in `rax` on a fresh stack.
        THREAD_SPAWN = 3,
        /// `()`. Ends the calling thread only; on the main thread the same as `EXIT(0)`.
        THREAD_EXIT = 4,
        /// `(thread)` → 0. Parks until that thread of the caller's instance has ended.
        THREAD_JOIN = 5,
        /// `()` → 0. Lets another ready thread run.
        THREAD_YIELD = 6,
        /// `(address of u32, expected, timeout in ns or u64::MAX)` → 0. Parks while `*address == expected`;
        /// `Again` if it already differs, `TimedOut` after the timeout.
        FUTEX_WAIT = 7,
        /// `(address of u32, most)` → number of threads woken.
        FUTEX_WAKE = 8,
        /// `(what: InfoString)` → bytes. Length of one of the instance's strings.
        GET_STRING_LEN = 9,
        /// `(what: InfoString, buffer, len)` → bytes copied.
        GET_STRING = 10,
        /// `(what: Info)` → value. One of the instance's numbers.
        GET_INFO = 11,
        /// `(buffer, len, flags)` → `len`. Fills the buffer with random bytes; at most 64 KiB. With the flag
        /// [`crate::types::RANDOM_SHARED`] instances of a template may have them in common.
        GETRANDOM = 12,
        /// `(buffer, len)` → bytes of a text that explains why this thread's last hostcall failed; 0 if there is none.
        LAST_ERROR_MESSAGE = 13,
        /// `(entry, start, bytes)` → 0. From here on a fault of an instruction in that code goes on at `entry`, with the address of a
        /// [`crate::types::FaultRecord`] in `rax`. `bytes` 0: no more.
        FAULT_HANDLER = 14,
        /// `(name, name len, text, len)` → 0. Publishes a text under a name of [events](crate::event::is_event_name), in place of the one
        /// before. `TooMany` beyond [`crate::types::PUBLISHED_NAMES`], `NoSpace` beyond [`crate::types::PUBLISHED_BYTES`].
        PUBLISH = 15,
        /// `(id and name, their len, data, len, number)` → 0. Sends an event to another invocation, with the next checkpoint or the end of this
        /// one. Between id and name is a line break. What an instance sends again with the same number and content is the same event.
        /// `NotPermitted` if this run may send none, `TooMany` beyond [`crate::event::OUTBOX_EVENTS`], `NoSpace` beyond
        /// [`crate::event::OUTBOX_BYTES`].
        SEND = 16,
        /// `()` → 1 if the instance has started from a template, else 0. The point at which a template of the function is made: what comes
        /// before must be the same for all instances.
        READY = 17,
        /// `([`crate::types::Captured`] out, buffer, len)` → 0, and once more 1 for each `REWIND` to this point, with the value that was given
        /// there in the buffer. Both lie in the caller's cell. The instance has one thread.
        CAPTURE = 18,
        /// `(checkpoint, value, len, flags)`. Memory is again what it was at that `CAPTURE`, which returns with the value; does not return. With the flag
        /// [`crate::types::REWIND_FORGET`] → 0: frees the checkpoint, and goes nowhere.
        REWIND = 19,
        /// `(effect, effect len, address, count, name out)` → 0. Asks for an [effect](crate::effect) with `count` bytes of a buffer that the caller
        /// owns, and gives the buffer away. The slot from which the reply is taken has the name that is written, of
        /// [`crate::effect::EFFECT_SLOT_LEN`] bytes: `SLOT_TAKE` waits there, and returns 1 if the reply is the report of a failure. `NotFound` if
        /// no step handles the effect, `NotPermitted` if the caller's step may not ask for it, `TooMany` beyond
        /// [`crate::effect::PERFORMS_MAX`], [`crate::effect::PERFORMS_TOGETHER`] or [`crate::effect::EFFECT_DEPTH_MAX`].
        PERFORM = 20,
        /// `(id and workflow, their len, input, len, flags)` → 0. Starts a child: an invocation of another workflow, with the next checkpoint or the
        /// end of this one. Between id and workflow is a line break. The same again is the same child. With the flag
        /// [`crate::child::DETACHED`] it goes on when this invocation has ended. `NotPermitted` if this run may not start it, `TooMany` and
        /// `NoSpace` as for [`SEND`].
        CHILD_START = 21,
        /// `(id, len)` → 0. Cancels a child, with the next checkpoint.
        CHILD_CANCEL = 22,
        /// `(id, len, buffer, len)` → bytes copied. The id of the invocation that a child of this id is or would be.
        CHILD_ID = 23,
        /// `(label, len, number, buffer, len)` → bytes. Asks for a save point with this [label](crate::branch::is_label): the next checkpoint. Copies
        /// the name of the [event](crate::branch) that tells of it. The same number again is the same save point. `NotPermitted` if this run
        /// keeps no checkpoints, `TooMany` as for [`SEND`].
        CHECKPOINT = 24,
        /// `(copies, number, buffer, len)` → bytes. Asks for 1 to [`crate::branch::COPIES_MAX`] copies of this invocation, as it is at the next
        /// checkpoint. Copies the name of the event that tells of them, also to each copy. The same number again makes no other copies.
        FORK = 25,
    }
    "mm" {
        /// `(buffer, address, bytes)` → 0. Moves the first bytes of an owned buffer to memory that `MAP` gave: pages change places where there
        /// are [`crate::types::MOVED_MIN`] bytes or more. Counts as a write to the buffer, whose pages that were moved are zero.
        SLOT_MOVE_IN = 26,
        /// `(address, bytes)` → address of a buffer, owned by the caller, that has these bytes of memory that `MAP` gave. Whole pages of it are
        /// zero afterwards; they are moved as by `SLOT_MOVE_IN`.
        SLOT_MOVE_OUT = 27,
        /// `(name out)` → address of a buffer of one byte, owned by the caller, that is a [continuation](crate::continuation). The slot from
        /// which what it is used with is taken has the name that is written, of [`crate::effect::EFFECT_SLOT_LEN`] bytes: `SLOT_TAKE` waits
        /// there, with `NeverFilled` if the buffer is freed unused. `TooMany` beyond [`crate::continuation::CONTINUATIONS_MAX`].
        CONTINUATION = 28,
        /// `(continuation, address, count)` → 0. Uses a continuation that the caller owns with `count` bytes of another buffer of the caller's:
        /// the instance that waits takes these. Both buffers are the caller's no more. `NotFound` if that instance has ended.
        RESUME = 29,
        /// `(bytes)` → first address of the added range, which follows the previous one. Rounds up to pages.
        HEAP_GROW = 32,
        /// `(MemoryStats out)` → 0.
        MEMORY_STATS = 33,
        /// `(bytes, align)` → address of a zeroed buffer in the arena, owned by the caller.
        SLOT_ALLOC = 34,
        /// `(address, bytes)` → address. Resizes an owned buffer, moving it if it must; added bytes are zero.
        SLOT_RESIZE = 35,
        /// `(address)` → 0. Frees an owned buffer.
        SLOT_FREE = 36,
        /// `(name, name len, address, count, TypeDesc)` → 0. Transfers ownership of a buffer to the slot of that name; wakes its waiters.
        SLOT_PUBLISH = 37,
        /// `(name, name len, TypeDesc, SlotView out, flags)` → 0. Takes ownership of the buffer in a slot; parks until it is there,
        /// unless `flags` has [`crate::types::TAKE_NOW`]. A reply to `PERFORM` is taken as bytes, and 1 returned if it is the report of a failure.
        SLOT_TAKE = 38,
        /// `(address)` → 0. Declares that the caller is about to write to a buffer it took: the input is not
        /// intact any more, so this instance cannot be retried alone.
        SLOT_MARK_WRITTEN = 39,
        /// `(bytes, align, access: [`crate::types::MapAccess`])` → address. Maps zeroed whole pages of the caller's cell. `align`
        /// is 0 or a power of two up to 1 GiB.
        MAP = 40,
        /// `(address, bytes)` → 0. Takes back whole pages that `MAP` gave, in parts or several at once; their memory is freed.
        UNMAP = 41,
        /// `(address, bytes)` → 0. Frees the memory of such pages, which stay mapped: they read as zero afterwards.
        DISCARD = 42,
        /// `(address, bytes, access: [`crate::types::MapAccess`])` → 0. Changes what such pages may be used for. What they hold stays.
        PROTECT = 43,
        /// `(names, names len, SlotView out, deadline in ns of the monotonic clock or u64::MAX)` → which of the names, from 0. Takes
        /// ownership of the buffer of the event of one of these names that was sent first; parks until there is one, at most until the
        /// deadline: then `TimedOut`. Names are [a list](crate::event::is_event_list).
        EVENT_WAIT = 44,
        /// `(address, bytes, source)` → 0. Replaces mapped pages by a private copy of the caller's own image, whose constants begin at
        /// `source`: readable and writable, and the image's until they are written.
        MAP_IMAGE = 45,
    }
    "stdio" {
        /// `(stream: 1 or 2, bytes, len)` → bytes taken. Sent as whole lines, tagged with function and instance.
        STDIO_WRITE = 64,
        /// `(stream)` → 0. Sends an unfinished line.
        STDIO_FLUSH = 65,
    }
    "time" {
        /// `(clock: Clock)` → nanoseconds.
        CLOCK_GETTIME = 80,
        /// `(ns)` → 0. Parks for at least that long.
        NANOSLEEP = 81,
    }
    "fdtab" {
        /// `(dir, path, len, flags: [`crate::file::open`])` → descriptor. `dir` is a descriptor of a directory, or
        /// [`crate::file::WORKING_DIRECTORY`]; here and in all calls that take a path.
        FILE_OPEN = 96,
        /// `(descriptor)` → 0.
        FILE_CLOSE = 97,
        /// `(descriptor, buffer, len)` → bytes; 0 at the end.
        FILE_READ = 98,
        /// `(descriptor, buffer, len)` → bytes.
        FILE_WRITE = 99,
        /// `(descriptor, buffer, len, offset)` → bytes. The descriptor's position stays.
        FILE_PREAD = 100,
        /// `(descriptor, buffer, len, offset)` → bytes. The descriptor's position stays.
        FILE_PWRITE = 101,
        /// `(descriptor, IoVec array, count, offset or AT_POSITION)` → bytes.
        FILE_READV = 102,
        /// `(descriptor, IoVec array, count, offset or AT_POSITION)` → bytes.
        FILE_WRITEV = 103,
        /// `(descriptor, offset: i64, Whence)` → position. On a directory: entry 0, or where it is.
        FILE_SEEK = 104,
        /// `(dir, path, len, FileStat out)` → 0.
        FILE_STAT = 105,
        /// `(descriptor, FileStat out)` → 0.
        FILE_FSTAT = 106,
        /// `(descriptor, buffer, len)` → bytes of whole [`crate::file::DirEntry`] records; 0 at the end.
        FILE_GETDENTS = 107,
        /// `(dir, path, len)` → 0. Makes a directory.
        FILE_MKDIR = 108,
        /// `(dir, path, len)` → 0. Removes an empty directory.
        FILE_RMDIR = 109,
        /// `(dir, path, len)` → 0. Removes a file.
        FILE_UNLINK = 110,
        /// `(dir, path, len, dir, path, len)` → 0. Renames the first to the second, replacing it.
        FILE_RENAME = 111,
        /// `(descriptor, size)` → 0. Cuts a file, or extends it with zeros.
        FILE_FTRUNCATE = 112,
        /// `(descriptor)` → 0. Written data survives a crash of the host if the mount outlives the workflow.
        FILE_FSYNC = 113,
        /// `(descriptor, target or LOWEST_FREE)` → descriptor for the same open file; `target` is closed first.
        FILE_DUP = 114,
        /// `(dir, path, len)` → 0. Changes the working directory.
        FILE_CHDIR = 115,
        /// `(buffer, len)` → bytes of the working directory's path.
        FILE_GETCWD = 116,
        /// `(descriptor, flags or KEEP_FLAGS)` → flags it was opened with. Only `APPEND` can change.
        FILE_FLAGS = 117,
        /// `(dir, path, len, buffer, len)` → bytes of the absolute path of something that exists.
        FILE_REALPATH = 118,
        /// `(dir, path, len, read, written: ns since 1970, or [`crate::file::KEEP_TIME`])` → 0. Sets when a file was last read and
        /// written. Without a path it is the open file `dir` itself.
        FILE_SET_TIMES = 119,
    }
    "socket" {
        /// System only: `()` → 1 while data that functions have written has not been sent.
        NETWORK_BUSY = 208,
    }
    "ramfs" {
        /// System only: `([`crate::file::FsOp`] and mount, …)`.
        RAMFS = 200,
    }
    "socket" {
        /// `(SocketAddress, backlog)` → socket. Listens for TCP connections.
        TCP_LISTEN = 128,
        /// `(SocketAddress, timeout in ns or u64::MAX, flags)` → socket. Parks until the TCP connection stands or is refused; with the
        /// flag [`crate::network::CONNECT_LATER`] it does not wait.
        TCP_CONNECT = 129,
        /// `(socket, SocketAddress out)` → socket. Parks until a peer connects; `out` may be null.
        TCP_ACCEPT = 130,
        /// `(SocketAddress)` → socket. A UDP socket with this address.
        UDP_BIND = 131,
        /// `(socket, SocketAddress)` → 0. Sets the only peer of a UDP socket.
        UDP_CONNECT = 132,
        /// `(socket, buffer, len, flags)` → bytes; 0 at the end of a connection. Parks until there are some.
        SOCKET_RECV = 133,
        /// `(socket, bytes, len)` → bytes taken. Parks until there is room.
        SOCKET_SEND = 134,
        /// `(socket, buffer, len, flags, SocketAddress out)` → bytes. As `SOCKET_RECV`, with the sender's address.
        SOCKET_RECVFROM = 135,
        /// `(socket, bytes, len, SocketAddress)` → bytes taken. One datagram to an address.
        SOCKET_SENDTO = 136,
        /// `(socket, SocketShutdown)` → 0. Ends one direction of a connection, or both.
        SOCKET_SHUTDOWN = 137,
        /// `(socket)` → 0. Releases the number; the socket closes with its last number.
        SOCKET_CLOSE = 138,
        /// `(socket)` → socket. Another number for the same socket.
        SOCKET_DUP = 139,
        /// `(socket, SocketOption)` → value.
        SOCKET_GET_OPTION = 140,
        /// `(socket, SocketOption, value)` → 0.
        SOCKET_SET_OPTION = 141,
        /// `(socket, SocketEnd, SocketAddress out)` → 0.
        SOCKET_GETNAME = 142,
        /// `(name, name len, SocketAddress out, most)` → how many addresses were written. Parks until the name is
        /// resolved; `NotFound` if it has none.
        HOST_LOOKUP = 143,
        /// `()` → queue. A number of its own kind, which means nothing to another instance.
        QUEUE_NEW = 144,
        /// `(queue, socket, events: [`crate::network::ready`], data)` → 0. Watches a socket, in place of what was watched of it; no
        /// longer, if `events` has no direction.
        QUEUE_SET = 145,
        /// `(queue, [`crate::network::QueueEvent`] array, most, deadline in ns of the monotonic clock or u64::MAX)` → how
        /// many were written; 0 after the deadline. Parks until there is one.
        QUEUE_WAIT = 146,
        /// `(queue, data)` → 0. An event of this data, reported once, however often it is posted before.
        QUEUE_POST = 147,
        /// `(queue)` → 0. Releases the number; threads that wait get `BadDescriptor`.
        QUEUE_CLOSE = 148,
    }
    "fatfs" {
        /// System only: as `RAMFS`.
        FATFS = 201,
    }
    "mmap-file" {
        /// `(descriptor, offset, len, flags: [`crate::file::map`])` → address. Maps bytes of a file into the caller's cell, from
        /// a page's start on.
        FILE_MMAP = 160,
        /// `(address)` → 0. Takes back the mapping that begins there.
        FILE_MUNMAP = 161,
        /// `(address, offset, len, Advice)` → bytes filled. Announces how a part of the mapping that begins there will be used. What is
        /// needed now is filled up to [`FILLED_AT_ONCE`](crate::file::FILLED_AT_ONCE) by one call.
        FILE_MADVISE = 162,
        /// `(address, writable: 0 or 1)` → 0. Whether the mapping that begins there may be written to.
        FILE_MPROTECT = 163,
    }
    "fdtab" {
        /// System only: `(instance, descriptor, FilePin in and out, pin)` → pin. Keeps an instance's file open, and its
        /// bytes at their addresses. With a pin of the instance in place of a descriptor (which is 0): its file, and of its part what the
        /// file has now.
        FILE_PIN = 203,
        /// System only: `(pin)` → 0.
        FILE_UNPIN = 204,
        /// System only: `(instance, descriptor)` → the first of the instance's descriptors behind one; 0 if there is none.
        FILE_HELD = 206,
    }
    "core" {
        /// System only: as `RAMFS`, for granted directories of the host.
        HOST_FILES = 202,
        /// System only: `()` → 1 if events may arrive from outside, later than now; else 0.
        EVENTS_OPEN = 205,
    }
    "mm" {
        /// System only: `(name, name len, SlotInfo out, text out, text capacity)` → length of the type's name.
        SLOT_PEEK = 193,
        /// System only: `(instance, address, len)` → 1 if the whole range lies in one buffer of that instance, which is
        /// then pinned: it is neither freed, published nor moved.
        SLOT_PIN = 194,
        /// System only: `(address)` → 0. Takes back one pin of the buffer around an address.
        SLOT_UNPIN = 195,
        /// System only: `(name, name len, FilledSlot out, name out, name capacity)` → length of the name of the filled slot that
        /// follows `name` in byte order; 0 if there is none. An empty `name` comes before all others.
        SLOT_NEXT = 196,
        /// System only: `(instance, address, HeldBuffer out)` → 1, and the first buffer that the instance holds behind an address; 0 if there is none.
        SLOT_HELD = 197,
        /// System only: `(instance, address, count, name, name len)` → 0. Publishes bytes in a buffer of an instance, in a slot that no function can
        /// name.
        SLOT_GIVE = 198,
        /// System only: `(instance)` → 0. Empties the slots of all [requests](crate::effect) of an instance.
        EFFECTS_DROP = 199,
    }
}
