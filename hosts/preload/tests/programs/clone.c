/* Children that are made without the C library's handlers of fork, before the program is paged: they have its memory.
   Afterwards it is paged, and forks. */
#include "memory.h"
#include <sys/syscall.h>

enum { PAGES = 12000, FEW = 500 };

extern pid_t _Fork(void) __attribute__((weak));

static pid_t raw_clone(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

static void check_child(pid_t child, uint64_t *memory, uint64_t pages, const int *heap) {
    CHECK(child >= 0);
    if (child == 0) {
        for (uint64_t page = 0; page < pages; page++) CHECK(holds(memory, page, 1));
        CHECK(*heap == 42);
        fill(memory, 0, 2);
        syscall(SYS_exit_group, 7);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(holds(memory, 0, 1));
}

int main(void) {
    end_if_it_hangs();
    int *heap = malloc(100 << 10);
    *heap = 42;
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < FEW; page++) fill(memory, page, 1);
    for (int round = 0; round < 3; round++) {
        check_child(raw_clone(), memory, FEW, heap);
        if (_Fork) check_child(_Fork(), memory, FEW, heap);
        check_child(fork(), memory, FEW, heap);
    }
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    for (int round = 0; round < 3; round++) {
        wait_until_paged(memory, PAGES);
        check_child(fork(), memory, PAGES, heap);
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    }
    return 0;
}
