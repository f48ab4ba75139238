/* Memory of a program that has slept: what is left of it is as it was, whatever is done to it before it is touched. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20, AREA = MIB, AREAS = 12, OLD = 400 };

/* Data of the program, and areas of its heap. */
static unsigned char data[AREA] = {1};
static unsigned char *areas[AREAS];

static unsigned char byte(int area, long at)
{
	uint32_t mixed = (uint32_t)(at / 61 + 7919 * area) * 2654435761u;
	return mixed >> 24 | 1;
}

static void write_area(int area, unsigned char *to)
{
	for (long at = 0; at < AREA; at++) to[at] = byte(area, at);
}

static int is_area(int area, const unsigned char *from, long begin, long end)
{
	for (long at = begin; at < end; at++)
		if (from[at] != byte(area, at)) return 0;
	return 1;
}

static int is_zero(const unsigned char *from, long begin, long end)
{
	for (long at = begin; at < end; at++)
		if (from[at]) return 0;
	return 1;
}

static void *looks(void *seed)
{
	uint64_t random = (uintptr_t)seed;
	for (int round = 0; round < 3000; round++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		long at = random >> 33 & (AREA - 1);
		if (areas[0][at] != byte(0, at)) return (void *)1;
	}
	return 0;
}

/* Several threads touch the same pages. */
static void threads(void)
{
	pthread_t all[4];
	for (long at = 0; at < 4; at++) CHECK(pthread_create(&all[at], 0, looks, (void *)(at / 2 + 1)) == 0);
	for (int at = 0; at < 4; at++) {
		void *wrong;
		CHECK(pthread_join(all[at], &wrong) == 0 && wrong == 0);
	}
	CHECK(is_area(0, areas[0], 0, AREA));
}

/* What is dropped, or unmapped and mapped anew, is zero; what is around it is not. */
static void dropped(void)
{
	unsigned char *area = areas[1];
	CHECK(area[20 * PAGE] == byte(1, 20 * PAGE));
	CHECK(madvise(area + 16 * PAGE, 32 * PAGE, MADV_DONTNEED) == 0);
	CHECK(is_zero(area, 16 * PAGE, 48 * PAGE));
	area[20 * PAGE] = 5;
	CHECK(area[20 * PAGE] == 5 && area[20 * PAGE + 1] == 0);
	CHECK(is_area(1, area, 0, 16 * PAGE) && is_area(1, area, 48 * PAGE, AREA));
	area = areas[2];
	int fixed = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS;
	CHECK(mmap(area + 64 * PAGE, 64 * PAGE, PROT_READ | PROT_WRITE, fixed, -1, 0) == area + 64 * PAGE);
	CHECK(is_zero(area, 64 * PAGE, 128 * PAGE));
	CHECK(munmap(area + 192 * PAGE, 64 * PAGE) == 0);
	unsigned char *other = mmap(0, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(other != MAP_FAILED && is_zero(other, 0, 64 * PAGE) && munmap(other, 64 * PAGE) == 0);
	CHECK(is_area(2, area, 0, 64 * PAGE) && is_area(2, area, 128 * PAGE, 192 * PAGE));
	CHECK(munmap(area, 192 * PAGE) == 0);
}

/* Rights change before it is touched. */
static void protected(void)
{
	unsigned char *area = areas[3];
	CHECK(mprotect(area + 32 * PAGE, 32 * PAGE, PROT_NONE) == 0);
	CHECK(mprotect(area + 128 * PAGE, 64 * PAGE, PROT_READ) == 0);
	CHECK(is_area(3, area, 0, 32 * PAGE) && is_area(3, area, 64 * PAGE, AREA));
	CHECK(mprotect(area + 32 * PAGE, 32 * PAGE, PROT_READ | PROT_WRITE) == 0);
	CHECK(is_area(3, area, 32 * PAGE, 64 * PAGE));
	CHECK(mprotect(area + 128 * PAGE, 64 * PAGE, PROT_READ | PROT_WRITE) == 0);
	area[130 * PAGE] = 9;
	CHECK(area[130 * PAGE] == 9);
}

/* It grows, and may get another place. */
static void resized(void)
{
	unsigned char *area = mremap(areas[4], AREA, 3 * AREA, MREMAP_MAYMOVE);
	CHECK(area != MAP_FAILED && is_area(4, area, 0, AREA) && is_zero(area, AREA, 3 * AREA));
	CHECK(munmap(area, 3 * AREA) == 0);
	unsigned char *more = realloc(areas[5], 2 * AREA);
	CHECK(more && is_area(5, more, 0, AREA));
	free(more);
}

/* Calls read and write memory that nothing has touched. */
static void files(const char *path)
{
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file >= 0);
	CHECK(write(file, areas[6] + 100, AREA / 2) == AREA / 2);
	struct iovec parts[2] = {{areas[6] + 100 + AREA / 2, AREA / 4}, {areas[6] + 100 + AREA / 2 + AREA / 4, 1000}};
	CHECK(writev(file, parts, 2) == AREA / 4 + 1000);
	/* Into pages of another one, the middle of which begins and ends within a page. */
	long count = AREA / 2 + AREA / 4 + 1000, done = 0;
	while (done < count) {
		long got = pread(file, areas[7] + 5000 + done, count - done, done);
		if (got <= 0) break;
		done += got;
	}
	CHECK(done == count && memcmp(areas[7] + 5000, areas[6] + 100, count) == 0);
	CHECK(is_area(7, areas[7], 0, 5000) && is_area(7, areas[7], 5000 + count, AREA));
	CHECK(is_area(6, areas[6], 0, AREA));
	CHECK(close(file) == 0 && unlink(path) == 0);
	write_area(7, areas[7]);
}

