/* Memory: the heap, mmap and its kin. */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 500, ROUNDS = 20000 };

/* Blocks of many sizes, freed and resized in a disorderly way: each holds its own byte throughout. */
static void *disorder(void *seed)
{
	unsigned char *blocks[BLOCKS] = {0};
	size_t sizes[BLOCKS] = {0}, wrong = 0;
	uint64_t random = (uintptr_t)seed;
	for (int round = 0; round < ROUNDS; round++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		size_t at = (random >> 33) % BLOCKS, size = 1 + (random >> 43) % (round % 50 ? 700 : 70000);
		for (size_t byte = 0; byte < sizes[at]; byte += 97) wrong += blocks[at][byte] != (unsigned char)at;
		if (random & 1 << 20) {
			free(blocks[at]);
			blocks[at] = random & 1 << 21 ? malloc(size) : aligned_alloc(64, size);
		} else {
			blocks[at] = realloc(blocks[at], size);
		}
		wrong += malloc_usable_size(blocks[at]) < size || (uintptr_t)blocks[at] % 16;
		memset(blocks[at], at, sizes[at] = size);
	}
	for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
	return (void *)wrong;
}

static void heap(void)
{
	pthread_t threads[3];
	for (long at = 0; at < 3; at++) CHECK(pthread_create(&threads[at], 0, disorder, (void *)(at + 1)) == 0);
	CHECK(disorder((void *)9) == 0);
	for (int at = 0; at < 3; at++) {
		void *wrong;
		CHECK(pthread_join(threads[at], &wrong) == 0 && wrong == 0);
	}
	unsigned char *zero = calloc(300, 3);
	for (int at = 0; at < 900; at++) CHECK(zero[at] == 0);
	free(zero);
	void *aligned = 0;
	CHECK(posix_memalign(&aligned, 4096, 10) == 0 && (uintptr_t)aligned % 4096 == 0);
	free(aligned);
	CHECK(posix_memalign(&aligned, 3, 10) == EINVAL);
	void *volatile none = malloc(SIZE_MAX / 2);
	CHECK(none == 0 && errno == ENOMEM && calloc(SIZE_MAX / 2, 3) == 0);
	free(0);
	CHECK(sbrk(1) == (void *)-1);
}

