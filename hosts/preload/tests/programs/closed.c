/* A program that closes its standard error, as daemons do, and uses the number for something else; and programs that are
   started without some of the standard streams. */
#include "memory.h"

enum { PAGES = 12000 };

/* Without the streams whose bits are set. */
static pid_t start_without(const char *path, int streams) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int number = 0; number <= STDERR_FILENO; number++)
            if (streams >> number & 1) close(number);
        execl(path, path, "again", NULL);
        _exit(127);
    }
    return child;
}

static int run_without_streams(void) {
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    usleep(200000);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 7;
}

int main(int count, char **words) {
    if (count > 1) return run_without_streams();
    for (int streams = 1; streams < 8; streams = streams == 4 ? 7 : 2 * streams) {
        int status;
        pid_t child = start_without(words[0], streams);
        CHECK(waitpid(child, &status, 0) == child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
            fprintf(stderr, "without the streams %d: status %x\n", streams, status);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    CHECK(close(STDERR_FILENO) == 0);
    int ends[2];
    for (int round = 0; round < 10; round++) {
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
        usleep(30000);
    }
    CHECK(pipe(ends) == 0 && ends[0] == STDERR_FILENO);
    usleep(200000);
    CHECK(write(ends[1], "x", 1) == 1);
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
