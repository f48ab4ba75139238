/* What a request costs at least in a server of our shape: system calls and next to nothing between them. One process takes requests by HTTP and has
 * each answered by another one.
 *
 *   client --HTTP-- epoll --message-- a process --message-- epoll --HTTP-- client
 *
 *   floor reset N    one of N processes, which does nothing and resets itself with the system calls that this takes
 *   floor sort N     one of N processes, which sorts the lines of the body
 *   floor fork 0     a process of its own, which does nothing
 *
 * Bodies are received in memory that the processes share, and sent from there. The first line says where it listens. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	MOST_CLIENTS = 1024,
	MOST_PROCESSES = 64,
	/* Of a request, and of an answer. */
	ROOM = 4 << 20,
	EVENTS = 64,
	/* What the memory has that a reset writes to, and what it drops. */
	PAGE = 4096,
	DATA = 4 * PAGE,
	STACK = 256 * PAGE,
	STACK_TOP = 4 * PAGE,
	OWN_STACK = 16 * PAGE,
};

/* About what a job and its report take when both are packed. */
struct message {
	uint32_t client;
	uint32_t length;
	char rest[248];
};

struct client {
	int socket;
	/* What has been received, where the body begins and how long it is, once that is known. */
	size_t received, head, length;
	char answer[512];
	size_t answer_length, body_length, sent;
};

static struct client clients[MOST_CLIENTS];
static int free_clients[MOST_CLIENTS], free_count;
static int processes[MOST_PROCESSES], waiting[MOST_PROCESSES], waiting_count;
static int queue[MOST_CLIENTS], queue_begin, queue_count;
static unsigned char *rooms;
static int events;
static int forks;
/* Where processes that are forked answer. */
static int back[2];

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

static unsigned char *input_of(uint32_t client)
{
	return rooms + (size_t)client * 2 * ROOM;
}

static unsigned char *output_of(uint32_t client)
{
	return input_of(client) + ROOM;
}

static void watch(int what, int operation, uint32_t how, uint64_t data)
{
	struct epoll_event event = { .events = how, .data.u64 = data };
	check(epoll_ctl(events, operation, what, &event), "epoll_ctl");
}

/* Sorts the numbers of a text, one per line. */
static size_t sort(const unsigned char *text, size_t length, unsigned char *to)
{
	static uint64_t numbers[ROOM / 2], others[ROOM / 2];
	uint64_t *from = numbers, *into = others;
	size_t count = 0;
	for (size_t at = 0; at < length; at++) {
		uint64_t number = 0;
		for (; at < length && text[at] != '\n'; at++)
			number = number * 10 + (text[at] - '0');
		from[count++] = number;
	}
	for (int shift = 0; shift < 64; shift += 8) {
		size_t places[256] = { 0 }, place = 0;
		for (size_t i = 0; i < count; i++)
			places[from[i] >> shift & 255]++;
		for (int digit = 0; digit < 256; digit++) {
			size_t here = places[digit];
			places[digit] = place;
			place += here;
		}
		for (size_t i = 0; i < count; i++)
			into[places[from[i] >> shift & 255]++] = from[i];
		uint64_t *swapped = from;
		from = into;
		into = swapped;
	}
	size_t end = 0;
	for (size_t i = 0; i < count; i++) {
		unsigned char digits[20];
		int begin = 20;
		uint64_t number = from[i];
		do
			digits[--begin] = '0' + number % 10;
		while (number /= 10);
		memcpy(to + end, digits + begin, 20 - begin);
		end += 20 - begin;
		to[end++] = '\n';
	}
	return end;
}

static void set_timer(timer_t timer, time_t seconds)
{
	struct itimerspec setting = { .it_value.tv_sec = seconds };
	check(timer_settime(timer, 0, &setting, NULL), "timer_settime");
}

