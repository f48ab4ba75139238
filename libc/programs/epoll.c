/* epoll over event counters, pipes, pairs and sockets: levels, edges, once, and what is closed while it is watched. */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MARK 0x1122334455667700

static struct epoll_event events[64];
static char big[300000];

static int control(int epoll, int operation, int descriptor, unsigned wanted)
{
	struct epoll_event event = {.events = wanted, .data.u64 = MARK + descriptor};
	return epoll_ctl(epoll, operation, descriptor, &event);
}

static int add(int epoll, int descriptor, unsigned wanted)
{
	return control(epoll, EPOLL_CTL_ADD, descriptor, wanted);
}

static int modify(int epoll, int descriptor, unsigned wanted)
{
	return control(epoll, EPOLL_CTL_MOD, descriptor, wanted);
}

/* What is found within a time, if it is exactly one event of this descriptor; 0 if there is none. */
static unsigned found(int epoll, int descriptor, int milliseconds)
{
	int count = epoll_wait(epoll, events, 64, milliseconds);
	if (count == 0) return 0;
	return count == 1 && events[0].data.u64 == (uint64_t)MARK + descriptor ? events[0].events : 0xffff;
}

static pthread_t start(void *(*function)(void *), int *argument)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, 0, function, argument) == 0);
	return thread;
}

static long joined(pthread_t thread)
{
	void *result = 0;
	CHECK(pthread_join(thread, &result) == 0);
	return (long)result;
}

static void pause_for(int milliseconds)
{
	nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000L}, 0);
}

static void *adds(void *counter)
{
	pause_for(20);
	return (void *)(long)eventfd_write(*(int *)counter, 1);
}

static void *closes(void *descriptor)
{
	pause_for(20);
	return (void *)(long)close(*(int *)descriptor);
}

/* Adds the second to the first, which another thread waits for. */
static void *watches(void *both)
{
	pause_for(20);
	return (void *)(long)add(((int *)both)[0], ((int *)both)[1], EPOLLIN);
}

/* Waits for one event and takes 1 from the counter: semaphores. */
static void *worker(void *both)
{
	struct epoll_event event;
	long taken = 0;
	eventfd_t value;
	for (;;) {
		if (epoll_wait(((int *)both)[0], &event, 1, -1) != 1) return (void *)-1;
		if (event.data.u64 != (uint64_t)MARK + ((int *)both)[1]) return (void *)taken;
		taken += eventfd_read(((int *)both)[1], &value) == 0;
	}
}

static void errors(void)
{
	FAILS(epoll_create(0), EINVAL);
	FAILS(epoll_create1(1), EINVAL);
	int epoll = epoll_create1(EPOLL_CLOEXEC), counter = eventfd(0, EFD_NONBLOCK), file = open("/file", O_CREAT | O_RDWR, 0600);
	CHECK(epoll >= 0 && file >= 0);
	FAILS(add(epoll, 999, EPOLLIN), EBADF);
	FAILS(add(999, counter, EPOLLIN), EBADF);
	FAILS(add(counter, counter, EPOLLIN), EINVAL);
	FAILS(add(counter, file, EPOLLIN), EINVAL);
	FAILS(add(epoll, epoll, EPOLLIN), EINVAL);
	FAILS(add(epoll, file, EPOLLIN), EPERM);
	FAILS(control(epoll, 7, counter, EPOLLIN), EINVAL);
	FAILS(epoll_ctl(epoll, EPOLL_CTL_ADD, counter, 0), EFAULT);
	FAILS(modify(epoll, counter, EPOLLIN), ENOENT);
	FAILS(epoll_ctl(epoll, EPOLL_CTL_DEL, counter, 0), ENOENT);
	CHECK(add(epoll, counter, EPOLLIN) == 0);
	FAILS(add(epoll, counter, EPOLLIN), EEXIST);
	CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, counter, 0) == 0);
	FAILS(modify(epoll, counter, EPOLLIN), ENOENT);
	FAILS(epoll_wait(epoll, events, 0, 0), EINVAL);
	FAILS(epoll_wait(epoll, 0, 1, 0), EFAULT);
	FAILS(epoll_wait(counter, events, 1, 0), EINVAL);
	FAILS(read(epoll, events, 8), EINVAL);
	FAILS(write(epoll, events, 8), EINVAL);
	CHECK(fcntl(epoll, F_GETFL) == O_RDWR);

	/* One epoll in another is refused. */
	int other = epoll_create(1);
	FAILS(add(epoll, other, EPOLLIN), EINVAL);
	struct pollfd wish = {.fd = other, .events = POLLIN};
	CHECK(poll(&wish, 1, 0) == 1 && wish.revents == POLLNVAL);
	close(other);

	/* As many as there can be; poll goes on. */
	int all[64], count = 0;
	while (count < 64 && (all[count] = epoll_create1(0)) >= 0) count++;
	CHECK(count == 62 && errno == EMFILE);
	pthread_t thread = start(adds, &counter);
	wish.fd = counter;
	CHECK(poll(&wish, 1, 10000) == 1 && wish.revents == POLLIN && joined(thread) == 0);
	while (count) close(all[--count]);
	close(counter);
	close(file);
	close(epoll);
	FAILS(epoll_wait(epoll, events, 1, 0), EBADF);
}

