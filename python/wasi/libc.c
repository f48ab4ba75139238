/* What CPython asks of a libc and Debian's wasi-libc has only in headers: signals that a program raises in itself, one process, its time.
 *
 * No signal comes from outside. `raise` calls the handler, or ends the program where there is none.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

/* Numbers of signals are smaller. */
#define SIGNALS 65
#define NANOSECONDS 1000000000

static void (*handlers[SIGNALS])(int);

void __SIG_IGN(int number) {
    (void)number;
}

_Noreturn void __SIG_ERR(int number) {
    (void)number;
    abort();
}

void (*signal(int number, void (*handler)(int)))(int) {
    if (number < 1 || number >= SIGNALS) {
        errno = EINVAL;
        return SIG_ERR;
    }
    void (*before)(int) = handlers[number];
    handlers[number] = handler;
    return before;
}

int raise(int number) {
    if (number < 1 || number >= SIGNALS) {
        errno = EINVAL;
        return -1;
    }
    if (handlers[number] == SIG_DFL) abort();
    handlers[number](number);
    return 0;
}

pid_t getpid(void) {
    return 1;
}

clock_t clock(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) < 0) return -1;
    return (clock_t)(now.tv_sec * CLOCKS_PER_SEC + now.tv_nsec / (NANOSECONDS / CLOCKS_PER_SEC));
}

/* All of the time is the program's own. */
clock_t times(struct tms *to) {
    clock_t now = clock();
    *to = (struct tms){ .tms_utime = now };
    return now;
}
