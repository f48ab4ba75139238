/* Going back in memory, by `monohull.h`: a backtracking search, and what is refused. */
#include "check.h"
#include <monohull.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <fcntl.h>

static int searched = 7;

/* Queens that do not threaten each other, one in each row: the columns so far. */
struct choice {
	uint64_t checkpoint;
	unsigned char next;
};
static struct choice choices[16];
static int made;

/* One of the columns, and after a failure the next one. */
static int choose(int count)
{
	struct choice here;
	unsigned char column = 0;
	size_t len = 1;
	fflush(stdout);
	if (monohull_capture(&here.checkpoint, &column, &len) == 0)
		column = 0;
	if (column + 1 < count) {
		here.next = column + 1;
		choices[made++] = here;
	} else
		monohull_forget(here.checkpoint);
	return column;
}

static void fail(void)
{
	struct choice last;
	if (made == 0)
		return;
	last = choices[--made];
	monohull_rewind(last.checkpoint, &last.next, 1);
}

static void queens(int count, char *columns)
{
	for (int row = 0; row < count; row++) {
		int column = choose(count);
		for (int other = 0; other < row; other++)
			if (columns[other] == column || abs(columns[other] - column) == row - other)
				fail();
		columns[row] = column;
	}
}

static void *nothing(void *gate)
{
	pthread_mutex_lock(gate);
	return gate;
}

int main(void)
{
	char *columns = malloc(8);
	queens(8, columns);
	CHECK(!memcmp(columns, "\0\4\7\5\2\6\1\3", 8) && made > 0);
	free(columns);

	unsigned char value[16];
	size_t len = sizeof value;
	uint64_t point, other;
	char *block = strcpy(malloc(1 << 20), "before");
	int came = monohull_capture(&point, value, &len);
	CHECK(came >= 0 && !strcmp(block, "before") && searched == 7);
	if (came == 0) {
		strcpy(block, "after");
		searched = 8;
		block = realloc(block, 4 << 20);
		CHECK(monohull_rewind(point, value, 17) == MONOHULL_MESSAGE_TOO_LONG);
		CHECK(monohull_rewind(point + 1, value, 1) == MONOHULL_NOT_FOUND);
		monohull_rewind(point, (const unsigned char *)"hello", 5);
	}
	CHECK(came == 1 && len == 5 && !memcmp(value, "hello", 5));

	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;
	pthread_mutex_lock(&gate);
	CHECK(pthread_create(&thread, NULL, nothing, &gate) == 0);
	CHECK(monohull_rewind(point, NULL, 0) == MONOHULL_BUSY);
	len = 0;
	CHECK(monohull_capture(&other, NULL, &len) == MONOHULL_BUSY);
	pthread_mutex_unlock(&gate);
	pthread_join(thread, NULL);
	CHECK(monohull_forget(point) == 0 && monohull_forget(point) == MONOHULL_NOT_FOUND);

	/* The other thread has ended, or is about to. */
	int file = open("/file", O_CREAT | O_RDWR, 0600);
	CHECK(file >= 0 && monohull_capture(&point, NULL, &len) == 0);
	CHECK(close(file) == 0 && monohull_rewind(point, NULL, 0) == MONOHULL_GIVEN_AWAY);
	char text[256];
	text[monohull_last_error(text, sizeof text - 1)] = 0;
	CHECK(strstr(text, "has been closed"));
	return end();
}
