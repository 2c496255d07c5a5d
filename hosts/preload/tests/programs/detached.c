/* A program that goes to the background by daemon(3), with its memory. */
#include "memory.h"

int main(void) {
    size_t pages = 4096;
    uint64_t *memory = map_pages(pages);
    for (size_t page = 0; page < pages; page++) fill(memory, page, 1);
    pid_t before = getpid();
    CHECK(daemon(1, 1) == 0);
    CHECK(getpid() != before && getsid(0) == getpid());
    for (size_t page = 0; page < pages; page++) CHECK(holds(memory, page, 1));
    CHECK(daemon(0, 1) == 0);
    char folder[8];
    CHECK(getcwd(folder, sizeof folder) && strcmp(folder, "/") == 0);
    puts("in the background");
    fflush(stdout);
    CHECK(daemon(0, 0) == 0);
    puts("heard by nothing");
    return 0;
}
