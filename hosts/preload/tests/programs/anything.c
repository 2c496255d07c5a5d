/* Anything that a program may do with its addresses, at random: what every page holds and what every call returns is
   the same with the library and without.

   usage: anything SEED STEPS THREADS

   Each thread has a window of addresses of its own, at the same place in every run; the last one crosses the end of the
   addresses that are paged. A model says what is mapped where, and a shadow in memory that is never paged (the program's
   data) holds the same bytes. A byte that differs ends the program with a line that says where. What calls return goes
   into a hash for each thread, which is printed at the end: to be compared with that of a run without the library.
   With LOG in the environment all steps go to standard error; the first line that differs is the one to look at. */
#include "anything.h"
#include "anything_io.h"

#include <pthread.h>

/* ---- mapping ---- */

static void map_fixed(struct world *world) {
    size_t pages, first = range(world, &pages);
    struct page as = {.kind = MEMORY, .protection = protection(world)};
    int flags = PRIVATE | MAP_FIXED | (chance(world, 4) ? MAP_NORESERVE : 0);
    if (chance(world, 8)) flags |= MAP_POPULATE;
    CHECK(mmap(at(world, first), pages * PAGE, as.protection, flags, -1, 0) == at(world, first));
    set(world, first, pages, as);
    note(world, first, pages, as.protection);
}

static void map_free(struct world *world) {
    size_t pages, first = range(world, &pages);
    struct page as = {.kind = MEMORY, .protection = protection(world)};
    int flags = PRIVATE | MAP_FIXED_NOREPLACE;
    char *mapped = mmap(at(world, first), pages * PAGE, as.protection, flags, -1, 0);
    note(world, first, pages, outcome(mapped == MAP_FAILED));
    if (mapped == MAP_FAILED) return;
    EXPECT(first, mapped == at(world, first));
    set(world, first, pages, as);
}

static void map_file(struct world *world) {
    if (world->number % 2) return;
    size_t pages, first = range(world, &pages);
    struct page as = {.kind = OF_FILE, .protection = protection(world)};
    as.index = (uint32_t)below(world, WINDOW);
    char *mapped = mmap(at(world, first), pages * PAGE, as.protection, MAP_PRIVATE | MAP_FIXED, file,
                        (off_t)(as.index * PAGE));
    EXPECT(first, mapped == at(world, first));
    set(world, first, pages, as);
    note(world, first, pages, as.protection);
}

static void map_shared(struct world *world) {
    if (world->number % 2) return;
    size_t pages, first = range(world, &pages);
    struct page as = {.kind = OF_ALL, .protection = protection(world)};
    char *mapped = mmap(at(world, first), pages * PAGE, as.protection, SHARED | MAP_FIXED, -1, 0);
    EXPECT(first, mapped == at(world, first));
    set(world, first, pages, as);
    note(world, first, pages, as.protection);
}

static void unmap(struct world *world) {
    size_t pages, first = range(world, &pages);
    long result = outcome(munmap(at(world, first), pages * PAGE));
    set(world, first, pages, (struct page){.kind = HOLE});
    note(world, first, pages, result);
}

/* As far as the first hole, if there is one. */
static void protect(struct world *world) {
    size_t pages, first = range(world, &pages);
    if (chance(world, 2)) pages = find(world, is_there, pages, 0, &first);
    int as = protection(world);
    long result = pages ? outcome(mprotect(at(world, first), pages * PAGE, as)) : 0;
    note(world, first, pages, result);
    for (size_t page = first; page < first + pages && is_there(world->page[page]); page++)
        world->page[page].protection = as;
}

/* ---- advice ---- */

static void discard(struct world *world) {
    size_t pages, first = range(world, &pages);
    long result = outcome(madvise(at(world, first), pages * PAGE, MADV_DONTNEED));
    note(world, first, pages, result);
    for (size_t page = first; page < first + pages; page++) forget(world, page);
}

