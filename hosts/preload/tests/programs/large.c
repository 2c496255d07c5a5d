/* Large blocks, as by the C library: what is freed is given back, what grows keeps its pages, and `free` leaves the error
   number alone. */
#include "memory.h"

#include <malloc.h>
#include <sys/resource.h>

enum { MIB = 1 << 20, LARGE = 96 * MIB, STEPS = 24 };

/* Bytes in memory, wherever they come from. */
static long resident_bytes(void) {
    FILE *statm = fopen("/proc/self/statm", "r");
    long all = 0, resident = 0;
    CHECK(statm && fscanf(statm, "%ld %ld", &all, &resident) == 2);
    fclose(statm);
    return resident * PAGE;
}

static void fill_bytes(unsigned char *block, size_t from, size_t to) {
    for (size_t at = from; at < to; at += 512) *(uint64_t *)(block + at) = word_of(1, 2, at);
}

static void check_bytes(const unsigned char *block, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 512) CHECK(*(const uint64_t *)(block + at) == word_of(1, 2, at));
}

static void check_growth(void) {
    unsigned char *block = NULL;
    for (size_t step = 1; step <= STEPS; step++) {
        block = realloc(block, step * LARGE / STEPS);
        CHECK(block && malloc_usable_size(block) >= step * LARGE / STEPS);
        CHECK(malloc_usable_size(block) < step * LARGE / STEPS + 2 * PAGE);
        fill_bytes(block, (step - 1) * LARGE / STEPS, step * LARGE / STEPS);
    }
    check_bytes(block, LARGE);
    /* What is cut off is gone, and what comes anew is none of it. */
    block = realloc(block, LARGE / 2);
    CHECK(block && malloc_usable_size(block) < LARGE / 2 + 2 * PAGE);
    check_bytes(block, LARGE / 2);
    block = realloc(block, LARGE);
    CHECK(block);
    check_bytes(block, LARGE / 2);
    fill_bytes(block, LARGE / 2, LARGE);
    check_bytes(block, LARGE);
    block = realloc(block, 100);
    CHECK(block);
    check_bytes(block, 96);
    free(block);
}

/* Blocks of all sizes about the border, each by all that gives one out. */
static void check_sizes(void) {
    for (size_t size = MIB - 3; size < MIB + 3 * PAGE; size += 1021) {
        unsigned char *of[] = {malloc(size), calloc(size, 1), realloc(NULL, size), memalign(32, size), memalign(256, size)};
        for (size_t way = 0; way < sizeof of / sizeof *of; way++) {
            CHECK(of[way] && malloc_usable_size(of[way]) >= size);
            memset(of[way], (int)way + 1, malloc_usable_size(of[way]));
        }
        for (size_t way = 0; way < sizeof of / sizeof *of; way++) {
            CHECK(of[way][0] == way + 1 && of[way][size - 1] == way + 1);
            of[way] = realloc(of[way], size + 10 * PAGE);
            CHECK(of[way] && of[way][0] == way + 1 && of[way][size - 1] == way + 1);
            free(of[way]);
        }
        /* What was used is zeros again. */
        unsigned char *zeros = calloc(1, size);
        for (size_t at = 0; at < size; at++) CHECK(zeros[at] == 0);
        free(zeros);
    }
}

/* The pages of a block that moves go along: they are not used anew. */
static void check_that_pages_move(void) {
    unsigned char *block = malloc(32 * MIB), *behind = malloc(32 * MIB);
    CHECK(block && behind);
    fill_bytes(block, 0, 32 * MIB);
    /* Pages of a paged program are brought, and move one by one. */
    int is_paged = resident_bytes() < 32 * MIB;
    struct rusage before, after;
    CHECK(getrusage(RUSAGE_SELF, &before) == 0);
    block = realloc(block, 256 * (size_t)MIB);
    CHECK(block);
    CHECK(getrusage(RUSAGE_SELF, &after) == 0);
    CHECK(is_paged || after.ru_minflt - before.ru_minflt < 1000);
    check_bytes(block, 32 * MIB);
    free(block);
    free(behind);
}

/* What grows again has the pages that were freed when it had grown before. */
static void check_that_pages_are_used_again(void) {
    unsigned char *other = malloc(32 * MIB);
    CHECK(other);
    fill_bytes(other, 0, 32 * MIB);
    int is_paged = resident_bytes() < 32 * MIB;
    struct rusage before, after;
    for (int turn = 0; turn < 3; turn++) {
        if (turn == 1) CHECK(getrusage(RUSAGE_SELF, &before) == 0);
        for (size_t first = MIB / 2; first <= 2 * MIB; first *= 4) {
            unsigned char *block = malloc(first);
            CHECK(block);
            fill_bytes(block, 0, first);
            for (size_t bytes = first; bytes < 8 * MIB; bytes += MIB / 2) {
                block = realloc(block, bytes + MIB / 2);
                CHECK(block);
                fill_bytes(block, bytes, bytes + MIB / 2);
                check_bytes(block, bytes + MIB / 2);
            }
            free(block);
        }
    }
    CHECK(getrusage(RUSAGE_SELF, &after) == 0);
    /* Of 8192 pages. */
    CHECK(is_paged || after.ru_minflt - before.ru_minflt < 2000);
    check_bytes(other, 32 * MIB);
    free(other);
}

static void use_and_free(int blocks, size_t bytes) {
    unsigned char *of[64];
    for (int block = 0; block < blocks; block++) {
        of[block] = malloc(bytes);
        CHECK(of[block]);
        memset(of[block], 1, bytes);
    }
    for (int block = 0; block < blocks; block++) {
        errno = 77;
        free(of[block]);
        CHECK(errno == 77);
    }
}

/* What succeeds says nothing of errors, whatever was tried for it. */
static void check_errno(void) {
    errno = 77;
    uint64_t *memory = map_pages(64);
    for (uint64_t page = 0; page < 64; page++) fill(memory, page, 3);
    CHECK(madvise(memory, 8 * PAGE, MADV_DONTNEED) == 0 && errno == 77);
    CHECK(mprotect(memory, 8 * PAGE, PROT_READ) == 0 && errno == 77);
    CHECK(mprotect(memory, 8 * PAGE, PROT_READ | PROT_WRITE) == 0 && errno == 77);
    memory = mremap(memory, 64 * PAGE, 128 * PAGE, MREMAP_MAYMOVE);
    CHECK(memory != MAP_FAILED && errno == 77 && holds(memory, 9, 3));
    CHECK(munmap(memory, 128 * PAGE) == 0 && errno == 77);
}

int main(void) {
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
    check_growth();
    check_sizes();
    check_that_pages_are_used_again();
    for (int turn = 0; turn < 3000; turn++) check_errno();
    long before = resident_bytes();
    use_and_free(1, LARGE);
    use_and_free(48, 2 * MIB);
    /* As much as the C library may keep, and what the library needs itself. */
    CHECK(resident_bytes() < before + 70 * MIB);
    pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK(child > 0 && waitpid(child, NULL, 0) == child);
    CHECK(resident_bytes() < before + 8 * MIB);
    check_that_pages_move();
    return 0;
}
