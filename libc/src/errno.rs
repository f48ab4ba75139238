//! Linux's error numbers, and what hostcalls answer in terms of them.

/// What a system call answers: a value, or one of the numbers below, negated.
pub(crate) type Answer = i64;

macro_rules! numbers {
    ($($name:ident = $number:literal)*) => { $(pub(crate) const $name: Answer = -$number;)* };
}

numbers! {
    EPERM = 1 ENOENT = 2 ESRCH = 3 EBADF = 9 ECHILD = 10 EAGAIN = 11 ENOMEM = 12 EACCES = 13 EFAULT = 14
    EEXIST = 17 ENODEV = 19 ENOTDIR = 20 EINVAL = 22 EMFILE = 24 ENOTTY = 25 ESPIPE = 29 EPIPE = 32 EDOM = 33 ERANGE = 34 ENOSYS = 38
    ENOTSOCK = 88 EMSGSIZE = 90 ENOPROTOOPT = 92 EPROTONOSUPPORT = 93 EOPNOTSUPP = 95 EAFNOSUPPORT = 97 EADDRINUSE = 98
    EADDRNOTAVAIL = 99 ECONNABORTED = 103 ENOBUFS = 105 EISCONN = 106 ENOTCONN = 107 EALREADY = 114 EINPROGRESS = 115
}

/// A hostcall's answer as Linux would put it. The numbers are the same where both have them.
pub(crate) fn of_host(value: i64) -> Answer {
    match value {
        // The module that serves the call is missing or broken.
        -131 => ENOSYS,
        // Slots' own errors, which no system call meets.
        ..=-200 => EINVAL,
        value => value,
    }
}