/* Pages keep their content or read as zeros, until they are written to. */
static void free_later(struct world *world) {
    size_t first, pages = find(world, is_private_both, WINDOW, 0, &first);
    if (pages == 0) return;
    note(world, first, pages, outcome(madvise(at(world, first), pages * PAGE, MADV_FREE)));
    for (size_t page = first; page < first + pages; page++) {
        if (!is_zero((uint64_t *)world->base, page)) check_page(world, page);
        if (chance(world, 2)) {
            write_page(world, page);
        } else {
            CHECK(madvise(at(world, page), PAGE, MADV_DONTNEED) == 0);
            forget(world, page);
        }
    }
}

static void hint(struct world *world) {
    static const int hints[] = {MADV_NORMAL, MADV_RANDOM,     MADV_SEQUENTIAL, MADV_WILLNEED,
                                MADV_COLD,   MADV_HUGEPAGE,   MADV_NOHUGEPAGE, MADV_PAGEOUT,
                                MADV_DODUMP, MADV_UNMERGEABLE, MADV_DOFORK,    MADV_KEEPONFORK};
    size_t first, pages = find(world, is_there, WINDOW, 0, &first);
    int which = hints[below(world, sizeof hints / sizeof *hints)];
    /* What of them there is depends on the kernel. */
    if (pages) madvise(at(world, first), pages * PAGE, which);
    note(world, first, pages, which);
}

static void populate(struct world *world) {
    size_t first, pages = find(world, can_both, WINDOW, 0, &first);
    int which = chance(world, 2) ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
    if (pages) note(world, first, pages, outcome(madvise(at(world, first), pages * PAGE, which)));
}

static void refused_advice(struct world *world) {
    size_t first, pages = find(world, is_anonymous, WINDOW, 0, &first);
    if (pages == 0) return;
    int which = chance(world, 2) ? MADV_REMOVE : 12345;
    note(world, first, pages, outcome(madvise(at(world, first), pages * PAGE, which)));
}

static int faults(volatile char *address, int writes) {
    if (sigsetjmp(landing, 1)) return 1;
    is_armed = 1;
    if (writes)
        *address = 1;
    else
        (void)*address;
    is_armed = 0;
    return 0;
}

/* A page without access by advice, where there is such a thing; the memory is mapped anew then. */
static void guard(struct world *world) {
    size_t first, pages = find(world, is_private_both, 16, 0, &first);
    if (pages == 0) return;
    note(world, first, pages, 0);
    if (madvise(at(world, first), pages * PAGE, MADV_GUARD_INSTALL) == 0)
        EXPECT(first, faults(at(world, first + pages - 1), 0));
    int flags = PRIVATE | MAP_FIXED;
    CHECK(mmap(at(world, first), pages * PAGE, BOTH, flags, -1, 0) == at(world, first));
    set(world, first, pages, (struct page){.kind = MEMORY, .protection = BOTH});
}

static void lock(struct world *world) {
    size_t first, pages = find(world, is_private_both, 64, 0, &first);
    if (pages == 0) return;
    int is_locked = mlock(at(world, first), pages * PAGE) == 0;
    note(world, first, pages, 0);
    check(world, first, pages);
    for (size_t page = first; page < first + pages; page += 3) write_page(world, page);
    if (is_locked && chance(world, 2)) CHECK(munlock(at(world, first), pages * PAGE) == 0);
    CHECK(munmap(at(world, first), pages * PAGE) == 0);
    int flags = PRIVATE | MAP_FIXED_NOREPLACE;
    CHECK(mmap(at(world, first), pages * PAGE, BOTH, flags, -1, 0) == at(world, first));
    set(world, first, pages, (struct page){.kind = MEMORY, .protection = BOTH});
}

/* ---- mremap ---- */

