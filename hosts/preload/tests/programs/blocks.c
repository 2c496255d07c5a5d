/* Small blocks, allocated from the first moment on: hardly any of them may stay outside of the budget. */
#include "memory.h"

enum { BLOCKS = 48 << 10, BLOCK_WORDS = 128, MOST_ROUNDS = 200 };

/* What the program's budget is in the test, and what may come on top: the library's scratch memory, the C library's
   and the stacks. */
enum { BUDGET_KIB = 12 << 10, BESIDE_KIB = 4 << 10 };

static long anonymous_kib(void) {
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status);
    char line[128];
    long kib = -1;
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "RssAnon: %ld", &kib) == 1) break;
    fclose(status);
    return kib;
}

int main(void) {
    static uint64_t *blocks[BLOCKS];
    for (size_t block = 0; block < BLOCKS; block++) {
        blocks[block] = malloc(BLOCK_WORDS * sizeof(uint64_t));
        CHECK(blocks[block]);
        for (size_t word = 0; word < BLOCK_WORDS; word++) blocks[block][word] = word_of(block, 1, word);
    }
    /* On a busy machine the library takes it over late, far beyond its budget, and has to come down to it first. */
    long kib = 0;
    for (int round = 0; round == 0 || (round < MOST_ROUNDS && kib > BUDGET_KIB + BESIDE_KIB); round++) {
        for (size_t block = 0; block < BLOCKS; block++)
            for (size_t word = 0; word < BLOCK_WORDS; word++) CHECK(blocks[block][word] == word_of(block, 1, word));
        kib = getenv("WARMSWAP_RUN") ? anonymous_kib() : 0;
    }
    if (kib > BUDGET_KIB + BESIDE_KIB) {
        fprintf(stderr, "%ld KiB of memory are held\n", kib);
        return 1;
    }
    return 0;
}