static void mappings(void)
{
	char *pages = mmap(0, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED && (uintptr_t)pages % 4096 == 0);
	memset(pages, 7, 5 * 4096);
	CHECK(madvise(pages, 4096, MADV_DONTNEED) == 0 && pages[0] == 0 && pages[4096] == 7);
	CHECK(mprotect(pages, 4096, PROT_NONE) == 0 && mprotect(pages, 4096, PROT_READ | PROT_WRITE) == 0);
	/* What does not begin at a page is nothing that can be freed, and its neighbours stay as they are. */
	FAILS(madvise(pages + 4096 + 2048, 2048, MADV_DONTNEED), EINVAL);
	CHECK(pages[4096 + 2048] == 7 && pages[2 * 4096] == 7);
	char *moved = mremap(pages, 5 * 4096, 9 * 4096, MREMAP_MAYMOVE);
	CHECK(moved != MAP_FAILED && moved[4096] == 7 && moved[8 * 4096] == 0);
	CHECK(mremap(moved, 9 * 4096, 4096, 0) == moved);
	FAILS(mremap(moved, 4096, 2 * 4096, 0), ENOMEM);
	CHECK(mmap(moved, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == moved);
	CHECK(munmap(moved, 4096) == 0 && munmap(moved, 4096) == 0);
	/* What has been given back is used again, zeroed. */
	char *again = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(again != MAP_FAILED && again[0] == 0 && again[4095] == 0);
	munmap(again, 4096);
	FAILS(mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), EINVAL);
	FAILS(mmap((void *)0x1000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), EINVAL);
	FAILS(mmap(0, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), EACCES);
	FAILS(mprotect(again, 4096, PROT_READ | PROT_EXEC), EACCES);
	FAILS(mlock(again, 4096), ENOMEM);

	int file = open("/mapped", O_RDWR | O_CREAT, 0600);
	CHECK(write(file, "text of the file", 16) == 16);
	char *text = mmap(0, 16, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	CHECK(text != MAP_FAILED && !memcmp(text, "text of the file", 16));
	text[0] = 'T';
	char first;
	CHECK(pread(file, &first, 1, 0) == 1 && first == 't');
	CHECK(munmap(text, 16) == 0);
	/* Beyond the file's end: zeros. */
	text = mmap(0, 8192, PROT_READ, MAP_PRIVATE, file, 0);
	CHECK(text != MAP_FAILED && text[15] == 'e' && text[16] == 0 && text[8191] == 0);
	/* It is there again after it has been freed, as it would be read again. */
	CHECK(madvise(text, 8192, MADV_DONTNEED) == 0 && text[0] == 't' && text[16] == 0);
	CHECK(munmap(text, 8192) == 0);
	FAILS(mmap(0, 16, PROT_READ, MAP_PRIVATE, 77, 0), EBADF);
	/* A hole takes as long as it takes to name it. */
	CHECK(ftruncate(file, INT64_MAX) == 0);
	FAILS((long)mmap(0, INT64_MAX / 2, PROT_READ, MAP_PRIVATE, file, 0), ENOMEM);
	char *hole = mmap(0, 24 << 20, PROT_READ, MAP_PRIVATE, file, 0);
	CHECK(hole != MAP_FAILED && hole[15] == 'e' && hole[16] == 0 && hole[(24 << 20) - 1] == 0 && munmap(hole, 24 << 20) == 0);
	close(file);
}

enum { MIB = 1 << 20 };
static const long ROOM = 4096L * MIB;

/* Memory that the system maps. */
static void large(void)
{
	enum { PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS, BOTH = PROT_READ | PROT_WRITE };
	/* A reservation of many times the step's memory, of which a part is used. */
	char *room = mmap(0, ROOM, PROT_NONE, PRIVATE, -1, 0);
	CHECK(room != MAP_FAILED);
	char *part = room + 8 * MIB;
	CHECK(mprotect(part, 3 * MIB, BOTH) == 0);
	memset(part, 5, 3 * MIB);
	CHECK(madvise(part, MIB, MADV_DONTNEED) == 0 && part[0] == 0 && part[MIB - 1] == 0 && part[MIB] == 5);
	CHECK(mmap(part + MIB, MIB, BOTH, PRIVATE | MAP_FIXED, -1, 0) == part + MIB);
	CHECK(part[MIB] == 0 && part[2 * MIB - 1] == 0 && part[2 * MIB] == 5);
	CHECK(madvise(part + 2 * MIB, 4096, MADV_FREE) == 0 && (part[2 * MIB] == 0 || part[2 * MIB] == 5));
	CHECK(mprotect(part, MIB, PROT_READ) == 0 && part[5] == 0 && mprotect(part, MIB, BOTH) == 0);
	part[5] = 6;
	FAILS(mprotect(room, ROOM, BOTH), ENOMEM);
	FAILS((long)mmap(0, ROOM, BOTH, PRIVATE, -1, 0), ENOMEM);
	FAILS(mprotect(part, MIB, PROT_READ | PROT_EXEC), EACCES);
	/* A function has fewer addresses than a process of Linux. */
	FAILS((long)mmap(0, 128L << 30, PROT_NONE, PRIVATE, -1, 0), ENOMEM);
	/* What is in the middle goes alone. */
	CHECK(munmap(part + MIB, MIB) == 0 && part[5] == 6 && part[3 * MIB - 1] == 5);
	FAILS((long)mmap(part + MIB, 4096, BOTH, PRIVATE | MAP_FIXED, -1, 0), EINVAL);
	CHECK(munmap(room, part + MIB - room) == 0 && munmap(part + 2 * MIB, room + ROOM - part - 2 * MIB) == 0);

	char *grows = mmap(0, MIB, BOTH, PRIVATE, -1, 0);
	CHECK(grows != MAP_FAILED);
	grows[0] = 1, grows[MIB - 1] = 2;
	CHECK(mprotect(grows + 4096, 4096, PROT_NONE) == 0);
	grows = mremap(grows, MIB, 5 * MIB, MREMAP_MAYMOVE);
	CHECK(grows != MAP_FAILED && grows[0] == 1 && grows[MIB - 1] == 2 && grows[MIB] == 0 && grows[4096] == 0);
	CHECK(mremap(grows, 5 * MIB, 2 * MIB, 0) == grows && grows[MIB - 1] == 2 && munmap(grows, 2 * MIB) == 0);

	/* Of a range with a gap all that is mapped is changed. */
	char *gap = mmap(0, 4 * MIB, BOTH, PRIVATE, -1, 0);
	CHECK(gap != MAP_FAILED);
	memset(gap, 7, 4 * MIB);
	CHECK(munmap(gap + MIB, MIB) == 0);
	FAILS(madvise(gap, 4 * MIB, MADV_DONTNEED), ENOMEM);
	CHECK(gap[0] == 0 && gap[4 * MIB - 1] == 0);
	FAILS(mprotect(gap, 4 * MIB, PROT_READ), ENOMEM);
	FAILS((long)mmap(gap, 4 * MIB, BOTH, PRIVATE | MAP_FIXED, -1, 0), EINVAL);
	CHECK(munmap(gap, 4 * MIB) == 0 && munmap(gap, 4 * MIB) == 0);
	FAILS((long)mmap(gap, MIB, BOTH, PRIVATE | MAP_FIXED, -1, 0), EINVAL);
	/* Memory that cannot become longer stays as it is, and where it is. */
	char *stays = mmap(0, 2 * MIB, PROT_READ, PRIVATE, -1, 0);
	CHECK(stays != MAP_FAILED);
	FAILS((long)mremap(stays, 2 * MIB, 1L << 50, MREMAP_MAYMOVE), ENOMEM);
	FAILS((long)mremap(stays, 2 * MIB, 2 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, room), EINVAL);
	CHECK(munmap(stays, 2 * MIB) == 0);

	/* What is given back is there for others. */
	for (int round = 0; round < 40; round++) {
		char *pages = mmap(0, 24 * MIB, BOTH, PRIVATE, -1, 0);
		CHECK(pages != MAP_FAILED && pages[0] == 0 && pages[24 * MIB - 1] == 0);
		if (pages == MAP_FAILED) break;
		memset(pages, 7, 24 * MIB);
		CHECK(munmap(pages, 24 * MIB) == 0);
	}
	/* There are not as many mappings as one likes; then it is pages of the heap. */
	static char *many[1200];
	int got = 0;
	for (int at = 0; at < 1200; at++) {
		many[at] = mmap(0, 2 * MIB, PROT_NONE, PRIVATE, -1, 0);
		if (many[at] == MAP_FAILED) break;
		got++;
		mprotect(many[at] + MIB, 4096, BOTH);
	}
	CHECK(got > 400);
	for (int at = 0; at < got; at++) CHECK(munmap(many[at], 2 * MIB) == 0);
}

/* A program without any memory left can give some back. */
static void exhausted(void)
{
	char *big = mmap(0, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(big != MAP_FAILED);
	void **all = 0, **block;
	for (size_t size = 1 << 20; size >= sizeof block; size /= 2)
		while ((block = malloc(size))) *block = all, all = block;
	char path[64];
	CHECK(getcwd(path, sizeof path) == path);
	FAILS(syscall(SYS_ptrace, 0), ENOSYS);
	DIR *folder = opendir("/");
	CHECK(folder == 0 && errno == ENOMEM);
	int given = munmap(big + MIB, MIB);
	CHECK(given == 0 || errno == ENOMEM);
	if (given) CHECK(munmap(big, 4 * MIB) == 0);
	for (; all; all = block) block = *all, free(all);
	CHECK(munmap(big, 4 * MIB) == 0);
}

static int in_order(const unsigned char *a, const unsigned char *b, int count)
{
	for (int at = 0; at < count; at++)
		if (a[at] != b[at]) return a[at] < b[at] ? -1 : 1;
	return 0;
}

/* All lengths and places up to a few words, and a difference at each. */
static int compares(void)
{
	unsigned char a[48], b[48];
	for (int length = 0; length <= 32; length++)
		for (int start = 0; start < 9; start++)
			for (int at = 0; at <= length; at++) {
				for (int fill = 0; fill < 48; fill++) a[fill] = b[fill] = 250 + fill * 7;
				a[start + at] ^= 0x80;
				if (at > 0) b[start + at - 1] ^= start & 1;
				int found = memcmp(a + start, b + start, length), wanted = in_order(a + start, b + start, length);
				if ((found > 0) - (found < 0) != wanted || !bcmp(a + start, b + start, length) != !wanted) return 0;
			}
	return 1;
}

/* What the functions are compared with: byte by byte, and never made a call of what is tested. */
static void plain(volatile unsigned char *to, const volatile unsigned char *from, int count)
{
	unsigned char kept[5000];
	for (int at = 0; at < count; at++) ((volatile unsigned char *)kept)[at] = from[at];
	for (int at = 0; at < count; at++) to[at] = ((volatile unsigned char *)kept)[at];
}

static int is_right(int to, int from, int count)
{
	static unsigned char a[6000], b[6000];
	void *(*volatile copy)(void *, const void *, size_t) = memcpy, *(*volatile move)(void *, const void *, size_t) = memmove;
	void *(*volatile set)(void *, int, size_t) = memset;
	int whole = (to > from ? to : from) + count + 32;
	for (int at = 0; at < whole; at++) ((volatile unsigned char *)a)[at] = ((volatile unsigned char *)b)[at] = at * 7 + (at >> 8);
	plain(b + to, b + from, count);
	if (move(a + to, a + from, count) != a + to || memcmp(a, b, whole)) return 0;
	if (to >= from + count || from >= to + count) {
		plain(b + to, b + from + 1, count ? count - 1 : 0);
		if (copy(a + to, a + from + 1, count ? count - 1 : 0) != a + to || memcmp(a, b, whole)) return 0;
	}
	for (int at = 0; at < count; at++) ((volatile unsigned char *)b)[to + at] = 0xc5;
	return set(a + to, 0x1c5, count) == a + to && !memcmp(a, b, whole);
}

/* All lengths up to some rounds and those around the limits, all places in a piece, apart and overlapping both ways. */
static int copies(void)
{
	static const int more[] = {511, 1023, 1024, 1025, 1500, 2100};
	static const int apart[] = {1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 300, 2200};
	for (int index = 0; index < 306; index++) {
		int count = index < 300 ? index : more[index - 300];
		for (int start = 32; start < 48; start++) {
			if (!is_right(start, start, count)) return 0;
			for (unsigned at = 0; at < sizeof apart / sizeof *apart; at++)
				if (!is_right(start, start + apart[at], count) || !is_right(start + apart[at], start, count)) return 0;
		}
	}
	return 1;
}

int main(int count, char **arguments)
{
	if (count > 1) {
		/* Ends here. */
		volatile char *room = mmap(0, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		puts("reserved");
		return room[atoi(arguments[1])];
	}
	heap();
	mappings();
	large();
	exhausted();
	CHECK(compares());
	CHECK(copies());
	return end();
}