/* Pages are where they were moved to: `pages` of them, and `more` that are new. */
static void moved(struct world *world, size_t from, size_t to, size_t pages, size_t more) {
    struct page last = world->page[from + pages - 1];
    memmove(shadow(world, to), shadow(world, from), pages * PAGE);
    memmove(world->page + to, world->page + from, pages * sizeof *world->page);
    for (size_t page = to + pages; page < to + pages + more; page++) {
        last.index++;
        world->page[page] = last;
        forget(world, page);
    }
    world->maps++;
    for (size_t page = to; page < to + pages + more; page++) world->page[page].map = world->maps;
}

static void shrink(struct world *world) {
    size_t first, pages = find(world, is_there, WINDOW, 1, &first);
    if (pages == 0) return;
    size_t left = 1 + below(world, pages);
    char *result = mremap(at(world, first), pages * PAGE, left * PAGE, 0);
    note(world, first, pages, outcome(result == MAP_FAILED));
    set(world, first + left, pages - left, (struct page){.kind = HOLE});
}

static void grow(struct world *world) {
    size_t first, pages = find(world, is_anonymous, WINDOW, 1, &first);
    if (pages == 0) return;
    size_t more = some(world, 64);
    if (first + pages + more > WINDOW) return;
    char *result = mremap(at(world, first), pages * PAGE, (pages + more) * PAGE, 0);
    if (result == MAP_FAILED)
        result = mmap(at(world, first + pages), more * PAGE, world->page[first].protection,
                      PRIVATE | MAP_FIXED_NOREPLACE, -1, 0);
    int has_grown = result != MAP_FAILED;
    note(world, first, pages, has_grown);
    if (has_grown) moved(world, first, first, pages, more);
}

/* The kernel moves a range of one mapping only, and need not see one where the model does: then it is copied. */
static void relocate(struct world *world, size_t from, size_t to, size_t pages, size_t target) {
    char *result = mremap(at(world, from), pages * PAGE, target * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                          at(world, to));
    EXPECT(from, result == at(world, to) || (result == MAP_FAILED && errno == EFAULT));
    size_t both = pages < target ? pages : target;
    struct page was = world->page[from];
    if (result == MAP_FAILED && was.kind == OF_ALL) {
        for (size_t page = 0; page < both; page++)
            CHECK(mremap(at(world, from + page), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                         at(world, to + page)) == at(world, to + page));
        CHECK(munmap(at(world, from), pages * PAGE) == 0);
    } else if (result == MAP_FAILED) {
        CHECK(mprotect(at(world, from), pages * PAGE, BOTH) == 0);
        int flags = was.kind == MEMORY ? PRIVATE : MAP_PRIVATE;
        int of = was.kind == MEMORY ? -1 : file;
        CHECK(mmap(at(world, to), target * PAGE, BOTH, flags | MAP_FIXED, of,
                   was.kind == MEMORY ? 0 : (off_t)(was.index * PAGE)) != MAP_FAILED);
        memcpy(at(world, to), at(world, from), both * PAGE);
        CHECK(mprotect(at(world, to), target * PAGE, was.protection) == 0);
        CHECK(munmap(at(world, from), pages * PAGE) == 0);
    }
    moved(world, from, to, both, target - both);
    set(world, from, pages, (struct page){.kind = HOLE});
}

static void move(struct world *world) {
    size_t from, pages = find(world, is_there, WINDOW / 4, 1, &from);
    if (pages == 0) return;
    size_t target = pages;
    if (chance(world, 3)) target = 1 + below(world, pages);
    if (chance(world, 3) && world->page[from].kind != OF_ALL) target = pages + some(world, 64);
    size_t to = below(world, WINDOW - target + 1);
    if (to < from + pages && from < to + target) return;
    relocate(world, from, to, pages, target);
    note(world, from, pages, (long)(to * WINDOW + target));
}

