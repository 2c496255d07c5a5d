/* Memory at the addresses that the program hints at: low ones and ones near its code that it uses at once, as LuaJIT does, and
   ones that it insists on, as ZGC does. What it takes anywhere is paged. */
#include "memory.h"

enum { PAGES = 12000, TRIES = 2000 };
static const size_t LEN = 64 * PAGE;

static char *reserve(uintptr_t hint) {
    return mmap((void *)hint, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int main(void) {
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    wait_until_paged(memory, PAGES);

    int found = 0;
    for (uintptr_t hint = 0x20000000; !found && hint < 0x7fff0000; hint += LEN) {
        char *low = mmap((void *)hint, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(low != MAP_FAILED);
        found = (uintptr_t)low == hint;
        if (found) memset(low, 'l', LEN);
        CHECK(munmap(low, LEN) == 0);
    }
    CHECK(found);

    /* Near the program's own code, and near that of a library. */
    const uintptr_t codes[] = {(uintptr_t)main, (uintptr_t)memset};
    for (int at = 0; at < 2; at++) {
        int near = 0;
        for (uintptr_t away = 1; away <= 64; away++) {
            uintptr_t wanted = (codes[at] & ~(LEN - 1)) + away * (16 << 20);
            uintptr_t got = (uintptr_t)mmap((void *)wanted, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK((void *)got != MAP_FAILED);
            near += got == wanted;
            memset((void *)got, 'n', LEN);
            CHECK(munmap((void *)got, LEN) == 0);
        }
        CHECK(near > 0);
    }

    int tries = 0;
    uintptr_t hint = 0x200000000000;
    char *place;
    for (;; tries++, hint += LEN) {
        CHECK(tries < TRIES);
        place = reserve(hint);
        CHECK(place != MAP_FAILED);
        if ((uintptr_t)place == hint) break;
        CHECK(munmap(place, LEN) == 0);
    }
    CHECK(mprotect(place, LEN, PROT_READ | PROT_WRITE) == 0);
    memset(place, 'p', LEN);
    for (size_t at = 0; at < LEN; at++) CHECK(place[at] == 'p');
    CHECK(munmap(place, LEN) == 0);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
