/* Mappings that are made only where nothing is, by mremap that grows in place and by MAP_FIXED_NOREPLACE, beside threads
   that map and unmap there; mappings that cross the end of the space; failed ones. Nobody's content is lost. */
#include "memory.h"
#include <pthread.h>

enum { PAGES = 12000, PART = 32, ROUNDS = 3000 };
static const size_t LEN = PART * PAGE;
static atomic_int is_over, grown, placed, refused;

static uint64_t *map_part(void) {
    uint64_t *part = map_pages(PART);
    for (uint64_t page = 0; page < PART; page++) CHECK(part[page * WORDS] == 0);
    return part;
}

static void *maps(void *unused) {
    while (!atomic_load(&is_over)) {
        uint64_t *part = map_part();
        for (uint64_t page = 0; page < PART; page++) part[page * WORDS] = page + 1;
        for (int again = 0; again < 2; again++)
            for (uint64_t page = 0; page < PART; page++) CHECK(part[page * WORDS] == page + 1);
        CHECK(munmap(part, LEN) == 0);
    }
    return unused;
}

static void *grows(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t *part = map_part();
        part[0] = 7;
        uint64_t *same = mremap(part, LEN, 2 * LEN, 0);
        if (same == MAP_FAILED) {
            CHECK(errno == ENOMEM);
            CHECK(munmap(part, LEN) == 0);
            continue;
        }
        atomic_fetch_add(&grown, 1);
        CHECK(same == part && part[0] == 7);
        for (uint64_t page = PART; page < 2 * PART; page++) CHECK(part[page * WORDS] == 0);
        CHECK(munmap(part, 2 * LEN) == 0);
    }
    return unused;
}

static void *places(void *unused) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t *part = map_part();
        /* What is behind may be free, or another thread's. Memory of another kind is the kernel's. */
        int kind = round % 3 ? flags : flags | MAP_STACK;
        void *behind = mmap((char *)part + LEN, LEN, PROT_READ | PROT_WRITE, kind, -1, 0);
        if (behind == MAP_FAILED) {
            CHECK(errno == EEXIST);
            atomic_fetch_add(&refused, 1);
        } else {
            CHECK(behind == (char *)part + LEN);
            atomic_fetch_add(&placed, 1);
            for (uint64_t page = 0; page < PART; page++) {
                uint64_t *word = (uint64_t *)behind + page * WORDS;
                CHECK(*word == 0);
                *word = 1;
            }
            CHECK(munmap(behind, LEN) == 0);
        }
        CHECK(munmap(part, LEN) == 0);
    }
    return unused;
}

/* The end of the mapping without access that memory lies in: that of the space, where there is one. */
static uintptr_t end_of_space(uintptr_t within) {
    char line[512];
    uintptr_t end = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char access[8];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, access) != 3) continue;
        if ((end == 0 && from <= within && within < to) || (end == from && strncmp(access, "---", 3) == 0)) end = to;
    }
    fclose(maps);
    return end;
}

static void cross_the_end(uint64_t *memory) {
    uintptr_t end = end_of_space((uintptr_t)memory);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    /* Something behind the end must not be replaced. */
    char *behind = mmap((void *)end, 4 * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    if (behind == MAP_FAILED) return;
    memset(behind, 'b', 4 * PAGE);
    void *across = mmap((void *)(end - 4 * PAGE), 8 * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(across == MAP_FAILED && errno == EEXIST);
    for (size_t at = 0; at < 4 * PAGE; at++) CHECK(behind[at] == 'b');
    CHECK(munmap(behind, 4 * PAGE) == 0);
    char *whole = mmap((void *)(end - 4 * PAGE), 8 * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    if (whole == MAP_FAILED) {
        /* Natively what is in front may be in use. */
        CHECK(errno == EEXIST);
        return;
    }
    memset(whole, 'w', 8 * PAGE);
    char *moved = mremap(whole, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED);
    for (size_t at = 0; at < 8 * PAGE; at++) CHECK(moved[at] == 'w');
    CHECK(mremap(moved, 16 * PAGE, 2 * PAGE, 0) == moved);
    CHECK(munmap(moved, 2 * PAGE) == 0);
}

int main(void) {
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);
    pthread_t threads[5];
    void *(*const work[])(void *) = {maps, maps, grows, places, places};
    for (int i = 0; i < 5; i++) CHECK(pthread_create(&threads[i], NULL, work[i], NULL) == 0);
    for (int i = 2; i < 5; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_store(&is_over, 1);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(placed > 0 && placed + refused == 2 * ROUNDS);

    cross_the_end(memory);
    /* A mapping that fails takes nothing away. */
    int flags = MAP_PRIVATE | MAP_FIXED;
    CHECK(mmap(memory, PAGE, PROT_READ, flags, 1000000, 0) == MAP_FAILED && errno == EBADF);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
