/* What `anything.c` knows of the addresses that it uses: a model of what is mapped where, a shadow with the same bytes,
   and a log of what calls returned. */
#ifndef ANYTHING_H
#define ANYTHING_H

#include "memory.h"

#include <setjmp.h>

enum { THREADS = 8, WINDOW = 2048, FILE_PAGES = 4096, BUFFER_PAGES = 16 };
enum { NONE = PROT_NONE, READ = PROT_READ, WRITE = PROT_WRITE, BOTH = PROT_READ | PROT_WRITE };
enum { PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS, SHARED = MAP_SHARED | MAP_ANONYMOUS };

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

/* The end of what is paged; without the library it is an address like others. */
#define SPACE_END (68ul << 30)

enum kind { HOLE, MEMORY, OF_FILE, OF_ALL };

struct page {
    enum kind kind;
    int protection;
    /* Which call mapped it; a stretch of one map is moved at once. */
    uint32_t map;
    /* Of a file. */
    uint32_t index;
};

struct world {
    char *base, *shadow;
    uint64_t random, hash, step;
    const char *doing;
    int number, is_child, maps;
    struct page page[WINDOW];
};

static struct world worlds[THREADS];
static char shadows[THREADS][WINDOW * PAGE] __attribute__((aligned(4096)));
static uint64_t seed, steps;
static int file, scratch[THREADS], is_logged;
static atomic_int is_over;

static __thread sigjmp_buf landing;
static __thread volatile sig_atomic_t is_armed;
static __thread char buffer[BUFFER_PAGES * PAGE];

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (is_armed) {
        is_armed = 0;
        siglongjmp(landing, 1);
    }
    dprintf(2, "signal %d at %p\n", signal, info->si_addr);
    for (int i = 0; i < THREADS; i++)
        dprintf(2, "seed %lu thread %d step %lu %s\n", seed, i, worlds[i].step, worlds[i].doing);
    abort();
}

/* ---- the log ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0xbf58476d1ce4e5b9ul;
    return hash ^ hash >> 29;
}

static uint64_t below(struct world *world, uint64_t n) {
    return next_random(&world->random) * 0x9e3779b97f4a7c15ul % n;
}

static int chance(struct world *world, uint64_t n) { return below(world, n) == 0; }

static void note(struct world *world, size_t first, size_t pages, long result) {
    world->hash = mix(mix(mix(world->hash, first), pages), (uint64_t)result);
    if (is_logged)
        dprintf(2, "%d%s %lu %s %zu+%zu = %ld\n", world->number, world->is_child ? "'" : "",
                world->step, world->doing, first, pages, result);
}

/* What a call returned: the error number, or 0. */
static long outcome(int failed) { return failed ? errno : 0; }

static void fail(struct world *world, size_t page, const char *why) {
    dprintf(2, "seed %lu thread %d%s step %lu %s: page %zu at %p: %s\n", seed, world->number,
            world->is_child ? " (child)" : "", world->step, world->doing, page,
            (void *)(world->base + page * PAGE), why);
    abort();
}

#define EXPECT(page, condition)                                          \
    do {                                                                 \
        if (!(condition)) fail(world, page, #condition " is not so");    \
    } while (0)

/* ---- the model ---- */

static char *at(struct world *world, size_t page) { return world->base + page * PAGE; }
static char *shadow(struct world *world, size_t page) { return world->shadow + page * PAGE; }

static void from_file(char *to, uint32_t index) {
    for (size_t word = 0; word < WORDS; word++) ((uint64_t *)to)[word] = word_of(index, 77, word);
}

/* Pages become what a call just mapped there. */
static void set(struct world *world, size_t first, size_t pages, struct page as) {
    as.map = as.kind == HOLE ? 0 : ++world->maps;
    for (size_t i = first; i < first + pages; i++, as.index++) {
        world->page[i] = as;
        if (as.kind == OF_FILE)
            from_file(shadow(world, i), as.index);
        else
            memset(shadow(world, i), 0, PAGE);
    }
}

static int can_read(struct page page) { return page.kind != HOLE && page.protection & READ; }
static int can_write(struct page page) { return page.kind != HOLE && page.protection & WRITE; }
static int can_both(struct page page) { return can_read(page) && can_write(page); }
static int is_there(struct page page) { return page.kind != HOLE; }
static int is_anonymous(struct page page) { return page.kind == MEMORY; }
static int is_private_both(struct page page) { return page.kind == MEMORY && page.protection == BOTH; }

static void check_page(struct world *world, size_t page) {
    if (!can_read(world->page[page])) return;
    const uint64_t *is = (void *)at(world, page), *should = (void *)shadow(world, page);
    for (size_t word = 0; word < WORDS; word++) {
        uint64_t found = is[word];
        if (found == should[word]) continue;
        dprintf(2, "word %zu is %#lx, should be %#lx\n", word, found, should[word]);
        fail(world, page, "content differs");
    }
}

static void check(struct world *world, size_t first, size_t pages) {
    for (size_t page = first; page < first + pages; page++) check_page(world, page);
}

/* A number of pages: few of them more often than many. */
static size_t some(struct world *world, size_t most) {
    size_t limit = 1ul << below(world, 11);
    limit = limit < most ? limit : most;
    return 1 + below(world, limit);
}

static size_t range(struct world *world, size_t *pages) {
    *pages = some(world, WINDOW / 2);
    return below(world, WINDOW - *pages + 1);
}

static int is_run(struct page page, struct page next) {
    int is_next = page.kind != OF_FILE || page.index + 1 == next.index;
    return page.kind == next.kind && page.map == next.map && page.protection == next.protection &&
           is_next;
}

/* Pages of a kind that follow each other, at most so many; of one map if that is asked for. 0 if none was found. */
static size_t find(struct world *world, int (*is_kind)(struct page), size_t most, int of_one_map,
                   size_t *first) {
    size_t wanted = some(world, most);
    for (int turn = 0; turn < 50; turn++) {
        size_t start = below(world, WINDOW), end = start;
        while (end < WINDOW && end - start < wanted && is_kind(world->page[end]) &&
               (end == start || !of_one_map || is_run(world->page[end - 1], world->page[end])))
            end++;
        *first = start;
        if (end > start) return end - start;
    }
    return 0;
}

static void write_page(struct world *world, size_t page) {
    uint64_t version = world->step * 2 + world->is_child;
    fill((uint64_t *)world->shadow, page, version);
    memcpy(at(world, page), shadow(world, page), PAGE);
}

/* What is in private memory is given up. */
static void forget(struct world *world, size_t page) {
    struct page is = world->page[page];
    if (is.kind == OF_FILE) from_file(shadow(world, page), is.index);
    if (is.kind == MEMORY) memset(shadow(world, page), 0, PAGE);
}

static int protection(struct world *world) {
    static const int all[] = {BOTH, BOTH, BOTH, BOTH, BOTH, BOTH, READ, NONE, WRITE, READ | PROT_EXEC};
    return all[below(world, sizeof all / sizeof *all)];
}

#endif
