/* A program of root's with one thread that enters another mount namespace, once it is paged. */
#include "memory.h"
#include <sched.h>

enum { PAGES = 12000 };

int main(void) {
    end_if_it_hangs();
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int result = unshare(CLONE_NEWNS);
        CHECK(write(ends[1], &result, sizeof result) == sizeof result);
        pause();
    }
    int result;
    CHECK(read(ends[0], &result, sizeof result) == sizeof result && result == 0);
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", child);
    int other = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(other >= 0);
    CHECK(setns(other, CLONE_NEWNS) == 0);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 2);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 2));
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    return 0;
}