static void levels_and_edges(void)
{
	eventfd_t value;
	int epoll = epoll_create1(0), counter = eventfd(0, EFD_NONBLOCK);
	CHECK(epoll_wait(epoll, events, 64, 3) == 0);
	CHECK(add(epoll, counter, EPOLLIN) == 0 && found(epoll, counter, 0) == 0 && found(epoll, counter, 3) == 0);
	/* Level: for as long as it is there. */
	CHECK(eventfd_write(counter, 1) == 0 && found(epoll, counter, -1) == EPOLLIN && found(epoll, counter, 0) == EPOLLIN);
	CHECK(eventfd_read(counter, &value) == 0 && found(epoll, counter, 0) == 0);
	CHECK(modify(epoll, counter, EPOLLIN | EPOLLOUT) == 0 && found(epoll, counter, -1) == EPOLLOUT);
	/* Edge: once for each write, read or not. */
	CHECK(modify(epoll, counter, EPOLLIN | EPOLLET) == 0 && found(epoll, counter, 0) == 0);
	CHECK(eventfd_write(counter, 1) == 0 && found(epoll, counter, -1) == EPOLLIN && found(epoll, counter, 3) == 0);
	CHECK(eventfd_write(counter, 1) == 0 && found(epoll, counter, -1) == EPOLLIN && found(epoll, counter, 0) == 0);
	CHECK(modify(epoll, counter, EPOLLIN | EPOLLET) == 0 && found(epoll, counter, 0) == EPOLLIN);
	/* Once, until it is set again. */
	CHECK(modify(epoll, counter, EPOLLIN | EPOLLONESHOT) == 0 && found(epoll, counter, 0) == EPOLLIN);
	CHECK(eventfd_write(counter, 1) == 0 && found(epoll, counter, 3) == 0);
	CHECK(modify(epoll, counter, EPOLLIN | EPOLLONESHOT) == 0 && found(epoll, counter, 0) == EPOLLIN);
	CHECK(eventfd_read(counter, &value) == 0 && value == 3 && modify(epoll, counter, EPOLLIN) == 0);

	/* Another thread writes, or adds what is ready, while this one waits. */
	pthread_t thread = start(adds, &counter);
	CHECK(found(epoll, counter, -1) == EPOLLIN && joined(thread) == 0 && eventfd_read(counter, &value) == 0);
	thread = start(adds, &counter);
	sigset_t *mask = 0;
	CHECK(epoll_pwait(epoll, events, 64, 10000, mask) == 1 && joined(thread) == 0);
	CHECK(syscall(SYS_epoll_pwait2, epoll, events, 64, &(struct timespec){.tv_nsec = 1000}, 0, 8) == 1);
	CHECK(eventfd_read(counter, &value) == 0);
	int ready = eventfd(1, 0), both[2] = {epoll, ready};
	thread = start(watches, both);
	CHECK(found(epoll, ready, -1) == EPOLLIN && joined(thread) == 0);

	/* Few at a time: each has its turn. */
	CHECK(eventfd_write(counter, 1) == 0);
	int seen = 0;
	for (int at = 0; at < 4; at++) {
		CHECK(epoll_wait(epoll, events, 1, 0) == 1);
		seen |= events[0].data.u64 == (uint64_t)MARK + counter ? 1 : 2;
	}
	CHECK(seen == 3 && epoll_wait(epoll, events, 64, -1) == 2);
	close(ready);
	CHECK(found(epoll, counter, 0) == EPOLLIN);

	/* Closed while it is watched; a duplicate keeps it there, and has an interest of its own. */
	int same = dup(counter);
	CHECK(add(epoll, same, EPOLLOUT) == 0 && epoll_wait(epoll, events, 64, 0) == 2);
	close(same);
	CHECK(epoll_wait(epoll, events, 64, 0) == 2);
	close(counter);
	CHECK(epoll_wait(epoll, events, 64, 3) == 0);
	/* The number is another's by now. */
	counter = eventfd(1, EFD_NONBLOCK | EFD_SEMAPHORE);
	FAILS(modify(epoll, counter, EPOLLIN), ENOENT);
	int copy = dup(epoll);
	close(epoll);
	CHECK(add(copy, counter, EPOLLIN) == 0 && found(copy, counter, 0) == EPOLLIN);
	close(copy);
	close(counter);
}

