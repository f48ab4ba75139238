/* Files and directories: the rows over FILE_*. The workflow mounts a memory file system at /. */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utime.h>

static void descriptors(void)
{
	char text[16] = {0};
	int file = open("/one", O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(file == 3);
	FAILS(open("/one", O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST);
	CHECK(write(file, "0123456789", 10) == 10);
	CHECK(lseek(file, 2, SEEK_SET) == 2);
	CHECK(read(file, text, 3) == 3 && !memcmp(text, "234", 3));
	CHECK(pread(file, text, 16, 8) == 2 && !memcmp(text, "89", 2));
	FAILS(pread(file, text, 1, -1), EINVAL);
	CHECK(pwrite(file, "ab", 2, 0) == 2);
	CHECK(lseek(file, 0, SEEK_CUR) == 5);
	int other = dup(file);
	CHECK(other == 4 && lseek(other, 1, SEEK_SET) == 1 && lseek(file, 0, SEEK_CUR) == 1);
	CHECK(dup2(file, 9) == 9 && close(9) == 0);
	CHECK(dup3(file, 9, O_CLOEXEC) == 9 && fcntl(file, F_DUPFD, 9) == 10);
	// Whether `exec` would close one is its own, and not that of what it stands for.
	CHECK(fcntl(file, F_GETFD) == 0 && fcntl(9, F_GETFD) == FD_CLOEXEC && fcntl(10, F_GETFD) == 0);
	CHECK(fcntl(file, F_SETFD, FD_CLOEXEC) == 0 && fcntl(file, F_GETFD) == FD_CLOEXEC && fcntl(10, F_GETFD) == 0);
	CHECK(fcntl(file, F_SETFD, 0) == 0 && fcntl(file, F_GETFD) == 0);
	CHECK(syscall(SYS_close_range, 10, 12, 4) == 0 && fcntl(10, F_GETFD) == FD_CLOEXEC && fcntl(file, F_GETFD) == 0);
	int marked = fcntl(file, F_DUPFD_CLOEXEC, 20);
	CHECK(marked == 20 && fcntl(marked, F_GETFD) == FD_CLOEXEC && close(marked) == 0);
	FAILS(fcntl(marked, F_GETFD), EBADF);
	FAILS(fcntl(marked, F_SETFD, 0), EBADF);
	CHECK(dup2(file, marked) == marked && fcntl(marked, F_GETFD) == 0 && close(marked) == 0);
	marked = open("/one", O_RDONLY | O_CLOEXEC);
	CHECK(fcntl(marked, F_GETFD) == FD_CLOEXEC && close(marked) == 0);
	FAILS(dup3(file, 9, O_CLOEXEC | O_APPEND), EINVAL);
	FAILS(dup3(file, file, 0), EINVAL);
	FAILS(dup2(77, 5), EBADF);
	CHECK(syscall(SYS_close_range, 9, 10, 0) == 0);
	FAILS(close(10), EBADF);
	CHECK(close(other) == 0);
	struct iovec list[2] = {{text, 1}, {text + 1, 2}};
	CHECK(readv(file, list, 2) == 3 && !memcmp(text, "b23", 3));
	CHECK(writev(file, list, 2) == 3);
	CHECK(preadv(file, list, 2, 0) == 3 && pwritev(file, list, 2, 0) == 3);
	CHECK(fsync(file) == 0 && fdatasync(file) == 0 && sync_file_range(file, 0, 4, SYNC_FILE_RANGE_WRITE) == 0);
	sync();
	CHECK(ftruncate(file, 4) == 0 && lseek(file, 0, SEEK_END) == 4);
	CHECK(truncate("/one", 3) == 0 && lseek(file, 0, SEEK_END) == 3);
	CHECK(posix_fallocate(file, 0, 20) == 0 && lseek(file, 0, SEEK_END) == 20);
	CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_NORMAL) == 0);
	CHECK((fcntl(file, F_GETFL) & O_ACCMODE) == O_RDWR);
	CHECK(fcntl(file, F_SETFL, O_APPEND) == 0 && fcntl(file, F_GETFL) & O_APPEND);
	FAILS(pwrite(file, "X", 1, 0), EOPNOTSUPP);
	struct flock lock = {.l_type = F_WRLCK};
	CHECK(fcntl(file, F_SETLK, &lock) == 0);
	CHECK(fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
	CHECK(isatty(file) == 0 && isatty(1) == 0);
	FAILS(read(77, text, 1), EBADF);
	FAILS(lseek(1, 0, SEEK_CUR), ESPIPE);
	CHECK(close(file) == 0);
	FAILS(write(file, "", 1), EBADF);
	CHECK((file = creat("/one", 0600)) == 3 && close(file) == 0);
}

static void known(void)
{
	struct stat stat_, other;
	CHECK(mkdir("/folder", 0700) == 0 && stat("/folder", &stat_) == 0 && S_ISDIR(stat_.st_mode));
	FAILS(mkdir("/folder", 0700), EEXIST);
	CHECK(truncate("/one", 1234) == 0);
	CHECK(stat("/one", &stat_) == 0 && S_ISREG(stat_.st_mode) && stat_.st_size == 1234 && stat_.st_nlink == 1);
	CHECK(stat_.st_mtim.tv_sec > 1600000000);
	CHECK(lstat("/one", &other) == 0 && other.st_ino == stat_.st_ino && other.st_dev == stat_.st_dev);
	int file = open("/one", O_RDONLY);
	CHECK(fstat(file, &other) == 0 && other.st_ino == stat_.st_ino);
	CHECK(fstatat(AT_FDCWD, "one", &other, 0) == 0 && other.st_size == 1234);
	CHECK(fstat(1, &other) == 0 && S_ISFIFO(other.st_mode));
	struct statx statx_;
	CHECK(statx(file, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &statx_) == 0 && statx_.stx_size == 1234);
	CHECK(statx_.stx_mode == stat_.st_mode && statx_.stx_mtime.tv_sec == stat_.st_mtim.tv_sec);
	close(file);
	FAILS(stat("/none", &stat_), ENOENT);
	FAILS(stat("/one/more", &stat_), ENOTDIR);
	CHECK(access("/one", R_OK | W_OK) == 0);
	FAILS(access("/one", X_OK), EACCES);
	CHECK(faccessat(AT_FDCWD, "/folder", X_OK, 0) == 0);
	FAILS(readlink("/one", (char[9]){0}, 9), EINVAL);
	FAILS(readlink("/none", (char[9]){0}, 9), ENOENT);
	CHECK(chmod("/one", 0600) == 0 && chown("/one", 1, 1) == 0);
	FAILS(chmod("/none", 0600), ENOENT);
	struct statfs room;
	CHECK(statfs("/", &room) == 0 && room.f_bsize == 4096 && room.f_namelen == 255 && room.f_bavail > 0 && room.f_ffree > 0);
	CHECK(umask(022) == 0);
	FAILS(syscall(SYS_getxattr, "/one", "user.x", 0, 0), EOPNOTSUPP);
}

static int times_are(const char *path, long read, long written)
{
	struct stat found;
	return stat(path, &found) == 0 && found.st_atim.tv_sec == read && found.st_mtim.tv_sec == written;
}

static void times(void)
{
	struct timespec both[2] = {{.tv_sec = 100, .tv_nsec = 5}, {.tv_sec = 200, .tv_nsec = 999999999}};
	struct stat found;
	CHECK(utimensat(AT_FDCWD, "/one", both, 0) == 0 && times_are("/one", 100, 200));
	CHECK(stat("/one", &found) == 0 && found.st_atim.tv_nsec == 5 && found.st_mtim.tv_nsec == 999999999);
	both[0].tv_nsec = UTIME_OMIT, both[1].tv_sec = 300;
	int file = open("/one", O_RDONLY), folder = open("/folder", O_RDONLY | O_DIRECTORY);
	CHECK(futimens(file, both) == 0 && times_are("/one", 100, 300));
	CHECK(read(file, &(char){0}, 1) == 1 && times_are("/one", 100, 300));
	both[0].tv_nsec = UTIME_NOW, both[1].tv_nsec = UTIME_OMIT;
	time_t now = time(0);
	CHECK(futimens(file, both) == 0 && stat("/one", &found) == 0);
	CHECK(found.st_atim.tv_sec >= now && found.st_mtim.tv_sec == 300);
	CHECK(utime("/one", &(struct utimbuf){-5, -6}) == 0 && times_are("/one", -5, -6));
	CHECK(utimes("/one", (struct timeval[2]){{7, 1}, {8, 2}}) == 0 && times_are("/one", 7, 8));
	both[0] = both[1] = (struct timespec){.tv_sec = 9};
	CHECK(futimens(folder, both) == 0 && times_are("/folder", 9, 9));
	CHECK(unlink("/one") == 0 && futimens(file, both) == 0 && fstat(file, &found) == 0 && found.st_mtim.tv_sec == 9);
	int again = open("/one", O_CREAT | O_WRONLY, 0600);
	CHECK(write(again, "x", 1) == 1 && stat("/one", &found) == 0 && found.st_mtim.tv_sec >= now && found.st_atim.tv_sec >= now);
	CHECK(utimes("/one", 0) == 0 && utimensat(AT_FDCWD, "/dev/null", 0, 0) == 0 && futimens(1, 0) == 0);
	FAILS(utimes("/none", 0), ENOENT);
	FAILS(utimes("/one/more", 0), ENOTDIR);
	FAILS(futimens(999, 0), EBADF);
	FAILS(utimensat(AT_FDCWD, "/one", 0, 1), EINVAL);
	both[1].tv_nsec = 1000000000;
	FAILS(utimensat(AT_FDCWD, "/one", both, 0), EINVAL);
	FAILS(utimensat(folder, "none", 0, 0), ENOENT);
	both[0].tv_nsec = both[1].tv_nsec = UTIME_OMIT;
	CHECK(utimensat(AT_FDCWD, "/none", both, 0) == 0);
	close(file), close(folder), close(again);
}

static void directories(void)
{
	char path[4096];
	int folder = open("/folder", O_RDONLY | O_DIRECTORY);
	CHECK(folder >= 0);
	FAILS(open("/one", O_RDONLY | O_DIRECTORY), ENOTDIR);
	CHECK(mkdirat(folder, "inner", 0700) == 0);
	for (int at = 0; at < 100; at++) {
		snprintf(path, sizeof path, "%0*d", 1 + at, at);
		int file = openat(folder, path, O_CREAT | O_WRONLY, 0600);
		CHECK(file >= 0 && close(file) == 0);
	}
	DIR *list = fdopendir(dup(folder));
	int files = 0, folders = 0, bytes = 0;
	for (struct dirent *entry; (entry = readdir(list));) {
		files += entry->d_type == DT_REG;
		folders += entry->d_type == DT_DIR;
		bytes += strlen(entry->d_name);
	}
	CHECK(files == 100 && folders == 1 && bytes == 5050 + 5);
	closedir(list);
	CHECK(renameat(folder, "inner", AT_FDCWD, "/moved") == 0);
	FAILS(renameat2(folder, "x", folder, "y", 1), ENOENT);
	FAILS(renameat2(folder, "1", folder, "2", 2), EINVAL);
	CHECK(fchdir(folder) == 0 && !strcmp(getcwd(path, sizeof path), "/folder"));
	CHECK(chdir("..") == 0 && !strcmp(getcwd(path, sizeof path), "/"));
	CHECK(!getcwd(path, 1) && errno == ERANGE);
	CHECK(!strcmp(realpath("folder/../moved/.", path), "/moved"));
	FAILS(rmdir("/folder"), ENOTEMPTY);
	CHECK(unlinkat(folder, "0", 0) == 0 && unlinkat(AT_FDCWD, "/moved", AT_REMOVEDIR) == 0);
	CHECK(rename("/one", "/two") == 0 && unlink("/two") == 0);
	FAILS(unlink("/two"), ENOENT);
	FAILS(symlink("/a", "/b"), EPERM);
	FAILS(link("/a", "/b"), EPERM);
	close(folder);
}

static int holds(const char *path, const char *text)
{
	char bytes[16] = {0};
	int file = open(path, O_RDONLY), right = file >= 0 && read(file, bytes, 15) == (ssize_t)strlen(text) && !strcmp(bytes, text);
	close(file);
	return right;
}

static void hold(const char *path, const char *text)
{
	int file = creat(path, 0600);
	CHECK(write(file, text, strlen(text)) == (ssize_t)strlen(text) && close(file) == 0);
}

/* A file or a directory gets a new name only if there is none. */
static void renamed_to_new(void)
{
	enum { NO_REPLACE = 1 };
	struct stat found;
	hold("/from", "from"), hold("/there", "there");
	FAILS(renameat2(AT_FDCWD, "/from", AT_FDCWD, "/there", NO_REPLACE), EEXIST);
	FAILS(renameat2(AT_FDCWD, "/from", AT_FDCWD, "/from", NO_REPLACE), EEXIST);
	CHECK(holds("/from", "from") && holds("/there", "there"));
	CHECK(renameat2(AT_FDCWD, "/from", AT_FDCWD, "/new", NO_REPLACE) == 0 && holds("/new", "from"));
	FAILS(open("/from", O_RDONLY), ENOENT);
	CHECK(mkdir("/tree", 0700) == 0 && mkdir("/tree/in", 0700) == 0);
	FAILS(renameat2(AT_FDCWD, "/tree", AT_FDCWD, "/there", NO_REPLACE), EEXIST);
	/* What has been made on the way goes if nothing comes of it. */
	FAILS(renameat2(AT_FDCWD, "/tree", AT_FDCWD, "/tree/in/it", NO_REPLACE), EINVAL);
	FAILS(stat("/tree/in/it", &found), ENOENT);
	FAILS(renameat2(AT_FDCWD, "/new", AT_FDCWD, "/none/it", NO_REPLACE), ENOENT);
	CHECK(renameat2(AT_FDCWD, "/tree", AT_FDCWD, "/other", NO_REPLACE) == 0 && stat("/other/in", &found) == 0);
	CHECK(rmdir("/other/in") == 0 && rmdir("/other") == 0 && unlink("/new") == 0 && unlink("/there") == 0);
}

static int waited_for;

static void *waits_for_a_lock(void *file)
{
	int got = flock(*(int *)file, LOCK_EX);
	return got == 0 && waited_for ? file : 0;
}

/* A lock belongs to what has been opened, by however many descriptors. */
static void locks(void)
{
	int one = open("/locked", O_RDWR | O_CREAT, 0600), two = open("/locked", O_RDONLY), other = creat("/unlocked", 0600);
	CHECK(flock(one, LOCK_EX) == 0 && flock(one, LOCK_EX | LOCK_NB) == 0 && flock(other, LOCK_EX | LOCK_NB) == 0);
	FAILS(flock(two, LOCK_EX | LOCK_NB), EWOULDBLOCK);
	FAILS(flock(two, LOCK_SH | LOCK_NB), EWOULDBLOCK);
	CHECK(flock(one, LOCK_SH) == 0 && flock(two, LOCK_SH | LOCK_NB) == 0);
	FAILS(flock(one, LOCK_EX | LOCK_NB), EWOULDBLOCK);
	/* What could not be exchanged is lost. */
	CHECK(flock(two, LOCK_EX | LOCK_NB) == 0 && flock(two, LOCK_UN) == 0 && flock(two, LOCK_UN) == 0);
	/* The last descriptor takes it along. */
	int same = dup(one), third = dup2(one, 20);
	CHECK(flock(same, LOCK_EX | LOCK_NB) == 0 && flock(one, LOCK_EX | LOCK_NB) == 0 && close(same) == 0 && close(one) == 0);
	FAILS(flock(two, LOCK_SH | LOCK_NB), EWOULDBLOCK);
	same = dup(third);
	CHECK(close(third) == 0 && flock(same, LOCK_UN) == 0 && flock(two, LOCK_EX | LOCK_NB) == 0);
	FAILS(flock(same, LOCK_SH | LOCK_NB), EWOULDBLOCK);
	CHECK(close(two) == 0 && flock(same, LOCK_EX | LOCK_NB) == 0);
	/* A name that is used again is another file. */
	CHECK(unlink("/locked") == 0 && (two = open("/locked", O_RDWR | O_CREAT, 0600)) >= 0 && flock(two, LOCK_EX | LOCK_NB) == 0);
	/* One thread waits for another, which closes what it has locked. */
	one = open("/locked", O_RDONLY);
	pthread_t thread;
	void *right;
	CHECK(pthread_create(&thread, 0, waits_for_a_lock, &one) == 0 && usleep(20000) == 0);
	waited_for = 1;
	CHECK(close(two) == 0 && pthread_join(thread, &right) == 0 && right == &one);
	/* Locks of ranges are another matter: those of one process do not meet. */
	CHECK((two = open("/locked", O_RDWR)) >= 0 && fcntl(two, F_SETLK, &(struct flock){.l_type = F_WRLCK}) == 0);
	FAILS(flock(one, 0), EINVAL);
	FAILS(flock(one, LOCK_EX | LOCK_SH), EINVAL);
	FAILS(flock(77, LOCK_EX), EBADF);
	CHECK(flock(1, LOCK_EX) == 0);
	close(one), close(two), close(same), close(other);
	CHECK(unlink("/locked") == 0 && unlink("/unlocked") == 0);
}

static void streams(void)
{
	char line[64];
	FILE *file = fopen("/text", "w+");
	CHECK(file && fprintf(file, "%d %s %.2f\n%x\n", 42, "words", 2.5, 255) == 17);
	rewind(file);
	int number;
	double fraction;
	CHECK(fscanf(file, "%d %63s %lf", &number, line, &fraction) == 3 && number == 42 && fraction == 2.5);
	CHECK(fgets(line, sizeof line, file) && fgets(line, sizeof line, file) && !strcmp(line, "ff\n"));
	CHECK(fclose(file) == 0);
	CHECK((file = tmpfile()) == 0 || fclose(file) == 0);
	unsigned char random[32] = {0}, zero[32];
	file = fopen("/dev/urandom", "r");
	CHECK(file && fread(random, 1, 32, file) == 32 && fclose(file) == 0);
	file = fopen("/dev/zero", "r");
	CHECK(file && fread(zero, 1, 32, file) == 32 && fclose(file) == 0 && memcmp(random, zero, 32));
	file = fopen("/dev/null", "r+");
	CHECK(file && fgetc(file) == EOF && fclose(file) == 0);
}

/* Files that are opened to be read, and made or emptied on the way. */
static void opened(void)
{
	char text[8] = {0};
	int file = open("/new", O_RDONLY | O_CREAT, 0600);
	CHECK(file >= 0 && read(file, text, 8) == 0 && (fcntl(file, F_GETFL) & O_ACCMODE) == O_RDONLY);
	FAILS(write(file, "x", 1), EBADF);
	close(file);
	FAILS(open("/new", O_RDONLY | O_CREAT | O_EXCL, 0600), EEXIST);
	CHECK((file = open("/new2", O_RDONLY | O_CREAT | O_EXCL, 0600)) >= 0 && close(file) == 0);
	file = open("/new", O_WRONLY | O_APPEND);
	CHECK(write(file, "abc", 3) == 3 && ioctl(file, FIONBIO, &(int){1}) == 0);
	CHECK(lseek(file, 0, SEEK_SET) == 0 && write(file, "d", 1) == 1 && close(file) == 0);
	CHECK((file = open("/new", O_RDONLY | O_CREAT, 0600)) >= 0 && read(file, text, 8) == 4 && !memcmp(text, "abcd", 4));
	int left = 0;
	CHECK(lseek(file, 1, SEEK_SET) == 1 && ioctl(file, FIONREAD, &left) == 0 && left == 3 && close(file) == 0);
	CHECK((file = open("/new", O_RDONLY | O_APPEND)) >= 0 && (fcntl(file, F_GETFL) & O_ACCMODE) == O_RDONLY);
	FAILS(write(file, "x", 1), EBADF);
	close(file);
	CHECK((file = open("/new", O_RDONLY | O_TRUNC)) >= 0 && read(file, text, 8) == 0 && close(file) == 0);
	FAILS(open("/none", O_RDONLY | O_TRUNC), ENOENT);
	CHECK(unlink("/new") == 0 && unlink("/new2") == 0);
	FAILS(syscall(SYS_fallocate, 1, 0, 0, 0), EINVAL);
	FAILS(access("/", 99), EINVAL);
	FAILS(readv(77, 0, 0), EBADF);
}

/* No two files are one. */
static void identities(void)
{
	static const char *const names[] = {"/dev/null", "/dev/zero", "/dev/urandom", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/"};
	struct stat known[12], again;
	int count = 0, one[2], other[2];
	for (; count < 7; count++) CHECK(stat(names[count], &known[count]) == 0);
	CHECK(pipe(one) == 0 && pipe(other) == 0);
	CHECK(fstat(one[0], &known[count++]) == 0 && fstat(other[0], &known[count++]) == 0);
	for (int at = 0; at < count; at++)
		for (int before = 0; before < at; before++)
			CHECK(known[at].st_ino != known[before].st_ino || known[at].st_dev != known[before].st_dev);
	CHECK(fstat(1, &again) == 0 && again.st_ino == known[4].st_ino && !S_ISCHR(again.st_mode));
	CHECK(fstat(one[1], &again) == 0 && again.st_ino == known[7].st_ino);
	CHECK(S_ISCHR(known[0].st_mode) && known[0].st_rdev == ((1 << 8) | 3));
	close(one[0]), close(one[1]), close(other[0]), close(other[1]);
	/* Devices have no position, and none is missed. */
	char bytes[8] = "1234567";
	int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR);
	CHECK(lseek(null, 5, SEEK_SET) == 0 && pread(null, bytes, 8, 0) == 0 && pwrite(null, bytes, 8, 3) == 8);
	CHECK(pread(zero, bytes, 8, 100) == 8 && !bytes[0] && !bytes[7]);
	char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
	CHECK(page != MAP_FAILED && page[7] == 0 && munmap(page, 4096) == 0);
	FAILS(open("/dev/null", O_DIRECTORY), ENOTDIR);
	close(null), close(zero);
}

/* More than the system transfers at once. */
static void large(void)
{
	enum { BYTES = 10 << 20, LAST = 2500 };
	char *bytes = malloc(BYTES);
	CHECK(bytes != 0);
	if (!bytes) return;
	for (int at = 0; at < BYTES; at += 4096) bytes[at] = at >> 12;
	int file = open("/large", O_RDWR | O_CREAT, 0600);
	CHECK(write(file, bytes, BYTES) == BYTES && lseek(file, 0, SEEK_CUR) == BYTES);
	memset(bytes, 0, BYTES);
	CHECK(pread(file, bytes, BYTES, 4096) == BYTES - 4096 && bytes[0] == 1 && bytes[4096 * LAST] == (char)(LAST + 1));
	CHECK(lseek(file, 0, SEEK_SET) == 0 && read(file, bytes, BYTES) == BYTES && bytes[4096 * LAST] == (char)LAST);
	CHECK(read(file, bytes, BYTES) == 0);
	struct iovec list[3] = {{bytes, 3 << 20}, {bytes + (3 << 20), 0}, {bytes + (3 << 20), BYTES - (3 << 20)}};
	CHECK(pwritev(file, list, 3, 4096) == BYTES && lseek(file, 0, SEEK_END) == BYTES + 4096);
	memset(bytes, 0, BYTES);
	CHECK(preadv(file, list, 3, 4096) == BYTES && bytes[4096 * LAST] == (char)LAST);
	CHECK(lseek(file, 8192, SEEK_SET) == 8192 && readv(file, list, 3) == BYTES - 4096 && bytes[0] == 1);
	CHECK(ftruncate(file, 0) == 0 && writev(file, list, 3) == BYTES && close(file) == 0 && unlink("/large") == 0);
	free(bytes);
}

int main(int count, char **arguments)
{
	(void)arguments;
	if (count > 1) {
		/* More than fits into a line. */
		static char bytes[30000];
		memset(bytes, 'x', sizeof bytes);
		bytes[sizeof bytes - 1] = '\n';
		CHECK(write(1, bytes, sizeof bytes) == sizeof bytes);
		return end();
	}
	opened();
	identities();
	large();
	descriptors();
	known();
	times();
	directories();
	renamed_to_new();
	locks();
	streams();
	return end();
}
