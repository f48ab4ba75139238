/* Files that are mapped with MAP_SHARED: stores and writes meet. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, SIZE = 10 * PAGE, STEPS = 10000 };

static int file(const char *name, off_t size)
{
	int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0 && ftruncate(file, size) == 0);
	return file;
}

static char *map(int file, size_t len, int protection, off_t offset)
{
	return mmap(0, len, protection, MAP_SHARED, file, offset);
}

static void stores_reach_the_file(void)
{
	int a = file("/a", 10000), b = open("/a", O_RDWR);
	char *text = map(a, 10000, PROT_READ | PROT_WRITE, 0), bytes[16];
	CHECK(text != MAP_FAILED && text[0] == 0);
	memcpy(text + 4090, "over two pages", 14);
	CHECK(pread(b, bytes, 14, 4090) == 14 && !memcmp(bytes, "over two pages", 14));
	CHECK(lseek(b, 4095, SEEK_SET) == 4095 && read(b, bytes, 3) == 3 && !memcmp(bytes, "two", 3));
	/* What is beyond the file's end stays there. */
	text[10000] = 'x';
	struct stat status;
	CHECK(msync(text, 10000, MS_SYNC) == 0 && fstat(b, &status) == 0 && status.st_size == 10000);
	/* The mapping needs its descriptor no longer. */
	close(a);
	text[1] = '1';
	CHECK(munmap(text, 10000) == 0 && pread(b, bytes, 2, 0) == 2 && bytes[0] == 0 && bytes[1] == '1');
	FAILS(msync((char *)1, 1, MS_SYNC), EINVAL);
	close(b);
}

static void writes_reach_the_mapping(void)
{
	int a = open("/a", O_RDWR), end = open("/a", O_WRONLY | O_APPEND);
	char *read_only = map(a, 10000, PROT_READ, 0), *tail = map(a, PAGE, PROT_READ | PROT_WRITE, 3 * PAGE);
	CHECK(read_only != MAP_FAILED && tail != MAP_FAILED && read_only[1] == '1');
	CHECK(pwrite(a, "by pwrite", 9, 5000) == 9 && !memcmp(read_only + 5000, "by pwrite", 9));
	CHECK(lseek(a, 8190, SEEK_SET) == 8190 && write(a, "by write", 8) == 8 && !memcmp(read_only + 8190, "by write", 8));
	/* Beyond the end of the file there are zeros, until it grows. */
	CHECK(tail[0] == 0 && ftruncate(a, 3 * PAGE) == 0 && write(end, "appended", 8) == 8 && !memcmp(tail, "appended", 8));
	CHECK(ftruncate(a, 3 * PAGE + 2) == 0 && !memcmp(tail, "ap\0\0\0\0", 6));
	tail[1] = 'P';
	int again = open("/a", O_RDWR | O_TRUNC);
	CHECK(again >= 0 && tail[0] == 0 && tail[1] == 0);
	close(again), close(a), close(end);
	CHECK(munmap(read_only, 10000) == 0 && munmap(tail, PAGE) == 0);
}

