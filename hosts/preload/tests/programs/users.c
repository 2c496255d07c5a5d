/* Programs of one thread that make and enter a namespace of users, which the kernel refuses to those with threads, after they
   have mapped more than their budget and before they use it. */
#include "memory.h"
#include <sched.h>

enum { PAGES = 24000 };

static char other[64];

static void make(void) { CHECK(unshare(CLONE_NEWUSER) == 0); }

static void enter(void) {
    int users = open(other, O_RDONLY | O_CLOEXEC);
    CHECK(users >= 0);
    CHECK(setns(users, 0) == 0);
    CHECK(close(users) == 0);
}

static void check(void (*leave)(void)) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        uint64_t *memory = map_pages(PAGES);
        leave();
        for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
        _exit(0);
    }
    join_child(child);
}

int main(void) {
    end_if_it_hangs();
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int result = unshare(CLONE_NEWUSER);
        CHECK(write(ends[1], &result, sizeof result) == sizeof result);
        pause();
    }
    int result;
    CHECK(read(ends[0], &result, sizeof result) == sizeof result);
    if (result == 0) {
        snprintf(other, sizeof other, "/proc/%d/ns/user", child);
        check(make);
        check(enter);
    } else {
        puts("no namespaces of users");
    }
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    return 0;
}
