/* Parent and child go on with all of their memory, copy on write; a child that is killed; one that forks
   itself; one that closes all descriptors; posix_spawn, and fork with exec. */
#include "memory.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>

enum { PAGES = 12000 };

extern char **environ;
static uint64_t *memory;
static atomic_int is_over;

/* A thread of the parent that goes on during all the forks. */
static void *busy(void *argument) {
    uint64_t *own = argument, state = 7, version = 1;
    for (uint64_t page = 0; page < 1000; page++) fill(own, page, 1);
    while (!atomic_load(&is_over)) {
        uint64_t page = next_random(&state) % 1000;
        CHECK(holds(own, page, 1) || holds(own, page, 2));
        fill(own, page, version = 3 - version);
    }
    return NULL;
}

static void check_all(uint64_t version) {
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, version));
}

static void in_child(int turn) {
    check_all(0);
    for (uint64_t page = 0; page < PAGES; page += 3) fill(memory, page, 100);
    if (turn == 0) {
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) {
            CHECK(holds(memory, 3, 100) && holds(memory, 4, 0));
            for (uint64_t page = 0; page < PAGES; page += 2) fill(memory, page, 200);
            CHECK(holds(memory, 6, 200) && holds(memory, 9, 100));
            _exit(0);
        }
        join_child(grandchild);
    }
    if (turn == 1) CHECK(syscall(SYS_close_range, 3u, ~0u, 0u) == 0);
    for (uint64_t page = 0; page < PAGES; page++)
        CHECK(holds(memory, page, page % 3 == 0 ? 100 : 0));
    if (turn == 2)
        for (;;) fill(memory, 5, 300);
    _exit(0);
}

int main(int count, char **arguments) {
    if (count > 1) return strcmp(arguments[1], "again") != 0;
    memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 0);
    wait_until_paged(memory, PAGES);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, busy, map_pages(1000)) == 0);
    for (int turn = 0; turn < 4; turn++) {
        FILE *stream = tmpfile();
        CHECK(stream != NULL && fprintf(stream, "turn %d", turn) > 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) in_child(turn);
        check_all(0);
        if (turn == 2) {
            int status = 0;
            usleep(200000);
            CHECK(kill(child, SIGKILL) == 0);
            CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        } else {
            join_child(child);
        }
        CHECK(fclose(stream) == 0);
        check_all(0);
    }
    char *again[] = {arguments[0], "again", NULL};
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execv(again[0], again);
        _exit(1);
    }
    join_child(child);
    CHECK(posix_spawn(&child, again[0], NULL, NULL, again, environ) == 0);
    join_child(child);
    atomic_store(&is_over, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    check_all(0);
    return 0;
}
