/* A program that may open no more files than it has open forks, and one that may open none at all: parent and child go on with all of their memory. Where not
   even the child may raise the limit, it may end instead, loudly; the parent goes on. */
#include "memory.h"

#include <sys/resource.h>

enum { PAGES = 12000, TURNS = 3 };

static uint64_t *memory;

static void check_all(void) {
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
}

/* Forks; the child's status. */
static int fork_once(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        check_all();
        for (uint64_t page = 0; page < PAGES; page += 2) fill(memory, page, 2);
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, page % 2 ? 1 : 2));
        CHECK(dup(0) < 0 && errno == EMFILE); /* The limit is the program's again. */
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    check_all();
    return status;
}

/* A child that leaves itself three numbers forks: the library has more in use. It goes on; its own child may end, loudly,
   where it cannot have more. */
static void fork_with_few_numbers(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit few = {3, 3}, more = {64, 64};
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
        int may_raise = setrlimit(RLIMIT_NOFILE, &more) == 0;
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) {
            check_all();
            _exit(0);
        }
        int status;
        CHECK(waitpid(grandchild, &status, 0) == grandchild);
        check_all();
        CHECK(status == 0 || (!may_raise && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

int main(void) {
    end_if_it_hangs();
    memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    int next = dup(0);
    CHECK(next >= 3 && close(next) == 0);
    rlim_t most[] = {(rlim_t)next, 1, 0};
    for (int i = 0; i < 3; i++) {
        limit.rlim_cur = most[i];
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        for (int turn = 0; turn < TURNS; turn++) {
            int status = fork_once();
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
    }
    limit.rlim_cur = most[0];
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    fork_with_few_numbers();
    limit.rlim_max = limit.rlim_cur;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int turn = 0; turn < TURNS; turn++) {
        int status = fork_once();
        CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) == 0);
    }
    /* As in a sandbox, which makes no processes. */
    limit.rlim_cur = limit.rlim_max = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int turn = 0; turn < TURNS; turn++) check_all();
    return 0;
}
