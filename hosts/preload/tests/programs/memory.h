/* Memory with a pattern, larger than the budget of the tests, and how to check it. */
#ifndef MEMORY_H
#define MEMORY_H

#define _GNU_SOURCE
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