static void one_part_is_one_memory(void)
{
	int a = file("/a", SIZE), b = open("/a", O_RDONLY), w = open("/a", O_WRONLY);
	char *first = map(a, SIZE, PROT_READ, 0), *second = map(b, PAGE, PROT_READ, PAGE), byte;
	CHECK(second == first + PAGE);
	FAILS((long)map(a, SIZE, PROT_READ | PROT_WRITE, 2 * PAGE), ENODEV);
	CHECK(mprotect(first, SIZE, PROT_READ | PROT_WRITE) == 0);
	second[3] = 's';
	CHECK(pread(b, &byte, 1, PAGE + 3) == 1 && byte == 's');
	CHECK(munmap(first, SIZE) == 0);
	second[3] = 't';
	CHECK(pread(b, &byte, 1, PAGE + 3) == 1 && byte == 't' && munmap(second, PAGE) == 0);
	/* Both rights are needed, and a file. */
	FAILS((long)map(b, PAGE, PROT_READ | PROT_WRITE, 0), EACCES);
	FAILS((long)map(w, PAGE, PROT_READ | PROT_WRITE, 0), EACCES);
	int directory = open("/", O_RDONLY);
	FAILS((long)map(directory, PAGE, PROT_READ, 0), ENODEV);
	char *longer = map(a, 2 * PAGE, PROT_READ | PROT_WRITE, 0);
	longer[5] = '5';
	FAILS((long)mremap(longer, 2 * PAGE, 4 * PAGE, 0), ENOMEM);
	longer = mremap(longer, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE);
	CHECK(longer != MAP_FAILED && longer[5] == '5' && longer[PAGE + 3] == 't');
	longer[3 * PAGE] = 'l';
	CHECK(mremap(longer, 4 * PAGE, PAGE, 0) == longer && pread(b, &byte, 1, 3 * PAGE) == 1 && byte == 'l');
	longer[7] = '7';
	CHECK(fsync(a) == 0 && pread(b, &byte, 1, 7) == 1 && byte == '7' && munmap(longer, PAGE) == 0);
	close(a), close(b), close(w), close(directory);
	/* A mapping has whole pages, into which a file grows. */
	a = file("/a", 100);
	first = map(a, 100, PROT_READ, 0);
	CHECK(first[200] == 0 && pwrite(a, "grown", 5, 200) == 5 && !memcmp(first + 200, "grown", 5));
	CHECK(mremap(first, 100, 205, 0) == first && munmap(first, 205) == 0);
	close(a);
}

/* A database maps much more than it has, and lets its file grow into that: memory counts as far as the file goes. */
static void longer_than_the_file(void)
{
	enum { MIB = 1 << 20 };
	const size_t len = 4096L * MIB;
	int a = file("/a", 3 * PAGE);
	CHECK(pwrite(a, "before", 6, PAGE) == 6);
	char *text = map(a, len, PROT_READ, 0), *again;
	CHECK(text != MAP_FAILED);
	if (text == MAP_FAILED) return;
	CHECK(!memcmp(text + PAGE, "before", 6) && text[3 * PAGE - 1] == 0);
	CHECK(pwrite(a, "within", 6, PAGE) == 6 && !memcmp(text + PAGE, "within", 6));
	/* It grows by what is written, with a gap, and by its size. */
	CHECK(pwrite(a, "beyond", 6, 2 * MIB) == 6 && !memcmp(text + 2 * MIB, "beyond", 6) && text[MIB] == 0 && text[2 * MIB + PAGE - 1] == 0);
	CHECK(ftruncate(a, 3 * MIB) == 0 && text[3 * MIB - 1] == 0 && madvise(text, len, MADV_RANDOM) == 0);
	CHECK(ftruncate(a, 2 * MIB) == 0 && text[2 * MIB] == 0 && !memcmp(text + PAGE, "within", 6));
	CHECK(pwrite(a, "again", 5, 2 * MIB) == 5 && !memcmp(text + 2 * MIB, "again", 6));
	/* The same part is the same memory, and of a file that begins later there is more. */
	CHECK((again = map(a, len, PROT_READ, 0)) == text && munmap(again, len) == 0);
	CHECK(madvise(text, PAGE, MADV_DONTNEED) == 0 && mprotect(text, len, PROT_READ) == 0 && text[PAGE] == 'w');
	CHECK(munmap(text, len) == 0);
	CHECK((text = map(a, len, PROT_READ, MIB)) != MAP_FAILED && !memcmp(text + MIB, "again", 6) && munmap(text, len) == 0);
	/* One that becomes writable. */
	CHECK((text = map(a, 4 * MIB, PROT_READ, 0)) != MAP_FAILED && mprotect(text, 4 * MIB, PROT_READ | PROT_WRITE) == 0);
	text[PAGE] = 'W', text[3 * MIB] = 'x';
	char bytes[7] = {0};
	CHECK(pread(a, bytes, 6, PAGE) == 6 && !strcmp(bytes, "Within") && munmap(text, 4 * MIB) == 0);
	/* More than there are addresses. */
	FAILS((long)map(a, 128L << 30, PROT_READ, 0), ENOMEM);
	/* Nothing of it is left. */
	for (int round = 0; round < 20; round++)
		CHECK((text = map(a, len, PROT_READ, 0)) != MAP_FAILED && text[PAGE] == 'W' && munmap(text, len) == 0);
	close(a);
	unlink("/a");
}