static void ends(void)
{
	int epoll = epoll_create1(0), ends[2];
	char text[16];
	CHECK(pipe2(ends, O_NONBLOCK) == 0 && add(epoll, ends[0], EPOLLIN | EPOLLET) == 0);
	CHECK(write(ends[1], "one", 3) == 3 && found(epoll, ends[0], -1) == EPOLLIN && found(epoll, ends[0], 0) == 0);
	CHECK(read(ends[0], text, 1) == 1 && found(epoll, ends[0], 0) == 0);
	CHECK(write(ends[1], "two", 3) == 3 && found(epoll, ends[0], -1) == EPOLLIN);
	/* Room: an edge after the pipe was full. */
	CHECK(add(epoll, ends[1], EPOLLOUT | EPOLLET) == 0 && found(epoll, ends[1], 0) == EPOLLOUT);
	CHECK(modify(epoll, ends[0], 0) == 0 && write(ends[1], big, sizeof big) > 60000 && found(epoll, ends[1], 0) == 0);
	CHECK(read(ends[0], big, 20000) == 20000 && found(epoll, ends[1], 0) == EPOLLOUT);
	CHECK(read(ends[0], big, 20000) == 20000 && found(epoll, ends[1], 0) == 0);
	pthread_t thread = start(closes, &ends[1]);
	CHECK(found(epoll, ends[0], -1) == EPOLLHUP && joined(thread) == 0);
	close(ends[0]);
	CHECK(epoll_wait(epoll, events, 64, 0) == 0);

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
	CHECK(add(epoll, ends[0], EPOLLIN | EPOLLRDHUP | EPOLLET) == 0 && found(epoll, ends[0], 0) == 0);
	CHECK(write(ends[1], "x", 1) == 1 && found(epoll, ends[0], -1) == EPOLLIN);
	CHECK(shutdown(ends[1], SHUT_WR) == 0 && found(epoll, ends[0], -1) == (EPOLLIN | EPOLLRDHUP));
	CHECK(found(epoll, ends[0], 0) == 0 && close(ends[1]) == 0);
	CHECK(found(epoll, ends[0], -1) == (EPOLLIN | EPOLLRDHUP | EPOLLHUP));
	close(ends[0]);
	close(epoll);
}

/* Several threads wait for one list. */
static void workers(void)
{
	int epoll = epoll_create1(0), counter = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK), stop = eventfd(0, 0);
	int both[2] = {epoll, counter};
	pthread_t threads[4];
	CHECK(add(epoll, counter, EPOLLIN) == 0 && add(epoll, stop, EPOLLIN) == 0);
	for (int at = 0; at < 4; at++) threads[at] = start(worker, both);
	for (int at = 0; at < 1000; at++) {
		if (eventfd_write(counter, 1)) CHECK(0);
		if (at % 100 == 0) pause_for(1);
	}
	while (epoll_wait(epoll, events, 1, 0) == 1) pause_for(1);
	CHECK(eventfd_write(stop, 1) == 0);
	long taken = 0;
	for (int at = 0; at < 4; at++) taken += joined(threads[at]);
	CHECK(taken == 1000);
	close(stop);
	close(counter);
	close(epoll);
}