/* To a place of the kernel's choice, and back. */
static void move_away(struct world *world) {
    size_t first, pages = find(world, is_anonymous, WINDOW / 4, 1, &first);
    if (pages == 0) return;
    struct page was = world->page[first];
    size_t more = (1 + below(world, WINDOW / 2)) * PAGE;
    char *away = mremap(at(world, first), pages * PAGE, pages * PAGE + more, MREMAP_MAYMOVE);
    note(world, first, pages, 0);
    if (away == MAP_FAILED) {
        EXPECT(first, errno == EFAULT);
        return;
    }
    if (was.protection & READ)
        EXPECT(first, memcmp(away, shadow(world, first), pages * PAGE) == 0);
    int flags = away == at(world, first) ? 0 : MREMAP_MAYMOVE | MREMAP_FIXED;
    char *back = mremap(away, pages * PAGE + more, pages * PAGE, flags, at(world, first));
    EXPECT(first, back == at(world, first));
}

static void move_content(struct world *world) {
    size_t from, pages = find(world, is_private_both, WINDOW / 4, 1, &from);
    if (pages == 0) return;
    size_t to = below(world, WINDOW - pages + 1);
    if (to < from + pages && from < to + pages) return;
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    char *result = mremap(at(world, from), pages * PAGE, pages * PAGE, flags, at(world, to));
    note(world, from, pages, (long)to);
    if (result == MAP_FAILED) {
        EXPECT(from, errno == EFAULT);
        relocate(world, from, to, pages, pages);
        CHECK(mmap(at(world, from), pages * PAGE, BOTH, PRIVATE | MAP_FIXED, -1, 0) != MAP_FAILED);
    } else {
        moved(world, from, to, pages, 0);
    }
    set(world, from, pages, (struct page){.kind = MEMORY, .protection = BOTH});
}

/* ---- access ---- */

static void read_some(struct world *world) {
    size_t first, pages = find(world, can_read, 256, 0, &first);
    check(world, first, pages);
}

static void write_some(struct world *world) {
    size_t first, pages = find(world, can_write, 256, 0, &first);
    for (size_t page = first; page < first + pages; page++) write_page(world, page);
}

static void write_few_bytes(struct world *world) {
    size_t first, pages = find(world, can_write, 4, 0, &first);
    if (pages == 0) return;
    size_t start = below(world, PAGE), bytes = 1 + below(world, pages * PAGE - start);
    int with = (int)below(world, 256);
    memset(at(world, first) + start, with, bytes);
    memset(shadow(world, first) + start, with, bytes);
}

static void fault(struct world *world) {
    size_t page = below(world, WINDOW);
    struct page is = world->page[page];
    int writes = chance(world, 2);
    /* To read where only writing is allowed differs from processor to processor. */
    if ((!writes && is.protection == WRITE) || (writes && can_write(is))) return;
    int has_faulted = faults(at(world, page), writes);
    EXPECT(page, has_faulted == (writes ? !can_write(is) : !can_read(is)));
}

/* ---- blocks and maps that have no place of their own ---- */

static void allocate(struct world *world) {
    enum { BLOCKS = 12 };
    unsigned char *block[BLOCKS];
    size_t bytes[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        bytes[i] = 1 + below(world, 1ul << below(world, 20));
        block[i] = chance(world, 2) ? malloc(bytes[i]) : calloc(bytes[i], 1);
        CHECK(block[i] != NULL);
        memset(block[i], i + 1, bytes[i]);
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        size_t more = bytes[i] + below(world, bytes[i]);
        CHECK((block[i] = realloc(block[i], more)) != NULL);
    }
    for (int i = 0; i < BLOCKS; i++) {
        for (size_t byte = 0; byte < bytes[i]; byte++) EXPECT(i, block[i][byte] == i + 1);
        free(block[i]);
    }
}

