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

/* Whether the library pages this memory by now; on a busy machine it takes a program over late. Without the library
   nobody does, and nobody waits for it. Allocates nothing. */
static inline int is_paged(const void *memory) {
    if (!getenv("WARMSWAP_RUN")) return 1;
    char text[1 << 18];
    size_t length = 0;
    ssize_t more;
    int maps = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    CHECK(maps >= 0);
    while ((more = read(maps, text + length, sizeof text - 1 - length)) > 0) length += (size_t)more;
    CHECK(more == 0 && close(maps) == 0);
    text[length] = 0;
    int is_here = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        unsigned long first, last;
        *end = 0;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2) is_here = first <= (uintptr_t)memory && (uintptr_t)memory < last;
        else if (is_here && strncmp(line, "VmFlags:", 8) == 0) return strstr(line, " um") != NULL;
    }
    return 0;
}

/* A fork that nobody hears of waits for ever, with all signals blocked but SIGKILL: after a while the program and its
   children end by that. */
static inline void end_if_it_hangs(void) {
    CHECK(setpgid(0, 0) == 0);
    pid_t group = getpid(), guard = fork();
    CHECK(guard >= 0);
    if (guard == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
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
