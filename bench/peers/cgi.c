/* The smallest CGI program: an empty answer. */
#include <unistd.h>

int main(void) {
    static const char answer[] = "Content-Type: text/plain\r\n\r\n";
    return write(1, answer, sizeof answer - 1) != (ssize_t)(sizeof answer - 1);
}