static void map_anywhere(struct world *world) {
    size_t pages = some(world, 512) + 16, part = below(world, pages);
    uint64_t *memory = map_pages(pages);
    for (size_t page = 0; page < pages; page += 2) fill(memory, page, world->step);
    CHECK(munmap(memory + part * WORDS, PAGE) == 0);
    for (size_t page = 0; page < pages; page++)
        EXPECT(page, page == part || (page % 2 ? is_zero(memory, page) : holds(memory, page, world->step)));
    /* Where the page was, another thread may have mapped something. */
    if (part > 0) CHECK(munmap(memory, part * PAGE) == 0);
    if (part + 1 < pages) CHECK(munmap(memory + (part + 1) * WORDS, (pages - part - 1) * PAGE) == 0);
}

/* ---- fork ---- */

static void run(struct world *world, uint64_t until);

static void check_all(struct world *world) { check(world, 0, WINDOW); }

static void in_child(struct world *world, int to, int advice, size_t first, size_t pages) {
    world->is_child = 1;
    for (size_t page = first; page < first + pages; page++)
        if (advice == MADV_WIPEONFORK)
            forget(world, page);
        else
            world->page[page].kind = HOLE;
    /* What all share goes on changing in the parent. */
    for (size_t page = 0; page < WINDOW; page++)
        if (world->page[page].kind == OF_ALL) {
            CHECK(munmap(at(world, page), PAGE) == 0);
            set(world, page, 1, (struct page){.kind = HOLE});
        }
    check_all(world);
    run(world, world->step + below(world, 40));
    check_all(world);
    CHECK(write(to, &world->hash, sizeof world->hash) == sizeof world->hash);
    _exit(0);
}

static void fork_once(struct world *world) {
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    int ends[2], advice = chance(world, 2) ? MADV_WIPEONFORK : MADV_DONTFORK;
    size_t first, pages = find(world, is_anonymous, 16, 0, &first);
    int is_advised = pages && madvise(at(world, first), pages * PAGE, advice) == 0;
    /* Pipes that a child of another thread inherits would not end. */
    CHECK(pthread_mutex_lock(&one) == 0);
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) in_child(world, ends[1], advice, first, is_advised ? pages : 0);
    CHECK(close(ends[1]) == 0);
    CHECK(pthread_mutex_unlock(&one) == 0);
    if (is_advised) {
        int back = advice == MADV_WIPEONFORK ? MADV_KEEPONFORK : MADV_DOFORK;
        CHECK(madvise(at(world, first), pages * PAGE, back) == 0);
    }
    check_all(world);
    for (int turn = 0; turn < 10; turn++) write_some(world);
    uint64_t hash = 0;
    if (read(ends[0], &hash, sizeof hash) != sizeof hash) fail(world, first, "the child ended early");
    join_child(child);
    CHECK(close(ends[0]) == 0);
    /* Whether the advice is taken depends on the library, and with it what the child does. */
    note(world, first, pages, 0);
    check_all(world);
}

/* ---- the run ---- */

static const struct {
    const char *name;
    void (*call)(struct world *);
    int weight;
} calls[] = {
    {"map fixed", map_fixed, 8},
    {"map where nothing is", map_free, 8},
    {"map a file", map_file, 3},
    {"map shared memory", map_shared, 2},
    {"unmap", unmap, 5},
    {"protect", protect, 8},
    {"discard", discard, 5},
    {"free later", free_later, 4},
    {"hint", hint, 6},
    {"populate", populate, 3},
    {"refused advice", refused_advice, 2},
    {"guard", guard, 1},
    {"lock", lock, 1},
    {"shrink", shrink, 2},
    {"grow", grow, 5},
    {"move", move, 8},
    {"move away and back", move_away, 2},
    {"move content", move_content, 3},
    {"read", read_some, 30},
    {"write", write_some, 30},
    {"write few bytes", write_few_bytes, 10},
    {"fault", fault, 8},
    {"through a file", through_file, 6},
    {"through a pipe", through_pipe, 6},
    {"by another process", by_another, 4},
    {"direct", direct, 2},
    {"unusable", unusable, 4},
    {"nonsense", nonsense, 6},
    {"allocate", allocate, 2},
    {"map anywhere", map_anywhere, 2},
    {"fork", fork_once, 1},
};

