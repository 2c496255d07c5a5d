/* Processes whose last thread ends by pthread_exit, by its return (C11 threads, too), or in the child of a fork by another
   thread: they end, with 0, after what was to be done at exit. */
#include "memory.h"
#include <pthread.h>
#include <threads.h>

enum { PAGES = 12000 };

static uint64_t *memory;
static int ends[2];

static void check_memory(void) {
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
}

static void at_exit(void) { CHECK(write(ends[1], "x", 1) == 1); }

static void *works(void *unused) {
    usleep(500000);
    check_memory();
    return unused;
}

static int works_11(void *unused) {
    works(unused);
    return 1;
}

/* Waits for a process that has to end by itself. */
static void check_end(pid_t child) {
    CHECK(child > 0);
    int status;
    char byte;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
}

static void begin_child(void) {
    end_if_it_hangs();
    CHECK(atexit(at_exit) == 0);
    check_memory();
}

static void *forks(void *unused) {
    pid_t child = fork();
    if (child == 0) {
        begin_child();
        return unused;
    }
    check_end(child);
    return unused;
}

int main(void) {
    end_if_it_hangs();
    CHECK(pipe(ends) == 0);
    memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    pthread_t thread;

    pid_t child = fork();
    if (child == 0) {
        begin_child();
        pthread_exit(NULL);
    }
    check_end(child);

    child = fork();
    if (child == 0) {
        begin_child();
        CHECK(pthread_create(&thread, NULL, works, NULL) == 0);
        CHECK(pthread_detach(thread) == 0);
        pthread_exit(NULL);
    }
    check_end(child);

    child = fork();
    if (child == 0) {
        begin_child();
        thrd_t other;
        CHECK(thrd_create(&other, works_11, NULL) == thrd_success);
        CHECK(thrd_detach(other) == thrd_success);
        pthread_exit(NULL);
    }
    check_end(child);

    CHECK(pthread_create(&thread, NULL, forks, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);

    /* This one, too. */
    CHECK(pthread_create(&thread, NULL, works, NULL) == 0);
    pthread_exit(NULL);
}
