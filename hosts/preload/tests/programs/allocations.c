/* What the C library says of allocations and programs rely on: sizes that overflow, alignments, and names of its own for
   the functions. */
#include "memory.h"

#include <malloc.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t), *__libc_valloc(size_t), *__libc_pvalloc(size_t);
extern void __libc_free(void *);

/* What no allocation can have; unknown to the compiler. */
static volatile size_t most = SIZE_MAX, half = (size_t)PTRDIFF_MAX + 1;

#define CHECK_REFUSED(allocation)                   \
    do {                                            \
        errno = 0;                                  \
        void *volatile given = (allocation);        \
        CHECK(given == NULL && errno == ENOMEM);    \
    } while (0)

static void check_sizes_that_overflow(void) {
    /* A large block that was freed may wait for the next one. */
    free(malloc(4 << 20));
    for (size_t below = 0; below < 3 * PAGE; below += 100) {
        CHECK_REFUSED(malloc(most - below));
        CHECK_REFUSED(valloc(most - below));
        CHECK_REFUSED(pvalloc(most - below));
        CHECK_REFUSED(memalign(64, most - below));
        CHECK_REFUSED(aligned_alloc(1 << 16, most - below));
        CHECK_REFUSED(calloc(1, most - below));
        CHECK_REFUSED(realloc(NULL, most - below));
        void *none = NULL;
        CHECK(posix_memalign(&none, PAGE, most - below) == ENOMEM && none == NULL);
    }
    CHECK_REFUSED(malloc(half));
    CHECK_REFUSED(calloc(half, 2));
    CHECK_REFUSED(calloc(most / 16 + 2, 16));
    CHECK_REFUSED(reallocarray(NULL, half, 2));
    char *volatile kept = malloc(100);
    CHECK(kept);
    memset(kept, 1, 100);
    CHECK_REFUSED(realloc(kept, half));
    CHECK_REFUSED(reallocarray(kept, half, 2));
    CHECK(kept[0] == 1 && kept[99] == 1);
    free(kept);
}

static int is_aligned(const void *address, size_t alignment) { return (uintptr_t)address % alignment == 0; }

/* Uses all of a block that can be used, and has it freed by the other name. */
static void use_up(void *block, size_t size, size_t alignment, int turn) {
    CHECK(block && is_aligned(block, alignment));
    size_t usable = malloc_usable_size(block);
    CHECK(usable >= size);
    memset(block, 1, usable);
    if (turn % 2)
        free(block);
    else
        __libc_free(block);
}

static void check_alignments(void) {
    enum { BLOCKS = 200 };
    void *blocks[BLOCKS];
    for (int block = 0; block < BLOCKS; block++) {
        size_t size = block % 20;
        blocks[block] = block % 3 == 0 ? malloc(size) : block % 3 == 1 ? calloc(1, size) : realloc(NULL, size);
        CHECK(blocks[block] && is_aligned(blocks[block], 16));
    }
    for (int block = 0; block < BLOCKS; block++) {
        blocks[block] = realloc(blocks[block], 1 + block % 8);
        CHECK(blocks[block] && is_aligned(blocks[block], 16));
        free(blocks[block]);
    }
    /* One that is no power of two is rounded up to one. */
    static volatile size_t odd[][2] = {{0, 16}, {1, 16}, {24, 32}, {48, 64}, {100, 128}, {5000, 8192}};
    for (int turn = 0; turn < 12; turn++) use_up(memalign(odd[turn / 2][0], 8 + turn), 8 + turn, odd[turn / 2][1], turn);
    errno = 0;
    CHECK(memalign(half + 1, 8) == NULL && errno == EINVAL);
    void *none = NULL;
    CHECK(posix_memalign(&none, odd[2][0], 8) == EINVAL && none == NULL);
    CHECK(posix_memalign(&none, odd[0][0], 8) == EINVAL && none == NULL);
}