static char *both;

/* Every second byte of the mapping. */
static void *counts(void *which)
{
	for (int round = 1; round <= 100; round++)
		for (size_t at = (size_t)which; at < 2 * PAGE; at += 2) both[at] = round;
	return 0;
}

static void threads(void)
{
	int a = file("/threads", 2 * PAGE);
	both = map(a, 2 * PAGE, PROT_READ | PROT_WRITE, 0);
	pthread_t threads[2];
	for (size_t at = 0; at < 2; at++) CHECK(pthread_create(&threads[at], 0, counts, (void *)at) == 0);
	char bytes[2 * PAGE];
	for (int round = 0; round < 50; round++) CHECK(pread(a, bytes, sizeof bytes, 0) == sizeof bytes);
	for (int at = 0; at < 2; at++) CHECK(pthread_join(threads[at], 0) == 0);
	CHECK(pread(a, bytes, sizeof bytes, 0) == sizeof bytes);
	for (size_t at = 0; at < sizeof bytes; at++)
		if (bytes[at] != 100) { CHECK(!"a store is lost"); break; }
	CHECK(munmap(both, 2 * PAGE) == 0);
	close(a);
}

static uint64_t seed = 20261126;

static size_t below(size_t end)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % end;
}

/* Stores, writes, reads, other sizes and other mappings at random, compared with an array. */
static void model(void)
{
	static char bytes[SIZE], read[SIZE];
	int a = file("/model", SIZE), wrong = 0;
	size_t size = SIZE, offset = 0, len = SIZE;
	char *mapped = map(a, len, PROT_READ | PROT_WRITE, offset);
	for (int step = 0; step < STEPS && !wrong; step++) {
		size_t at = below(size), count = below(size - at + 1) % 6000;
		switch (below(7)) {
		case 0: case 1: {
			/* A store, where the mapping and the file both are. */
			size_t from = offset + below(len);
			if (from < size) mapped[from - offset] = bytes[from] = step;
			break;
		}
		case 2:
			memset(read, step, count);
			wrong |= pwrite(a, read, count, at) != (ssize_t)count;
			memset(bytes + at, step, count);
			break;
		case 3:
			wrong |= pread(a, read, count, at) != (ssize_t)count || memcmp(read, bytes + at, count);
			break;
		case 4:
			for (size_t byte = offset; byte < offset + len && byte < size; byte++) wrong |= mapped[byte - offset] != bytes[byte];
			break;
		case 5:
			if (below(10) == 0) {
				size = 1 + below(SIZE);
				wrong |= ftruncate(a, size) != 0;
				memset(bytes + size, 0, SIZE - size);
			} else {
				wrong |= msync(mapped, len, MS_ASYNC) != 0;
			}
			break;
		case 6:
			if (below(5)) break;
			wrong |= munmap(mapped, len) != 0;
			offset = below(SIZE / PAGE) * PAGE;
			len = 1 + below(SIZE - offset);
			mapped = map(a, len, PROT_READ | PROT_WRITE, offset);
			wrong |= mapped == MAP_FAILED;
		}
		if (wrong) printf("step %d\n", step);
	}
	CHECK(!wrong);
	/* What is stored last reaches the file at the end, for the next step to find. */
	memcpy(map(file("/last", 4), 4, PROT_READ | PROT_WRITE, 0), "last", 4);
}

/* With an argument it looks for what a run without one has left. */
int main(int argc, char **argv)
{
	if (argc > 1) {
		char last[4];
		int file = open("/last", O_RDONLY);
		CHECK(read(file, last, 4) == 4 && !memcmp(last, "last", 4));
		return end();
	}
	stores_reach_the_file();
	writes_reach_the_mapping();
	one_part_is_one_memory();
	longer_than_the_file();
	threads();
	model();
	return end();
}
