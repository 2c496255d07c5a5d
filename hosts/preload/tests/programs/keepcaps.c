/* A program of root's that changes its user but keeps its capabilities, and then gives up its groups, as setpriv does. It is
   not paged. */
#include "memory.h"
#include <grp.h>
#include <linux/capability.h>
#include <sys/syscall.h>

enum { PAGES = 12000 };

static void change_user(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    CHECK(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
    CHECK(setresuid(65534, 65534, 65534) == 0);
    CHECK(syscall(SYS_capget, &header, sets) == 0);
    for (int half = 0; half < 2; half++) sets[half].effective = sets[half].permitted;
    CHECK(syscall(SYS_capset, &header, sets) == 0);
    CHECK(setgroups(0, NULL) == 0);
}

int main(void) {
    if (geteuid() == 0) change_user();
    end_if_it_hangs();
    uint64_t *memory = map_pages(PAGES);
    for (uint64_t page = 0; page < PAGES; page++) fill(memory, page, 1);
    for (uint64_t page = 0; page < PAGES; page++) CHECK(holds(memory, page, 1));
    return 0;
}