static void check_names(void) {
    for (int turn = 0; turn < 100; turn++) {
        size_t size = turn * turn * 10 + 1;
        use_up(malloc(size), size, 16, turn);
        use_up(__libc_malloc(size), size, 16, turn);
        use_up(__libc_calloc(3, size), 3 * size, 16, turn);
        use_up(realloc(__libc_malloc(size), 2 * size), 2 * size, 16, turn);
        use_up(__libc_realloc(malloc(size), 2 * size), 2 * size, 16, turn);
        use_up(__libc_memalign(256, size), size, 256, turn);
        use_up(aligned_alloc(1 << 15, size), size, 1 << 15, turn);
        use_up(__libc_valloc(size), size, PAGE, turn);
        use_up(__libc_pvalloc(size), (size + PAGE - 1) / PAGE * PAGE, PAGE, turn);
    }
}

static void check_sizes_of_nothing(void) {
    volatile size_t nothing = 0;
    void *block = realloc(NULL, nothing);
    CHECK(block);
    CHECK(realloc(block, nothing) == NULL);
    block = malloc(1 << 20);
    CHECK(block && reallocarray(block, 10, nothing) == NULL);
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
}

/* A block that grows by little each time is not copied each time: the way of programs that read until there is no more. */
static void check_growth(void) {
    enum { STEP = 4096, LAST = 64 << 20 };
    unsigned char *block = NULL;
    int moves = 0;
    for (size_t size = STEP; size <= LAST; size += STEP) {
        unsigned char *grown = realloc(block, size);
        CHECK(grown);
        moves += size > 4 << 20 && grown != block;
        block = grown;
        memset(block + size - STEP, (int)(size / STEP), STEP);
    }
    CHECK(moves < 40);
    for (size_t byte = 0; byte < LAST; byte += 61) CHECK(block[byte] == (unsigned char)(byte / STEP + 1));
    block = realloc(block, 100);
    CHECK(block && block[99] == 1 && malloc_usable_size(block) < 1 << 20);
    free(block);
}

/* The numbers are of the allocator that the program has. */
static void check_numbers(void) {
    enum { BYTES = 48 << 20, SMALL_BYTES = 1 << 10, SMALL = 20 << 10 };
    struct mallinfo2 before = mallinfo2();
    char *volatile block = malloc(BYTES);
    CHECK(block);
    memset(block, 1, BYTES);
    static void *small[SMALL];
    for (int turn = 0; turn < SMALL; turn++) CHECK(small[turn] = malloc(SMALL_BYTES));
    struct mallinfo2 with = mallinfo2();
    CHECK(with.hblks == before.hblks + 1 && with.hblkhd >= before.hblkhd + BYTES);
    CHECK(with.uordblks >= before.uordblks + SMALL * SMALL_BYTES && with.arena >= with.uordblks);
    char *text = NULL;
    size_t length = 0, system = 0, large = 0;
    FILE *stream = open_memstream(&text, &length);
    CHECK(stream && malloc_info(0, stream) == 0 && fclose(stream) == 0);
    char *current = strstr(text, "<system type=\"current\" size=\"");
    CHECK(current && sscanf(current, "<system type=\"current\" size=\"%zu\"", &system) == 1);
    CHECK(system >= BYTES + SMALL * SMALL_BYTES);
    char *mapped = strstr(text, "<total type=\"mmap\" count=\"1\" size=\"");
    CHECK(mapped && sscanf(mapped, "<total type=\"mmap\" count=\"1\" size=\"%zu\"", &large) == 1 && large == with.hblkhd);
    free(text);
    free(block);
    for (int turn = 0; turn < SMALL; turn++) free(small[turn]);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.uordblks <= with.uordblks - SMALL * SMALL_BYTES / 2);
    CHECK(after.hblks == before.hblks && after.hblkhd == before.hblkhd);
}

int main(void) {
    check_growth();
    check_numbers();
    check_sizes_that_overflow();
    check_alignments();
    check_names();
    check_sizes_of_nothing();
    return 0;
}
