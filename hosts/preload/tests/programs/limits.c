/* A program that limits its own addresses, before it is paged and once it is: it can use as many as natively, and no more; and
   so can a program that it becomes. */
#include "memory.h"
#include <pthread.h>
#include <sys/resource.h>

enum { PAGES = 12000, BLOCKS = 20 };
#define LIMIT (4ul << 30)

static void *thread(void *argument) { return argument; }

static void check_limit(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == LIMIT && limit.rlim_max == LIMIT);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0 && pthread_join(other, NULL) == 0);
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) CHECK(blocks[i] = malloc(50 << 20));
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    CHECK(mmap(NULL, 2 * LIMIT, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED && errno == ENOMEM);
    /* It has a few MiB itself. */
    CHECK(mmap(NULL, LIMIT - (16 << 20), PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED && errno == ENOMEM);
    void *half = mmap(NULL, LIMIT / 2, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(half != MAP_FAILED && munmap(half, LIMIT / 2) == 0);
}

static void check_program(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "test \"$(ulimit -v)\" = 4194304", NULL);
        _exit(9);
    }
    join_child(child);
}

int main(void) {
    end_if_it_hangs();
    uint64_t *memory = map_pages(PAGES);
    struct rlimit limit = {LIMIT, LIMIT};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    check_limit();
    check_program();
    for (int round = 0; round < 3; round++) {
        for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, round);
        wait_until_paged(memory, PAGES);
        check_limit();
        check_program();
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, round));
    }
    return 0;
}
