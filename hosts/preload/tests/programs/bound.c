/* A thread that makes one fault after the other is bound to a processor for a while. The program must not see that, and
   nothing that the thread creates may be bound, too. */
#include "memory.h"

#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>

enum { PAGES = 12000, TURNS = 120, FAULTS = 24, MOST_ROUNDS = 200 };

/* How many processors the thread may run on, by a call that nobody stands before. */
static int really(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CHECK(syscall(SYS_sched_getaffinity, 0, sizeof set, &set) > 0);
    return CPU_COUNT(&set);
}

static int as_it_says(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    return CPU_COUNT(&set);
}

static void *thread(void *count) {
    *(int *)count = really();
    return NULL;
}

static int of_a_thread(void) {
    pthread_t created;
    int count = 0;
    CHECK(pthread_create(&created, NULL, thread, &count) == 0);
    CHECK(pthread_join(created, NULL) == 0);
    return count;
}

static int exit_code(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static char self[4096];

static int of_a_fork(void) {
    pid_t child = fork();
    if (child == 0) _exit(really());
    return exit_code(child);
}

static int of_a_vfork(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl(self, self, "count", (char *)NULL);
        _exit(0);
    }
    return exit_code(child);
}

static int of_a_spawn(void) {
    extern char **environ;
    char *arguments[] = {self, "count", NULL};
    pid_t child;
    CHECK(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0);
    return exit_code(child);
}

static int of_a_shell(void) {
    char command[sizeof self + 16];
    snprintf(command, sizeof command, "'%s' count", self);
    int status = system(command);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int of_a_pipe(void) {
    char command[sizeof self + 16];
    snprintf(command, sizeof command, "'%s' count", self);
    FILE *pipe = popen(command, "r");
    CHECK(pipe);
    int status = pclose(pipe);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return really();
    end_if_it_hangs();
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    int processors = really(), times_bound = 0;
    int (*const ways[])(void) = {as_it_says, of_a_thread, of_a_fork, of_a_vfork,
                                 of_a_spawn, of_a_shell,  of_a_pipe};
    enum { WAYS = sizeof ways / sizeof *ways };

    uint64_t *memory = map_pages(PAGES), state = 1;
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    for (int round = 0, rounds = 1; round < rounds && round < MOST_ROUNDS; round++) {
        if (!is_down_to(memory, PAGES, PAGES / 2)) rounds = round + 2;
        for (int turn = 0; turn < TURNS; turn++) {
            for (int fault = 0; fault < FAULTS; fault++)
                CHECK(holds(memory, next_random(&state) % PAGES, 1));
            times_bound += really() < processors;
            CHECK(ways[turn % WAYS]() == processors);
        }
    }
    /* Else nothing was tried. */
    if (getenv("WARMSWAP_RUN") && processors > 1) CHECK(times_bound > 0);

    /* What the program chooses itself, it keeps. */
    cpu_set_t all, one;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    int last = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all)) last = cpu;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    for (int touch = 0; touch < TURNS * FAULTS; touch++)
        CHECK(holds(memory, next_random(&state) % PAGES, 1));
    CHECK(really() == 1 && sched_getcpu() == last);
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
    CHECK(really() == processors);
    return 0;
}
