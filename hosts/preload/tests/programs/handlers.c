/* Handlers of fork that were registered before the library was started, as by constructors of libraries that the program
   needs: they allocate, and end and start threads, as libraries for parallel work do. */
#include "memory.h"
#include <pthread.h>

enum { PAGES = 12000, FORKS = 20 };

static pthread_t worker;
static atomic_int is_over, has_worker;

static void *works(void *unused) {
    while (!atomic_load(&is_over)) free(malloc(100000));
    return unused;
}

static void begin_work(void) {
    atomic_store(&is_over, 0);
    CHECK(pthread_create(&worker, NULL, works, NULL) == 0);
    atomic_store(&has_worker, 1);
}

static void before(void) {
    for (int i = 1; i < 200; i++) free(malloc(i * 1000));
    if (!atomic_exchange(&has_worker, 0)) return;
    atomic_store(&is_over, 1);
    CHECK(pthread_join(worker, NULL) == 0);
}

static void after(void) {
    for (int i = 1; i < 200; i++) free(malloc(i * 1000));
    begin_work();
}

static void early(void) { CHECK(pthread_atfork(before, after, after) == 0); }

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = early;

int main(void) {
    /* Before anything is paged, and afterwards. */
    uint64_t *memory = map_pages(PAGES);
    for (int fork_number = 0; fork_number < FORKS; fork_number++) {
        if (fork_number == 1) {
            for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
            wait_until_paged(memory, PAGES);
        }
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (uint64_t page = 0; fork_number && page < PAGES; page += 37) CHECK(holds(memory, page, 1));
            free(malloc(1000000));
            _exit(7);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