static void streams(struct sockaddr_in address)
{
	socklen_t len = sizeof address;
	char text[16] = {0};
	int epoll = epoll_create1(0), counter = eventfd(0, EFD_NONBLOCK);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	/* Added before there is anything to watch. */
	CHECK(add(epoll, listener, EPOLLIN) == 0 && add(epoll, counter, EPOLLIN) == 0);
	CHECK(bind(listener, (void *)&address, len) == 0 && listen(listener, 8) == 0);
	CHECK(getsockname(listener, (void *)&address, &len) == 0 && found(epoll, listener, 3) == 0);
	int stream = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(connect(stream, (void *)&address, len), EINPROGRESS);
	CHECK(found(epoll, listener, 10000) == EPOLLIN && add(epoll, stream, EPOLLIN | EPOLLOUT | EPOLLET) == 0);
	int other = accept4(listener, 0, 0, SOCK_NONBLOCK), error = -1;
	CHECK(found(epoll, stream, 10000) == EPOLLOUT && found(epoll, stream, 3) == 0);
	CHECK(getsockopt(stream, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){4}) == 0 && error == 0);
	/* Edges of a stream: after it was read empty. */
	CHECK(write(other, "one", 3) == 3 && found(epoll, stream, 10000) & EPOLLIN && found(epoll, stream, 3) == 0);
	CHECK(read(stream, text, sizeof text) == 3);
	FAILS(read(stream, text, sizeof text), EAGAIN);
	CHECK(write(other, "two", 3) == 3 && found(epoll, stream, 10000) & EPOLLIN);
	/* Levels, once, and a counter beside it, from another thread. */
	CHECK(modify(epoll, stream, EPOLLIN) == 0 && found(epoll, stream, 10000) == EPOLLIN && found(epoll, stream, 0) == EPOLLIN);
	CHECK(modify(epoll, stream, EPOLLIN | EPOLLONESHOT) == 0 && found(epoll, stream, 10000) == EPOLLIN);
	CHECK(found(epoll, stream, 3) == 0);
	pthread_t thread = start(adds, &counter);
	CHECK(found(epoll, counter, -1) == EPOLLIN && joined(thread) == 0);
	CHECK(modify(epoll, stream, EPOLLIN) == 0 && epoll_wait(epoll, events, 64, 10000) == 2);
	CHECK(read(stream, text, sizeof text) == 3 && found(epoll, counter, 0) == EPOLLIN);
	/* One at a time: neither the counter nor the stream is left out. */
	CHECK(write(other, "x", 1) == 1 && modify(epoll, stream, EPOLLIN) == 0);
	int seen = 0;
	for (int at = 0; at < 1000 && seen != 3; at++) {
		CHECK(epoll_wait(epoll, events, 1, 10) == 1);
		seen |= events[0].data.u64 == (uint64_t)MARK + counter ? 1 : 2;
	}
	eventfd_t value;
	CHECK(seen == 3 && eventfd_read(counter, &value) == 0 && read(stream, text, sizeof text) == 1);
	/* Two descriptors of one stream. */
	int same = dup(stream);
	CHECK(add(epoll, same, EPOLLOUT) == 0 && found(epoll, same, 10000) == EPOLLOUT);
	CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, same, 0) == 0 && found(epoll, stream, 0) == 0 && close(same) == 0);
	/* Full, and room again. */
	CHECK(modify(epoll, stream, EPOLLOUT | EPOLLET) == 0 && found(epoll, stream, 10000) == EPOLLOUT);
	long sent = 0, part;
	while ((part = write(stream, big, sizeof big)) > 0) sent += part;
	CHECK(errno == EAGAIN);
	while (sent > 0) {
		if ((part = read(other, big, sizeof big)) > 0) sent -= part;
		else pause_for(1);
	}
	CHECK(found(epoll, stream, 10000) & EPOLLOUT);
	/* The end. */
	CHECK(modify(epoll, stream, EPOLLIN) == 0 && close(other) == 0);
	CHECK(found(epoll, stream, 10000) & EPOLLIN && read(stream, text, 1) == 0);
	close(stream);
	CHECK(epoll_wait(epoll, events, 64, 3) == 0);

	/* Refused: an error, then connected after all, with the same interest. */
	close(listener);
	stream = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(add(epoll, stream, EPOLLOUT) == 0);
	FAILS(connect(stream, (void *)&address, len), EINPROGRESS);
	CHECK(found(epoll, stream, 10000) == (EPOLLOUT | EPOLLERR | EPOLLHUP));
	CHECK(getsockopt(stream, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){4}) == 0 && error == ECONNREFUSED);
	FAILS(connect(stream, (void *)&address, len), ECONNABORTED);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(listener, (void *)&address, len) == 0 && listen(listener, 8) == 0);
	FAILS(connect(stream, (void *)&address, len), EINPROGRESS);
	CHECK(found(epoll, stream, 10000) == EPOLLOUT && connect(stream, (void *)&address, len) == 0);
	close(stream);
	close(listener);

	/* Datagrams. */
	int one = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), two = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(add(epoll, one, EPOLLIN | EPOLLET) == 0);
	address.sin_port = 0;
	CHECK(bind(one, (void *)&address, len) == 0 && getsockname(one, (void *)&address, &len) == 0 && found(epoll, one, 3) == 0);
	CHECK(sendto(two, "data", 4, 0, (void *)&address, len) == 4 && found(epoll, one, 10000) == EPOLLIN);
	CHECK(recv(one, text, sizeof text, 0) == 4);
	close(two);
	close(one);
	close(counter);
	close(epoll);
}