static void step(struct world *world) {
    int all = 0, at_once = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) all += calls[i].weight;
    int drawn = (int)below(world, (uint64_t)all);
    while (drawn >= calls[at_once].weight) drawn -= calls[at_once++].weight;
    if (world->is_child && calls[at_once].call == fork_once) at_once = 0;
    world->doing = calls[at_once].name;
    calls[at_once].call(world);
    for (int turn = 0; turn < 4; turn++) check_page(world, below(world, WINDOW));
}

static void run(struct world *world, uint64_t until) {
    for (; world->step < until; world->step++) {
        step(world);
        if (world->step % 128 == 0) check_all(world);
    }
}

static void *run_thread(void *argument) {
    struct world *world = argument;
    run(world, steps);
    for (size_t page = 0; page < WINDOW; page++) {
        if (!is_there(world->page[page])) continue;
        CHECK(mprotect(at(world, page), PAGE, READ) == 0);
        world->page[page].protection = READ;
    }
    world->doing = "the end";
    check_all(world);
    return NULL;
}

/* Reads pages of all threads while they do what they do. */
static void *look(void *argument) {
    uint64_t state = 99, threads = *(int *)argument;
    while (!atomic_load(&is_over)) {
        char byte;
        uint64_t page = next_random(&state) % (threads * WINDOW);
        struct iovec here = {&byte, 1}, there = {worlds[page / WINDOW].base + page % WINDOW * PAGE, 1};
        (void)!process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    }
    return NULL;
}

static long locked_kib(void) {
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "VmLck: %ld", &kib) == 1) break;
    CHECK(fclose(status) == 0);
    return kib;
}

static int file_of(const char *name, size_t pages) {
    int made = memfd_create(name, 0);
    CHECK(made >= 0);
    for (size_t page = 0; page < pages; page++) {
        from_file(buffer, (uint32_t)page);
        CHECK(write(made, buffer, PAGE) == (ssize_t)PAGE);
    }
    return made;
}

int main(int count, char **arguments) {
    seed = count > 1 ? strtoul(arguments[1], NULL, 10) : 1;
    steps = count > 2 ? strtoul(arguments[2], NULL, 10) : 1000;
    int threads = count > 3 ? atoi(arguments[3]) : 2;
    CHECK(threads > 0 && threads <= THREADS);
    is_logged = getenv("LOG") != NULL;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    file = file_of("pages", FILE_PAGES);
    for (int i = 0; i < threads; i++) {
        struct world *world = worlds + i;
        world->number = i;
        world->doing = "nothing";
        world->random = (seed * THREADS + i + 1) * 0x9e3779b97f4a7c15ul;
        world->base = (char *)SPACE_END - (4 * i + 1) * WINDOW * PAGE / 2;
        world->shadow = shadows[i];
        scratch[i] = file_of("scratch", 0);
        void *mapped = mmap(world->base, WINDOW * PAGE, BOTH, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0);
        EXPECT(0, mapped == world->base);
        set(world, 0, WINDOW, (struct page){.kind = MEMORY, .protection = BOTH});
        for (size_t page = 0; page < WINDOW; page++) write_page(world, page);
    }
    pthread_t looks, thread[THREADS];
    CHECK(pthread_create(&looks, NULL, look, &threads) == 0);
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(thread + i, NULL, run_thread, worlds + i) == 0);
    for (int i = 0; i < threads; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    atomic_store(&is_over, 1);
    CHECK(pthread_join(looks, NULL) == 0);
    for (int i = 0; i < threads; i++) printf("%d %#lx\n", i, worlds[i].hash);
    printf("%ld KiB are locked\n", locked_kib());
    return 0;
}
