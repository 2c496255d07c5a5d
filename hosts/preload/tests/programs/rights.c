/* A program of root's that gives up its rights before it nears its budget, as servers do, and then gives memory that is
   away to system calls. */
#include "memory.h"

enum { PAGES = 12000 };

int main(void) {
    if (geteuid() == 0) CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    end_if_it_hangs();
    int file = memfd_create("content", MFD_CLOEXEC);
    CHECK(file >= 0);
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    /* The library needs a moment. */
    wait_until_paged(memory, PAGES);
    for (uint64_t page = 0; page < PAGES; page++)
        CHECK(pwrite(file, memory + page * WORDS, PAGE, page * PAGE) == (ssize_t)PAGE);
    memset(memory, 0, PAGES * PAGE);
    for (uint64_t page = 0; page < PAGES; page++)
        CHECK(pread(file, memory + page * WORDS, PAGE, page * PAGE) == (ssize_t)PAGE);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
