/* A program that keeps more than its memory holds, and comes back fast to the part that it uses.
 *
 *     cc hot_set.c -I ../include -L DIR -lwarmswap_c -o hot_set && ./hot_set
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "warmswap.h"

enum { PAGE = 4096, MIB = 1 << 20 };

static void check(int code)
{
    if (code != WARMSWAP_OK) {
        fprintf(stderr, "hot_set: %s\n", warmswap_last_error());
        exit(1);
    }
}

int main(void)
{
    warmswap_config config = {.budget_bytes = 8 * MIB, .scheme = "ariadne", .address_space_bytes = 256 * MIB};
    warmswap_arena *arena;
    warmswap_app *app;
    warmswap_region *region;
    check(warmswap_arena_new(&config, &arena));
    check(warmswap_app_new(arena, "editor", &app));
    check(warmswap_region_new(app, 32 * MIB, &region));

    /* Four times the budget, with a number on each page. */
    uint64_t *words = warmswap_region_data(region);
    size_t pages = warmswap_region_bytes(region) / PAGE;
    for (size_t page = 0; page < pages; page++)
        words[page * (PAGE / 8)] = page;

    /* What a launch touches is the hot set: 64 pages here. */
    check(warmswap_app_foreground(app));
    for (size_t page = 0; page < 64; page++)
        words[page * (PAGE / 8) + 1] = page;
    check(warmswap_app_launch_done(app));
    check(warmswap_app_background(app));
    check(warmswap_region_advise(region, 0, warmswap_region_bytes(region), WARMSWAP_COLD));

    /* The next launch finds it. */
    check(warmswap_app_foreground(app));
    check(warmswap_app_launch_done(app));
    size_t wrong = 0;
    for (size_t page = 0; page < pages; page++)
        wrong += words[page * (PAGE / 8)] != page;

    /* A system call is given memory that stays where it is. */
    const char line[] = "said by write(2)\n";
    char *text = (char *)words + 7 * PAGE;
    memcpy(text, line, sizeof line);
    warmswap_pinned *pinned;
    check(warmswap_pin(arena, text, sizeof line, &pinned));
    if (write(STDOUT_FILENO, text, sizeof line - 1) != (ssize_t)(sizeof line - 1))
        wrong++;
    warmswap_unpin(pinned);

    warmswap_stats stats;
    check(warmswap_arena_stats(arena, &stats));
    printf("%zu pages, %zu wrong, within the budget: %s, stored and brought back: %s\n", pages, wrong,
           stats.used_bytes <= stats.budget_bytes ? "yes" : "no",
           stats.stored_pages > 0 && stats.faults > stats.first_touches ? "yes" : "no");
    warmswap_region_free(region);
    warmswap_app_free(app);
    warmswap_arena_free(arena);
    return wrong > 0;
}
