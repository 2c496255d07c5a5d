/* Memory with a pattern, larger than the budget of the tests, and how to check it. */
#ifndef MEMORY_H
#define MEMORY_H

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define WORDS (PAGE / sizeof(uint64_t))

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, \
                    errno);                                                           \
            abort();                                                                  \
        }                                                                             \
    } while (0)

static inline uint64_t *map_pages(size_t pages) {
    void *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Most of a page says which page it is and how often it was written; the rest is hard to compress. */
static inline uint64_t word_of(uint64_t page, uint64_t version, size_t word) {
    uint64_t mixed = (page * 0x9e3779b97f4a7c15ul + version) ^ (word << 32);
    return word % 16 ? page * 1000 + version : mixed * 0xbf58476d1ce4e5b9ul;
}

static inline void fill(uint64_t *memory, uint64_t page, uint64_t version) {
    for (size_t word = 0; word < WORDS; word++)
        memory[page * WORDS + word] = word_of(page, version, word);
}

static inline int holds(const uint64_t *memory, uint64_t page, uint64_t version) {
    for (size_t word = 0; word < WORDS; word++)
        if (memory[page * WORDS + word] != word_of(page, version, word)) return 0;
    return 1;
}

static inline int is_zero(const uint64_t *memory, uint64_t page) {
    for (size_t word = 0; word < WORDS; word++)
        if (memory[page * WORDS + word]) return 0;
    return 1;
}

static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Whether at most so many of these pages are in place by now; on a busy machine the library takes a program over late,
   far beyond its budget, and has to come down to it first. Without the library nobody does, and nobody waits for it.
   Allocates nothing. */
static inline int is_down_to(const void *memory, size_t pages, size_t most) {
    if (!getenv("WARMSWAP_RUN")) return 1;
    unsigned char in_place[1024];
    size_t count = 0;
    for (size_t first = 0; first < pages; first += sizeof in_place) {
        size_t some = pages - first < sizeof in_place ? pages - first : sizeof in_place;
        CHECK(mincore((char *)memory + first * PAGE, some * PAGE, in_place) == 0);
        for (size_t page = 0; page < some; page++) count += in_place[page] & 1;
    }
    return count <= most;
}

/* Waits until most of these pages have left. */
static inline void wait_until_paged(const void *memory, size_t pages) {
    while (!is_down_to(memory, pages, pages / 2)) usleep(1000);
}

/* How often the library's keeper has gone to sleep; 0 where there is none. */
static inline long keeper_sleeps(void) {
    long sleeps = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *task; sleeps == 0 && (task = readdir(tasks));) {
        char path[64], line[128];
        snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task->d_name);
        FILE *status = fopen(path, "r");
        if (!status) continue; /* It has ended, or is no task. */
        int is_keeper = fgets(line, sizeof line, status) && strcmp(line, "Name:\twarmswap keeper\n") == 0;
        while (is_keeper && fgets(line, sizeof line, status)) sscanf(line, "voluntary_ctxt_switches: %ld", &sleeps);
        fclose(status);
    }
    closedir(tasks);
    return sleeps;
}

/* Waits until these pages have left, or the keeper has had turns enough to decide that they are not to; without one it is
   decided. */
static inline void give_time_to_page(const void *memory, size_t pages) {
    long first = keeper_sleeps();
    for (long now = first; now != 0 && now < first + 20; now = keeper_sleeps()) {
        if (is_down_to(memory, pages, pages / 2)) return;
        usleep(1000);
    }
}

/* A fork that nobody hears of waits for ever, with all signals blocked but SIGKILL: after a while the program and its
   children end by that. */
static inline void end_if_it_hangs(void) {
    CHECK(setpgid(0, 0) == 0);
    pid_t group = getpid(), guard = fork();
    CHECK(guard >= 0);
    if (guard == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != group) _exit(0); /* It ended before it could be watched. */
        sleep(300);
        kill(-group, SIGKILL);
        _exit(1);
    }
}

/* Waits for a child that is to end well. */
static inline void join_child(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#endif
