/* Forks of a program that has mapped more than its budget and used next to nothing of it, so that the library is
   ready and does not page yet; and of the same program when it is paged. */
#include "memory.h"

#include <dirent.h>

enum { PAGES = 16000, TURNS = 20 };

static int threads(void) {
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder);
    int count = 0;
    while (readdir(folder)) count++;
    closedir(folder);
    return count - 2;
}

static void fork_and_check(const uint64_t *memory, uint64_t pages) {
    for (int turn = 0; turn < TURNS; turn++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (uint64_t page = turn; page < pages; page += TURNS) CHECK(holds(memory, page, 1));
            _exit(0);
        }
        join_child(child);
    }
}

int main(void) {
    end_if_it_hangs();
    uint64_t *memory = map_pages(PAGES);
    if (getenv("WARMSWAP_RUN"))
        while (threads() < 2) usleep(1000);
    /* Its keeper opens its descriptors meanwhile. */
    usleep(100 * 1000);
    fork_and_check(memory, 0);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    fork_and_check(memory, PAGES);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
