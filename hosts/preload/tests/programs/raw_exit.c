/* Threads that end by the system call alone, which nothing in the process sees: a process ends with its last thread all the
   same, and with what its first thread ended with. And a process that may write no file ends as it says. */
#include "memory.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { PAGES = 12000 };

static uint64_t *memory;

static void *ends_alone(void *unused) {
    (void)unused;
    usleep(300000);
    syscall(SYS_exit, 7);
    return NULL;
}

static void *returns(void *unused) {
    usleep(300000);
    return unused;
}

static void first_ends_alone(void) { syscall(SYS_exit, 38); }

static void last_ends_alone(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ends_alone, NULL) == 0);
    pthread_exit(NULL);
}

static void first_ends_alone_and_another_returns(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, returns, NULL) == 0);
    syscall(SYS_exit, 39);
}

static void may_write_no_file(void) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
    exit(40);
}

static void check_end(void (*ends)(void), int expected) {
    pid_t child = fork();
    if (child == 0) {
        end_if_it_hangs();
        CHECK(holds(memory, 0, 1) && holds(memory, PAGES - 1, 1));
        ends();
        abort();
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

int main(void) {
    end_if_it_hangs();
    memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    check_end(first_ends_alone, 38);
    check_end(last_ends_alone, 0);
    check_end(first_ends_alone_and_another_returns, 39);
    check_end(may_write_no_file, 40);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