/* What is dropped, unmapped, hidden and moved before it is touched, and looked at after the next sleep. */
static void changed(void)
{
	unsigned char *area = areas[10];
	CHECK(madvise(area + 16 * PAGE, 32 * PAGE, MADV_DONTNEED) == 0);
	int fixed = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS;
	CHECK(mmap(area + 64 * PAGE, 32 * PAGE, PROT_READ | PROT_WRITE, fixed, -1, 0) == area + 64 * PAGE);
	CHECK(mprotect(area + 128 * PAGE, 32 * PAGE, PROT_NONE) == 0);
	CHECK(munmap(area + 192 * PAGE, 64 * PAGE) == 0);
	areas[11] = mremap(areas[11], AREA, 3 * AREA, MREMAP_MAYMOVE);
	CHECK(areas[11] != MAP_FAILED);
}

static void is_as_changed(void)
{
	unsigned char *area = areas[10];
	CHECK(is_area(10, area, 0, 16 * PAGE) && is_zero(area, 16 * PAGE, 48 * PAGE));
	CHECK(is_area(10, area, 48 * PAGE, 64 * PAGE) && is_zero(area, 64 * PAGE, 96 * PAGE));
	CHECK(mprotect(area + 128 * PAGE, 32 * PAGE, PROT_READ | PROT_WRITE) == 0);
	CHECK(is_area(10, area, 96 * PAGE, 192 * PAGE) && munmap(area, 192 * PAGE) == 0);
	CHECK(is_area(11, areas[11], 0, AREA) && is_zero(areas[11], AREA, 3 * AREA));
	CHECK(munmap(areas[11], 3 * AREA) == 0);
}

/* For another sleep: all of it as it was before the first. */
static void again(void)
{
	areas[5] = malloc(AREA);
	for (int area = 1; area < AREAS; area++) {
		if (area > 5 && area < 10) continue;
		if (area == 2 || area == 4 || area > 5) areas[area] = mmap(0, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		write_area(area, areas[area]);
	}
}

int main(int count, char **arguments)
{
	int naps = count > 1 ? atoi(arguments[1]) : 1, milliseconds = count > 2 ? atoi(arguments[2]) : 10;
	write_area(OLD, data);
	for (int area = 0; area < AREAS; area++) {
		areas[area] = area == 5 ? malloc(AREA) : mmap(0, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(areas[area] && areas[area] != MAP_FAILED);
		write_area(area, areas[area]);
	}
	for (int nap = 0; nap < naps; nap++) {
		usleep(milliseconds * 1000);
		threads();
		dropped();
		protected();
		resized();
		for (int path = 3; path < count; path++) files(arguments[path]);
		changed();
		usleep(milliseconds * 1000);
		is_as_changed();
		again();
		/* The rest of it is not touched before the end. */
		CHECK(areas[8][AREA / 2] == byte(8, AREA / 2));
	}
	CHECK(is_area(OLD, data, 0, AREA) && is_area(8, areas[8], 0, AREA) && is_area(9, areas[9], 0, AREA));
	return end();
}
