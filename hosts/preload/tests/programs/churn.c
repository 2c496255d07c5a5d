/* Areas of different sizes that are mapped, used, discarded in parts and unmapped in random order, as allocators
   do: addresses are used again all the time. */
#include "memory.h"

enum { AREAS = 160, TURNS = 30000 };

struct area {
    uint64_t *memory;
    size_t pages;
    uint64_t seed;
    uint32_t *versions;
};

static struct area areas[AREAS];

/* What is wrong with a page, for whoever has to find out why. */
static void check(const struct area *area, uint64_t page) {
    uint32_t version = area->versions[page];
    uint64_t *words = area->memory + page * WORDS;
    uint64_t name = area->seed + page;
    for (size_t word = 0; word < WORDS; word++) {
        uint64_t expected = version ? word_of(name, version, word) : 0;
        if (words[word] != expected) {
            fprintf(stderr, "page %p (%zu of %zu), word %zu: %#lx, not %#lx; version %u, first words %lu %lu %lu\n",
                    (void *)words, (size_t)page, area->pages, word, words[word], expected, version,
                    words[1], words[2], words[WORDS - 1]);
            abort();
        }
    }
}

static void write_page(struct area *area, uint64_t page) {
    uint64_t name = area->seed + page;
    uint32_t version = ++area->versions[page];
    for (size_t word = 0; word < WORDS; word++)
        area->memory[page * WORDS + word] = word_of(name, version, word);
}

int main(void) {
    uint64_t state = 42, names = 1;
    for (int turn = 0; turn < TURNS; turn++) {
        struct area *area = &areas[next_random(&state) % AREAS];
        if (!area->memory) {
            size_t pages = 16 + next_random(&state) % 256;
            *area = (struct area){map_pages(pages), pages, names, calloc(pages, sizeof(uint32_t))};
            names += pages;
            for (size_t page = 0; page < pages; page++)
                if (next_random(&state) % 8) write_page(area, page);
            continue;
        }
        switch (next_random(&state) % 16) {
        case 0:
            for (size_t page = 0; page < area->pages; page++) check(area, page);
            CHECK(munmap(area->memory, area->pages * PAGE) == 0);
            free(area->versions);
            area->memory = NULL;
            break;
        case 1: {
            size_t first = next_random(&state) % area->pages;
            size_t count = 1 + next_random(&state) % (area->pages - first);
            CHECK(madvise(area->memory + first * WORDS, count * PAGE, MADV_DONTNEED) == 0);
            memset(area->versions + first, 0, count * sizeof(uint32_t));
            break;
        }
        default:
            for (int i = 0; i < 8; i++) {
                size_t page = next_random(&state) % area->pages;
                check(area, page);
                if (i % 2) write_page(area, page);
            }
        }
    }
    return 0;
}