/* What arrives after a call that took as much as it asked for is an edge. */
static void arrivals(struct sockaddr_in address)
{
	socklen_t len = sizeof address;
	char text[4];
	int epoll = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), clients[2], streams[2];
	CHECK(bind(listener, (void *)&address, len) == 0 && listen(listener, 8) == 0);
	CHECK(getsockname(listener, (void *)&address, &len) == 0 && add(epoll, listener, EPOLLIN | EPOLLET) == 0);
	for (int at = 0; at < 2; at++) {
		clients[at] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(connect(clients[at], (void *)&address, len) == 0 && found(epoll, listener, 10000) == EPOLLIN);
		CHECK((streams[at] = accept(listener, 0, 0)) >= 0);
	}
	CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, listener, 0) == 0 && add(epoll, streams[0], EPOLLIN | EPOLLET) == 0);
	for (int at = 0; at < 2; at++) {
		CHECK(write(clients[0], "four", 4) == 4 && found(epoll, streams[0], 10000) == EPOLLIN);
		CHECK(read(streams[0], text, sizeof text) == 4);
	}
	for (int at = 0; at < 2; at++) close(clients[at]), close(streams[at]);
	close(listener);
	close(epoll);
}

/* Connections are reported in the order in which something came: who writes to two, one after the other, is read in that order. */
static void turns(struct sockaddr_in address)
{
	static const int orders[3][3] = {{2, 0, 1}, {1, 2, 0}, {2, 1, 0}};
	socklen_t len = sizeof address;
	char text[4];
	int epoll = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM, 0), clients[3], streams[3];
	CHECK(bind(listener, (void *)&address, len) == 0 && listen(listener, 8) == 0 && getsockname(listener, (void *)&address, &len) == 0);
	for (int at = 0; at < 3; at++) {
		clients[at] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(connect(clients[at], (void *)&address, len) == 0 && (streams[at] = accept(listener, 0, 0)) >= 0);
		CHECK(add(epoll, streams[at], EPOLLIN) == 0);
	}
	for (int round = 0; round < 3; round++) {
		CHECK(epoll_wait(epoll, events, 4, 0) == 0);
		for (int at = 0; at < 3; at++) CHECK(write(clients[orders[round][at]], "x", 1) == 1);
		pause_for(20);
		CHECK(epoll_wait(epoll, events, 4, 10000) == 3);
		for (int at = 0; at < 3; at++) {
			int stream = streams[orders[round][at]];
			CHECK(events[at].data.u64 == (uint64_t)MARK + stream);
			CHECK(read(stream, text, 4) == 1);
		}
	}
	for (int at = 0; at < 3; at++) close(clients[at]), close(streams[at]);
	close(listener);
	close(epoll);
}

int main(void)
{
	errors();
	/* Without a line: loops of events then wait with a time limit. */
	FAILS(syscall(SYS_timerfd_create, 1, 0), ENOSYS);
	levels_and_edges();
	ends();
	workers();
	struct sockaddr_in address = {.sin_family = AF_INET};
	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	int probe = socket(AF_INET, SOCK_STREAM, 0);
	int is_there = bind(probe, (void *)&address, sizeof address) == 0 && listen(probe, 1) == 0;
	close(probe);
	if (is_there) streams(address), arrivals(address), turns(address);
	return end();
}
