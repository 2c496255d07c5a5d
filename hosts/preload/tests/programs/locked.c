/* A program that locks all of its memory: it is not paged, and what it does not use takes no memory. */
#include "memory.h"

enum { PAGES = 12000, MOST_KIB = 300 << 10 };

static long status_kib(const char *name) {
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) kib = atol(line + strlen(name));
    fclose(file);
    return kib;
}

int main(void) {
    end_if_it_hangs();
    CHECK(mlockall(MCL_CURRENT) == 0);
    CHECK(status_kib("VmLck:") > 0);
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    CHECK(status_kib("VmRSS:") < MOST_KIB);
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    usleep(300000);
    unsigned char is_there[PAGES];
    CHECK(mincore(memory, PAGES * PAGE, is_there) == 0);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(is_there[page] & 1);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    CHECK(munlockall() == 0);
    return 0;
}