/* Serves messages until the relay has ended. */
static void work(int socket, int sorts)
{
	static unsigned char data[DATA];
	struct message message;
	timer_t timer;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	check(timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create");
	unsigned char *stack =
		mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(stack == MAP_FAILED, "mmap");
	while (recv(socket, &message, sizeof message, 0) == sizeof message) {
		if (sorts) {
			message.length = sort(input_of(message.client), message.length, output_of(message.client));
		} else {
			/* A deadline; the reset that follows is that of a process that answers when it is done with it. */
			set_timer(timer, 60);
			message.length = 0;
			memset(data, 0, sizeof data);
			memset(stack + STACK - STACK_TOP, 0, STACK_TOP);
			check(madvise(stack, STACK - STACK_TOP, MADV_DONTNEED), "madvise");
			uintptr_t own = ((uintptr_t)__builtin_frame_address(0) & -PAGE) - PAGE;
			check(madvise((void *)(own - OWN_STACK), OWN_STACK, MADV_DONTNEED), "madvise");
			set_timer(timer, 0);
			check(close_range(socket + 1, ~0U, 0), "close_range");
		}
		check(send(socket, &message, sizeof message, 0) != sizeof message, "send");
	}
	_exit(0);
}

static void start(int number, int sorts)
{
	int pair[2];
	check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), "socketpair");
	pid_t pid = fork();
	check(pid < 0, "fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Nothing is behind its socket. */
		check(dup2(pair[1], 3) < 0, "dup2");
		check(close_range(4, ~0U, 0), "close_range");
		work(3, sorts);
	}
	close(pair[1]);
	check(fcntl(pair[0], F_SETFL, O_NONBLOCK), "fcntl");
	processes[number] = pair[0];
	waiting[waiting_count++] = number;
}

/* Has a request answered, if there is something that can. */
static void dispatch(void)
{
	while (queue_count > 0 && (forks || waiting_count > 0)) {
		uint32_t number = queue[queue_begin];
		struct message message = { .client = number, .length = clients[number].length };
		queue_begin = (queue_begin + 1) % MOST_CLIENTS;
		queue_count--;
		if (forks) {
			pid_t pid = fork();
			check(pid < 0, "fork");
			if (pid == 0) {
				message.length = 0;
				_exit(send(back[1], &message, sizeof message, 0) != sizeof message);
			}
		} else {
			int process = processes[waiting[--waiting_count]];
			check(send(process, &message, sizeof message, 0) != sizeof message, "send");
		}
	}
}

static void leave(uint32_t number)
{
	/* A process that was forked may have it as well, so that closing it is not enough. */
	watch(clients[number].socket, EPOLL_CTL_DEL, 0, 0);
	close(clients[number].socket);
	free_clients[free_count++] = number;
}

/* Sends what has not been sent of an answer. */
static void answer(uint32_t number)
{
	struct client *client = &clients[number];
	while (client->sent < client->answer_length + client->body_length) {
		int in_head = client->sent < client->answer_length;
		const void *from = in_head ? (void *)(client->answer + client->sent) :
					     output_of(number) + client->sent - client->answer_length;
		size_t length = in_head ? client->answer_length - client->sent :
					  client->answer_length + client->body_length - client->sent;
		ssize_t sent = send(client->socket, from, length,
				    MSG_NOSIGNAL | (in_head && client->body_length > 0 ? MSG_MORE : 0));
		if (sent < 0 && errno == EAGAIN)
			return watch(client->socket, EPOLL_CTL_MOD, EPOLLOUT, number);
		if (sent < 0)
			return leave(number);
		client->sent += sent;
	}
	if (client->body_length > 0)
		watch(client->socket, EPOLL_CTL_MOD, EPOLLIN, number);
	client->received = client->head = client->length = client->sent = 0;
	client->answer_length = 0;
}

static void answered(const struct message *message)
{
	struct client *client = &clients[message->client];
	client->body_length = message->length;
	client->answer_length =
		snprintf(client->answer, sizeof client->answer,
			 "HTTP/1.1 200 OK\r\n"
			 "x-invocation-id: 00000000000000000000000000000000\r\n"
			 "x-call-id: 00000000000000000000000000000000\r\n"
			 "traceparent: 00-00000000000000000000000000000000-0000000000000000-00\r\n"
			 "x-cold-start: 0.000000\r\n"
			 "x-duration-seconds: 0.000000\r\n"
			 "content-length: %u\r\n"
			 "date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n",
			 message->length);
	client->sent = 0;
	answer(message->client);
}

