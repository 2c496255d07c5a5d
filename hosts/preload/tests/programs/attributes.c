/* Protection keys and core dumps: reserved memory that pkey_mprotect opens is memory, what has a key keeps its content, and
   what is left out of core dumps is; a new mapping at the same addresses has nothing of it. */
#include "memory.h"

enum { PAGES = 12000, PART = 64 };
static const size_t LEN = PART * PAGE;

static void *at(void *place, int protection) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (place ? MAP_FIXED : 0);
    char *memory = mmap(place, LEN, protection, flags, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Whether the mapping at an address has a flag of smaps. */
static int has_flag(void *place, const char *flag) {
    char line[512];
    int is_there = 0, has = -1;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char access;
        if (sscanf(line, "%lx-%lx %c", &from, &to, &access) == 3) is_there = from <= (uintptr_t)place && (uintptr_t)place < to;
        if (is_there && strncmp(line, "VmFlags:", 8) == 0) has = strstr(line, flag) != NULL;
    }
    fclose(maps);
    CHECK(has >= 0);
    return has;
}

static void press(uint64_t *memory) {
    for (int round = 0; round < 3; round++)
        for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
}

int main(void) {
    end_if_it_hangs();
    uint64_t *memory = map_pages(PAGES);
    char *reserved = at(NULL, PROT_NONE), *secret = at(NULL, PROT_READ | PROT_WRITE);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);

    CHECK(pkey_mprotect(reserved, LEN, PROT_READ | PROT_WRITE, -1) == 0);
    memset(reserved, 'r', LEN);
    press(memory);
    for (size_t i = 0; i < LEN; i++) CHECK(reserved[i] == 'r');

    int key = pkey_alloc(0, 0);
    if (key > 0) {
        CHECK(pkey_mprotect(reserved, LEN, PROT_READ | PROT_WRITE, key) == 0);
        for (size_t i = 0; i < LEN; i++) CHECK(reserved[i] == 'r');
        memset(reserved, 'k', LEN);
        press(memory);
        CHECK(mprotect(reserved, LEN, PROT_READ | PROT_WRITE) == 0);
        press(memory);
        for (size_t i = 0; i < LEN; i++) CHECK(reserved[i] == 'k');
        CHECK(munmap(reserved, LEN) == 0);
        reserved = at(reserved, PROT_READ | PROT_WRITE);
        CHECK(pkey_set(key, PKEY_DISABLE_ACCESS) == 0);
        memset(reserved, 'n', LEN);
        CHECK(pkey_set(key, 0) == 0);
        press(memory);
        for (size_t i = 0; i < LEN; i++) CHECK(reserved[i] == 'n');
    }

    CHECK(!has_flag(secret, " dd"));
    CHECK(madvise(secret, LEN, MADV_DONTDUMP) == 0);
    CHECK(has_flag(secret, " dd"));
    memset(secret, 's', LEN);
    press(memory);
    for (size_t i = 0; i < LEN; i++) CHECK(secret[i] == 's');
    CHECK(munmap(secret, LEN) == 0);
    CHECK(at(secret, PROT_READ | PROT_WRITE) == secret);
    CHECK(!has_flag(secret, " dd"));
    return 0;
}
