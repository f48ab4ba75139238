/* A server in C for WASI's preview 1, over the sockets that it finds open: descriptor 4 and those after it.
 *
 * It answers each connection with what it reads there, in capitals, until one says "end". What it tries before and beside that is printed,
 * so that a test can compare. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST = 4, MOST = 16, HEADER = 8 };

static void must(int ok, const char *what) {
    if (!ok) {
        printf("%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

/* Reads the length of what follows, as eight digits, and that; answers it, and closes its direction. */
static int serve(int connection) {
    static char text[1 << 20];
    char header[HEADER + 1] = "";
    must(recv(connection, header, HEADER, MSG_PEEK) > 0, "peeking");
    must(recv(connection, header, HEADER, MSG_WAITALL) == HEADER, "the header");
    size_t length = strtoul(header, NULL, 10);
    must(length <= sizeof text, "the length");
    must(recv(connection, text, length, MSG_WAITALL) == (ssize_t)length, "the text");
    for (size_t at = 0; at < length; at++)
        text[at] = toupper((unsigned char)text[at]);
    for (size_t sent = 0; sent < length;) {
        ssize_t bytes = send(connection, text + sent, length - sent, 0);
        must(bytes > 0, "sending");
        sent += bytes;
    }
    must(shutdown(connection, SHUT_WR) == 0, "shutdown");
    must(read(connection, text, sizeof text) == 0, "the end");
    close(connection);
    return length == 3 && memcmp(text, "END", 3) == 0;
}

int main(void) {
    const char *count = getenv("LISTEN_FDS");
    int listeners = count ? atoi(count) : 0;
    printf("listening: %d\n", listeners);
    if (listeners == 0) {
        printf("accept: %s\n", accept(FIRST, NULL, NULL) < 0 ? strerror(errno) : "done");
        printf("of a file: %s\n", recv(1, &listeners, 1, 0) < 0 ? strerror(errno) : "done");
        return 0;
    }
    struct pollfd polled[MOST];
    for (int at = 0; at < listeners; at++)
        polled[at] = (struct pollfd){.fd = FIRST + at, .events = POLLIN};
    printf("ready at first: %d\n", poll(polled, 1, 20));
    must(fcntl(FIRST, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
    must(accept(FIRST, NULL, NULL) < 0, "no connection yet");
    printf("accept at first: %s\n", errno == EAGAIN ? "EAGAIN" : strerror(errno));
    must(fcntl(FIRST, F_SETFL, 0) == 0, "without O_NONBLOCK");
    printf("read of a listener: %s\n", read(FIRST, polled, 1) < 0 ? "refused" : "done");
    fflush(stdout);

    int served[MOST] = {0};
    for (int last = 0; !last;) {
        must(poll(polled, listeners, -1) > 0, "poll");
        for (int at = 0; at < listeners && !last; at++)
            if (polled[at].revents & POLLIN) {
                int connection = accept(polled[at].fd, NULL, NULL);
                must(connection >= FIRST + listeners, "accept");
                served[at]++;
                last = serve(connection);
            }
    }
    for (int at = 0; at < listeners; at++)
        printf("served at %d: %d\n", at, served[at]);
    return 0;
}
