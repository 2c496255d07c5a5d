/* Children that fork as soon as they are there, while the library begins its work for them. */
#include "memory.h"

enum { PAGES = 8000, TURNS = 60 };

int main(void) {
    end_if_it_hangs();
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            pid_t grandchild = fork();
            CHECK(grandchild >= 0);
            CHECK(holds(memory, turn * 7, 1));
            if (grandchild == 0) _exit(0);
            join_child(grandchild);
            _exit(0);
        }
        join_child(child);
    }
    return 0;
}
