/* The process: arguments, environment, numbers, randomness, what is accepted and what is refused by name. */
#include "check.h"
#include <math.h>
#include <setjmp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int constructed;

__attribute__((constructor)) static void construct(int count, char **arguments, char **environment)
{
	constructed = count + (arguments[count] == 0) + (environment[0] != 0);
}

/* What ends a thread-local variable of C++, by the name that glibc has for it. */
int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);

static void of_the_thread(void *text)
{
	puts(text);
}

static void at_exit(void)
{
	puts("at exit");
}

__attribute__((destructor(101))) static void last(void)
{
	puts("last");
}

__attribute__((destructor(102))) static void destruct(void)
{
	puts("destructed");
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int main(int count, char **arguments)
{
	CHECK(count == 5 && !strcmp(arguments[0], "program") && !strcmp(arguments[1], "plain \"word\" \xc3\xbc"));
	CHECK(!strcmp(arguments[2], "2") && !strcmp(arguments[3], "--name=value") && !strcmp(arguments[4], "--list=[1,{\"a\":\"]\"}]"));
	CHECK(constructed == 7);
	CHECK(!strcmp(getenv("GREETING"), "hello") && !getenv("NONE"));
	CHECK(setenv("NONE", "x", 1) == 0 && !strcmp(getenv("NONE"), "x"));
	CHECK(getpid() == 1 && getppid() == 0 && getuid() == 0 && gettid() == 1);
	struct utsname name;
	CHECK(uname(&name) == 0 && !strcmp(name.sysname, "Linux") && !strcmp(name.nodename, "monohull"));
	unsigned char random[70000] = {0};
	CHECK(getrandom(random, sizeof random, 0) == sizeof random && memcmp(random, random + 35000, 35000));
	CHECK(getentropy(random, 100) == 0);
	struct rlimit limit;
	CHECK(getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur >= 65536);
	CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
	limit.rlim_cur /= 2;
	FAILS(setrlimit(RLIMIT_STACK, &limit), EPERM);
	struct tms ticks = {-1, -1, -1, -1};
	clock_t before = times(&ticks);
	CHECK(before >= 0 && ticks.tms_utime == before && ticks.tms_stime == 0 && ticks.tms_cstime == 0);
	CHECK(usleep(30000) == 0 && times(0) - before >= 2);
	CHECK(pthread_kill(pthread_self(), 0) == 0 && syscall(SYS_tkill, 2, 0) == 0);
	CHECK(syscall(SYS_close_range, 0, ~0u, 4) == 0 && write(1, "", 0) == 0);
	FAILS(syscall(SYS_close_range, 0, ~0u, 8), EINVAL);
	unsigned word = 5;
	FAILS(syscall(SYS_futex, &word, 4, 1, 1, &word, 6), EAGAIN);
	FAILS(syscall(SYS_futex, &word, 10, 1, 0, 0, 0), EINVAL);
	CHECK(syscall(SYS_futex, &word, 10, 1, 0, 0, 1) == 0);
	struct rusage usage;
	CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
	struct sysinfo memory;
	CHECK(sysinfo(&memory) == 0 && memory.totalram > 0 && memory.mem_unit == 1);
	CHECK(sysconf(_SC_PAGESIZE) == 4096);

	/* Accepted: nothing depends on it. */
	sigset_t set;
	struct sigaction old;
	CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR && sigaction(SIGINT, 0, &old) == 0);
	CHECK(sigemptyset(&set) == 0 && sigprocmask(SIG_BLOCK, &set, 0) == 0 && pthread_sigmask(SIG_BLOCK, 0, &set) == 0);
	CHECK(kill(getpid(), 0) == 0);

	/* Refused. */
	FAILS(fork(), ENOSYS);
	FAILS(fork(), ENOSYS);
	FAILS(execl("/bin/true", "true", (char *)0), ENOSYS);
	FAILS(wait(0), ECHILD);
	CHECK(system("true") != 0);
	FAILS(kill(getpid(), SIGTERM), EPERM);
	FAILS(kill(99, 0), ESRCH);
	FAILS(inotify_init1(0), ENOSYS);
	FAILS(syscall(SYS_io_uring_setup, 8, 0), ENOSYS);
	CHECK(syscall(SYS_alarm, 1) == -1);
	FAILS(syscall(SYS_ptrace, 0), ENOSYS);
	FAILS(setsid(), EPERM);

	/* The library itself. */
	int numbers[] = {5, 3, 4, 1, 2};
	qsort(numbers, 5, sizeof *numbers, compare);
	CHECK(numbers[0] == 1 && numbers[4] == 5);
	jmp_buf back;
	volatile int jumps = 0;
	if (setjmp(back) < 3) longjmp(back, ++jumps);
	CHECK(jumps == 3);
	CHECK(fabs(sin(1) - 0.8414709848078965) < 1e-15 && fabsl(expl(1) - 2.718281828459045235L) < 1e-17L && lrint(2.5) == 2);
	CHECK(strtod("1e-3", 0) == 0.001 && strtol("-0x10", 0, 0) == -16);
	char text[64];
	time_t moment = 86400 * 365;
	CHECK(strftime(text, sizeof text, "%Y-%m-%d", gmtime(&moment)) == 10 && !strcmp(text, "1971-01-01"));
	CHECK(scanf("%63s", text) == 1 && !strcmp(text, "input") && getchar() == '\n' && getchar() == EOF);
	CHECK(__cxa_thread_atexit_impl(of_the_thread, "of the thread", 0) == 0);
	atexit(at_exit);
	return end();
}
