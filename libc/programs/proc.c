/* What Linux tells in files: /proc, /dev/fd; and other files that libraries look for. */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static char text[65536];
static sem_t go;

/* All of a file, and how much that is. */
static long all(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0) return -1;
	long done = 0, part;
	while ((part = read(file, text + done, 100)) > 0) done += part;
	text[done] = 0;
	close(file);
	return part < 0 ? -1 : done;
}

static int has(const char *words)
{
	return strstr(text, words) != 0;
}

static long number(const char *name)
{
	char *at = strstr(text, name);
	return at ? strtol(at + strlen(name), 0, 10) : -1;
}

static int links(const char *path, const char *to)
{
	char target[100] = "";
	return readlink(path, target, sizeof target) == (long)strlen(to) && !strcmp(target, to);
}

static void *wait_for_it(void *nothing)
{
	sem_wait(&go);
	return nothing;
}

static void the_process(void)
{
	CHECK(links("/proc/self/exe", "/program") && links("/proc/1/exe", "/program") && links("/proc/self/root", "/"));
	char short_one[4];
	CHECK(links("/proc/self", "1") && readlink("/proc/self/exe", short_one, 4) == 4 && !memcmp(short_one, "/pro", 4));
	FAILS(open("/proc/self/exe", O_RDONLY), ENOENT);
	CHECK(all("/proc/self/cmdline") == 8 + 4 && !memcmp(text, "program\0one", 12));
	CHECK(all("/proc/self/comm") == 8 && !strcmp(text, "program\n"));
	pthread_t thread;
	CHECK(sem_init(&go, 0, 0) == 0 && pthread_create(&thread, 0, wait_for_it, 0) == 0);
	CHECK(all("/proc/self/status") > 0 && has("Name:\tprogram\n") && number("\nPid:") == 1 && number("\nThreads:") == 2 && number("\nVmRSS:") > 0);
	CHECK(sem_post(&go) == 0 && pthread_join(thread, 0) == 0);
	CHECK(all("/proc/thread-self/status") > 0 && number("\nThreads:") == 1);
	long fields = 1;
	CHECK(all("/proc/self/stat") > 0 && !strncmp(text, "1 (program) R 0 ", 16));
	for (char *at = text; *at; at++) fields += *at == ' ';
	CHECK(fields == 52);
	CHECK(all("/proc/self/statm") > 0 && strtol(text, 0, 10) > 0);
	/* What is not there: libraries do without. */
	const char *not[] = {"/proc/self/maps", "/proc/self/cgroup", "/proc/self/mountinfo", "/proc/self/fd", "/proc", "/proc/2/status",
		"/proc/status", "/sys/fs/cgroup/cpu.max", "/etc/localtime", "/etc/resolv.conf", "/etc/passwd", "/dev/tty"};
	for (unsigned at = 0; at < sizeof not / sizeof *not; at++) FAILS(open(not[at], O_RDONLY), ENOENT);
}

static void the_machine(void)
{
	struct sysinfo memory;
	CHECK(all("/proc/meminfo") > 0 && sysinfo(&memory) == 0 && number("MemTotal:") == (long)(memory.totalram >> 10));
	CHECK(number("MemAvailable:") > 0 && number("MemAvailable:") <= number("MemTotal:"));
	long processors = sysconf(_SC_NPROCESSORS_ONLN), seen = 0;
	CHECK(all("/proc/cpuinfo") > 0);
	for (char *at = text; (at = strstr(at, "processor\t: ")); at++) seen++;
	CHECK(seen == processors && number("cpu cores\t: ") == processors);
	CHECK(all("/proc/stat") > 0 && !strncmp(text, "cpu  0 0 0 ", 11) && has("\ncpu0 0 0 0 ") && labs(number("\nbtime ") - time(0)) < 400l * 86400 * 365);
	CHECK(all("/proc/uptime") > 0 && strtod(text, 0) > 0);
	CHECK(all("/proc/loadavg") > 0 && !strcmp(text, "0.00 0.00 0.00 1/1 1\n"));
}

