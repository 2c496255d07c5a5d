/* A program with far more addresses than memory: what it uses of them is paged as if it had no others, and what it unmaps, maps
   anew or protects of the rest is as natively. */
#include "memory.h"

enum { PAGES = 12000, ROUNDS = 3 };
#define SPARSE (24ul << 30)
#define STEP (97ul << 20)

static uint64_t *map_sparse(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *memory = mmap(NULL, SPARSE, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* One page in each step, at another place of it for each of `shift`. */
static void touch(uint64_t *sparse, size_t shift, uint64_t version) {
    for (size_t at = shift * PAGE; at < SPARSE; at += STEP) {
        size_t page = at / PAGE;
        CHECK(version == 0 ? is_zero(sparse, page) : holds(sparse, page, version - 1));
        fill(sparse, page, version);
    }
}

int main(void) {
    end_if_it_hangs();
    uint64_t *sparse = map_sparse(), *memory = map_pages(PAGES);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, round);
        wait_until_paged(memory, PAGES);
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, round));
        touch(sparse, 0, round);
        touch(sparse, 511, round);
        touch(sparse, 512, round);
    }
    /* A part of what was touched is given up in different ways. */
    char *bytes = (char *)sparse;
    size_t part = SPARSE / 4;
    CHECK(munmap(bytes, part) == 0);
    CHECK(madvise(bytes + part, part, MADV_DONTNEED) == 0);
    CHECK(mprotect(bytes + 2 * part, part, PROT_READ) == 0);
    CHECK(mprotect(bytes + 2 * part, part / 2, PROT_READ | PROT_WRITE) == 0);
    CHECK(mmap(bytes, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == bytes);
    for (size_t at = 0; at < SPARSE; at += STEP) {
        size_t page = at / PAGE;
        CHECK(at < 2 * part ? is_zero(sparse, page) : holds(sparse, page, ROUNDS - 1));
        if (at < 2 * part || at >= 3 * part) fill(sparse, page, ROUNDS);
    }
    /* A child has it, too, and what it does with it is its own. */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (size_t at = 0; at < SPARSE; at += STEP) {
            int is_old = at >= 2 * part && at < 3 * part;
            CHECK(holds(sparse, at / PAGE, is_old ? ROUNDS - 1 : ROUNDS));
            if (!is_old) fill(sparse, at / PAGE, ROUNDS + 1);
        }
        CHECK(munmap(sparse, SPARSE) == 0);
        _exit(0);
    }
    join_child(child);
    for (size_t at = 3 * part + STEP; at < SPARSE; at += STEP) {
        size_t page = at / STEP * STEP / PAGE;
        CHECK(holds(sparse, page, ROUNDS));
    }
    CHECK(munmap(sparse, SPARSE) == 0);
    /* Mapped and unmapped often: as cheap as it is natively, or the test would take minutes. */
    for (int turn = 0; turn < 100; turn++) {
        sparse = map_sparse();
        fill(sparse, turn * 1000, turn);
        CHECK(munmap(sparse, SPARSE) == 0);
    }
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, ROUNDS - 1));
    return 0;
}
