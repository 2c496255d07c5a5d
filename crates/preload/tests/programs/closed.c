/* A program that closes its standard error, as daemons do, and uses the number for something else. */
#include "memory.h"

enum { PAGES = 12000 };

int main(void) {
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
