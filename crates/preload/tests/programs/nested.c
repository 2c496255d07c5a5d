/* Children that fork as soon as they are there, while the library begins its work for them. */
#include "memory.h"

#include <signal.h>
#include <sys/prctl.h>

enum { PAGES = 8000, TURNS = 60, GUARD_S = 300 };

/* A fork that nobody hears of waits for ever, with all signals blocked but SIGKILL. */
static void end_if_it_hangs(void) {
    pid_t program = getpid(), guard = fork();
    CHECK(guard >= 0);
    if (guard == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sleep(GUARD_S);
        kill(-program, SIGKILL);
        _exit(1);
    }
}

int main(void) {
    CHECK(setpgid(0, 0) == 0);
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