/* Takes in what has come of a request. */
static void take(uint32_t number)
{
	struct client *client = &clients[number];
	ssize_t received;
	if (client->answer_length > 0)
		return answer(number);
	/* The head is not part of the room, so that the body begins with a page. */
	static unsigned char head[64 << 10];
	if (client->length == 0 && client->head == 0) {
		received = recv(client->socket, head, sizeof head - 1, 0);
		if (received <= 0)
			return leave(number);
		head[received] = 0;
		char *end = strstr((char *)head, "\r\n\r\n");
		char *length = strcasestr((char *)head, "\r\ncontent-length:");
		check(end == NULL, "a head that comes in parts");
		client->head = end + 4 - (char *)head;
		client->length = length == NULL ? 0 : strtoul(length + 17, NULL, 10);
		check(client->length > ROOM, "a body that is too long");
		client->received = received - client->head;
		memcpy(input_of(number), head + client->head, client->received);
	} else {
		received = recv(client->socket, input_of(number) + client->received, client->length - client->received, 0);
		if (received < 0 && errno == EAGAIN)
			return;
		if (received <= 0)
			return leave(number);
		client->received += received;
	}
	if (client->received >= client->length) {
		queue[(queue_begin + queue_count++) % MOST_CLIENTS] = number;
		dispatch();
	}
}

int main(int count, char **arguments)
{
	int number = count > 2 ? atoi(arguments[2]) : 0;
	int sorts = count > 1 && strcmp(arguments[1], "sort") == 0;
	forks = count > 1 && strcmp(arguments[1], "fork") == 0;
	check(number > MOST_PROCESSES, "so many processes");
	rooms = mmap(NULL, (size_t)MOST_CLIENTS * 2 * ROOM, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(rooms == MAP_FAILED, "mmap");
	for (int i = 0; i < number; i++)
		start(i, sorts);
	events = epoll_create1(0);
	check(events < 0, "epoll_create1");
	for (int i = 0; i < number; i++)
		watch(processes[i], EPOLL_CTL_ADD, EPOLLIN, MOST_CLIENTS + 2 + i);
	if (forks) {
		check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, back), "socketpair");
		watch(back[0], EPOLL_CTL_ADD, EPOLLIN, MOST_CLIENTS + 1);
	}
	for (int i = MOST_CLIENTS - 1; i >= 0; i--)
		free_clients[free_count++] = i;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	check(listener < 0 || bind(listener, (struct sockaddr *)&address, length), "bind");
	check(listen(listener, MOST_CLIENTS) || getsockname(listener, (struct sockaddr *)&address, &length), "listen");
	printf("127.0.0.1:%u\n", ntohs(address.sin_port));
	fflush(stdout);
	watch(listener, EPOLL_CTL_ADD, EPOLLIN, MOST_CLIENTS);
	for (;;) {
		struct epoll_event ready[EVENTS];
		int many = epoll_wait(events, ready, EVENTS, -1);
		check(many < 0 && errno != EINTR, "epoll_wait");
		for (int i = 0; i < many; i++) {
			uint64_t from = ready[i].data.u64;
			struct message message;
			if (from < MOST_CLIENTS) {
				take(from);
			} else if (from == MOST_CLIENTS) {
				int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK), on = 1;
				if (client < 0)
					continue;
				check(free_count == 0, "so many clients");
				int place = free_clients[--free_count];
				setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
				clients[place] = (struct client){ .socket = client };
				watch(client, EPOLL_CTL_ADD, EPOLLIN, place);
			} else if (from == MOST_CLIENTS + 1) {
				check(recv(back[0], &message, sizeof message, 0) != sizeof message, "recv");
				answered(&message);
				while (waitpid(-1, NULL, WNOHANG) > 0)
					;
			} else {
				int process = from - MOST_CLIENTS - 2;
				check(recv(processes[process], &message, sizeof message, 0) != sizeof message, "recv");
				waiting[waiting_count++] = process;
				answered(&message);
				dispatch();
			}
		}
	}
}
