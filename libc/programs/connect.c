/* Connecting without waiting: what is made, what is refused, and what is in progress. */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in address = {.sin_family = AF_INET};

/* A listener at a port of its own, which becomes that of `address`. */
static int listens(int backlog)
{
	socklen_t len = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_port = 0;
	CHECK(bind(listener, (void *)&address, len) == 0 && listen(listener, backlog) == 0);
	CHECK(getsockname(listener, (void *)&address, &len) == 0);
	return listener;
}

static int connects(int stream)
{
	return connect(stream, (void *)&address, sizeof address);
}

static int error_of(int stream)
{
	int error = -1;
	CHECK(getsockopt(stream, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}) == 0);
	return error;
}

/* What `poll` finds of a stream within a time. */
static int found(int stream, int events, int milliseconds)
{
	struct pollfd wish = {.fd = stream, .events = events};
	return poll(&wish, 1, milliseconds) == 1 ? wish.revents : 0;
}

/* Waits until there is something to read. */
static void *waits(void *descriptor)
{
	return (void *)(long)found(*(int *)descriptor, POLLIN, -1);
}

/* A connection fails while all queues are in use, so that nothing reports that: the error is found all the same. */
static void failing_without_queues(void)
{
	int queues[64], count = 0, event = eventfd(0, 0), error = 0;
	pthread_t thread;
	void *result;
	while (count < 64 && (queues[count] = epoll_create1(0)) >= 0) count++;
	CHECK(count == 63 && pthread_create(&thread, 0, waits, &event) == 0);
	int stream = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(connects(stream), EINPROGRESS);
	for (int tries = 0; tries < 2000 && !error; tries++) {
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, 0);
		error = error_of(stream);
	}
	CHECK(error == ECONNREFUSED && error_of(stream) == 0);
	close(stream);
	CHECK(eventfd_write(event, 1) == 0 && pthread_join(thread, &result) == 0 && (long)result == POLLIN);
	close(event);
	while (count) close(queues[--count]);
}

int main(void)
{
	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	struct sockaddr_in peer;
	socklen_t len = sizeof peer;
	char text[8] = {0};

	/* Made. */
	int listener = listens(8), stream = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(connects(stream), EINPROGRESS);
	CHECK(found(stream, POLLOUT, 10000) == POLLOUT && error_of(stream) == 0);
	CHECK(getpeername(stream, (void *)&peer, &len) == 0 && peer.sin_port == address.sin_port);
	CHECK(connects(stream) == 0);
	FAILS(connects(stream), EISCONN);
	int other = accept(listener, 0, 0);
	FAILS(read(stream, text, sizeof text), EAGAIN);
	CHECK(write(stream, "there", 5) == 5 && read(other, text, sizeof text) == 5 && write(other, "back", 4) == 4);
	CHECK(found(stream, POLLIN, 10000) == POLLIN && read(stream, text, sizeof text) == 4 && !memcmp(text, "back", 4));
	close(other);
	close(stream);

	/* Non-blocking by `fcntl`; a duplicate sees the same connection. */
	stream = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fcntl(stream, F_SETFL, O_NONBLOCK) == 0);
	FAILS(connects(stream), EINPROGRESS);
	int same = dup(stream);
	close(stream);
	CHECK(found(same, POLLOUT, 10000) == POLLOUT && connects(same) == 0);
	close(same);
	close(listener);

	/* Refused: the reason is returned once, by whichever call asks first; then the socket can be connected anew. */
	stream = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(connects(stream), EINPROGRESS);
	CHECK(found(stream, POLLOUT, 10000) == (POLLOUT | POLLERR | POLLHUP));
	FAILS(getpeername(stream, (void *)&peer, &len), ENOTCONN);
	CHECK(error_of(stream) == ECONNREFUSED && error_of(stream) == 0);
	CHECK(found(stream, 0, 0) == POLLHUP);
	FAILS(connects(stream), ECONNABORTED);
	FAILS(connects(stream), EINPROGRESS);
	CHECK(found(stream, POLLOUT, 10000) & POLLERR);
	FAILS(connects(stream), ECONNREFUSED);
	FAILS(connects(stream), EINPROGRESS);
	CHECK(found(stream, POLLOUT, 10000) & POLLERR);
	FAILS(read(stream, text, sizeof text), ECONNREFUSED);
	FAILS(connects(stream), ECONNABORTED);
	listener = listens(1);
	FAILS(connects(stream), EINPROGRESS);
	CHECK(found(stream, POLLOUT, 10000) == POLLOUT && error_of(stream) == 0);

	/* In progress: the listener takes two connections that are not accepted, and leaves the third without an answer. */
	int second = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), third = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	FAILS(connects(second), EINPROGRESS);
	CHECK(found(second, POLLOUT, 10000) == POLLOUT);
	FAILS(connects(third), EINPROGRESS);
	CHECK(found(third, POLLIN | POLLOUT, 5) == 0 && error_of(third) == 0);
	FAILS(connects(third), EALREADY);
	FAILS(getpeername(third, (void *)&peer, &len), ENOTCONN);
	FAILS(write(third, "x", 1), EAGAIN);
	FAILS(read(third, text, 1), EAGAIN);
	/* Made while nothing comes to be read: TCP asks again after a second. The test looks whether the thread was parked all the time. */
	CHECK(close(accept(listener, 0, 0)) == 0 && close(accept(listener, 0, 0)) == 0);
	CHECK(found(third, POLLIN, 3000) == 0 && found(third, POLLOUT, 60000) == POLLOUT && connects(third) == 0);
	close(third);
	close(second);
	close(stream);
	close(listener);
	failing_without_queues();
	FAILS(connects(third), EBADF);
	return end();
}