/* A text is read as a file is, and is none that can be written. */
static void as_a_file(void)
{
	struct stat status;
	CHECK(stat("/proc/meminfo", &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 0777) == 0444 && status.st_size == 0);
	CHECK(access("/proc/meminfo", R_OK) == 0);
	FAILS(access("/proc/meminfo", W_OK), EROFS);
	FAILS(open("/proc/meminfo", O_RDWR), EACCES);
	int file = open("/proc/self/comm", O_RDONLY), other = dup(file);
	char part[8] = "";
	CHECK(fstat(file, &status) == 0 && S_ISREG(status.st_mode));
	CHECK(read(file, part, 3) == 3 && !memcmp(part, "pro", 3) && pread(file, part, 3, 4) == 3 && !memcmp(part, "ram", 3));
	CHECK(read(other, part, 8) == 5 && !memcmp(part, "gram\n", 5) && read(file, part, 8) == 0);
	CHECK(lseek(file, 1, SEEK_SET) == 1 && lseek(file, 1, SEEK_CUR) == 2 && read(other, part, 1) == 1 && part[0] == 'o');
	CHECK(lseek(file, -1, SEEK_END) == 7 && lseek(file, 100, SEEK_SET) == 100 && read(file, part, 8) == 0);
	FAILS(lseek(file, -1, SEEK_SET), EINVAL);
	struct iovec parts[] = {{part, 2}, {part + 2, 6}};
	CHECK(preadv(file, parts, 2, 1) == 7 && !memcmp(part, "rogram\n", 7) && lseek(file, 0, SEEK_SET) == 0 && readv(file, parts, 2) == 8);
	FAILS(write(file, "", 1), EBADF);
	FAILS(pwrite(file, "", 1, 0), EBADF);
	CHECK((fcntl(file, F_GETFL) & O_ACCMODE) == O_RDONLY && close(file) == 0 && read(other, part, 1) == 0 && close(other) == 0);
	FAILS(read(file, part, 1), EBADF);
	/* A file of the workflow's goes before. */
	CHECK(mkdir("/proc", 0755) == 0 && (file = open("/proc/loadavg", O_RDWR | O_CREAT, 0644)) >= 0);
	CHECK(write(file, "1", 1) == 1 && close(file) == 0 && all("/proc/loadavg") == 1 && unlink("/proc/loadavg") == 0);
	CHECK(all("/proc/loadavg") == 21 && rmdir("/proc") == 0 && all("/proc/loadavg") == 21);
}

static void descriptors(void)
{
	int ends[2];
	char path[40], byte;
	struct stat status;
	CHECK(pipe(ends) == 0 && sprintf(path, "/dev/fd/%d", ends[1]) > 0);
	int again = open(path, O_WRONLY);
	CHECK(again > ends[1] && write(again, "x", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'x' && close(again) == 0);
	CHECK(sprintf(path, "/proc/self/fd/%d", ends[0]) > 0 && stat(path, &status) == 0 && S_ISFIFO(status.st_mode));
	FAILS(open("/dev/fd/900", O_RDONLY), EBADF);
	FAILS(open("/dev/fd/x", O_RDONLY), ENOENT);
	FAILS(open("/dev/fd/99999999999", O_RDONLY), ENOENT);
	CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
	int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDONLY), random = open("/dev/urandom", O_RDONLY);
	char bytes[32] = {1}, none[32] = {0};
	CHECK(write(null, bytes, 32) == 32 && read(null, bytes, 32) == 0 && read(zero, bytes, 32) == 32 && !memcmp(bytes, none, 32));
	CHECK(read(random, bytes, 32) == 32 && memcmp(bytes, none, 32));
	CHECK(close(null) == 0 && close(zero) == 0 && close(random) == 0);
	int out = open("/dev/stdout", O_WRONLY), in = open("/dev/stdin", O_RDONLY);
	CHECK(out >= 0 && write(out, "", 0) == 0 && read(in, bytes, 32) == 0 && close(out) == 0 && close(in) == 0);
}

/* Without its files the library has answers of its own. */
static void libraries(void)
{
	time_t moment = 86400 * 365;
	struct tm there;
	CHECK(localtime_r(&moment, &there) && there.tm_hour == 0 && there.tm_gmtoff == 0);
	CHECK(setenv("TZ", "CET-1", 1) == 0 && localtime_r(&moment, &there) && there.tm_hour == 1 && there.tm_gmtoff == 3600);
	CHECK(opendir("/proc") == 0 && errno == ENOENT);
	FAILS(shm_open("/shared", O_RDWR | O_CREAT, 0600), ENOENT);
	CHECK(mkdir("/dev", 0755) == 0 && mkdir("/dev/shm", 0755) == 0 && shm_open("/shared", O_RDWR | O_CREAT, 0600) >= 0);
}

int main(void)
{
	the_process();
	the_machine();
	as_a_file();
	descriptors();
	libraries();
	return end();
}
