/* Children of vfork that end by `_exit`, as those of a program that cannot be started do: in the memory of their parent,
   which goes on, and reports at its own end. */
#include "memory.h"

enum { PAGES = 10000 };

int main(void) {
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    for (int round = 0; round < 3; round++) {
        pid_t child = vfork();
        CHECK(child >= 0);
        if (child == 0) {
            execl("/nonexistent", "nonexistent", (char *)NULL);
            _exit(7);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
